//! Third stage: a person says yes where the rules ask, and the rights of the call are settled.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::approval::{Answer, Card};
use crate::call::{Call, CallContext, Observer, Parent};
use crate::clock::{Clock, Deadline};
use crate::decision::Decision;
use crate::error::{Code, ToolError};
use crate::limits::Limits;
use crate::needs::Needs;
use crate::outcome::Outcome;
use crate::paths::PathRules;
use crate::text;
use crate::tool::{Tool, Trust};

use super::Pipeline;
use super::decide::Ruled;
use super::trail::Trail;
use super::validate::Checked;

/// A call that may run, with the rights that it has. Only this stage makes one, and a backend
/// accepts nothing else.
pub struct Approved {
    pub(super) checked: Checked,
    rights: Needs,
    deadline: Deadline,
    pipeline: Pipeline,
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

    /// Calls another tool in the middle of this call, through the same gates.
    pub fn nested(&self) -> Nested {
        Nested {
            pipeline: self.pipeline.clone(),
            parent: Parent {
                tool: self.checked.tool.name().clone(),
                depth: self.checked.depth,
                deadline: self.deadline.clone(),
                paths: self.paths().clone(),
            },
            allowed: self.rights.tools.clone(),
            context: self.checked.context.clone(),
            observer: Arc::clone(&self.checked.observer),
        }
    }
}

/// The way from one tool to another.
pub struct Nested {
    pipeline: Pipeline,
    parent: Parent,
    allowed: Vec<String>,
    context: CallContext,
    observer: Arc<dyn Observer>,
}

impl Nested {
    /// Calls `tool` if the calling tool was granted that.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Outcome, ToolError> {
        let world = self.pipeline.world();
        let target = world.registry.find(tool)?;
        if !self.allowed.iter().any(|name| target.answers_to(name)) {
            return Err(ToolError::new(
                Code::PermissionDenied,
                format!(
                    "`{}` was not granted calls of `{}`; its manifest must name the tool among its needs",
                    self.parent.tool,
                    target.name()
                ),
            ));
        }
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
        Ok(outcome.await)
    }
}

pub(super) async fn approve(
    pipeline: &Pipeline,
    ruled: Ruled,
    trail: &mut Trail,
) -> Result<Approved, ToolError> {
    let ports = &pipeline.0.ports;
    if ruled.evaluation.decision() == Decision::Ask {
        let card = card(&ruled);
        // A person's time is free, for this call and for those around it.
        let paused = ruled
            .checked
            .parent
            .as_ref()
            .map(|parent| parent.deadline.pause());
        let waited = ports.clock.instant();
        let answer = ports.approver.ask(&card).await;
        trail.answered(&answer, ports.clock.instant() - waited);
        drop(paused);
        match answer {
            Answer::Once => {}
            Answer::No => return Err(refused(&ruled, "a person said no")),
            Answer::Nobody { way_out } => {
                return Err(refused(
                    &ruled,
                    &format!("nobody was there to approve it. {way_out}"),
                ));
            }
        }
    }
    let Ruled { checked, .. } = ruled;
    let outer = checked
        .parent
        .as_ref()
        .map(|parent| parent.deadline.clone());
    Ok(Approved {
        deadline: Deadline::new(Arc::clone(&ports.clock), checked.limits().wall, outer),
        rights: checked.tool.definition.needs.clone(),
        pipeline: pipeline.clone(),
        checked,
    })
}

fn refused(ruled: &Ruled, why: &str) -> ToolError {
    let name = ruled.checked.tool.name();
    ToolError::new(
        Code::ApprovalDenied,
        format!("`{name}` needs approval and {why}"),
    )
    .with_details(json!({ "reasons": ruled.evaluation.reasons() }))
}

/// The longest line of a tool's own words on a card, in characters, and how many risks it may name: a
/// person has to see the arguments beside them.
const LINE_MAX: usize = 500;
const RISKS_MAX: usize = 20;

/// A tool's own words as one short line that is safe to print.
fn line(words: &str) -> String {
    text::visible(text::prefix(words, LINE_MAX))
}

/// What the person sees. The tool's own words are bounded and made safe to print.
fn card(ruled: &Ruled) -> Card {
    let checked = &ruled.checked;
    let tool = &checked.tool;
    let assessment = ruled.assessment.as_ref();
    let summary = match assessment {
        Some(assessment) if !assessment.summary.is_empty() => line(&assessment.summary),
        _ => format!("call `{}`", tool.name()),
    };
    let grants = match tool.trust {
        Trust::Untrusted => tool.definition.needs.lines(),
        Trust::Trusted | Trust::Harmless => Vec::new(),
    };
    let arguments = serde_json::to_string_pretty(&checked.arguments).unwrap_or_default();
    Card {
        tool: tool.name().to_string(),
        source: tool.source,
        location: text::visible(&tool.origin.location),
        digest: tool.origin.digest.clone(),
        arguments: text::sanitize(arguments),
        summary,
        risk: assessment.map_or(tool.definition.risk, |a| a.risk.max(tool.definition.risk)),
        risks: assessment.map_or_else(Vec::new, |a| {
            a.risks
                .iter()
                .take(RISKS_MAX)
                .map(|risk| line(risk))
                .collect()
        }),
        grants: grants.iter().map(|line| text::visible(line)).collect(),
        reasons: ruled.evaluation.reasons().to_vec(),
    }
}
