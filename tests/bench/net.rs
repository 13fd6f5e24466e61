//! The network policy check compared with the same client without it, and the memory use of many concurrent requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use mimir_core::network::{HostPattern, NetworkPolicy, NetworkRules};
use mimir_kit::builtins;
use mimir_net::{HttpClient, PolicyGuard, PolicyOnly, RequestLimits, TlsRoots};
use mimir_testkit::Testkit;
use serde_json::json;

use crate::measure::{Budget, Pace, Report, Row, time, timed};

/// Number of requests, and of concurrent ones.
const REQUESTS: usize = 1000;
const TOGETHER: usize = 8;

/// Bytes of each response: a large page.
const ANSWER: usize = 1 << 20;

/// A call may hold its response several times: raw, as text, and converted. More than this for each running call means
/// that memory is not released.
const HELD: f64 = 8.0;

pub fn bench(report: &mut Report) {
    overhead(report);
    memory(report);
}

/// A server on loopback that sends this many bytes for each request of a connection.
fn server(answer: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let _there = OnCore::new(1);
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, answer));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: usize) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {answer}\r\n\r\n");
    let line = "some words of a page that is long\n";
    let mut body = line.repeat(answer / line.len() + 1);
    body.truncate(answer);
    let whole = head + &body;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
        }
        stream.write_all(whole.as_bytes()).ok()?;
    }
}

/// Pins this thread, and those that it starts, to one core until it is dropped. The kernel's choice to wake a server
/// on the same or another core would cost more than the policy check itself.
#[cfg(target_os = "linux")]
struct OnCore(Option<rustix::thread::CpuSet>);

#[cfg(target_os = "linux")]
impl OnCore {
    fn new(core: usize) -> Self {
        let before = rustix::thread::sched_getaffinity(None).ok();
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        // A machine with one core needs no pinning.
        let _ = rustix::thread::sched_setaffinity(None, &cores);
        Self(before)
    }
}

#[cfg(target_os = "linux")]
impl Drop for OnCore {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

#[cfg(not(target_os = "linux"))]
struct OnCore;

#[cfg(not(target_os = "linux"))]
impl OnCore {
    fn new(_core: usize) -> Self {
        Self
    }
}

fn overhead(report: &mut Report) {
    let _here = OnCore::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let url = format!("http://{}/", server(64));
    let host: HostPattern = "127.0.0.1".parse().unwrap();
    let rules = NetworkRules {
        allowed: vec![host.into()],
        ..NetworkRules::default()
    };
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    let guarded = HttpClient::new(
        guard,
        Arc::new(PolicyOnly),
        TlsRoots::default(),
        RequestLimits::default(),
        None,
    );
    let mut connector = legacy::connect::HttpConnector::new();
    connector.set_nodelay(true);
    let bare = legacy::Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(connector);
    let pace = Pace {
        turn: 200,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "net",
        pace,
        |times| {
            timed(&runtime, times, async || {
                let mut request = Request::new(http_body_util::Empty::<Bytes>::new());
                *request.uri_mut() = url.parse().unwrap();
                let answer = guarded.send(request).await.unwrap();
                assert_eq!(answer.collect().await.unwrap().to_bytes().len(), 64);
            })
        },
        |times| {
            timed(&runtime, times, async || {
                let mut request = Request::new(Full::default());
                *request.uri_mut() = url.parse().unwrap();
                let answer = bare.request(request).await.unwrap();
                assert_eq!(answer.collect().await.unwrap().to_bytes().len(), 64);
            })
        },
    );
    report.row(Row {
        name: "a guarded request on a kept connection, loopback".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} the same client without the guard", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(1.1),
    });
}

fn memory(report: &mut Report) {
    let address = server(ANSWER);
    let settings = json!({
        "network": {"allowedHosts": ["127.0.0.1"]},
        "tools": {"web_fetch": {"labels": {"acceptsUntrusted": true}}},
    });
    let kit = Testkit::with_bundled(builtins()).unwrap();
    let kit = kit.settings(settings).unwrap();
    let call = || {
        let arguments = json!({"url": format!("http://{address}/")});
        let outcome = kit.call("web_fetch", arguments);
        assert!(outcome.is_ok(), "{}", outcome.text());
    };
    // One-time initialisation is done before.
    let together = |requests: usize| {
        std::thread::scope(|scope| {
            for _ in 0..TOGETHER {
                scope.spawn(|| (0..requests / TOGETHER).for_each(|_| call()));
            }
        });
    };
    together(TOGETHER);
    let Some(before) = forget_peak() else {
        return;
    };
    let start = Instant::now();
    together(REQUESTS);
    let took = start.elapsed();
    let Some(peak) = status("VmHWM:") else { return };
    let grown = peak.saturating_sub(before) as f64;
    let answers = (TOGETHER * ANSWER) as f64;
    let mib = |bytes: f64| format!("{:.0} MiB", bytes / f64::from(1 << 20));
    report.row(Row {
        name: format!(
            "memory of {REQUESTS} web_fetch calls of 1 MiB, {TOGETHER} at a time ({:.1} s)",
            took.as_secs_f64()
        ),
        ours: mib(grown),
        reference: format!("{} answers under way", mib(answers)),
        ratio: grown / answers,
        budget: Budget::AtMost(HELD),
    });
}

/// Resets the peak memory of this process and returns the current use; `None` if the system does not report it.
fn forget_peak() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS:")
}

fn status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes << 10)
}
