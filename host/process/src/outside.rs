//! Network access of one command: a proxy that passes each request through the effect gate of the command's call.
//!
//! Out of scope: which hosts may be reached, and where the proxy listens.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use mimir_core::backend::BoxFuture;
use mimir_core::network::Target;
use mimir_core::pipeline::{Consent, Egress, Outside, Permitted};
use mimir_core::{Code, ToolError};
use mimir_net::{Ask, Authorize, Client, Error, Guard, Limits, Permit, Proxy, Refused, Roots};

/// Limits of one request of a command: programs of the machine fetch whole packages and repositories, and their own
/// timeouts end most requests before these do.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(20),
    first_byte: Duration::from_secs(120),
    // Servers allow a connection to be idle for about as long.
    between_bytes: Duration::from_secs(300),
    whole: Duration::from_secs(6 * 3600),
    header_bytes: 64 << 10,
    body_bytes: 8 << 30,
    upload_bytes: 1 << 30,
    redirects: 0,
    ratio: 100,
};

/// Creates the proxy for the requests of this command. The settings name certificates by their paths from `workspace`.
pub(crate) fn proxy(permitted: &Permitted, workspace: &Path, refusals: &Refusals) -> Proxy {
    let outside = permitted.outside().clone();
    let reach = outside.reach();
    // Unreadable certificates are reported only to requests that need them.
    let roots = Roots::below(workspace, &reach.roots).unwrap_or_else(Roots::broken);
    let guard = Arc::new(Guard::new(reach.policy.clone()));
    let gate = Arc::new(Gate {
        outside,
        guard: Arc::clone(&guard),
        refusals: refusals.clone(),
    });
    let client = Client::new(guard, Arc::clone(&gate) as _, roots, LIMITS, None);
    Proxy::new(client, gate)
}

/// The tunnels that were refused to one command. They are recorded because programs do not show the response to
/// `CONNECT`.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<BTreeMap<String, String>>>);

impl Refusals {
    /// Adds the refusal of a host, with the setting that would allow it. Only the first one of a host counts.
    pub(crate) fn add(&self, host: String, why: &str, way: &str) {
        let mut all = self.0.lock();
        let note = format!("`{host}` was not reached: {why}; to allow it: {way}");
        all.entry(host).or_insert(note);
    }

    /// Removes and returns one sentence for each host.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut all = self.0.lock();
        std::mem::take(&mut *all).into_values().collect()
    }
}

/// Hands each request to the effect gate.
struct Gate {
    outside: Outside,
    guard: Arc<Guard>,
    refusals: Refusals,
}

impl Gate {
    /// Records a refused tunnel for the result of the command.
    fn note(&self, target: &Target, method: &Method, error: &ToolError) {
        if *method == Method::CONNECT {
            let way = match &*error.way_out {
                [] => self.outside.way_to(target, method.as_str()),
                ways => ways.join(", or "),
            };
            self.refusals
                .add(target.host().to_string(), &error.message, &way);
        }
    }
}

impl Authorize for Gate {
    fn renew(&self) {
        let now = self.outside.reach();
        if *self.guard.policy() != now.policy {
            self.guard.set(now.policy.clone());
        }
    }

    fn authorize<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Permit, ToolError>> {
        Box::pin(async move {
            let headers = ask.headers.iter();
            let headers: Vec<&[u8]> = headers
                .flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()])
                .collect();
            let egress = Egress {
                headers: &headers,
                body: ask.body,
                ..egress(ask.target, ask.method)
            };
            let consent = self.outside.request(egress).await;
            let consent = consent.inspect_err(|error| self.note(ask.target, ask.method, error))?;
            self.renew();
            Ok(match consent {
                Consent::Listed => Permit::Listed,
                Consent::Unlisted => Permit::Unlisted,
            })
        })
    }
}

/// Describes a request that was refused before its headers were read.
fn egress<'a>(target: &'a Target, method: &'a Method) -> Egress<'a> {
    Egress {
        target,
        method: method.as_str(),
        headers: &[],
        body: false,
    }
}

impl Refused for Gate {
    fn refused<'a>(
        &'a self,
        target: &'a Target,
        method: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error> {
        Box::pin(async move {
            let egress = egress(target, method);
            match error {
                // The network policy refused it before the gate was asked; the gate gives the reason and records the
                // refusal.
                Error::Blocked(_) => match self.outside.request(egress).await {
                    Err(why) => {
                        self.note(target, method, &why);
                        Error::Denied(why)
                    }
                    Ok(_) => error,
                },
                error => {
                    self.outside
                        .refused(egress, Code::PolicyDenied, &error.to_string());
                    error
                }
            }
        })
    }
}
