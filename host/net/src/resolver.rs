//! Name resolution, once per connection, and the check that all returned addresses are allowed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::network::{NetworkHost, NetworkPolicy, RequestTarget};

use crate::console_guard::check_consoles;
use crate::error::{Error, RequestStage};

/// Resolves names. Not called for IP addresses, `localhost`, and names with addresses fixed in the settings.
pub trait Resolver: Send + Sync {
    /// Returns all addresses of `name`, which is lower-case ASCII without a trailing dot.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver, with hosts file, search domains and DNS.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let answers = tokio::net::lookup_host((name, 0)).await?;
            Ok(answers.map(|answer| answer.ip()).collect())
        })
    }
}

/// Resolves `target` and checks every address. A single refused address refuses the target: an attacker's server may
/// return both kinds and count on a second attempt.
pub(crate) async fn resolve_checked(
    resolver: &dyn Resolver,
    policy: &NetworkPolicy,
    target: &RequestTarget,
    limit: Duration,
) -> Result<Vec<SocketAddr>, Error> {
    // A server of the session does not listen on this machine's loopback.
    if policy.serves(target) {
        return Err(Error::Refused {
            origin: target.origin().to_string(),
        });
    }
    let fixed = policy.addresses(target);
    let addresses = match (fixed, target.host()) {
        (Some(fixed), _) => fixed,
        (None, NetworkHost::Ip(address)) => vec![*address],
        (None, NetworkHost::Name(name)) => lookup(resolver, name, limit).await?,
    };
    for address in &addresses {
        policy
            .judge_address(target, *address)
            .map_err(Error::BlockedAddress)?;
    }
    // An IPv4-mapped IPv6 address connects to the IPv4 address.
    let port = target.port();
    let sockets = addresses
        .iter()
        .map(|ip| SocketAddr::new(ip.to_canonical(), port));
    let sockets: Vec<SocketAddr> = sockets.collect();
    check_consoles(target, &sockets)?;
    Ok(sockets)
}

async fn lookup(
    resolver: &dyn Resolver,
    name: &str,
    limit: Duration,
) -> Result<Vec<IpAddr>, Error> {
    let dns_error = |why: &str| Error::Dns {
        host: name.to_owned(),
        why: why.to_owned(),
    };
    match tokio::time::timeout(limit, resolver.resolve(name)).await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err(dns_error("no address found")),
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(dns_error(&error.to_string())),
        Err(_) => Err(Error::Timeout {
            stage: RequestStage::Dns,
            after: limit,
        }),
    }
}
