//! Tries every network access that a component could have: TCP, UDP, listening, names, HTTP. `port` is a port with a
//! listener.

#![expect(clippy::unwrap_used, reason = "a panic here is a failed test there")]

use mimir_guests::{Answer, Hostile, hostile, text};
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, OutgoingRequest, Scheme};

struct Network;

impl Hostile for Network {
    fn call(arguments: String) -> Answer {
        let port = arguments
            .chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap();
        let host = ("127.0.0.1", port);
        let udp = || {
            UdpSocket::bind("0.0.0.0:0")
                .and_then(|socket| socket.send_to(b"x", host))
                .is_ok()
        };
        let tries = [
            ("tcp", TcpStream::connect(host).is_ok()),
            ("udp", udp()),
            ("listen", TcpListener::bind("127.0.0.1:0").is_ok()),
            (
                "name",
                ("localhost", port)
                    .to_socket_addrs()
                    .is_ok_and(|mut found| found.next().is_some()),
            ),
            ("http", http(port)),
        ];
        let reached: Vec<_> = tries
            .iter()
            .filter(|(_, reached)| *reached)
            .map(|(name, _)| *name)
            .collect();
        text(format!("reached: {reached:?}"))
    }
}

fn http(port: u16) -> bool {
    let request = OutgoingRequest::new(Fields::new());
    let whole = request.set_scheme(Some(&Scheme::Http)).is_ok()
        && request
            .set_authority(Some(&format!("127.0.0.1:{port}")))
            .is_ok()
        // No request can be sent without a path.
        && request.set_path_with_query(Some("/")).is_ok();
    let Ok(answer) = handle(request, None) else {
        return false;
    };
    answer.subscribe().block();
    whole && matches!(answer.get(), Some(Ok(Ok(_))))
}

hostile!(Network);
