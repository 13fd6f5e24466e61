//! Effect gate: what a tool sends out or runs in the middle of its call is judged when it is known, by the same stages
//! as the call was at its beginning: decide, approve, audit.
//!
//! What a call may reach is looked up anew for each request: a grant that was taken back, or a rule that was written
//! meanwhile, counts from the next one on.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};

use crate::audit::{Event, Kind};
use crate::backend::Assessment;
use crate::call::{CallContext, Observer, Parent};
use crate::command::Connection;
use crate::decision::{Decision, Evaluation};
use crate::error::{Code, ToolError};
use crate::limits::Limits;
use crate::needs::Needs;
use crate::network::{NetworkPolicy, Target};
use crate::redact::Redactor;
use crate::tool::{Risk, Tool, Trust};
use crate::wish::Want;

use super::approve::Approved;
use super::decide::Ruled;
use super::trail::{Trail, unsent};
use super::validate::Checked;
use super::{Pipeline, Road, World, approve, network};

mod command;
mod judge;
pub(super) mod leak;
mod model;
mod outside;
mod secret;
mod storage;

pub use command::Permitted;
pub(super) use judge::asked_as;
pub use leak::Upload;
pub use outside::Outside;
pub use storage::Storage;

use model::Asked;
use outside::Whose;
use secret::Placeholder;

/// A request that is about to leave the machine.
#[derive(Debug, Clone, Copy)]
pub struct Egress<'a> {
    /// Where it goes.
    pub target: &'a Target,
    /// The method that will be on the wire.
    pub method: &'a str,
    /// The names and values of its headers, before secrets are put in.
    pub headers: &'a [&'a [u8]],
    /// True if it has a body. For `CONNECT`: true if much was sent through the tunnel.
    pub body: bool,
}

/// A yes to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// As far as the lists let it.
    Listed,
    /// Also if it is on no list: a person was asked.
    Unlisted,
}

/// What a call may reach at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// What was granted, within what the settings let.
    pub policy: NetworkPolicy,
    /// PEM files of certificates that are trusted beside those of the platform.
    pub roots: Vec<String>,
    /// The servers of the session itself that it may reach.
    pub served: Option<Served>,
}

impl Reach {
    fn ports(&self) -> &[u16] {
        self.served.as_ref().map_or(&[], |served| &served.ports)
    }
}

/// Servers that commands of a session run in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The session.
    pub session: String,
    /// The ports that were named for them.
    pub ports: Vec<u16>,
}

/// The way of a call to the outside. A backend hands each request to it and does what it says.
#[derive(Clone)]
pub struct Effects(Arc<Inner>);

struct Inner {
    pipeline: Pipeline,
    /// The tool as it was when the call was approved, and what it was given then.
    tool: Arc<Tool>,
    rights: Needs,
    limits: Limits,
    arguments: Value,
    /// What a person was asked about before the call ran.
    answered: Box<[String]>,
    placeholders: Box<[Placeholder]>,
    /// The redactor of everything that the call returns.
    redactor: Redactor,
    /// The redactor of everything that the call receives.
    answers: OnceLock<Option<Redactor>>,
    /// How often the model was asked.
    questions: Asked,
    parent: Parent,
    context: CallContext,
    observer: Arc<dyn Observer>,
    /// What could be reached when that was last looked up.
    reach: Kept,
}

/// What could be reached when that was last looked up, and in which world.
#[derive(Default)]
struct Kept(Mutex<Option<(Arc<World>, Arc<Reach>)>>);

impl Kept {
    fn now(&self, inner: &Inner, whose: Whose<'_>) -> Arc<Reach> {
        let world = inner.pipeline.world();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((then, reach))
                if Arc::ptr_eq(then, &world) && reach.ports() == inner.served(whose) =>
            {
                Arc::clone(reach)
            }
            other => {
                let new = Arc::new(inner.reach(&world, whose));
                let reach = match other {
                    Some((_, old)) if *old == new => Arc::clone(old),
                    _ => new,
                };
                *kept = Some((world, Arc::clone(&reach)));
                reach
            }
        }
    }
}

impl Approved {
    /// The way of this call to the outside, through the same gates.
    pub fn effects(&self) -> Effects {
        Effects(Arc::new(Inner {
            pipeline: self.pipeline().clone(),
            tool: Arc::clone(self.tool()),
            rights: self.rights().clone(),
            limits: *self.limits(),
            arguments: self.arguments().clone(),
            answered: self.answered().into(),
            placeholders: secret::placeholders(self.rights(), self.context()),
            redactor: self.redactor().clone(),
            answers: OnceLock::new(),
            questions: Asked::default(),
            parent: self.parent(),
            context: self.context().clone(),
            observer: Arc::clone(self.observer()),
            reach: Kept::default(),
        }))
    }
}

impl Effects {
    /// What the call may reach now. The same allocation as before, as long as nothing has changed.
    pub fn reach(&self) -> Arc<Reach> {
        self.0.reach.now(&self.0, Whose::Call)
    }

    /// Connects to a server of the session, at one of the ports of [`Reach::served`].
    pub async fn connect(&self, port: u16) -> std::io::Result<Connection> {
        let inner = &*self.0;
        let runner = &inner.pipeline.0.ports.runner;
        runner.connect(&inner.context.session_id, port).await
    }

    /// Judges a request, asks a person if need be, and puts on record what came of it. What cannot be recorded is not
    /// sent.
    pub async fn request(&self, egress: Egress<'_>) -> Result<Consent, ToolError> {
        // On the heap: it holds a card and an answer, and few calls get here.
        Box::pin(self.0.request(egress, Whose::Call)).await
    }

    /// Puts on record that the server behind the tool wants something of the client, before that is asked; `refused`
    /// says why it is not. A tool that may not be called any more wants nothing.
    pub fn wish(&self, want: Want, refused: Option<&ToolError>) -> Result<(), ToolError> {
        let inner = &*self.0;
        let world = inner.pipeline.world();
        let trail = inner.effect_trail(want.method().to_owned())?;
        let result = match refused {
            Some(error) => Err(error.clone()),
            None => inner.standing(&world).map(|_| ()),
        };
        recorded(trail, result)
    }

    /// Puts on record that a request was not sent although it was let: an address that its name leads to is refused.
    pub fn refused(&self, egress: Egress<'_>, code: Code) {
        self.record_refused(egress, code, None);
    }

    /// Records a refused request with the reason, as one sentence.
    fn record_refused(&self, egress: Egress<'_>, code: Code, why: Option<&str>) {
        let ports = &self.0.pipeline.0.ports;
        let Ok(redactor) = ports.vault.redactor() else {
            return;
        };
        let mut subject = named(egress);
        redactor.text(&mut subject);
        let mut event = Event::of(Kind::Effect, ports.clock.now())
            .in_call(&self.0.context)
            .of_tool(&self.0.tool)
            .with_subject(&subject)
            .refused(code);
        event.decision = Some(Decision::Deny);
        if let Some(why) = why {
            let mut why = crate::text::visible(why);
            redactor.text(&mut why);
            event = event.with_detail(&why);
        }
        if let Err(error) = ports.audit.record(&event) {
            tracing::error!(%error, "a refused request could not be recorded");
        }
    }
}

/// A request without what could carry content: its method and its origin.
fn named(egress: Egress<'_>) -> String {
    format!("{} {}", egress.method, egress.target.origin())
}

impl Inner {
    /// The trail of something that the tool does in the middle of its call. `subject` says what, without its content.
    fn effect_trail(&self, subject: String) -> Result<Trail, ToolError> {
        let ports = &self.pipeline.0.ports;
        Trail::of_effect(&self.tool, &self.context, &self.parent, ports, subject)
    }

    /// The tool as it is now, and what of its rights the call still has.
    fn standing(&self, world: &World) -> Result<(Arc<Tool>, Needs), ToolError> {
        let name = self.tool.name().as_str();
        let same = |tool: &&Arc<Tool>| {
            tool.origin.digest == self.tool.origin.digest
                && tool.origin.location == self.tool.origin.location
        };
        let gone = |why: &str| {
            ToolError::new(
                Code::PolicyDenied,
                format!("`{name}` may reach nothing any more: {why}"),
            )
        };
        let Some(tool) = world.registry.get(name).filter(same) else {
            return Err(gone("its plugin was removed or replaced during the call"));
        };
        if let Some(reason) = world.policy.refusal(tool) {
            return Err(gone(&format!("{} ({})", reason.text, reason.source)));
        }
        let mut rights = self.rights.clone();
        match (self.tool.trust, tool.trust) {
            (_, Trust::Trusted | Trust::Harmless) => rights.keep(&tool.granted),
            // A person has said yes to this very call.
            (Trust::Untrusted, Trust::Untrusted) => {}
            (_, Trust::Untrusted) => {
                let way = format!("`mimir tools trust {name}` grants it again");
                return Err(gone("its grant was taken back during the call").with_way_out([way]));
            }
        }
        Ok((Arc::clone(tool), rights))
    }

    fn reach(&self, world: &World, whose: Whose<'_>) -> Reach {
        let standing = self.standing(world);
        let hosts = standing.map_or_else(|_| Vec::new(), |(_, rights)| whose.hosts(rights));
        let granted = network::granted(&hosts);
        let ports = self.served(whose);
        let settings = world.policy.network(&self.tool, &hosts).serving(&ports);
        Reach {
            policy: granted.within(settings),
            roots: world.policy.roots(Some(&self.tool)),
            served: (!ports.is_empty()).then(|| Served {
                session: self.context.session_id.clone(),
                ports,
            }),
        }
    }

    async fn request(&self, egress: Egress<'_>, whose: Whose<'_>) -> Result<Consent, ToolError> {
        let world = self.pipeline.world();
        let road = self.pipeline.road(&world);
        let mut trail = self.effect_trail(named(egress))?;
        let judged = async {
            self.holds_secret(egress)?;
            let (tool, rights) = self.standing(&world)?;
            let hosts = whose.hosts(rights);
            let checked = self.checked(tool, arguments(egress));
            let served = self.served(whose);
            let judged = judge::judge(&road, self, &checked, (&hosts, &served), (egress, whose));
            trail.decided(&judged.evaluation);
            if judged.evaluation.decision() == Decision::Deny {
                return Err(judged.denied(&checked, egress));
            }
            let ruled = Ruled {
                assessment: Some(summary(egress)),
                evaluation: judged.evaluation,
                checked,
            };
            consented(&road, &ruled, &mut trail, whose.request()).await?;
            if let Whose::Command(command) = whose {
                command.consented(egress, &ruled.evaluation);
            }
            Ok(if judged.said.unlisted {
                Consent::Unlisted
            } else {
                Consent::Listed
            })
        };
        let result = judged.await;
        recorded(trail, result)
    }

    /// The ports at which servers of the session are reached. A command reaches them by itself.
    fn served(&self, whose: Whose<'_>) -> Vec<u16> {
        let runner = &self.pipeline.0.ports.runner;
        match whose {
            Whose::Call => runner.served(&self.context.session_id),
            Whose::Command(_) => Vec::new(),
        }
    }

    /// The request as the stages see it: like a call that the tool makes.
    fn checked(&self, tool: Arc<Tool>, arguments: Value) -> Box<Checked> {
        Box::new(Checked::of_request(
            tool,
            arguments,
            self.context.clone(),
            Arc::clone(&self.observer),
            self.parent.clone(),
            self.limits,
            self.redactor.clone(),
        ))
    }
}

/// Asks a person, if a rule does. `what` is the beginning of a sentence.
async fn consented(
    road: &Road<'_>,
    ruled: &Ruled,
    trail: &mut Trail,
    what: &str,
) -> Result<(), ToolError> {
    if ruled.evaluation.decision() == Decision::Ask
        && approve::ask(road, ruled, trail).await?.is_some()
    {
        let message = format!("{what} cannot be edited; say no, and change the call");
        return Err(ToolError::new(Code::ApprovalDenied, message));
    }
    Ok(())
}

/// Puts on record what came of an effect. What cannot be recorded is not done.
fn recorded<T>(trail: Trail, result: Result<T, ToolError>) -> Result<T, ToolError> {
    let recorded = trail.finish_effect(result.as_ref().err().map(|error| error.code));
    result.and_then(|done| recorded.map(|()| done))
}

/// The refusal of an effect that a rule denies. `what` says what was not done.
fn denied(what: &str, evaluation: &Evaluation, ways: Vec<String>) -> ToolError {
    let told = evaluation.told();
    let message = match told.decisive() {
        Some(reason) => format!("{what}: {} ({})", reason.text, reason.rule),
        None => what.to_owned(),
    };
    ToolError::new(Code::PolicyDenied, crate::text::visible(&message))
        .with_details(json!({ "reasons": told.reasons() }))
        .with_way_out(ways)
}

/// What rules about `method`, `url` and `host` look at.
pub(super) fn arguments(egress: Egress<'_>) -> Value {
    json!({
        "method": egress.method,
        "url": egress.target.to_string(),
        "host": egress.target.host().to_string(),
    })
}

/// What a person reads first.
fn summary(egress: Egress<'_>) -> Assessment {
    Assessment {
        approval: Decision::Ask,
        risk: Risk::Low,
        summary: format!("send {} {}", egress.method, egress.target),
        risks: Vec::new(),
    }
}
