//! Servers, resolvers and clients of the tests.

mod certificates;
mod names;
mod site;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use mimir_core::network::{
    AllowedHost, HostPattern, NetworkHost, NetworkMode, NetworkPolicy, NetworkRules,
};
use mimir_net::{
    Error, FetchedResponse, HttpClient, PolicyGuard, PolicyOnly, RequestLimits, TlsRoots,
};

pub use certificates::Authority;
pub use names::Names;
pub use site::{Answer, Site, answer, text};

/// Rules that allow these hosts, and otherwise the defaults.
pub fn listed(hosts: &[&str]) -> NetworkRules {
    let entry = |host: &&str| AllowedHost::from(host.parse::<HostPattern>().unwrap());
    NetworkRules {
        allowed: hosts.iter().map(entry).collect(),
        ..NetworkRules::default()
    }
}

/// Rules that allow every host, including names that resolve to loopback: for tests about something else.
pub fn lax() -> NetworkRules {
    NetworkRules {
        mode: NetworkMode::Any,
        block_private: false,
        ..NetworkRules::default()
    }
}

/// Returns the rules with this name fixed to loopback.
pub fn fixed(mut rules: NetworkRules, name: &str) -> NetworkRules {
    let loopback: IpAddr = [127, 0, 0, 1].into();
    rules
        .hosts
        .insert(NetworkHost::parse(name).unwrap(), vec![loopback]);
    rules
}

/// Returns a client without an authorizer, whose names resolve as `names` defines.
pub fn client_with_names(
    rules: NetworkRules,
    names: &Arc<Names>,
    limits: RequestLimits,
) -> HttpClient {
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    client_with_guard(guard, names, limits, TlsRoots::default())
}

/// Like [`client_with_names`], under the guard of the test.
pub fn client_with_guard(
    guard: Arc<PolicyGuard>,
    names: &Arc<Names>,
    limits: RequestLimits,
    roots: TlsRoots,
) -> HttpClient {
    let names = Arc::clone(names) as Arc<dyn mimir_net::Resolver>;
    HttpClient::new(guard, Arc::new(PolicyOnly), roots, limits, Some(names))
}

/// Returns a client without names.
pub fn client(rules: NetworkRules) -> HttpClient {
    client_with_names(rules, &Names::none(), RequestLimits::default())
}

/// Returns a request without a body.
pub fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

/// Fetches a URL.
pub async fn fetch(client: &HttpClient, url: &str) -> Result<FetchedResponse, Error> {
    let request = Request::get(mimir_net::uri(url)?).body(Bytes::new());
    client.fetch(request.unwrap()).await
}

/// Returns the kind of the failure.
pub async fn kind(client: &HttpClient, url: &str) -> &'static str {
    match fetch(client, url).await {
        Ok(_) => "",
        Err(error) => error.kind(),
    }
}
