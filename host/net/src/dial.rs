//! TCP connection to the first of several addresses that answers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Time before the next address is tried in parallel; RFC 8305 section 5.
const STAGGER: Duration = Duration::from_millis(250);

/// Limit for the number of addresses tried. Names with more have the same server behind all of them.
const MAX_ADDRESSES: usize = 8;

/// Connects as RFC 8305 describes: address families alternate, each attempt starts a little after the previous one.
pub(crate) async fn dial(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = alternate_families(addresses)
        .into_iter()
        .take(MAX_ADDRESSES)
        .peekable();
    let mut attempts = JoinSet::new();
    let mut failed = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok(Ok(stream))) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                // The first failure is the one of the address that the resolver prefers.
                Some(Ok(Err(error))) => failed = failed.or(Some(error)),
                Some(Err(error)) => failed = failed.or_else(|| Some(io::Error::other(error))),
                None => return Err(failed.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())),
            },
            () = tokio::time::sleep(STAGGER), if waiting.peek().is_some() => {}
        }
    }
}

/// Orders the addresses so that their families alternate, beginning with the family of the first address.
fn alternate_families(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut one, mut other): (Vec<SocketAddr>, Vec<SocketAddr>) = addresses
        .iter()
        .partition(|address| address.is_ipv6() == first);
    one.reverse();
    other.reverse();
    let mut ordered = Vec::with_capacity(addresses.len());
    while !(one.is_empty() && other.is_empty()) {
        ordered.extend(one.pop());
        ordered.extend(other.pop());
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
        let given =
            parse("[2001:db8::1]:1 [2001:db8::2]:1 [2001:db8::3]:1 192.0.2.1:1 192.0.2.2:1");
        let turns =
            parse("[2001:db8::1]:1 192.0.2.1:1 [2001:db8::2]:1 192.0.2.2:1 [2001:db8::3]:1");
        assert_eq!(alternate_families(&given), turns);
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
