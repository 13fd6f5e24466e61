//! The network access of a server's process and of a package download: a proxy that allows only the declared hosts and
//! records each request.
//!
//! Out of scope: the address or socket on which the proxy listens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::backend::BoxFuture;
use mimir_core::network::{AllowedHost, HostPattern, NetworkPolicy, RequestTarget};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_mcp::client::RefusedHosts;
use mimir_net::{
    Error, HostClient, HttpClient, OutboundRequest, PolicyGuard, Proxy, ProxyRefusalHandler,
    RequestAuthorizer, RequestLimits, RequestPermit, TlsRoots,
};
use parking_lot::Mutex;

use crate::settings::MergedSettings;

/// The current settings, and the number of times they were replaced.
pub struct CurrentSettings {
    settings: Mutex<MergedSettings>,
    generation: AtomicUsize,
}

impl CurrentSettings {
    /// Creates a holder of these settings.
    pub fn new(settings: &MergedSettings) -> Self {
        Self {
            settings: Mutex::new(settings.clone()),
            generation: AtomicUsize::new(0),
        }
    }

    /// Replaces the settings.
    pub fn set(&self, settings: &MergedSettings) {
        *self.settings.lock() = settings.clone();
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the current settings.
    pub fn get(&self) -> MergedSettings {
        self.settings.lock().clone()
    }
}

/// Timeout of connections. A day, because servers may keep connections open for as long as they run.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(86_400);

const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(20),
    first_byte: CONNECTION_TIMEOUT,
    between_bytes: CONNECTION_TIMEOUT,
    whole: CONNECTION_TIMEOUT,
    header_bytes: 64 << 10,
    body_bytes: 8 << 30,
    upload_bytes: 1 << 30,
    redirects: 0,
    ratio: 100,
};

/// The declared network access of a program.
#[derive(Debug, Clone)]
pub struct DeclaredNetwork {
    /// Name of the program in messages and the audit log, such as `the server x`.
    pub program: String,
    /// Allowed hosts. If empty, the hosts in `network.allowedHosts` are allowed.
    pub hosts: Vec<HostPattern>,
    /// True if the hosts are those of a configured package registry, which may resolve to any address.
    pub registry: bool,
    /// Hint on how to allow another host. `{host}` is replaced by the refused host.
    pub remedy: String,
    /// Name of the server, and the store of refused hosts that results of its calls name.
    pub refused: Option<(String, RefusedHosts)>,
}

/// Creates the proxy of a program.
pub fn proxy(
    declared: DeclaredNetwork,
    current: Arc<CurrentSettings>,
    root: &std::path::Path,
    audit: Arc<dyn AuditSink>,
) -> Result<Proxy, ToolError> {
    let gate = ProgramNetworkGate::new(declared, current, audit)?;
    let (roots, guard) = (gate.roots(root)?, Arc::clone(&gate.guard));
    let client = HttpClient::new(guard, Arc::clone(&gate) as _, roots, LIMITS, None);
    Ok(Proxy::new(client, gate))
}

/// Creates a client with the same checks as the proxy, for mimir's own requests to the registry.
pub fn client(
    declared: DeclaredNetwork,
    current: Arc<CurrentSettings>,
    root: &std::path::Path,
    audit: Arc<dyn AuditSink>,
) -> Result<HostClient, ToolError> {
    let limits = RequestLimits {
        redirects: 3,
        ..RequestLimits::default()
    };
    let gate = ProgramNetworkGate::new(declared, current, audit)?;
    let (roots, guard) = (gate.roots(root)?, Arc::clone(&gate.guard));
    Ok(HostClient::new(guard, gate, roots, limits, None))
}

struct ProgramNetworkGate {
    declared: DeclaredNetwork,
    current: Arc<CurrentSettings>,
    guard: Arc<PolicyGuard>,
    generation: AtomicUsize,
    /// Network limits of team policies, which also apply to the declared hosts.
    teams: Mutex<Vec<NetworkPolicy>>,
    audit: Arc<dyn AuditSink>,
}

impl ProgramNetworkGate {
    fn new(
        declared: DeclaredNetwork,
        current: Arc<CurrentSettings>,
        audit: Arc<dyn AuditSink>,
    ) -> Result<Arc<Self>, ToolError> {
        let generation = current.generation.load(Ordering::Acquire);
        let policy = declared.policy(&current.get())?;
        Ok(Arc::new(Self {
            guard: Arc::new(PolicyGuard::new(policy)),
            generation: AtomicUsize::new(generation),
            teams: Mutex::new(declared.teams(&current.get())?),
            declared,
            current,
            audit,
        }))
    }

    fn roots(&self, root: &std::path::Path) -> Result<TlsRoots, ToolError> {
        let files = self.current.get().policy()?.roots(None);
        Ok(TlsRoots::from_folder(root, &files)?)
    }

    fn judge(&self, request: &OutboundRequest<'_>) -> Result<(), String> {
        let hosts = &self.declared.hosts;
        let teams = self.teams.lock();
        request
            .check_teams(&teams)
            .map_err(|refusal| refusal.to_string())?;
        let is_allowed = if hosts.is_empty() {
            request.verdict.is_allowed()
        } else {
            hosts.iter().any(|host| host.matches(request.target))
        };
        if is_allowed {
            return Ok(());
        }
        Err(format!(
            "{} has no access to the host `{}`",
            self.declared.program,
            request.target.host()
        ))
    }

    /// Stores a refusal, so that the result of the server's call can name the refused host.
    fn store_refusal(&self, target: &RequestTarget, error: ToolError) {
        if let Some((server, refused)) = &self.declared.refused {
            refused.add(server, target.host().to_string(), error);
        }
    }

    fn record(&self, target: &RequestTarget, method: &str, refusal: Option<ToolErrorCode>) {
        let event = AuditEvent::new(EventKind::Effect, SystemTime::now())
            .with_subject(&target.origin().to_string())
            .with_detail(&format!("{method} by {}", self.declared.program));
        let event = AuditEvent {
            ok: refusal.is_none(),
            code: refusal,
            ..event
        };
        if let Err(error) = self.audit.record(&event) {
            tracing::warn!(%error, "cannot record a request of a server's process");
        }
    }
}

impl DeclaredNetwork {
    fn policy(&self, settings: &MergedSettings) -> Result<NetworkPolicy, ToolError> {
        let policy = settings.policy()?;
        let hosts = self.hosts.iter().cloned();
        if self.registry {
            return Ok(policy.own_network().with_as_resolved(hosts));
        }
        let named: Vec<AllowedHost> = hosts.map(AllowedHost::from).collect();
        Ok(policy.own_network_with(&named))
    }
}

impl DeclaredNetwork {
    /// Returns the network limits of team policies. They do not apply to the registry that npm or pip is configured to
    /// use.
    fn teams(&self, settings: &MergedSettings) -> Result<Vec<NetworkPolicy>, ToolError> {
        match self.registry {
            true => Ok(Vec::new()),
            false => Ok(settings.policy()?.team_networks(None).collect()),
        }
    }
}

impl RequestAuthorizer for ProgramNetworkGate {
    fn reload_policy(&self) {
        let generation = self.current.generation.load(Ordering::Acquire);
        if self.generation.swap(generation, Ordering::AcqRel) == generation {
            return;
        }
        let settings = self.current.get();
        let policy = self.declared.policy(&settings);
        match policy.and_then(|policy| Ok((policy, self.declared.teams(&settings)?))) {
            Ok((policy, teams)) => {
                self.guard.set(policy);
                *self.teams.lock() = teams;
            }
            Err(error) => tracing::warn!(%error, "the network settings cannot be read"),
        }
    }

    fn authorize<'a>(
        &'a self,
        request: OutboundRequest<'a>,
    ) -> BoxFuture<'a, Result<RequestPermit, ToolError>> {
        let verdict = self.judge(&request);
        let refusal = verdict.is_err().then_some(ToolErrorCode::PolicyDenied);
        self.record(request.target, request.method.as_str(), refusal);
        Box::pin(std::future::ready(match verdict {
            Ok(()) => Ok(RequestPermit::Listed),
            Err(why) => {
                let remedy = &self.declared.remedy;
                let remedy = remedy.replace("{host}", &request.target.host().to_string());
                let error = ToolError::policy_denied(why).with_remedies([remedy]);
                self.store_refusal(request.target, error.clone());
                Err(error)
            }
        }))
    }
}

impl ProxyRefusalHandler for ProgramNetworkGate {
    fn handle_refusal<'a>(
        &'a self,
        target: &'a RequestTarget,
        method: &'a hyper::Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        self.record(target, method.as_str(), Some(error.code()));
        if matches!(error, Error::Blocked(_)) {
            let refusal = ToolError::policy_denied(&error);
            self.store_refusal(target, refusal);
        }
        Box::pin(std::future::ready(error))
    }
}
