//! First stage: checks that the tool exists and that the arguments match its schema.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::audit::CanaryDirection;
use crate::call::{Call, CallContext, CallObserver, CallingTool, ParentCall, SessionSharing};
use crate::clock::Stopwatch;
use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::paths::PathRules;
use crate::policy;
use crate::redact::Redactor;
use crate::tool::Tool;

use super::StageContext;
use super::call_command::CallCommand;
use super::call_recorder::CallRecorder;
use super::effect::leak;
use super::label::TaintFloor;
use super::restore;

/// A call whose tool exists and whose arguments match the schema.
#[derive(Clone)]
pub struct Checked {
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Arc<Value>,
    pub(super) context: CallContext,
    pub(super) observer: Arc<dyn CallObserver>,
    pub(super) parent: Option<ParentCall>,
    /// Id of the user on whose behalf the call is made.
    pub(super) caller: Option<Arc<str>>,
    pub(super) depth: u32,
    /// The fine-grained tool with the same effect, if the call uses the compact form.
    pub(super) equivalent_tool: Option<Arc<Tool>>,
    /// True for an effect of a running call, such as a request.
    pub(super) is_effect: bool,
    /// The taint floor of the call, which nested calls raise.
    pub(super) taint_floor: Arc<TaintFloor>,
    /// The stopwatch of the call.
    pub(super) stopwatch: Stopwatch,
    limits: Limits,
    paths: PathRules,
    /// The redactor for everything that the call returns, with the tool's exceptions.
    pub(super) redactor: Redactor,
    /// The command in the arguments, computed at first use.
    command: OnceLock<Option<Arc<CallCommand>>>,
}

impl Checked {
    /// Returns the called tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the tool whose rules and settings apply to the call. A tool that is only reached through another one has
    /// none of its own.
    pub(super) fn judged_tool(&self) -> &Arc<Tool> {
        match &self.equivalent_tool {
            Some(equivalent) if policy::is_inner_form(&self.tool) => equivalent,
            _ => &self.tool,
        }
    }

    /// Returns the arguments, a JSON object that matches the tool's schema.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Returns the caller.
    pub fn context(&self) -> &CallContext {
        &self.context
    }

    /// Returns the command in the arguments, if there is one.
    pub(super) fn command(&self) -> Option<&Arc<CallCommand>> {
        let find = || CallCommand::from_arguments(&self.tool, &self.arguments);
        self.command.get_or_init(find).as_ref()
    }

    /// Creates the checked form of an effect, such as a request, of the running call `parent`.
    pub(super) fn for_effect(
        tool: Arc<Tool>,
        arguments: Value,
        context: CallContext,
        observer: Arc<dyn CallObserver>,
        parent: ParentCall,
        limits: Limits,
        redactor: Redactor,
    ) -> Self {
        Self {
            tool,
            arguments: Arc::new(arguments),
            context,
            observer,
            depth: parent.depth + 1,
            equivalent_tool: None,
            is_effect: true,
            taint_floor: Arc::clone(&parent.taint_floor),
            stopwatch: parent.stopwatch.clone(),
            limits,
            paths: parent.paths.clone(),
            redactor,
            caller: parent.caller.clone(),
            parent: Some(parent),
            command: OnceLock::new(),
        }
    }

    /// Converts the checked call back to a call, with new arguments.
    pub(super) fn with_arguments(self, arguments: Value) -> Call {
        Call {
            tool: self.tool.name().to_string(),
            arguments,
            context: self.context,
            observer: self.observer,
            parent: self.parent,
            caller: self.caller,
            // The session is marked already.
            sharing: SessionSharing::OneClient,
        }
    }

    /// Returns the calling tools, the outermost first. Empty for a top-level call.
    pub(super) fn callers(&self) -> &[CallingTool] {
        self.parent
            .as_ref()
            .map_or(&[], |parent| parent.callers.as_slice())
    }

    /// Returns the limits of this call.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the rules for workspace paths that the call may not reach or change.
    pub fn paths(&self) -> &PathRules {
        &self.paths
    }
}

/// Finds the called tool and checks the arguments. Fails if they do not match the schema, contain a secret that the
/// tool was not granted, or would overwrite a secret with its mask.
pub(super) fn validate(
    stage: &StageContext<'_>,
    mut call: Call,
    recorder: &mut CallRecorder,
) -> Result<Box<Checked>, ToolError> {
    let snapshot = stage.snapshot;
    let depth = call.depth();
    let root = stage.ports.runner.root();
    let tool =
        policy::resolve_called_tool(&snapshot.registry, &call.tool, root, &mut call.arguments)?;
    let equivalent = policy::equivalent_tool_name(&tool, &call.arguments);
    let equivalent = equivalent.and_then(|name| snapshot.registry.get(name).cloned());
    let logs_arguments = snapshot.policy.logs_arguments(&tool, equivalent.as_deref());
    recorder.set_tool(&tool, equivalent.clone(), logs_arguments, &call.arguments);
    let redactor = snapshot.policy.redactor(&tool, &recorder.redactor());
    if depth >= Limits::CALL_DEPTH {
        return Err(ToolError::new(
            ToolErrorCode::LimitExceeded,
            format!(
                "nested calls are limited to a depth of {depth}; call `{}` directly",
                tool.name()
            ),
        ));
    }
    if !call.arguments.is_object() {
        return Err(ToolError::new(
            ToolErrorCode::InvalidInput,
            "the arguments are not a JSON object",
        ));
    }
    tool.definition
        .input_schema
        .validate("the arguments", &call.arguments)?;
    let granted = snapshot.policy.secrets_of(&tool);
    leak::check_arguments(&redactor, granted, &tool, &call.arguments)
        .map_err(|leak| recorder.report_leak(CanaryDirection::Arguments, leak))?;
    let forms = (&*tool, equivalent.as_deref());
    let command = OnceLock::new();
    restore::check_arguments(stage, forms, &call.context, (&call.arguments, &command))?;
    let mut paths = snapshot.policy.paths(&tool);
    let mut limits = snapshot.policy.limits(&tool);
    let effects = policy::patch_effects(&tool, &call.arguments);
    let effect_tools = effects
        .iter()
        .filter_map(|effect| snapshot.registry.get(effect.tool));
    for equivalent in equivalent.iter().chain(effect_tools) {
        paths = paths.combined_with(&snapshot.policy.paths(equivalent));
        limits = limits.tightest(snapshot.policy.limits(equivalent));
    }
    // On the heap: the value moves through every stage.
    Ok(Box::new(Checked {
        limits,
        equivalent_tool: equivalent,
        // The path rules of the calling tool also apply to the tools that it calls.
        paths: match &call.parent {
            Some(parent) => paths.combined_with(&parent.paths),
            None => paths,
        },
        tool,
        arguments: Arc::new(call.arguments),
        observer: recorder.mask_observer(call.observer, redactor.clone(), &call.context.request_id),
        context: call.context,
        redactor,
        is_effect: false,
        caller: call.caller.or_else(|| call.parent.as_ref()?.caller.clone()),
        parent: call.parent,
        depth,
        taint_floor: recorder.taint_floor(),
        stopwatch: recorder.stopwatch(),
        command,
    }))
}
