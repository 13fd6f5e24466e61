//! Third stage: asks a person if a rule requires it, and determines the rights of the call.

use std::any::Any;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use crate::approval::{ApprovalAnswer, timestamp};
use crate::call::{Call, CallContext, CallObserver, CallingTool, ParentCall, SessionSharing};
use crate::call_monitor::{CallCancelled, until_cancelled};
use crate::clock::{Clock, Deadline};
use crate::decision::Decision;
use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::needs::Needs;
use crate::outcome::{ContentLabel, DataClass, Outcome, TrustLevel};
use crate::paths::PathRules;
use crate::policy;
use crate::redact::Redactor;
use crate::skill_grant::SkillGrant;
use crate::text;
use crate::tool::{Tool, ToolName};

use super::call_command::CallCommand;
use super::call_recorder::CallRecorder;
use super::decide::Ruled;
use super::effect::question_key;
use super::label::TaintFloor;
use super::session::PipelineSession;
use super::validate::Checked;
use super::{Pipeline, StageContext};

mod card;
mod remembered_answer;
mod store_answer;
mod used_approval;

pub(super) use remembered_answer::{RememberedAnswer, find_remembered_answer};
pub(super) use used_approval::UsedApproval;

/// A call that may run, with its rights. Only this stage creates the type, and backends accept nothing else.
pub struct Approved {
    pub(super) checked: Box<Checked>,
    rights: Needs,
    deadline: Deadline,
    pipeline: Pipeline,
    /// The keys of the `ask` reasons that were approved before the run.
    answered: Vec<String>,
    variables: Vec<(String, String)>,
    redactor: Redactor,
    /// True if a person was asked while the outermost call ran.
    asked: Arc<AtomicBool>,
    /// State of the backend, which all attempts of the call share.
    attempt_state: Arc<OnceLock<Arc<dyn Any + Send + Sync>>>,
}

impl Approved {
    /// Returns the called tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.checked.tool
    }

    /// Returns the arguments, a JSON object that matches the tool's schema.
    pub fn arguments(&self) -> &Value {
        &self.checked.arguments
    }

    /// Returns the caller.
    pub fn context(&self) -> &CallContext {
        &self.checked.context
    }

    /// Returns the id of the user on whose behalf the call is made, if the users of the front end have logged in.
    pub fn caller(&self) -> Option<&str> {
        self.checked.caller.as_deref()
    }

    /// Returns the observer of the call.
    pub fn observer(&self) -> &Arc<dyn CallObserver> {
        &self.checked.observer
    }

    /// Returns the limits of this call.
    pub fn limits(&self) -> &Limits {
        self.checked.limits()
    }

    /// Returns the rights of the call: the granted part of the tool's needs, or for an untrusted tool, the needs that
    /// this call's approval gives it.
    pub fn rights(&self) -> &Needs {
        &self.rights
    }

    /// Returns the variables that the tool may read, as pairs of name and value.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Returns the rules for workspace paths that the call may not reach or change.
    pub fn paths(&self) -> &PathRules {
        self.checked.paths()
    }

    /// Returns the clock of the pipeline.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.pipeline.0.ports.clock
    }

    /// Returns the deadline of the call.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// Returns the callers of a call nested in this one: the callers of this call, then its tool.
    fn nested_callers(&self) -> Vec<CallingTool> {
        let outer = self.checked.callers().iter().cloned();
        outer
            .chain([CallingTool::from_tool(&self.checked.tool)])
            .collect()
    }

    /// Returns the pipeline of the call.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Returns the keys of the `ask` reasons that were approved before the run.
    pub(super) fn answered(&self) -> &[String] {
        &self.answered
    }

    /// Returns the redactor of everything that the call returns.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Replaces the redactor of everything that the call returns.
    pub(super) fn mask_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Returns the session of the call.
    pub(super) fn session(&self) -> Arc<PipelineSession> {
        let sessions = &self.pipeline.0.sessions;
        sessions.get(&self.checked.context.session_id)
    }

    /// Returns the taint floor: the worst label of the content that the call has read so far.
    pub(super) fn taint_floor(&self) -> Arc<TaintFloor> {
        Arc::clone(&self.checked.taint_floor)
    }

    /// Describes this call as the parent of nested calls and effects.
    pub fn parent(&self) -> ParentCall {
        ParentCall {
            tool: self.checked.tool.name().clone(),
            callers: self.nested_callers(),
            depth: self.checked.depth,
            deadline: self.deadline.clone(),
            stopwatch: self.checked.stopwatch.clone(),
            paths: self.paths().clone(),
            taint_floor: self.taint_floor(),
            asked: Arc::clone(&self.asked),
            caller: self.checked.caller.clone(),
            user: self.checked.context.user.clone(),
            request_id: self.checked.context.request_id.clone(),
        }
    }

    /// Applies the permissions of a skill to later calls of the session, until the session ends. Has no effect inside a
    /// call of another tool: workers and code cannot change what the session may do.
    pub fn activate_skill(&self, grant: SkillGrant) {
        if self.checked.callers().is_empty() {
            self.session().activate_skill(grant);
        }
    }

    /// Reports changed files of the workspace to consoles. `has_undo` is true if the changes can be undone with the id of
    /// the call.
    pub fn report_changed_files(&self, paths: &[String], has_undo: bool) {
        let running = &self.pipeline.0.running;
        running.report_changed_files(&self.context().request_id, has_undo, paths, |path| {
            let mut path = path.to_owned();
            self.redactor.mask_text(&mut path);
            path
        });
    }

    /// Labels everything that the call returns as untrusted.
    pub fn mark_untrusted(&self) {
        self.checked.taint_floor.add_label(&ContentLabel {
            trust: TrustLevel::Untrusted,
            data_class: DataClass::Public,
            origin: String::new(),
        });
    }

    /// Returns the same call for another attempt. The approval of the call covers all of its attempts.
    pub(super) fn for_next_attempt(&self) -> Self {
        Self {
            checked: self.checked.clone(),
            rights: self.rights.clone(),
            deadline: self.deadline.clone(),
            pipeline: self.pipeline.clone(),
            answered: self.answered.clone(),
            variables: self.variables.clone(),
            redactor: self.redactor.clone(),
            asked: Arc::clone(&self.asked),
            attempt_state: Arc::clone(&self.attempt_state),
        }
    }

    /// Returns the state that the backend has of this call, for all of its attempts. The first use creates it; its type
    /// decides the type of the state.
    pub fn attempt_state<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let state = self.attempt_state.get_or_init(|| Arc::<T>::default());
        Arc::clone(state).downcast().unwrap_or_default()
    }

    /// Returns true if a person was asked about an effect or a nested call while the call ran.
    pub(super) fn has_asked_person(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the command in the arguments, if there is one.
    pub(super) fn own_command(&self) -> Option<&Arc<CallCommand>> {
        self.checked.command()
    }

    /// Returns access to the granted tools from inside this call. Nested calls pass the same stages.
    pub fn nested(&self) -> NestedCaller {
        self.nested_caller_for(CallableTools::Granted(self.rights.tools.clone()))
    }

    /// Returns access to the tools that this call may call. `None` if there are none. A tool may call the tools that it
    /// was granted. Code written by a model may call all tools that the model may call, or, if the call names tools,
    /// only those.
    pub fn granted_nested_caller(&self) -> Option<NestedCaller> {
        if self.checked.tool.runs_code() {
            let named = named_tools(self.arguments());
            return Some(
                self.nested_caller_for(named.map_or(CallableTools::Any, CallableTools::Named)),
            );
        }
        (!self.rights.tools.is_empty()).then(|| self.nested())
    }

    fn nested_caller_for(&self, allowed: CallableTools) -> NestedCaller {
        NestedCaller {
            pipeline: self.pipeline.clone(),
            parent: self.parent(),
            allowed,
            context: self.checked.context.clone(),
            observer: Arc::clone(&self.checked.observer),
        }
    }
}

/// Returns the names in the argument `tools` of `run_code`, if present.
fn named_tools(arguments: &Value) -> Option<Vec<String>> {
    let names = arguments.get("tools")?.as_array()?.iter();
    Some(names.filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The tools that a running call may call.
enum CallableTools {
    /// All tools that the caller may call.
    Any,
    /// The tools that the arguments of the call name.
    Named(Vec<String>),
    /// The tools that were granted to the calling tool.
    Granted(Vec<String>),
}

impl CallableTools {
    /// Fails if `caller` may not call `target`.
    fn check(&self, target: &Tool, caller: &ToolName) -> Result<(), ToolError> {
        let names_target = |names: &[String]| names.iter().any(|name| target.answers_to(name));
        let message = match self {
            Self::Any => return Ok(()),
            Self::Named(names) | Self::Granted(names) if names_target(names) => return Ok(()),
            Self::Named(_) => format!(
                "the code may not call `{0}`; add `{0}` to `tools` of this call of `{caller}`, or leave `tools` out",
                target.name()
            ),
            Self::Granted(_) => format!(
                "`{caller}` was not granted calls of `{}`; its manifest must name the tool among its needs",
                target.name()
            ),
        };
        Err(ToolError::new(ToolErrorCode::PermissionDenied, message))
    }
}

/// Calls other tools from inside a running call.
pub struct NestedCaller {
    pipeline: Pipeline,
    parent: ParentCall,
    allowed: CallableTools,
    context: CallContext,
    observer: Arc<dyn CallObserver>,
}

impl NestedCaller {
    /// Calls `tool`. Fails if the tool does not exist or the running call may not call it.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Outcome, ToolError> {
        let snapshot = self.pipeline.snapshot();
        let target = snapshot.registry.find(tool)?;
        self.allowed.check(target, &self.parent.tool)?;
        let mut context = self.context.clone();
        context.request_id = crate::call::RequestId::new(self.pipeline.0.ports.clock.now());
        // On the heap: the future of a call contains the futures of its nested calls.
        let outcome = Box::pin(self.pipeline.call(Call {
            tool: tool.to_owned(),
            arguments,
            context,
            observer: Arc::clone(&self.observer),
            parent: Some(self.parent.clone()),
            caller: self.parent.caller.clone(),
            // The session of the outermost call is marked.
            sharing: SessionSharing::OneClient,
        }));
        let outcome = outcome.await;
        self.parent.taint_floor.add_outcome(&outcome);
        Ok(outcome)
    }
}

/// Interval at which the observer of a call is told that the call waits for a person. Less than the time limits of clients,
/// which begin at some ten seconds.
const WAITING_INTERVAL: Duration = Duration::from_secs(3);

/// Maximum length of a person's reason in the error for the model, in characters.
const REASON_MAX: usize = 300;

/// The next step of a call after this stage.
pub(super) enum ApproveStep {
    /// Run the tool.
    Run(Box<Approved>),
    /// Start over with the arguments that a person edited.
    Edited(Box<Call>),
}

/// Asks a person if a rule requires it. Fails if the call was not approved.
pub(super) async fn approve(
    stage: &StageContext<'_>,
    ruled: Ruled,
    recorder: &mut CallRecorder,
) -> Result<ApproveStep, ToolError> {
    if ruled.evaluation.decision() == Decision::Ask {
        ruled.checked.tool.backend.check_available()?;
        // On the heap: most calls are not asked about, and should not reserve stack space for it.
        if let Some(arguments) = Box::pin(ask(stage, &ruled, recorder)).await? {
            recorder.record_edit(&arguments);
            return Ok(ApproveStep::Edited(Box::new(
                ruled.checked.with_arguments(arguments),
            )));
        }
    }
    let Ruled {
        checked,
        evaluation,
        ..
    } = ruled;
    let ports = stage.ports;
    let outer = checked
        .parent
        .as_ref()
        .map(|parent| parent.deadline.clone());
    let rights = checked.tool.rights().for_approved_call();
    Ok(ApproveStep::Run(Box::new(Approved {
        deadline: Deadline::new(Arc::clone(&ports.clock), checked.limits().wall, outer),
        variables: match rights.variables.as_slice() {
            [] => Vec::new(),
            names => stage.snapshot.policy.variables(names),
        },
        rights,
        pipeline: stage.pipeline.clone(),
        redactor: recorder.redactor(),
        answered: evaluation.asking().map(question_key).collect(),
        asked: checked
            .parent
            .as_ref()
            .map(|parent| Arc::clone(&parent.asked))
            .unwrap_or_default(),
        attempt_state: Arc::default(),
        checked,
    })))
}

/// Asks a person, unless a stored approval covers the call. Returns the new arguments if the person edited them. Fails
/// if the call was not approved.
pub(super) async fn ask(
    stage: &StageContext<'_>,
    ruled: &Ruled,
    recorder: &mut CallRecorder,
) -> Result<Option<Value>, ToolError> {
    let Ruled {
        checked,
        evaluation,
        ..
    } = ruled;
    let ports = stage.ports;
    let session = &checked.context.session_id;
    if let Some(remembered) = find_remembered_answer(stage, checked, evaluation) {
        record_remembered_answer(stage, session, remembered, recorder);
        return Ok(None);
    }
    let plugin = stage.snapshot.registry.plugin(&checked.tool);
    let card = card::build_card(stage, ruled, &plugin);
    // Waiting for a person counts neither as run time of this call nor of its callers.
    let parent = checked.parent.as_ref();
    if let Some(parent) = parent {
        parent.asked.store(true, Ordering::Relaxed);
    }
    let paused = (
        checked.stopwatch.pause(),
        parent.map(|parent| parent.deadline.pause()),
    );
    let asked_at = ports.clock.instant();
    let queue = &stage.pipeline.0.approval_queue;
    let approver = checked.observer.approver().unwrap_or(&*ports.approver);
    let effect_tool = checked.equivalent_tool.as_ref().unwrap_or(&checked.tool);
    let may_run_again = effect_tool.may_run_again();
    let wait = pin!(async {
        loop {
            // An answer to another card may cover this call by now.
            let find_answer = || find_remembered_answer(stage, checked, evaluation);
            let is_covered = || find_answer().is_some();
            let answer = queue.ask(approver, session, &card, may_run_again, is_covered);
            if let Some(answered) = answer.await {
                break Ok(answered);
            }
            if let Some(remembered) = find_answer() {
                break Err(remembered);
            }
        }
    });
    let clock = &*ports.clock;
    let wait = pin!(report_waiting(
        &*checked.observer,
        clock,
        &checked.tool,
        wait
    ));
    // An effect waits within the run of its call, which ends with it if the call is cancelled.
    let running = (!checked.is_effect).then(|| recorder.register(&checked.arguments));
    let running = running.flatten();
    let waiting = stage
        .pipeline
        .0
        .running
        .mark_waiting(&checked.context.request_id);
    let answered = match until_cancelled(|| running.clone(), wait).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(remembered)) => {
            record_remembered_answer(stage, session, remembered, recorder);
            return Ok(None);
        }
        Err(CallCancelled) => return Err(recorder.cancelled_error()),
    };
    drop(waiting);
    let answer = match answered.answer.clone() {
        // The card did not offer these answers.
        ApprovalAnswer::Session if !card.offers_session() => ApprovalAnswer::Once,
        ApprovalAnswer::Always | ApprovalAnswer::AlwaysCommands(_) if card.always.is_none() => {
            ApprovalAnswer::Once
        }
        answer => answer,
    };
    recorder.record_answer(&answer, ports.clock.instant() - asked_at, || {
        ports.clock.now()
    });
    drop(paused);
    match answer {
        ApprovalAnswer::Once => Ok(None),
        ApprovalAnswer::InAdvance if card.changes.is_empty() => Ok(None),
        ApprovalAnswer::InAdvance => Err(refused_error(
            ruled,
            "a person must see the changes of its plugin since the grant first",
        )),
        ApprovalAnswer::Session | ApprovalAnswer::Always | ApprovalAnswer::AlwaysCommands(_) => {
            let stored = store_answer::store_answer(stage, ruled, &plugin, &answer, recorder)?;
            recorder.use_approvals(stored);
            if answer == ApprovalAnswer::Session {
                stage.share_answer(session).await;
            }
            Ok(None)
        }
        ApprovalAnswer::Edit(arguments) => {
            store_answer::record_edit(stage, ruled, recorder)?;
            Ok(Some(arguments))
        }
        ApprovalAnswer::No => Err(refused_error(ruled, "a person said no")),
        ApprovalAnswer::NoBecause(reason) => {
            let reason = text::visible(text::prefix(reason.trim(), REASON_MAX));
            let why = format!("a person said no, for this reason: {reason}");
            Err(refused_error(ruled, &why))
        }
        ApprovalAnswer::Unattended { remedy } => Err(unanswered_error(
            ruled,
            "no person was available to give it",
            remedy,
        )),
        ApprovalAnswer::Expired { timeout } => {
            let time = shown_timeout(timeout);
            let why = format!("no person answered the question within {time}");
            let remedy = format!(
                "No answer within {time} (approvals.timeoutMs): call the tool again when a person can answer."
            );
            Err(unanswered_error(ruled, &why, remedy))
        }
    }
}

/// Creates the error of a call whose question no person has answered. `remedy` tells the person how to answer.
fn unanswered_error(ruled: &Ruled, why: &str, remedy: String) -> ToolError {
    let mut error = refused_error(ruled, why);
    let remedies = policy::remedies_besides_approval(&ruled.evaluation, &ruled.checked.tool);
    error.remedies = std::iter::once(remedy).chain(remedies).collect();
    error
}

/// Returns a time limit for display, such as `10 minutes`.
fn shown_timeout(timeout: Duration) -> String {
    let seconds = timeout.as_secs();
    match seconds / 60 {
        minutes @ 2.. if timeout == Duration::from_secs(minutes * 60) => {
            format!("{minutes} minutes")
        }
        _ => format!("{} s", timeout.as_secs_f64()),
    }
}

/// Waits for an answer, and tells the observer of the call at intervals that it still waits.
async fn report_waiting<F: Future>(
    observer: &dyn CallObserver,
    clock: &dyn Clock,
    tool: &Tool,
    mut wait: Pin<&mut F>,
) -> F::Output {
    let mut next = clock.instant();
    loop {
        next += WAITING_INTERVAL;
        tokio::select! {
            biased;
            answer = &mut wait => return answer,
            () = clock.sleep_until(next) => observer.waiting(tool.name().as_str()),
        }
    }
}

/// Records that a stored approval covers the call.
fn record_remembered_answer(
    stage: &StageContext<'_>,
    session: &str,
    answer: RememberedAnswer,
    recorder: &mut CallRecorder,
) {
    match answer {
        RememberedAnswer::Session(approval) => {
            recorder.use_approvals(UsedApproval::for_session(stage, session, &approval.id));
            recorder.record_remembered_answer("session lease");
        }
        RememberedAnswer::Permanent(approvals) => {
            let ports = stage.ports;
            for approval in approvals {
                recorder.use_approvals([UsedApproval::permanent(&approval.id)]);
                ports
                    .approval_store
                    .record_use(&approval.id, timestamp(ports.clock.now()));
            }
            recorder.record_remembered_answer("lease");
        }
        RememberedAnswer::Skill => recorder.record_remembered_answer("skill"),
    }
}

fn refused_error(ruled: &Ruled, why: &str) -> ToolError {
    let tool = &ruled.checked.tool;
    ToolError::new(
        ToolErrorCode::ApprovalDenied,
        format!("`{}` needs approval, and {why}", tool.name()),
    )
    .with_details(ruled.evaluation.without_untrusted_text().error_details())
    .with_remedies(policy::remedies(&ruled.evaluation, tool))
}
