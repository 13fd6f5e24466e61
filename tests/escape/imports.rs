//! Guests that try to use the network. The host's HTTP is the only access, and it needs a grant.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use mimir_kit::Arena;
use mimir_testkit::json;

use crate::guests;

#[test]
fn network_is_unreachable_without_a_grant() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let udp = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let outcome = Arena::new(guests::NETWORK).call(json!({ "port": port }));
    assert_eq!(outcome.text(), "reached: []");
    tcp.set_nonblocking(true).unwrap();
    assert!(tcp.accept().is_err(), "something connected");
    udp.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    assert!(udp.recv(&mut [0; 8]).is_err(), "something was sent");
}
