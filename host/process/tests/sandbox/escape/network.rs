//! Network access through a proxy: allowed and refused requests, and the absence of any other connection.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{NetworkPolicy, NetworkRules, RequestTarget};
use mimir_net::{
    Error, HttpClient, PolicyGuard, PolicyOnly, Proxy, ProxyRefusalHandler, RequestLimits, TlsRoots,
};
use mimir_process::sandbox::{CommandNetwork, CommandSpec, SandboxError};
use parking_lot::Mutex;

use crate::kit::{Said, World, run_in, sandbox};

/// TLS alert of a server that refuses the handshake (`handshake_failure`).
const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 40];

/// A server on the host's loopback.
pub struct Site {
    pub port: u16,
    /// The requests received, and `ended` for each closed connection.
    heard: Arc<Mutex<Vec<String>>>,
    /// The reasons why requests to the server were refused.
    pub refused: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub fn new() -> Self {
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
                    let speaks_tls = head.starts_with(&[22, 3]);
                    let head = String::from_utf8_lossy(&head[..count]).into_owned();
                    heard.lock().push(head);
                    let response: &[u8] = if speaks_tls {
                        ALERT
                    } else {
                        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello"
                    };
                    let _ = stream.write_all(response);
                    let _ = stream.read_to_end(&mut Vec::new());
                    heard.lock().push("ended".to_owned());
                });
            }
        });
        Self {
            port,
            heard,
            refused: Arc::default(),
        }
    }

    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().clone()
    }

    /// Returns a proxy that allows only this site, as `site.test`.
    pub fn proxy(&self) -> Proxy {
        let name = RequestTarget::parse("http://site.test/")
            .unwrap()
            .host()
            .clone();
        let rules = NetworkRules {
            allowed: vec![
                format!("site.test:{}", self.port)
                    .parse::<mimir_core::network::HostPattern>()
                    .unwrap()
                    .into(),
            ],
            hosts: [(name, vec!["127.0.0.1".parse().unwrap()])].into(),
            ..NetworkRules::default()
        };
        let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
        let client = HttpClient::new(
            guard,
            Arc::new(PolicyOnly),
            TlsRoots::default(),
            RequestLimits::default(),
            None,
        );
        Proxy::new(client, Arc::new(Noted(Arc::clone(&self.refused))))
    }
}

struct Noted(Arc<Mutex<Vec<String>>>);

impl ProxyRefusalHandler for Noted {
    fn handle_refusal<'a>(
        &'a self,
        _: &'a RequestTarget,
        _: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        self.0.lock().push(error.to_string());
        Box::pin(std::future::ready(error))
    }
}

fn proxied(world: &World, site: &Site, python: &str) -> CommandSpec {
    let world = world.script(&format!("python3 - <<'END'\n{python}\nEND"));
    CommandSpec {
        network: CommandNetwork::Proxy,
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

/// Sends a raw request to the proxy, and prints the first and last line of the response.
const RAW: &str = "
import base64, os, socket, urllib.parse
proxy = urllib.parse.urlparse(os.environ['http_proxy'])
login = '\\r\\nProxy-Authorization: Basic ' + base64.b64encode(f'{proxy.username}:{proxy.password}'.encode()).decode()
def raw(head, then='', login=login):
    s = socket.create_connection((proxy.hostname, proxy.port), 5); s.settimeout(10)
    s.sendall((head + login + '\\r\\n\\r\\n').encode())
    answer = s.recv(65536).decode()
    if then and ' 200 ' in answer:
        then = then if isinstance(then, bytes) else (then + '\\r\\n\\r\\n').encode()
        s.sendall(then[:1]); import time; time.sleep(0.1); s.sendall(then[1:]); answer = s.recv(65536).decode()
    lines = answer.strip().split('\\n')
    print(lines[0].strip(), '|', lines[-1].strip())
    return s
";

/// Builds a ClientHello, and sends bytes through a tunnel in packets of a given size. Prints the response.
const TLS: &str = "
def sized(b): return len(b).to_bytes(2, 'big') + b
def record(b, kind=22): return bytes([kind, 3, 1]) + sized(b)
def hello(name, extra=b''):
    names = b'' if name is None else b'\\0\\0' + sized(sized(b'\\0' + sized(name.encode())))
    body = b'\\3\\3' + bytes(32) + b'\\0' + sized(b'\\x13\\1') + b'\\1\\0' + sized(names + extra)
    return b'\\1' + len(body).to_bytes(3, 'big') + body
def tunnel(to, data, size=100000):
    s = socket.create_connection((proxy.hostname, proxy.port), 5); s.settimeout(10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(('CONNECT ' + to + ' HTTP/1.1\\r\\nHost: x' + login + '\\r\\n\\r\\n').encode())
    assert b' 200 ' in s.recv(65536)
    try:
        for at in range(0, len(data), size): s.sendall(data[at:at + size])
        print(s.recv(65536).hex())
    except ConnectionError: print('cut')
    return s
";

#[tokio::test]
async fn proxy_reaches_allowed_hosts_by_http_and_tunnel() {
    let site = Site::new();
    let port = site.port;
    let said = says(
        &site,
        &format!(
            "{RAW}{TLS}
import urllib.request
print(urllib.request.urlopen('http://site.test:{port}/a?b').read().decode())
tunnel('site.test:{port}', record(hello('Site.Test')))"
        ),
    )
    .await;
    assert_eq!(said.out, "hello\n15030300020228\n", "{said:?}");
    let heard = site.heard();
    let requests: Vec<_> = heard.iter().filter(|one| *one != "ended").collect();
    assert!(
        requests[0].starts_with("GET /a?b HTTP/1.1\r\n"),
        "{heard:?}"
    );
    let host = format!("host: site.test:{port}\r\n");
    assert!(requests[0].to_lowercase().contains(&host), "{heard:?}");
    assert!(requests[1].contains("Site.Test"), "{heard:?}");
}

#[tokio::test]
async fn tunnel_with_wrong_server_name_or_data_is_closed() {
    // TLS alerts: unrecognized name, and unexpected message.
    let (name, message) = ("15030300020270", "1503030002020a");
    for (data, answer, why) in [
        ("record(hello('evil.test'))", name, "asks for `evil.test`"),
        ("record(hello('site.test.evil.test'))", name, "asks for"),
        ("record(hello(None))", name, "has no server name"),
        // Encrypted ClientHello with another outer name.
        (
            "record(hello('front.test', b'\\xfe\\x0d' + sized(bytes(100))))",
            name,
            "asks for",
        ),
        (
            "bytes([22, 3, 1, 0, 5, 1, 0, 0, 1]) + b'raw after'",
            message,
            "closed",
        ),
        (
            "record(hello('site.test')[:60]) + b'GET / HTTP/1.1'",
            message,
            "not a TLS record",
        ),
        (
            "record(hello('site.test') + hello('evil.test'))",
            message,
            "follows its ClientHello",
        ),
        (
            "record(hello('site.test')) + record(hello('evil.test'))",
            message,
            "before the server",
        ),
        (
            "b''.join(record(b'\\x01\\x00\\xff\\xff' + bytes(10000)) for n in range(10))",
            message,
            "closed",
        ),
        (
            "b''.join(record(bytes([b])) for b in b'\\x01\\x01\\x00\\x00' + bytes(9))",
            message,
            "64 KiB",
        ),
    ] {
        let site = Site::new();
        let program = format!("{RAW}{TLS}\ntunnel('site.test:{}', {data})", site.port);
        let said = says(&site, &program).await;
        // A client that still sends when the connection closes may not see the alert.
        let ended = [answer, "cut"].contains(&said.out.trim());
        assert!(ended, "{data}: {said:?}");
        let heard = site.heard();
        let is_empty = heard.iter().all(|one| one.is_empty() || one == "ended");
        assert!(is_empty, "{data}: {heard:?}");
        let refused = site.refused.lock();
        let has_reason = refused.first().is_some_and(|first| first.contains(why));
        assert!(has_reason, "{data}: {refused:?}");
    }
}

#[tokio::test]
async fn tunnel_reads_a_hello_split_into_packets_and_records() {
    let split = "b''.join(record(bytes([b])) for b in hello('site.test'))";
    for (data, size) in [
        (split, 3),
        (split, 100_000),
        ("record(hello('site.test'))", 1),
    ] {
        let site = Site::new();
        let program = format!(
            "{RAW}{TLS}\ntunnel('site.test:{}', {data}, {size})",
            site.port
        );
        let said = says(&site, &program).await;
        assert_eq!(said.out, "15030300020228\n", "{data}: {said:?}");
        assert!(site.refused.lock().is_empty());
    }
    let site = Site::new();
    let program = format!(
        "{RAW}{TLS}\ns = tunnel('site.test:{}', record(hello('site.test')))
s.sendall(record(b'x' * 50, 23)); s.sendall(b'raw bytes')\nprint(s.recv(100).hex())",
        site.port
    );
    let said = says(&site, &program).await;
    let refused = site.refused.lock();
    assert!(
        refused
            .iter()
            .any(|one| one.contains("before the server has responded")),
        "{refused:?} {said:?}"
    );
}

#[tokio::test]
async fn tunnel_rejects_protocols_other_than_tls() {
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
async fn proxy_cannot_be_bypassed_and_dns_is_unavailable() {
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
async fn proxy_denies_other_hosts_with_the_reason() {
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
async fn proxy_rejects_invalid_requests_and_survives() {
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
async fn proxy_connections_end_with_the_command() {
    let site = Site::new();
    let world = World::new();
    let mut spec = proxied(
        &world,
        &site,
        &format!(
            "{RAW}
{TLS}
s = tunnel('site.test:{}', record(hello('site.test')))
import time; time.sleep(600)",
            site.port
        ),
    );
    spec.timeout = Some(Duration::from_secs(10));
    let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Timeout(_)), "{fault}");
    for _ in 0..1500 {
        if site.heard().last().is_some_and(|last| last == "ended") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the tunnel is still open: {:?}", site.heard());
}

#[tokio::test]
async fn proxy_is_absent_without_network_access() {
    let said = World::new()
        .sh("echo \"[$http_proxy$HTTPS_PROXY$ALL_PROXY]\"
             python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 61128), 2)' 2>&1 | tail -n 1")
        .await;
    assert!(said.out.starts_with("[]\n"), "{said:?}");
    assert!(said.out.contains("Connection refused"), "{said:?}");
}
