//! A server on a local port that answers with JSON.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::mpsc::{Receiver, channel};

/// A request as the server received it.
pub struct ReceivedRequest {
    pub head: String,
    pub body: String,
}

impl ReceivedRequest {
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub fn has_header(&self, line: &str) -> bool {
        self.head
            .lines()
            .any(|found| found.eq_ignore_ascii_case(line))
    }
}

/// Starts a server that answers each request with a status and a body. Returns its port, and the requests that it has
/// received: each is in the channel before its answer is sent.
pub fn serve(
    answer: impl Fn(&ReceivedRequest) -> (&'static str, String) + Send + 'static,
) -> (u16, Receiver<ReceivedRequest>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or_default() <= 2 {
                    break;
                }
                if let Some((_, value)) = line
                    .split_once(':')
                    .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body = String::from_utf8_lossy(&body).into_owned();
            let request = ReceivedRequest { head, body };
            let (status, answer) = answer(&request);
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                answer.len()
            );
            let has_receiver = sender.send(request).is_ok();
            let _ = reader.get_mut().write_all(answer.as_bytes());
            if !has_receiver {
                return;
            }
        }
    });
    (port, requests)
}
