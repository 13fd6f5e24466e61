//! Checks of addresses: every spelling in a URL, and every answer of a resolver.

use mimir_core::ToolErrorCode;
use mimir_net::RequestLimits;

use crate::kit::{Names, Site, allow_all, allow_hosts, answer, client, client_with, fetch, kind};

/// Tries every spelling of loopback on the port of a real server, which must receive no connection.
#[tokio::test]
async fn loopback_is_refused_in_every_spelling() {
    let site = Site::respond_with(|_| answer("200 OK", "", "inside")).await;
    let client = client(allow_hosts(&["*.example", "example.com"]));
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0X7F.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0177.0.0.01",
        "127.0.0.1.",
        "127.000.000.001",
        "127.127.127.127",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::127.0.0.1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[2001::80ff:fffe]",
        "[::ffff:0:127.0.0.1]",
        "[fe80::5efe:127.0.0.1]",
        "0",
        "0.0.0.0",
        "[::]",
    ] {
        let url = site.named(&format!("http://{host}"), "/");
        let error = fetch(&client, &url).await.expect_err(host);
        assert_eq!(
            (error.kind(), error.code()),
            ("blocked", ToolErrorCode::PolicyDenied),
            "{host}: {error}"
        );
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn metadata_is_refused_even_if_private_addresses_are_allowed() {
    let client = client(allow_all());
    for host in [
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "169.254.43518",
        "169.254.169.254.",
        "[::ffff:169.254.169.254]",
        "[::169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[2001:0:a9fe:a9fe::]",
        "[2001:0:808:808::5601:5601]",
        "[fd00:ec2::254]",
        "[FD00:0EC2::0254]",
        "[fe80::a9fe:a9fe]",
        "[fd20:ce::254]",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "169.254.170.2",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata",
        "instance-data",
    ] {
        let error = fetch(&client, &format!("http://{host}/latest/"))
            .await
            .expect_err(host);
        assert_eq!(error.kind(), "blocked", "{host}: {error}");
        assert!(error.to_string().contains("credentials"), "{host}: {error}");
    }
}

/// A name is looked up once per connection, and the connection goes to the address that was checked.
#[tokio::test]
async fn lookup_happens_once_and_its_answer_is_checked() {
    let site = Site::respond_with(|_| answer("200 OK", "connection: close\r\n", "hello")).await;
    let names = Names::of(&[("rebind.example", "127.0.0.1;169.254.169.254")]);
    let client = client_with(allow_all(), &names, RequestLimits::default());
    let url = site.named("http://rebind.example", "/");
    assert_eq!(fetch(&client, &url).await.unwrap().body, "hello");
    assert_eq!(names.lookups(), ["rebind.example"]);
    assert_eq!(kind(&client, &url).await, "blocked-address");
    assert_eq!(names.lookups().len(), 2);
    assert_eq!(site.connections(), 1);
}

#[tokio::test]
async fn name_with_one_refused_address_is_refused() {
    let site = Site::respond_with(|_| answer("200 OK", "", "inside")).await;
    let port = site.address.port();
    for (answer, bad) in [
        // The target of a CNAME comes back as plain addresses.
        ("127.0.0.1", "127.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("93.184.215.14 127.0.0.1", "127.0.0.1"),
        ("127.0.0.1 93.184.215.14", "127.0.0.1"),
        ("2606:4700::1 93.184.215.14 ::1", "::1"),
        ("93.184.215.14 ::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("93.184.215.14 64:ff9b::127.0.0.1", "64:ff9b::7f00:1"),
        ("93.184.215.14 2002:7f00:1::", "2002:7f00:1::"),
        ("93.184.215.14 2001:0:7f00:1::", "2001:0:7f00:1::"),
        ("93.184.215.14 0.0.0.0", "0.0.0.0"),
        ("93.184.215.14 100.64.0.1", "100.64.0.1"),
        ("93.184.215.14 224.0.0.1", "224.0.0.1"),
    ] {
        let names = Names::of(&[("app.example", answer)]);
        // The range is on the list, too, but that entry is about addresses in URLs.
        let client = client_with(
            allow_hosts(&["app.example", "127.0.0.0/8", "10.0.0.0/8"]),
            &names,
            RequestLimits::default(),
        );
        let error = fetch(&client, &format!("http://app.example:{port}/"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            ("blocked-address", ToolErrorCode::PolicyDenied),
            "{answer}"
        );
        assert!(error.to_string().contains(bad), "{answer}: {error}");
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn localhost_and_addresses_are_reached_if_listed() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let names = Names::none();
    let port = site.address.port();
    let client = client_with(
        allow_hosts(&["localhost", &format!("127.0.0.1:{port}")]),
        &names,
        RequestLimits::default(),
    );
    for host in [
        "localhost",
        "LOCALHOST.",
        "127.0.0.1",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
    ] {
        let fetched = fetch(&client, &format!("http://{host}:{port}/")).await;
        assert_eq!(
            fetched.unwrap_or_else(|e| panic!("{host}: {e}")).body,
            "hello"
        );
    }
    assert_eq!(kind(&client, "http://127.0.0.1:1234/").await, "blocked");
    assert_eq!(
        names.lookups(),
        [""; 0],
        "an address or `localhost` was looked up"
    );
}

#[tokio::test]
async fn name_without_an_address_is_reported() {
    let client = client_with(
        allow_hosts(&["*.example"]),
        &Names::of(&[("empty.example", "")]),
        RequestLimits::default(),
    );
    for name in ["missing.example", "empty.example"] {
        let error = fetch(&client, &format!("http://{name}/"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            ("dns-failed", ToolErrorCode::Network)
        );
        assert!(error.to_string().contains(name), "{error}");
    }
}
