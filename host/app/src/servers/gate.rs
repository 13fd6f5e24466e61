//! The network access of a server's process and of its package download: a proxy that only allows the hosts declared
//! for it and records each request.
//!
//! The caller decides on which address or socket the proxy listens.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use mimir_core::audit::{AuditSink, Event, Kind};
use mimir_core::backend::BoxFuture;
use mimir_core::network::{Entry, HostPattern, NetworkPolicy, Target};
use mimir_core::{Code, ToolError};
use mimir_net::{Ask, Authorize, Client, Error, Guard, Limits, Permit, Proxy, Refused, Roots};

use crate::settings::Settings;

/// The current settings, and the number of times they were replaced.
pub struct CurrentSettings {
    settings: Mutex<Settings>,
    generation: AtomicUsize,
}

impl CurrentSettings {
    /// Starts with these settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            settings: Mutex::new(settings.clone()),
            generation: AtomicUsize::new(0),
        }
    }

    /// Replaces the settings.
    pub fn set(&self, settings: &Settings) {
        *self.settings.lock() = settings.clone();
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the current settings.
    pub fn get(&self) -> Settings {
        self.settings.lock().clone()
    }
}

/// Timeout of connections, which servers keep open for as long as they run.
const LONG: Duration = Duration::from_secs(86_400);

const LIMITS: Limits = Limits {
    connect: Duration::from_secs(20),
    first_byte: LONG,
    between_bytes: LONG,
    whole: LONG,
    header_bytes: 64 << 10,
    body_bytes: 8 << 30,
    upload_bytes: 1 << 30,
    redirects: 0,
    ratio: 100,
};

/// The declared network access of a program.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The program, as the audit log names it: `the server x`.
    pub who: String,
    /// The allowed hosts. An empty list allows those of `network.allowedHosts`.
    pub hosts: Vec<HostPattern>,
    /// True if the hosts are those of a registry that npm or pip is configured with: they may resolve to any address.
    pub registry: bool,
    /// The hint that says which setting allows another host.
    pub remedy: String,
}

/// A proxy for one program.
pub fn proxy(
    declared: Declared,
    current: Arc<CurrentSettings>,
    root: &std::path::Path,
    audit: Arc<dyn AuditSink>,
) -> Result<Proxy, ToolError> {
    let gate = Gate::new(declared, current, audit)?;
    Ok(Proxy::new(gate.client(root, LIMITS)?, gate))
}

/// A client with the same checks, for mimir's own requests to the registry.
pub fn client(
    declared: Declared,
    current: Arc<CurrentSettings>,
    root: &std::path::Path,
    audit: Arc<dyn AuditSink>,
) -> Result<Client, ToolError> {
    let limits = Limits {
        redirects: 3,
        ..Limits::default()
    };
    Gate::new(declared, current, audit)?.client(root, limits)
}

struct Gate {
    declared: Declared,
    current: Arc<CurrentSettings>,
    guard: Arc<Guard>,
    generation: AtomicUsize,
    /// The limits of team policies, which also apply to the hosts of a server.
    teams: Mutex<Vec<NetworkPolicy>>,
    audit: Arc<dyn AuditSink>,
}

impl Gate {
    fn new(
        declared: Declared,
        current: Arc<CurrentSettings>,
        audit: Arc<dyn AuditSink>,
    ) -> Result<Arc<Self>, ToolError> {
        let generation = current.generation.load(Ordering::Acquire);
        let policy = declared.policy(&current.get())?;
        Ok(Arc::new(Self {
            guard: Arc::new(Guard::new(policy)),
            generation: AtomicUsize::new(generation),
            teams: Mutex::new(declared.teams(&current.get())?),
            declared,
            current,
            audit,
        }))
    }

    /// A client whose requests pass these checks.
    fn client(
        self: &Arc<Self>,
        root: &std::path::Path,
        limits: Limits,
    ) -> Result<Client, ToolError> {
        let roots = Roots::below(root, &self.current.get().policy()?.roots(None))?;
        let guard = Arc::clone(&self.guard);
        Ok(Client::new(
            guard,
            Arc::clone(self) as _,
            roots,
            limits,
            None,
        ))
    }

    fn judge(&self, ask: &Ask<'_>) -> Result<(), String> {
        let hosts = &self.declared.hosts;
        let teams = self.teams.lock();
        let verdicts = teams.iter();
        let mut verdicts = verdicts.map(|team| team.judge(ask.target, ask.method.as_str()));
        if let Some(refusal) = verdicts.find_map(|verdict| verdict.refusal().cloned()) {
            return Err(Error::Blocked(refusal).to_string());
        }
        let lets = match hosts.is_empty() {
            true => ask.verdict.is_allowed(),
            false => hosts.iter().any(|host| host.matches(ask.target)),
        };
        match lets {
            true => Ok(()),
            false => Err(format!(
                "{} has no access to the host `{}`",
                self.declared.who,
                ask.target.host()
            )),
        }
    }

    fn record(&self, target: &Target, method: &str, refusal: Option<Code>) {
        let event = Event::of(Kind::Effect, SystemTime::now())
            .with_subject(&target.origin().to_string())
            .with_detail(&format!("{method} by {}", self.declared.who));
        let event = Event {
            ok: refusal.is_none(),
            code: refusal,
            ..event
        };
        if let Err(error) = self.audit.record(&event) {
            tracing::warn!(%error, "a request of a server's process could not be recorded");
        }
    }
}

impl Declared {
    fn policy(&self, settings: &Settings) -> Result<NetworkPolicy, ToolError> {
        let policy = settings.policy()?.own_network();
        Ok(match self.registry {
            true => policy.with_as_resolved(self.hosts.iter().cloned()),
            false => policy.with_allowed(self.hosts.iter().cloned().map(Entry::from)),
        })
    }
}

impl Declared {
    /// The network limits of team policies. They do not apply to a registry, which is reached as npm or pip is
    /// configured.
    fn teams(&self, settings: &Settings) -> Result<Vec<NetworkPolicy>, ToolError> {
        match self.registry {
            true => Ok(Vec::new()),
            false => Ok(settings.policy()?.team_networks(None).collect()),
        }
    }
}

impl Authorize for Gate {
    fn renew(&self) {
        let now = self.current.generation.load(Ordering::Acquire);
        if self.generation.swap(now, Ordering::AcqRel) == now {
            return;
        }
        let settings = self.current.get();
        let read = self.declared.policy(&settings);
        match read.and_then(|policy| Ok((policy, self.declared.teams(&settings)?))) {
            Ok((policy, teams)) => {
                self.guard.set(policy);
                *self.teams.lock() = teams;
            }
            Err(error) => tracing::warn!(%error, "the network settings cannot be read"),
        }
    }

    fn authorize<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>> {
        let judged = self.judge(&ask);
        let refusal = judged.is_err().then_some(Code::PolicyDenied);
        self.record(ask.target, ask.method.as_str(), refusal);
        Box::pin(std::future::ready(match judged {
            Ok(()) => Ok(Permit::Listed),
            Err(why) => Err(ToolError::new(Code::PolicyDenied, why).with_way_out([self
                .declared
                .remedy
                .replace("{host}", &ask.target.host().to_string())])),
        }))
    }
}

impl Refused for Gate {
    fn refused<'a>(
        &'a self,
        target: &'a Target,
        method: &'a hyper::Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        self.record(target, method.as_str(), Some(error.code()));
        Box::pin(std::future::ready(error))
    }
}
