//! The way out by a proxy: what it lets, what it refuses, and that there is no other.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{NetworkPolicy, Rules, Target};
use mimir_net::{Client, Error, Guard, Limits, PolicyAlone, Proxy, Refused, Roots};
use mimir_process::sandbox::{Fault, Network, Spec};

use crate::kit::{Said, World, run_in, sandbox};

/// A server on the loopback of this machine.
struct Site {
    port: u16,
    /// What it was sent, and `ended` for each connection that is no more.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, heard) = (stream.unwrap(), Arc::clone(&all));
                std::thread::spawn(move || {
                    let mut head = vec![0; 4096];
                    let count = stream.read(&mut head).unwrap_or(0);
                    let head = String::from_utf8_lossy(&head[..count]).into_owned();
                    heard.lock().unwrap().push(head);
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello",
                    );
                    let _ = stream.read_to_end(&mut Vec::new());
                    heard.lock().unwrap().push("ended".to_owned());
                });
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// What lets this site by the name `site.test`, and nothing else.
    fn proxy(&self) -> Proxy {
        let name = Target::parse("http://site.test/").unwrap().host().clone();
        let rules = Rules {
            allowed: vec![
                format!("site.test:{}", self.port)
                    .parse::<mimir_core::network::HostPattern>()
                    .unwrap()
                    .into(),
            ],
            hosts: [(name, vec!["127.0.0.1".parse().unwrap()])].into(),
            ..Rules::default()
        };
        let guard = Arc::new(Guard::new(NetworkPolicy::new(rules)));
        let client = Client::new(
            guard,
            Arc::new(PolicyAlone),
            Roots::default(),
            Limits::default(),
            None,
        );
        Proxy::new(client, Arc::new(Untold))
    }
}

struct Untold;

impl Refused for Untold {
    fn refused<'a>(&'a self, _: &'a Target, _: &'a Method, error: Error) -> BoxFuture<'a, Error> {
        Box::pin(std::future::ready(error))
    }
}

fn proxied(world: &World, site: &Site, python: &str) -> Spec {
    let world = world.script(&format!("python3 - <<'END'\n{python}\nEND"));
    Spec {
        network: Network::Proxy,
        proxy: Some(site.proxy()),
        ..world
    }
}

async fn says(site: &Site, python: &str) -> Said {
    let world = World::new();
    let spec = proxied(&world, site, python);
    let finished = run_in(&*sandbox(), &spec).await;
    Said::of(finished.unwrap_or_else(|fault| panic!("{fault}\n{python}")))
}

/// Sends one request to the proxy as it is written, and prints the first line and the last of the answer.
const RAW: &str = "
import os, socket, urllib.parse
proxy = urllib.parse.urlparse(os.environ['http_proxy'])
def raw(head, then=''):
    s = socket.create_connection((proxy.hostname, proxy.port), 5); s.settimeout(10)
    s.sendall((head + '\\r\\n\\r\\n').encode())
    answer = s.recv(65536).decode()
    if then and ' 200 ' in answer:
        then = then if isinstance(then, bytes) else (then + '\\r\\n\\r\\n').encode()
        s.sendall(then[:1]); import time; time.sleep(0.1); s.sendall(then[1:]); answer = s.recv(65536).decode()
    lines = answer.strip().split('\\n')
    print(lines[0].strip(), '|', lines[-1].strip())
    return s
";

#[tokio::test]
async fn what_is_let_is_reached_in_the_clear_and_through_a_tunnel() {
    let site = Site::new();
    let port = site.port;
    let said = says(
        &site,
        &format!(
            "{RAW}
import urllib.request
print(urllib.request.urlopen('http://site.test:{port}/a?b').read().decode())
raw('CONNECT site.test:{port} HTTP/1.1\\r\\nHost: site.test', bytes([22, 3, 1]) + b'as TLS begins')"
        ),
    )
    .await;
    assert_eq!(said.out, "hello\nHTTP/1.1 200 OK | hello\n", "{said:?}");
    let heard = site.heard();
    let requests: Vec<_> = heard.iter().filter(|one| *one != "ended").collect();
    assert!(
        requests[0].starts_with("GET /a?b HTTP/1.1\r\n"),
        "{heard:?}"
    );
    let host = format!("host: site.test:{port}\r\n");
    assert!(requests[0].to_lowercase().contains(&host), "{heard:?}");
    let through: String = requests[1..].iter().map(|one| one.as_str()).collect();
    assert!(
        "\u{16}\u{3}\u{1}as TLS begins".starts_with(&through) && through.len() > 1,
        "{heard:?}"
    );
}

#[tokio::test]
async fn a_tunnel_is_for_tls_alone() {
    let site = Site::new();
    let port = site.port;
    let said = says(
        &site,
        &format!(
            "{RAW}
for then in ['DELETE /c HTTP/1.1\\r\\nHost: other.test', bytes([22, 2, 0, 0]), b'SSH-2.0-x', bytes(9)]:
    raw('CONNECT site.test:{port} HTTP/1.1\\r\\nHost: site.test', then).close()"
        ),
    )
    .await;
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(lines.len(), 4, "{said:?}");
    for line in lines {
        let refused = line.starts_with("HTTP/1.1 403 Forbidden")
            && line.contains("| mimir: POLICY_DENIED: a tunnel to `site.test");
        assert!(refused, "{line}");
    }
    let heard = site.heard();
    assert!(
        heard.iter().all(|one| one.is_empty() || one == "ended"),
        "{heard:?}"
    );
}

#[tokio::test]
async fn nothing_is_reached_past_the_proxy_and_no_name_is_found() {
    let site = Site::new();
    let port = site.port;
    let said = says(
        &site,
        &format!(
            "
import socket
for address in [('127.0.0.1', {port}), ('192.0.2.1', 443), ('169.254.169.254', 80), ('8.8.8.8', 53)]:
    try:
        socket.create_connection(address, 2); print('reached', address)
    except OSError as e:
        print(e.strerror)
for name in ['site.test', 'example.com']:
    try:
        print(socket.gethostbyname(name))
    except OSError:
        print('no name')"
        ),
    )
    .await;
    let unreachable = "Network is unreachable\n".repeat(3);
    let expected = format!("Connection refused\n{unreachable}no name\nno name\n");
    assert_eq!(said.out, expected, "{said:?}");
    assert!(site.heard().is_empty());
}

#[tokio::test]
async fn what_is_not_let_is_refused_with_the_reason() {
    let site = Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let hosts = [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "0xa9fea9fe",
        "metadata.google.internal",
        "10.0.0.1",
        "site.test",
        "site.test.evil.example",
    ];
    let list = hosts.map(|host| format!("'{host}'")).join(", ");
    let said = says(
        &site,
        &format!(
            "{RAW}
for host in [{list}]:
    raw(f'GET http://{{host}}:{port}/ HTTP/1.1\\r\\nHost: site.test:{}')
    raw(f'CONNECT {{host}}:{port} HTTP/1.1\\r\\nHost: site.test:{}')
for port in [22, 25, 6379]:
    raw(f'CONNECT site.test:{{port}} HTTP/1.1\\r\\nHost: x')",
            site.port, site.port
        ),
    )
    .await;
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(lines.len(), hosts.len() * 2 + 3, "{said:?}");
    for line in lines {
        let refused =
            line.starts_with("HTTP/1.1 403 ") && line.contains("| mimir: POLICY_DENIED: ");
        assert!(refused, "{line}\n{said:?}");
    }
    let reached = listener.accept().unwrap_err();
    assert_eq!(reached.kind(), ErrorKind::WouldBlock);
    assert!(site.heard().is_empty());
}

#[tokio::test]
async fn what_is_no_request_to_a_proxy_is_refused_and_harms_nothing() {
    let site = Site::new();
    let port = site.port;
    let said = says(
        &site,
        &format!(
            "{RAW}
raw('GET / HTTP/1.1\\r\\nHost: site.test:{port}')
raw('CONNECT site.test HTTP/1.1\\r\\nHost: site.test')
raw('GET http://user:word@site.test:{port}/ HTTP/1.1\\r\\nHost: x')
raw('TRACE http://site.test:{port}/ HTTP/1.1\\r\\nHost: x')
raw('GET http://site.test:{port}/ HTTP/1.1\\r\\nHost: x\\r\\nX-Original-URL: /admin')
raw('no HTTP at all')
raw('GET http://site.test:{port}/ HTTP/1.1\\r\\nHost: x\\r\\nX: ' + 'x' * 200000)
s = [socket.create_connection((proxy.hostname, proxy.port), 5) for n in range(100)]
raw('GET http://site.test:{port}/fine HTTP/1.1\\r\\nHost: x')"
        ),
    )
    .await;
    let lines: Vec<_> = said.out.lines().collect();
    let (fine, bad) = lines.split_last().unwrap();
    assert!(fine.starts_with("HTTP/1.1 200 OK"), "{said:?}");
    assert_eq!(bad.len(), 7, "{said:?}");
    for line in bad {
        assert!(line.starts_with("HTTP/1.1 4"), "{line}\n{said:?}");
    }
    let heard = site.heard();
    assert!(
        heard
            .iter()
            .all(|one| one == "ended" || one.contains("/fine")),
        "{heard:?}"
    );
}

#[tokio::test]
async fn the_proxy_ends_with_the_command() {
    let site = Site::new();
    let world = World::new();
    let mut spec = proxied(
        &world,
        &site,
        &format!(
            "{RAW}
s = raw('CONNECT site.test:{} HTTP/1.1\\r\\nHost: x', bytes([22, 3, 1]))
import time; time.sleep(600)",
            site.port
        ),
    );
    spec.timeout = Some(Duration::from_secs(4));
    let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
    assert!(matches!(fault, Fault::Timeout(_)), "{fault}");
    for _ in 0..100 {
        if site.heard().last().is_some_and(|last| last == "ended") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the tunnel goes on: {:?}", site.heard());
}

#[tokio::test]
async fn who_has_no_network_has_no_proxy() {
    let said = World::new()
        .sh("echo \"[$http_proxy$HTTPS_PROXY$ALL_PROXY]\"
             python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 61128), 2)' 2>&1 | tail -n 1")
        .await;
    assert!(said.out.starts_with("[]\n"), "{said:?}");
    assert!(said.out.contains("Connection refused"), "{said:?}");
}
