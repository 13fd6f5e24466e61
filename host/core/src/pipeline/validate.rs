//! First stage: the tool exists and the arguments match its schema.

use std::sync::Arc;

use serde_json::Value;

use crate::call::{Call, CallContext, Caller, Observer, Parent};
use crate::clock::Watch;
use crate::error::{Code, ToolError};
use crate::limits::Limits;
use crate::paths::PathRules;
use crate::policy;
use crate::redact::Redactor;
use crate::tool::Tool;

use super::Road;
use super::effect::leak;
use super::label::Floor;
use super::restore;
use super::trail::Trail;

/// A call whose tool exists and whose arguments match the schema.
pub struct Checked {
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Value,
    pub(super) context: CallContext,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) parent: Option<Parent>,
    pub(super) depth: u32,
    /// The tool that does only what this call does, where this one does several things.
    pub(super) same: Option<Arc<Tool>>,
    /// Whether it is something that a call does in its middle, such as a request, and no call of its own.
    pub(super) is_effect: bool,
    /// What its nested calls have brought in.
    pub(super) floor: Arc<Floor>,
    /// How long it has been under way.
    pub(super) watch: Watch,
    limits: Limits,
    paths: PathRules,
    /// Finds secrets in it.
    pub(super) redactor: Redactor,
}

impl Checked {
    /// The tool that is called.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// The arguments, a JSON object that matches the tool's schema.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Who calls.
    pub fn context(&self) -> &CallContext {
        &self.context
    }

    /// A request that a tool makes in the middle of its call: `parent` is that call.
    pub(super) fn of_request(
        tool: Arc<Tool>,
        arguments: Value,
        context: CallContext,
        observer: Arc<dyn Observer>,
        parent: Parent,
        limits: Limits,
        redactor: Redactor,
    ) -> Self {
        Self {
            tool,
            arguments,
            context,
            observer,
            depth: parent.depth + 1,
            same: None,
            is_effect: true,
            floor: Arc::clone(&parent.floor),
            watch: parent.watch.clone(),
            limits,
            paths: parent.paths.clone(),
            redactor,
            parent: Some(parent),
        }
    }

    /// The same call with other arguments, as it would have come in.
    pub(super) fn with(self, arguments: Value) -> Call {
        Call {
            tool: self.tool.name().to_string(),
            arguments,
            context: self.context,
            observer: self.observer,
            parent: self.parent,
        }
    }

    /// The tools in the middle of whose calls it is made, the outermost first.
    pub(super) fn callers(&self) -> &[Caller] {
        self.parent
            .as_ref()
            .map_or(&[], |parent| parent.callers.as_slice())
    }

    /// The bounds of this call.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The paths below the workspace that this call may not reach or change.
    pub fn paths(&self) -> &PathRules {
        &self.paths
    }
}

pub(super) fn validate(
    road: &Road<'_>,
    mut call: Call,
    trail: &mut Trail,
) -> Result<Box<Checked>, ToolError> {
    let world = road.world;
    let depth = call.depth();
    let tool = policy::called(&world.registry, &call.tool, &mut call.arguments)?;
    let same = policy::same_as(&tool, &call.arguments);
    let same = same.and_then(|name| world.registry.get(name).cloned());
    let logs = world.policy.logs_arguments(&tool, same.as_deref());
    trail.found(&tool, same.clone(), logs, &call.arguments);
    let redactor = world.policy.redactor(&tool, &trail.redactor());
    if depth >= Limits::CALL_DEPTH {
        return Err(ToolError::new(
            Code::LimitExceeded,
            format!(
                "tools call each other {depth} deep, which is the most; call `{}` directly",
                tool.name()
            ),
        ));
    }
    if !call.arguments.is_object() {
        return Err(ToolError::new(
            Code::InvalidInput,
            "the arguments are not a JSON object",
        ));
    }
    tool.definition
        .input_schema
        .validate("the arguments", &call.arguments)?;
    let granted = world.policy.secrets_of(&tool);
    leak::check_arguments(&redactor, granted, &tool, &call.arguments)?;
    let forms = (&*tool, same.as_deref());
    restore::check_arguments(road, forms, &call.context, &call.arguments)?;
    let mut paths = world.policy.paths(&tool);
    let mut limits = world.policy.limits(&tool);
    if let Some(same) = &same {
        paths = paths.within(&world.policy.paths(same));
        limits = limits.tightest(world.policy.limits(same));
    }
    // On the heap: it goes through every stage.
    Ok(Box::new(Checked {
        limits,
        same,
        // What the calling tool may not reach, it may not reach through another one either.
        paths: match &call.parent {
            Some(parent) => paths.within(&parent.paths),
            None => paths,
        },
        tool,
        arguments: call.arguments,
        context: call.context,
        observer: trail.watch(call.observer, redactor.clone()),
        redactor,
        is_effect: false,
        parent: call.parent,
        depth,
        floor: trail.floor(),
        watch: trail.watch_of_call(),
    }))
}
