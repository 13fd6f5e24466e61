//! Every key of `network` in the settings at work: what the key alone changes about a request.

use std::path::PathBuf;
use std::sync::Arc;

use mimir_core::config::Config;
use mimir_net::{Client, Guard, Limits, Roots};
use serde_json::{Value, json};

use crate::kit::{Authority, Names, Site, answer, guarded, kind, text};

/// A client as the settings say, for a tool if it is named.
fn client(config: &Config, tool: Option<&str>, names: &Arc<Names>) -> Client {
    let guard = Arc::new(Guard::new(config.network(tool)));
    let settings = tool.map_or_else(|| config.network.clone(), |name| config.tool_network(name));
    let files: Vec<PathBuf> = settings.roots().iter().map(PathBuf::from).collect();
    guarded(
        guard,
        names,
        Limits::default(),
        Roots::with_extra(&files).unwrap(),
    )
}

/// What a request comes to with the block, and with the key in it changed: for all tools and for one.
async fn shows(
    base: Value,
    key: &str,
    value: Value,
    names: &Arc<Names>,
    url: &str,
    before: &str,
    after: &str,
) {
    let mut changed = base.clone();
    changed[key] = value.clone();
    for (config, tool) in [
        (json!({"network": changed}), None),
        (
            json!({"network": base, "tools": {"t": {"network": {key: value}}}}),
            Some("t"),
        ),
    ] {
        let without: Config =
            serde_json::from_value(json!({"network": base, "tools": {"t": {}}})).unwrap();
        let with: Config = serde_json::from_value(config).unwrap();
        assert_eq!(
            kind(&client(&without, tool, names), url).await,
            before,
            "without {key}"
        );
        assert_eq!(
            kind(&client(&with, tool, names), url).await,
            after,
            "with {key}"
        );
    }
}

#[tokio::test]
async fn mode_says_whether_there_is_a_network() {
    let site = Site::says(|_| answer("200 OK", "", "")).await;
    let base = json!({"allowedHosts": ["127.0.0.1"]});
    shows(
        base,
        "mode",
        json!("none"),
        &Names::none(),
        &site.url("/"),
        "",
        "blocked",
    )
    .await;
}

#[tokio::test]
async fn allowed_hosts_are_reached() {
    let site = Site::says(|_| answer("200 OK", "", "")).await;
    let hosts = json!(["127.0.0.1"]);
    shows(
        json!({}),
        "allowedHosts",
        hosts,
        &Names::none(),
        &site.url("/"),
        "blocked",
        "",
    )
    .await;
}

#[tokio::test]
async fn blocked_ports_are_not() {
    let site = Site::says(|_| answer("200 OK", "", "")).await;
    let base = json!({"allowedHosts": ["127.0.0.1"]});
    let ports = json!([site.address.port()]);
    shows(
        base,
        "blockedPorts",
        ports,
        &Names::none(),
        &site.url("/"),
        "",
        "blocked",
    )
    .await;
}

#[tokio::test]
async fn private_addresses_are_reached_by_names_where_that_is_set() {
    let site = Site::says(|_| answer("200 OK", "", "")).await;
    let names = Names::of(&[("app.example", "127.0.0.1")]);
    let url = site.named("http://app.example", "/");
    let base = json!({"mode": "any"});
    shows(
        base,
        "blockPrivateIPs",
        json!(false),
        &names,
        &url,
        "blocked-address",
        "",
    )
    .await;
}

/// What hands out credentials is not there to be reached: without the key it is refused, and with it looked for.
#[tokio::test]
async fn metadata_is_looked_for_where_that_is_set() {
    let base = json!({"mode": "any", "blockPrivateIPs": false});
    let url = "http://metadata.google.internal/";
    shows(
        base,
        "blockMetadataEndpoints",
        json!(false),
        &Names::none(),
        url,
        "blocked",
        "dns-failed",
    )
    .await;
}

#[tokio::test]
async fn hosts_have_the_addresses_that_are_set() {
    let site = Site::says(|_| answer("200 OK", "", "")).await;
    let url = site.named("http://app.example", "/");
    let base = json!({"allowedHosts": ["*.example"]});
    let hosts = json!({"app.example": "127.0.0.1"});
    shows(base, "hosts", hosts, &Names::none(), &url, "dns-failed", "").await;
}

#[tokio::test]
async fn extra_roots_are_trusted() {
    let authority = Authority::new();
    let site = Site::https(authority.server(&["safe.example"], &[]), |_| async {
        text("")
    })
    .await;
    let url = site.named("https://safe.example", "/");
    let base = json!({"mode": "any", "hosts": {"safe.example": "127.0.0.1"}});
    let roots = json!([authority.file()]);
    shows(
        base,
        "extraRoots",
        roots,
        &Names::none(),
        &url,
        "tls-certificate",
        "",
    )
    .await;
}
