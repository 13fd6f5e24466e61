//! Servers, resolvers and clients for the tests.

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
use mimir_net::{Error, FetchedResponse, PolicyGuard, PolicyOnly, RequestLimits, TlsRoots};

use crate::Client;

pub use certificates::Authority;
pub use names::Names;
pub use site::{Answer, Site, answer, text};

/// Returns rules that allow these hosts, with defaults otherwise.
pub fn allow_hosts(hosts: &[&str]) -> NetworkRules {
    let entry = |host: &&str| AllowedHost::from(host.parse::<HostPattern>().unwrap());
    NetworkRules {
        allowed: hosts.iter().map(entry).collect(),
        ..NetworkRules::default()
    }
}

/// Returns rules that allow every host, including names that resolve to loopback, for tests of other features.
pub fn allow_all() -> NetworkRules {
    NetworkRules {
        mode: NetworkMode::Any,
        block_private: false,
        ..NetworkRules::default()
    }
}

/// Returns the rules with this name fixed to loopback.
pub fn pin_to_loopback(mut rules: NetworkRules, name: &str) -> NetworkRules {
    let loopback: IpAddr = [127, 0, 0, 1].into();
    rules
        .hosts
        .insert(NetworkHost::parse(name).unwrap(), vec![loopback]);
    rules
}

/// Returns a client without an authorizer, with names resolved by `names`.
pub fn client_with(rules: NetworkRules, names: &Arc<Names>, limits: RequestLimits) -> Client {
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    guarded(guard, names, limits, TlsRoots::default())
}

/// Returns a client like [`client_with`], under the test's guard.
pub fn guarded(
    guard: Arc<PolicyGuard>,
    names: &Arc<Names>,
    limits: RequestLimits,
    roots: TlsRoots,
) -> Client {
    let names = Arc::clone(names) as Arc<dyn mimir_net::Resolver>;
    Client::new(guard, Arc::new(PolicyOnly), roots, limits, Some(names))
}

/// Returns a client that cannot resolve any name.
pub fn client(rules: NetworkRules) -> Client {
    client_with(rules, &Names::none(), RequestLimits::default())
}

/// Returns a request without a body.
pub fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

/// Fetches a URL.
pub async fn fetch(client: &Client, url: &str) -> Result<FetchedResponse, Error> {
    let request = Request::get(mimir_net::uri(url)?).body(Bytes::new());
    client.fetch(request.unwrap()).await
}

/// Returns the kind of the error, or an empty text on success.
pub async fn kind(client: &Client, url: &str) -> &'static str {
    match fetch(client, url).await {
        Ok(_) => "",
        Err(error) => error.kind(),
    }
}
