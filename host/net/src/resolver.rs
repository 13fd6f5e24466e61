//! From a name to addresses, once per connection, and whether all of them may be reached.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::network::{Host, NetworkPolicy, Target};

use crate::error::{Error, Stage};

/// Answers which addresses a name has. Never asked for an address, for `localhost`, or for a name whose addresses the
/// settings fix.
pub trait Resolver: Send + Sync {
    /// All addresses of `name`, which is in lower-case ASCII without a dot at its end.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's own: hosts file, search domains and DNS, as every other program gets them.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Resolver for System {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let answers = tokio::net::lookup_host((name, 0)).await?;
            Ok(answers.map(|answer| answer.ip()).collect())
        })
    }
}

/// The addresses to connect to. Every one has been judged: a single bad one among them refuses the name, for an
/// attacker's server may give both and count on a second try.
pub(crate) async fn addresses(
    resolver: &dyn Resolver,
    policy: &NetworkPolicy,
    target: &Target,
    limit: Duration,
) -> Result<Vec<SocketAddr>, Error> {
    // A server of the session is not one of this machine, whatever its address is here.
    if policy.serves(target) {
        return Err(Error::Refused {
            origin: target.origin().to_string(),
        });
    }
    let known = policy.addresses(target);
    let found = match (known, target.host()) {
        (Some(known), _) => known,
        (None, Host::Ip(address)) => vec![*address],
        (None, Host::Name(name)) => lookup(resolver, name, limit).await?,
    };
    for address in &found {
        policy
            .judge_address(target, *address)
            .map_err(Error::BlockedAddress)?;
    }
    // One that wraps an IPv4 address is reached as that.
    let port = target.port();
    let sockets = found
        .iter()
        .map(|ip| SocketAddr::new(ip.to_canonical(), port));
    Ok(sockets.collect())
}

async fn lookup(
    resolver: &dyn Resolver,
    name: &str,
    limit: Duration,
) -> Result<Vec<IpAddr>, Error> {
    let failed = |why: &str| Error::Dns {
        host: name.to_owned(),
        why: why.to_owned(),
    };
    match tokio::time::timeout(limit, resolver.resolve(name)).await {
        Ok(Ok(found)) if found.is_empty() => Err(failed("it has no address")),
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(failed(&error.to_string())),
        Err(_) => Err(Error::Timeout {
            stage: Stage::Dns,
            after: limit,
        }),
    }
}
