//! Servers, resolvers and clients of the tests.

mod certificates;
mod names;
mod site;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use mimir_core::network::{Entry, Host, HostPattern, Mode, NetworkPolicy, Rules};
use mimir_net::{Client, Error, Fetched, Guard, Limits, PolicyAlone, Roots};

pub use certificates::Authority;
pub use names::Names;
pub use site::{Answer, Site, answer, text};

/// Rules that allow these hosts, and otherwise the defaults.
pub fn listed(hosts: &[&str]) -> Rules {
    let entry = |host: &&str| Entry::from(host.parse::<HostPattern>().unwrap());
    Rules {
        allowed: hosts.iter().map(entry).collect(),
        ..Rules::default()
    }
}

/// Rules that allow every host, including names that resolve to loopback: for tests about something else.
pub fn lax() -> Rules {
    Rules {
        mode: Mode::Any,
        block_private: false,
        ..Rules::default()
    }
}

/// Returns the rules with this name fixed to loopback.
pub fn fixed(mut rules: Rules, name: &str) -> Rules {
    let loopback: IpAddr = [127, 0, 0, 1].into();
    rules
        .hosts
        .insert(Host::parse(name).unwrap(), vec![loopback]);
    rules
}

/// Returns a client without an authorizer, whose names resolve as `names` defines.
pub fn client_of(rules: Rules, names: &Arc<Names>, limits: Limits) -> Client {
    let guard = Arc::new(Guard::new(NetworkPolicy::new(rules)));
    guarded(guard, names, limits, Roots::default())
}

/// Like [`client_of`], under the guard of the test.
pub fn guarded(guard: Arc<Guard>, names: &Arc<Names>, limits: Limits, roots: Roots) -> Client {
    let names = Arc::clone(names) as Arc<dyn mimir_net::Resolver>;
    Client::new(guard, Arc::new(PolicyAlone), roots, limits, Some(names))
}

/// Returns a client without names.
pub fn client(rules: Rules) -> Client {
    client_of(rules, &Names::none(), Limits::default())
}

/// Returns a request without a body.
pub fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

/// Fetches a URL.
pub async fn fetch(client: &Client, url: &str) -> Result<Fetched, Error> {
    let request = Request::get(mimir_net::uri(url)?).body(Bytes::new());
    client.fetch(request.unwrap()).await
}

/// Returns the kind of the failure.
pub async fn kind(client: &Client, url: &str) -> &'static str {
    match fetch(client, url).await {
        Ok(_) => "",
        Err(error) => error.kind(),
    }
}
