//! Every key of `network` in the settings, with its effect on a request.

use std::path::PathBuf;
use std::sync::Arc;

use mimir_core::config::Config;
use mimir_net::{PolicyGuard, RequestLimits, TlsRoots};
use serde_json::{Value, json};

use crate::Client;
use crate::kit::{Authority, Names, Site, answer, guarded, kind, text};

/// Returns a client for these settings, of one tool or of none.
fn client(config: &Config, tool: Option<&str>, names: &Arc<Names>) -> Client {
    let guard = Arc::new(PolicyGuard::new(config.network(tool)));
    let settings = tool.map_or_else(|| config.network.clone(), |name| config.tool_network(name));
    let files: Vec<PathBuf> = settings.roots().iter().map(PathBuf::from).collect();
    guarded(
        guard,
        names,
        RequestLimits::default(),
        TlsRoots::with_extra(&files).unwrap(),
    )
}

/// Checks the result of a request with the original settings, and with a changed key, for all tools and for one.
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
async fn mode_switches_the_network() {
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
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
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
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
async fn blocked_ports_are_refused() {
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
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
async fn private_addresses_are_reached_by_names_if_allowed() {
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
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

/// Metadata services hand out credentials, so their names are looked up only with this key.
#[tokio::test]
async fn metadata_is_looked_up_if_allowed() {
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
async fn hosts_have_the_configured_addresses() {
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
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
