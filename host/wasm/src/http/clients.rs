//! HTTP clients of a plugin, one per tool. A client is created at the first request and reused, together with its
//! connections, as long as the tool's network permissions stay the same.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::pipeline::{EffectGate, NetworkAccess};
use mimir_net::{
    HttpClient, PolicyGuard, PolicyOnly, RequestLimits, SessionServerDialer, TlsRoots,
};
use parking_lot::Mutex;
use wasmtime_wasi_http::RequestOptions;

use crate::host::WasmHost;

/// The clients, by tool name.
#[derive(Default)]
pub(crate) struct HttpClients(Mutex<HashMap<Arc<str>, ClientLink>>);

/// A client, and the permissions for which it was created.
#[derive(Clone)]
pub(super) struct ClientLink {
    pub(super) client: HttpClient,
    guard: Arc<PolicyGuard>,
    reach: Arc<NetworkAccess>,
}

impl HttpClients {
    /// Returns the client of a tool with these permissions. If the permissions have changed, creates a new client;
    /// requests still running on the old client are checked by their own call.
    pub(super) fn client_for(
        &self,
        tool: &Arc<str>,
        reach: &Arc<NetworkAccess>,
        host: &WasmHost,
    ) -> ClientLink {
        let existing = |links: &HashMap<Arc<str>, ClientLink>| {
            let link = links.get(tool)?;
            let has_same_access = Arc::ptr_eq(&link.reach, reach) || *link.reach == **reach;
            (has_same_access && *link.guard.policy() == reach.policy).then(|| link.clone())
        };
        let lock = || self.0.lock();
        if let Some(link) = existing(&lock()) {
            return link;
        }
        // Unreadable root certificates are an error only for requests that need them.
        let roots = TlsRoots::from_folder(host.workspace(), &reach.roots)
            .unwrap_or_else(TlsRoots::unavailable);
        let has_roots = !roots.is_unavailable();
        let guard = Arc::new(PolicyGuard::new(reach.policy.clone()));
        // Each request brings its own authorizer.
        let authorize = Arc::new(PolicyOnly);
        let client = HttpClient::new(
            Arc::clone(&guard),
            authorize,
            roots,
            SHARED_LIMITS,
            host.resolver(),
        );
        let link = ClientLink {
            client,
            guard,
            reach: Arc::clone(reach),
        };
        let mut links = lock();
        // Another call may have added one meanwhile.
        if let Some(link) = existing(&links) {
            return link;
        }
        // A client without its root certificates is not stored, because the file may be repaired before the next call.
        if has_roots {
            links.insert(Arc::clone(tool), link.clone());
        }
        link
    }
}

/// Returns a client for one call to the servers of its session. It is not shared, because other sessions cannot use its
/// connections.
pub(super) fn session_client(
    effects: &EffectGate,
    reach: &Arc<NetworkAccess>,
    host: &WasmHost,
) -> ClientLink {
    let roots =
        TlsRoots::from_folder(host.workspace(), &reach.roots).unwrap_or_else(TlsRoots::unavailable);
    let guard = Arc::new(PolicyGuard::new(reach.policy.clone()));
    let client = HttpClient::in_session(
        Arc::clone(&guard),
        Arc::new(PolicyOnly),
        roots,
        SHARED_LIMITS,
        host.resolver(),
        Some(Arc::new(CallSessionServers(effects.clone()))),
    );
    ClientLink {
        client,
        guard,
        reach: Arc::clone(reach),
    }
}

/// The servers of the session that a call belongs to.
struct CallSessionServers(EffectGate);

impl SessionServerDialer for CallSessionServers {
    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            let connection = self.0.connect(port).await?;
            let stream = connection.into_stream::<TcpStream>();
            stream.ok_or_else(|| io::ErrorKind::Unsupported.into())
        })
    }
}

impl ClientLink {
    /// Applies the current permissions of the call. A change closes earlier connections.
    pub(super) fn update_access(&self, effects: &EffectGate) {
        let now = effects.reach();
        if !Arc::ptr_eq(&now, &self.reach) && *self.guard.policy() != now.policy {
            self.guard.set(now.policy.clone());
        }
    }
}

/// The limits of a client shared by several calls; each call has its own limits within these.
const SHARED_LIMITS: RequestLimits = RequestLimits {
    // Identical for all: no setting changes it.
    connect: Duration::from_secs(10),
    header_bytes: 64 << 10,
    first_byte: Duration::MAX,
    between_bytes: Duration::MAX,
    whole: Duration::MAX,
    body_bytes: u64::MAX,
    upload_bytes: u64::MAX,
    // For requests whose redirects are followed and whose bodies are decompressed here; a component does both itself,
    // and sends each hop as a separate request.
    redirects: usize::MAX,
    ratio: u64::MAX,
};

/// Returns the limits of a request from the settings.
pub(super) fn request_limits(limits: &mimir_core::Limits) -> RequestLimits {
    RequestLimits {
        first_byte: limits.http_time,
        between_bytes: limits.http_time,
        whole: limits.http_time,
        body_bytes: limits.http_body,
        upload_bytes: limits.http_body,
        ..SHARED_LIMITS
    }
}

/// Returns the limits, tightened by those that the guest has set itself.
pub(super) fn tighten_limits(
    limits: RequestLimits,
    options: Option<RequestOptions>,
) -> RequestLimits {
    let options = options.unwrap_or_default();
    let tighter = |own: Option<Duration>, limit: Duration| own.unwrap_or(limit).min(limit);
    RequestLimits {
        connect: tighter(options.connect_timeout, limits.connect),
        first_byte: tighter(options.first_byte_timeout, limits.first_byte),
        between_bytes: tighter(options.between_bytes_timeout, limits.between_bytes),
        ..limits
    }
}
