//! Third stage: a person says yes where the rules ask, and the rights of the call are settled.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::approval::{Answer, timestamp};
use crate::call::{Call, CallContext, Caller, Observer, Parent};
use crate::clock::{Clock, Deadline};
use crate::code;
use crate::decision::Decision;
use crate::error::{Code, ToolError};
use crate::limits::Limits;
use crate::needs::Needs;
use crate::outcome::Outcome;
use crate::paths::PathRules;
use crate::policy;
use crate::redact::Redactor;
use crate::tool::{Tool, ToolName, Trust};

use super::decide::Ruled;
use super::effect::asked_as;
use super::label::Floor;
use super::session::Session;
use super::trail::Trail;
use super::validate::Checked;
use super::{Pipeline, Road};

mod card;
mod keep;
mod remembered;

pub(super) use remembered::{Remembered, remembered};

/// A call that may run, with the rights that it has. Only this stage makes one, and a backend
/// accepts nothing else.
pub struct Approved {
    pub(super) checked: Box<Checked>,
    rights: Needs,
    deadline: Deadline,
    pipeline: Pipeline,
    answered: Vec<String>,
    variables: Vec<(String, String)>,
    redactor: Redactor,
}

impl Approved {
    /// The tool that is called.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.checked.tool
    }

    /// The arguments, a JSON object that matches the tool's schema.
    pub fn arguments(&self) -> &Value {
        &self.checked.arguments
    }

    /// Who calls.
    pub fn context(&self) -> &CallContext {
        &self.checked.context
    }

    /// Who watches.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.checked.observer
    }

    /// The bounds of this call.
    pub fn limits(&self) -> &Limits {
        self.checked.limits()
    }

    /// What of the tool's needs was granted.
    pub fn rights(&self) -> &Needs {
        &self.rights
    }

    /// The settings that the tool may see, each under the name of a variable.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// The paths below the workspace that this call may not reach or change.
    pub fn paths(&self) -> &PathRules {
        self.checked.paths()
    }

    /// Tells the time.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.pipeline.0.ports.clock
    }

    /// How much time is left.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// The calls around a call that this one makes.
    fn chain(&self) -> Vec<Caller> {
        let outer = self.checked.callers().iter().cloned();
        outer.chain([Caller::of(&self.checked.tool)]).collect()
    }

    /// The pipeline that it is on.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// What a person was asked about before, in the spelling of the effect gate.
    pub(super) fn answered(&self) -> &[String] {
        &self.answered
    }

    /// What is masked in everything that it says.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Masks with this in everything that it says from now on.
    pub(super) fn mask_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// The session that it is in.
    pub(super) fn session(&self) -> Arc<Session> {
        let sessions = &self.pipeline.0.sessions;
        sessions.get(&self.checked.context.session_id)
    }

    /// The worst that it has read so far.
    pub(super) fn floor(&self) -> Arc<Floor> {
        Arc::clone(&self.checked.floor)
    }

    /// This call, as what is in the middle of it sees it.
    pub fn parent(&self) -> Parent {
        Parent {
            tool: self.checked.tool.name().clone(),
            callers: self.chain(),
            depth: self.checked.depth,
            deadline: self.deadline.clone(),
            watch: self.checked.watch.clone(),
            paths: self.paths().clone(),
            floor: self.floor(),
        }
    }

    /// Calls other tools in the middle of this call, through the same gates: those that were granted.
    pub fn nested(&self) -> Nested {
        self.nested_among(Callable::Granted(self.rights.tools.clone()))
    }

    /// The way to other tools, if this call has one: to those that its tool was granted. Code that a model wrote may call
    /// what the model itself may call, or less, if the call names them.
    pub fn calls(&self) -> Option<Nested> {
        if self.checked.tool.runs_code() {
            let named = code::named_tools(self.arguments());
            return Some(self.nested_among(named.map_or(Callable::Any, Callable::Named)));
        }
        (!self.rights.tools.is_empty()).then(|| self.nested())
    }

    fn nested_among(&self, allowed: Callable) -> Nested {
        Nested {
            pipeline: self.pipeline.clone(),
            parent: self.parent(),
            allowed,
            context: self.checked.context.clone(),
            observer: Arc::clone(&self.checked.observer),
        }
    }
}

/// The tools that a call may call in its middle.
enum Callable {
    /// All that its caller may call.
    Any,
    /// What the call itself names.
    Named(Vec<String>),
    /// What a person granted to the tool.
    Granted(Vec<String>),
}

impl Callable {
    /// Refuses a call of `target` by `caller`, if it is not among these.
    fn check(&self, target: &Tool, caller: &ToolName) -> Result<(), ToolError> {
        let is_among = |names: &[String]| names.iter().any(|name| target.answers_to(name));
        let message = match self {
            Self::Any => return Ok(()),
            Self::Named(names) | Self::Granted(names) if is_among(names) => return Ok(()),
            Self::Named(_) => format!(
                "the code may not call `{0}`; `tools` of this call of `{caller}` must name `{0}`, or be left out",
                target.name()
            ),
            Self::Granted(_) => format!(
                "`{caller}` was not granted calls of `{}`; its manifest must name the tool among its needs",
                target.name()
            ),
        };
        Err(ToolError::new(Code::PermissionDenied, message))
    }
}

/// The way from one tool to another.
pub struct Nested {
    pipeline: Pipeline,
    parent: Parent,
    allowed: Callable,
    context: CallContext,
    observer: Arc<dyn Observer>,
}

impl Nested {
    /// Calls `tool` if this call may call it.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Outcome, ToolError> {
        let world = self.pipeline.world();
        let target = world.registry.find(tool)?;
        self.allowed.check(target, &self.parent.tool)?;
        let mut context = self.context.clone();
        context.request_id = crate::call::RequestId::new(self.pipeline.0.ports.clock.now());
        // On the heap: the future of a call holds the future of the calls inside it.
        let outcome = Box::pin(self.pipeline.call(Call {
            tool: tool.to_owned(),
            arguments,
            context,
            observer: Arc::clone(&self.observer),
            parent: Some(self.parent.clone()),
        }));
        let outcome = outcome.await;
        self.parent.floor.note_outcome(&outcome);
        Ok(outcome)
    }
}

/// Where a call goes from here.
pub(super) enum Next {
    /// To its tool.
    Go(Box<Approved>),
    /// Back to the beginning, with the arguments that a person wrote.
    Edited(Box<Call>),
}

pub(super) async fn approve(
    road: &Road<'_>,
    ruled: Ruled,
    trail: &mut Trail,
) -> Result<Next, ToolError> {
    if ruled.evaluation.decision() == Decision::Ask
        // On the heap: calls that ask nobody are the many, and need no room for it.
        && let Some(arguments) = Box::pin(ask(road, &ruled, trail)).await?
    {
        trail.edited(&arguments);
        return Ok(Next::Edited(Box::new(ruled.checked.with(arguments))));
    }
    let Ruled {
        checked,
        evaluation,
        ..
    } = ruled;
    let ports = road.ports;
    let outer = checked
        .parent
        .as_ref()
        .map(|parent| parent.deadline.clone());
    let rights = rights(&checked.tool);
    Ok(Next::Go(Box::new(Approved {
        deadline: Deadline::new(Arc::clone(&ports.clock), checked.limits().wall, outer),
        variables: match rights.variables.as_slice() {
            [] => Vec::new(),
            names => road.world.policy.variables(names),
        },
        rights,
        pipeline: road.pipeline.clone(),
        redactor: trail.redactor(),
        answered: evaluation.asking().map(asked_as).collect(),
        checked,
    })))
}

/// What the call may reach. Without a grant a person has said yes to this call and has seen the needs.
fn rights(tool: &Tool) -> Needs {
    match tool.trust {
        Trust::Untrusted => tool.wanted(),
        Trust::Trusted | Trust::Harmless => tool.granted.clone(),
    }
}

/// Asks a person, if nobody has answered for this call before. Gives the arguments that the person wants
/// instead, if there are some.
pub(super) async fn ask(
    road: &Road<'_>,
    ruled: &Ruled,
    trail: &mut Trail,
) -> Result<Option<Value>, ToolError> {
    let Ruled {
        checked,
        evaluation,
        ..
    } = ruled;
    let ports = road.ports;
    if let Some(found) = remembered(road, checked, evaluation) {
        covered(road, found, trail);
        return Ok(None);
    }
    let plugin = road.world.registry.plugin(&checked.tool);
    let card = card::card(ruled, &plugin);
    // A person's time is free, for this call and for those around it.
    let around = checked.parent.as_ref();
    let paused = (
        checked.watch.pause(),
        around.map(|parent| parent.deadline.pause()),
    );
    let waited = ports.clock.instant();
    let desk = &road.pipeline.0.desk;
    let approver = checked.observer.person().unwrap_or(&*ports.approver);
    let session = &checked.context.session_id;
    let answered = loop {
        // What was asked about meanwhile may have been answered for this call, too.
        let now = || remembered(road, checked, evaluation);
        let asked = desk.ask(approver, session, &card, || now().is_some());
        if let Some(answered) = asked.await {
            break answered;
        }
        if let Some(found) = now() {
            covered(road, found, trail);
            return Ok(None);
        }
    };
    let answer = match answered.answer.clone() {
        // Neither was offered.
        Answer::Session | Answer::Always if card.always.is_none() => Answer::Once,
        answer => answer,
    };
    trail.answered(&answer, ports.clock.instant() - waited);
    drop(paused);
    match answer {
        Answer::Once => Ok(None),
        Answer::Beforehand if card.changes.is_empty() => Ok(None),
        Answer::Beforehand => Err(refused(
            ruled,
            "its plugin has changed since it was granted, which a person has to see first",
        )),
        Answer::Session | Answer::Always => {
            keep::keep(road, ruled, &plugin, &answer, trail)?;
            Ok(None)
        }
        Answer::Edit(arguments) => {
            keep::note_edit(road, ruled, trail)?;
            Ok(Some(arguments))
        }
        Answer::No => Err(refused(ruled, "a person said no")),
        Answer::Nobody { way_out } => {
            let mut error = refused(ruled, "nobody was there to give it");
            let ways = policy::ways(evaluation, &checked.tool);
            error.way_out = std::iter::once(way_out).chain(ways).collect();
            Err(error)
        }
    }
}

/// Puts on record that a call is covered by an answer that was given before.
fn covered(road: &Road<'_>, by: Remembered, trail: &mut Trail) {
    match by {
        Remembered::Session(_) => trail.leased("session lease"),
        Remembered::Good(leases) => {
            let ports = road.ports;
            for lease in leases {
                ports.ledger.used(&lease.id, timestamp(ports.clock.now()));
            }
            trail.leased("lease");
        }
    }
}

fn refused(ruled: &Ruled, why: &str) -> ToolError {
    let tool = &ruled.checked.tool;
    ToolError::new(
        Code::ApprovalDenied,
        format!("`{}` needs approval, and {why}", tool.name()),
    )
    .with_details(json!({ "reasons": ruled.evaluation.told().reasons() }))
    .with_way_out(policy::ways(&ruled.evaluation, tool))
}
