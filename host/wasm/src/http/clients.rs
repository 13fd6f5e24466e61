//! The clients of a plugin: one for each of its tools, made at the first request and kept, with its connections, for as
//! long as what the tool may reach stays the same.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::pipeline::{Effects, Reach};
use mimir_net::{Client, Guard, Limits, PolicyAlone, Roots, Servers};
use wasmtime_wasi_http::RequestOptions;

use crate::host::WasmHost;

/// The clients, by the name of the tool.
#[derive(Default)]
pub(crate) struct Clients(Mutex<HashMap<Arc<str>, Link>>);

/// A client, and under what it was made.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) client: Client,
    guard: Arc<Guard>,
    reach: Arc<Reach>,
}

impl Clients {
    /// The client of a tool that may reach this. Where it could reach something else before, it gets a new one: what
    /// is still under way on the old one is judged by the call that it belongs to.
    pub(super) fn link(&self, tool: &Arc<str>, reach: &Arc<Reach>, host: &WasmHost) -> Link {
        let kept = |links: &HashMap<Arc<str>, Link>| {
            let link = links.get(tool)?;
            let same = Arc::ptr_eq(&link.reach, reach) || *link.reach == **reach;
            (same && *link.guard.policy() == reach.policy).then(|| link.clone())
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = kept(&lock()) {
            return link;
        }
        // Only who needs them hears that they cannot be read.
        let roots = Roots::below(host.workspace(), &reach.roots).unwrap_or_else(Roots::broken);
        let broken = roots.is_broken();
        let guard = Arc::new(Guard::new(reach.policy.clone()));
        // Each request says itself who is asked.
        let authorize = Arc::new(PolicyAlone);
        let client = Client::new(
            Arc::clone(&guard),
            authorize,
            roots,
            WIDEST,
            host.resolver(),
        );
        let link = Link {
            client,
            guard,
            reach: Arc::clone(reach),
        };
        let mut links = lock();
        // Somebody may have been quicker.
        if let Some(link) = kept(&links) {
            return link;
        }
        // The file may be mended before the next request.
        if !broken {
            links.insert(Arc::clone(tool), link.clone());
        }
        link
    }
}

/// A client for one call to servers of its session: connections to them are of no use to others.
pub(super) fn to_session(effects: &Effects, reach: &Arc<Reach>, host: &WasmHost) -> Link {
    let roots = Roots::below(host.workspace(), &reach.roots).unwrap_or_else(Roots::broken);
    let guard = Arc::new(Guard::new(reach.policy.clone()));
    let client = Client::in_session(
        Arc::clone(&guard),
        Arc::new(PolicyAlone),
        roots,
        WIDEST,
        host.resolver(),
        Some(Arc::new(OfSession(effects.clone()))),
    );
    Link {
        client,
        guard,
        reach: Arc::clone(reach),
    }
}

/// The servers of the session that a call belongs to.
struct OfSession(Effects);

impl Servers for OfSession {
    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            let connection = self.0.connect(port).await?;
            let stream = connection.into_stream::<TcpStream>();
            stream.ok_or_else(|| io::ErrorKind::Unsupported.into())
        })
    }
}

impl Link {
    /// Puts in force what the call may reach now. What has changed ends what was opened before.
    pub(super) fn renew(&self, effects: &Effects) {
        let now = effects.reach();
        if !Arc::ptr_eq(&now, &self.reach) && *self.guard.policy() != now.policy {
            self.guard.set(now.policy.clone());
        }
    }
}

/// What holds for a client that several calls share; each call is held to its own limits within these.
const WIDEST: Limits = Limits {
    // The same for all: no key is about it.
    connect: Duration::from_secs(10),
    header_bytes: 64 << 10,
    first_byte: Duration::MAX,
    between_bytes: Duration::MAX,
    whole: Duration::MAX,
    body_bytes: u64::MAX,
    upload_bytes: u64::MAX,
    // For who has them followed, and bodies unpacked; a component does both itself, and each hop is a request of its own.
    redirects: usize::MAX,
    ratio: u64::MAX,
};

/// The bounds of a request as the settings have them.
pub(super) fn limits(limits: &mimir_core::Limits) -> Limits {
    Limits {
        first_byte: limits.http_time,
        between_bytes: limits.http_time,
        whole: limits.http_time,
        body_bytes: limits.http_body,
        upload_bytes: limits.http_body,
        ..WIDEST
    }
}

/// The same with those that the guest has set itself, where they are tighter.
pub(super) fn within(limits: Limits, options: Option<RequestOptions>) -> Limits {
    let options = options.unwrap_or_default();
    let tighter = |own: Option<Duration>, limit: Duration| own.unwrap_or(limit).min(limit);
    Limits {
        connect: tighter(options.connect_timeout, limits.connect),
        first_byte: tighter(options.first_byte_timeout, limits.first_byte),
        between_bytes: tighter(options.between_bytes_timeout, limits.between_bytes),
        ..limits
    }
}
