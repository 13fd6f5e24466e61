//! TLS: certificates that the client accepts.

use std::sync::Arc;

use mimir_core::ToolErrorCode;
use mimir_core::network::NetworkPolicy;
use mimir_net::{PolicyGuard, RequestLimits, TlsRoots};
use rustls::ServerConfig;

use crate::Client;
use crate::kit::{
    Authority, Names, Site, allow_all, answer, fetch, guarded, pin_to_loopback, text,
};

fn trusting(roots: TlsRoots) -> Client {
    let rules = pin_to_loopback(
        pin_to_loopback(allow_all(), "safe.example"),
        "other.example",
    );
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    guarded(guard, &Names::none(), RequestLimits::default(), roots)
}

async fn site(config: Arc<ServerConfig>) -> Site {
    Site::https(config, |_| async { text("hello") }).await
}

/// The certificate must match the name in the URL, regardless of the address.
#[tokio::test]
async fn certificate_with_the_right_name_is_accepted() {
    let authority = Authority::new();
    let site = site(authority.server(&["safe.example", "127.0.0.1"], &[])).await;
    let client = trusting(authority.roots());
    for origin in [
        "https://safe.example",
        "https://SAFE.example.",
        "https://127.0.0.1",
    ] {
        let fetched = fetch(&client, &site.named(origin, "/")).await;
        assert_eq!(
            fetched.unwrap_or_else(|e| panic!("{origin}: {e}")).body,
            "hello"
        );
    }
}

#[tokio::test]
async fn certificate_with_another_name_is_refused() {
    let authority = Authority::new();
    let site = site(authority.server(&["safe.example"], &[])).await;
    let client = trusting(authority.roots());
    for origin in [
        "https://other.example",
        "https://127.0.0.1",
        "https://localhost",
    ] {
        let error = fetch(&client, &site.named(origin, "/"))
            .await
            .expect_err(origin);
        assert_eq!(
            (error.kind(), error.code()),
            ("tls-name", ToolErrorCode::Network),
            "{origin}: {error}"
        );
    }
}

#[tokio::test]
async fn certificate_that_is_not_trusted_is_refused() {
    let authority = Authority::new();
    let unknown = site(authority.server(&["safe.example"], &[])).await;
    let expired = authority.server_of(&["safe.example"], &[], |certificate| {
        certificate.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let early = authority.server_of(&["safe.example"], &[], |certificate| {
        certificate.not_before = rcgen::date_time_ymd(4000, 1, 1);
    });
    for (site, roots, part, helps) in [
        (
            unknown,
            Authority::new().roots(),
            "not signed by a trusted CA",
            "network.extraRoots",
        ),
        (
            site(expired).await,
            authority.roots(),
            "expired",
            "renew it",
        ),
        (
            site(early).await,
            authority.roots(),
            "not valid yet",
            "clock",
        ),
    ] {
        let error = fetch(&trusting(roots), &site.named("https://safe.example", "/"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            ("tls-certificate", ToolErrorCode::Network),
            "{error}"
        );
        assert!(error.to_string().contains(part), "{error}");
        let message = error.to_string();
        assert!(message.contains(helps), "{error}");
        assert_eq!(message.contains("extraRoots"), helps.contains("extraRoots"));
    }
}

#[tokio::test]
async fn server_without_tls_is_reported() {
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
    let client = trusting(Authority::new().roots());
    let silent = Site::of(|stream| async move { drop(stream) }).await;
    for site in [site, silent] {
        // The first server waits for the end of a request head that never comes, so the handshake may time out.
        let limits = RequestLimits {
            connect: std::time::Duration::from_millis(500),
            ..RequestLimits::default()
        };
        let error = fetch(
            &client.clone().with_limits(limits),
            &site.named("https://safe.example", "/"),
        )
        .await
        .unwrap_err();
        assert!(
            ["tls-failed", "timeout-connect"].contains(&error.kind()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn root_files_are_checked_when_read() {
    let authority = Authority::new();
    let write = |name: &str, text: &str| {
        let path = authority.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let der =
        |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    for (path, part) in [
        (authority.folder().join("missing.pem"), "cannot be read"),
        (write("empty.pem", ""), "no certificate"),
        (write("text.pem", "hello"), "no certificate"),
        (write("broken.pem", &der("!!!!")), "is not a valid PEM file"),
        (write("odd.pem", &der("aGVsbG8=")), "cannot be used"),
    ] {
        let error = TlsRoots::with_extra(std::slice::from_ref(&path)).unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            ("extra-roots", ToolErrorCode::Unavailable)
        );
        let text = error.to_string();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(text.contains(part) && text.contains(name), "{text}");
    }
    assert!(TlsRoots::with_extra(&[authority.file()]).is_ok());
}
