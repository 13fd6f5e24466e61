//! TCP connection to the first address that answers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Delay before the next address is tried in parallel (RFC 8305 section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Maximum number of addresses to try. Further addresses of a name belong to the same service.
const MAX_ADDRESSES: usize = 8;

/// Connects as described in RFC 8305: address families alternate, and the next attempt starts after [`STAGGER`] or a
/// failure. Returns the error of the first failed attempt if all fail.
pub(crate) async fn dial(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut untried = alternate_families(addresses)
        .into_iter()
        .take(MAX_ADDRESSES)
        .peekable();
    let mut attempts = JoinSet::new();
    let mut first_error = None;
    loop {
        if let Some(address) = untried.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            result = attempts.join_next() => match result {
                Some(Ok(Ok(stream))) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                // The first failure usually belongs to the address that the resolver prefers.
                Some(Ok(Err(error))) => first_error = first_error.or(Some(error)),
                Some(Err(error)) => first_error = first_error.or_else(|| Some(io::Error::other(error))),
                None => return Err(first_error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())),
            },
            () = tokio::time::sleep(STAGGER), if untried.peek().is_some() => {}
        }
    }
}

/// Reorders addresses so that families alternate, beginning with the family of the first address.
fn alternate_families(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_ipv6_first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut preferred, mut others): (Vec<SocketAddr>, Vec<SocketAddr>) = addresses
        .iter()
        .partition(|address| address.is_ipv6() == is_ipv6_first);
    preferred.reverse();
    others.reverse();
    let mut ordered = Vec::with_capacity(addresses.len());
    while !(preferred.is_empty() && others.is_empty()) {
        ordered.extend(preferred.pop());
        ordered.extend(others.pop());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dial_alternates_address_families() {
        let parse = |text: &str| -> Vec<SocketAddr> {
            text.split(' ')
                .map(|address| address.parse().unwrap())
                .collect()
        };
        let addresses =
            parse("[2001:db8::1]:1 [2001:db8::2]:1 [2001:db8::3]:1 192.0.2.1:1 192.0.2.2:1");
        let expected =
            parse("[2001:db8::1]:1 192.0.2.1:1 [2001:db8::2]:1 192.0.2.2:1 [2001:db8::3]:1");
        assert_eq!(alternate_families(&addresses), expected);
        assert_eq!(alternate_families(&[]), []);
    }

    #[tokio::test]
    async fn dial_tries_the_next_address_after_a_refusal() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let dead = closed.local_addr().unwrap();
        drop(closed);
        let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let alive = open.local_addr().unwrap();
        let stream = dial(&[dead, alive]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), alive);
        let error = dial(&[dead]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(dial(&[]).await.is_err());
    }
}
