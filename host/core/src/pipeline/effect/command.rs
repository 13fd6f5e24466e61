//! Checks the commands of a tool while its call runs, with the same stages as the call, and records them before they
//! run.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::audit::{CanaryDirection, EffectKind};
use crate::backend::ToolAssessment;
use crate::call::CallObserver;
use crate::call_monitor::LiveEffect;
use crate::command::{
    CommandOutput, CommandPattern, CommandProgram, CommandRequest, CommandRunner, CommandTarget,
    JobId, JobOwner, JobStatus, OutputChunk, ParsedProgram, display_line,
};
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::error::{ToolError, ToolErrorCode};
use crate::limits::Limits;
use crate::needs::{FileNeed, Needs};
use crate::paths::PathRules;
use crate::pipeline::StageContext;
use crate::pipeline::call_command::{CallCommand, ParsedText};
use crate::pipeline::decide::{Ruled, accepts_untrusted};
use crate::pipeline::session::{ContentSource, EgressPath};
use crate::pipeline::validate::Checked;
use crate::policy::{self, CommandCheck};
use crate::redact::AROUND;
use crate::tool::{RiskLevel, Tool};

use super::delayed_observer::DelayedObserver;
use super::judge::question_key;
use super::{
    CommandEgress, CommandQuestion, EffectGate, Inner, denied_error, finish_effect, leak,
    require_consent,
};

/// A command that passed every stage. Only the effect gate can create it.
#[derive(Debug)]
pub struct PermittedCommand {
    command: CommandRequest,
    owner: JobOwner,
    tool: Arc<Tool>,
    files: Vec<FileNeed>,
    paths: PathRules,
    limits: Limits,
    network: CommandEgress,
    ports: Vec<u16>,
    script: Arc<ParsedProgram>,
}

impl PermittedCommand {
    /// Returns the command to run.
    pub fn command(&self) -> &CommandRequest {
        &self.command
    }

    /// Returns the parsed program that the rules have evaluated.
    pub fn script(&self) -> &ParsedProgram {
        &self.script
    }

    /// Returns the session and plugin that own the command.
    pub fn owner(&self) -> &JobOwner {
        &self.owner
    }

    /// Returns the tool that runs the command.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the workspace directories that the tool was granted. The command can reach no other directories.
    pub fn files(&self) -> &[FileNeed] {
        &self.files
    }

    /// Returns the rules for workspace paths that the command may not reach or change.
    pub fn paths(&self) -> &PathRules {
        &self.paths
    }

    /// Returns the limits of the call, which also apply to the resources and the output of the command.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the gate for network requests of the command.
    pub fn network(&self) -> &CommandEgress {
        &self.network
    }

    /// Returns the ports that the call declares. If the command runs in the background, requests of the session may
    /// reach it at these ports.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns the time limit: the requested limit, capped by the limit of the call.
    pub fn timeout(&self) -> std::time::Duration {
        let limit = self.limits.wall;
        self.command
            .timeout
            .map_or(limit, |requested| requested.min(limit))
    }
}

/// Maximum number of programs or files of one command that the audit log names.
const NAMES_MAX: usize = 8;

impl EffectGate {
    /// Checks a command, asks a person if needed, and records the result. Fails if the command is denied or cannot be
    /// recorded.
    pub(crate) async fn permit_command(
        &self,
        command: CommandRequest,
    ) -> Result<PermittedCommand, ToolError> {
        // On the heap: the future contains a card and an answer, and few calls get here.
        let egress = CommandEgress::new(self);
        Box::pin(self.0.permit_command(command, egress, None)).await
    }

    /// Runs a command to its end, if it is allowed. Dropping the future kills the command.
    pub async fn run(&self, command: CommandRequest) -> Result<CommandOutput, ToolError> {
        let observer = Arc::clone(&self.0.observer);
        if self.0.is_own(&command) {
            return self.run_watched(command, observer).await;
        }
        // The tool itself reports the result of a helper command, which is shown only if it takes long.
        let clock = Arc::clone(&self.0.pipeline.0.ports.clock);
        let delayed = Arc::new(DelayedObserver::new(observer, clock));
        let running = self.run_watched(command, Arc::clone(&delayed) as Arc<dyn CallObserver>);
        delayed.show_while(running).await
    }

    /// Runs a command, and records the created or changed files that agents or build tools use automatically.
    async fn run_watched(
        &self,
        command: CommandRequest,
        observer: Arc<dyn CallObserver>,
    ) -> Result<CommandOutput, ToolError> {
        let permitted = self.permit_command(command).await?;
        let finished = self.0.runner().run(permitted, observer).await?;
        self.0
            .record_auto_run_files(&finished.changed_auto_run_files)?;
        Ok(finished)
    }

    /// Runs a command like [`Self::run`], but always shows its output to the observer. For a command that is the
    /// purpose of the call, although the arguments do not contain it.
    pub async fn run_shown(&self, command: CommandRequest) -> Result<CommandOutput, ToolError> {
        let observer = Arc::clone(&self.0.observer);
        self.run_watched(command, observer).await
    }

    /// Returns the name of the sandbox that a command would run in. Fails if no sandbox is available. See
    /// [`CommandRunner::sandbox_name`].
    pub async fn sandbox_name(
        &self,
        target: CommandTarget,
        program: &str,
    ) -> Result<&'static str, ToolError> {
        self.0.runner().sandbox_name(target, program).await
    }

    /// Records in the audit log the files that the call has created or changed and that agents or build tools use
    /// automatically.
    pub fn record_auto_run_files(&self, paths: &[String]) -> Result<(), ToolError> {
        self.0.record_auto_run_files(paths)
    }

    /// Starts a command that continues after the call has ended, if it is allowed.
    pub async fn start(&self, command: CommandRequest) -> Result<JobId, ToolError> {
        let permitted = self.permit_command(command).await?;
        self.0.runner().start(permitted).await
    }

    /// Returns the commands that tools of this plugin have started in this session.
    pub fn jobs(&self) -> Vec<JobStatus> {
        self.0.runner().jobs(&self.0.owner())
    }

    /// Returns the output of a started command from byte `begin` on. Secrets are masked as in the whole output, because
    /// the caller chooses `begin` and could otherwise split a secret.
    pub fn output(&self, job: JobId, begin: u64) -> Result<OutputChunk, ToolError> {
        self.0.taint_from_session();
        let (runner, owner) = (self.0.runner(), self.0.owner());
        let is_running = |status: &JobStatus| status.id == job && status.exit_code.is_none();
        let more = runner.jobs(&owner).iter().any(is_running);
        let context_begin = begin.saturating_sub(AROUND as u64);
        let chunk = runner.output(&owner, job, context_begin)?;
        let start = chunk.next - chunk.bytes.len() as u64;
        let from = usize::try_from(begin.saturating_sub(start)).unwrap_or(usize::MAX);
        let window = self.0.redactor.window(&chunk.bytes, from, more);
        Ok(OutputChunk {
            bytes: window.bytes,
            next: start + window.end as u64,
            omitted_bytes: start.saturating_sub(begin),
        })
    }

    /// Kills a started command.
    pub async fn stop(&self, job: JobId) -> Result<JobStatus, ToolError> {
        self.0.runner().stop(&self.0.owner(), job).await
    }
}

impl Inner {
    pub(super) fn runner(&self) -> &dyn CommandRunner {
        &*self.pipeline.0.ports.runner
    }

    /// Returns the command in the arguments of the call, with its parsed form, if `command` is that command.
    fn own_parsed_command(&self, command: &CommandRequest) -> Option<&CallCommand> {
        let own = self.own_command.as_deref();
        own.filter(|own| is_same(&own.request, command))
    }

    /// Returns true if `command` is the command in the arguments of the call.
    fn is_own(&self, command: &CommandRequest) -> bool {
        self.own_parsed_command(command).is_some()
    }

    /// Records created or changed files that agents or build tools use automatically.
    fn record_auto_run_files(&self, paths: &[String]) -> Result<(), ToolError> {
        if paths.is_empty() {
            return Ok(());
        }
        let more = match paths.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<&str> = paths.iter().take(NAMES_MAX).map(String::as_str).collect();
        let subject = format!(
            "changed {}{more}, which other programs load automatically",
            named.join(", ")
        );
        let recorder = self.effect_recorder(crate::text::visible(&subject), LiveEffect::File)?;
        finish_effect(recorder, Ok(()))
    }

    fn owner(&self) -> JobOwner {
        JobOwner {
            session: self.context.session_id.clone(),
            plugin: self.tool.origin.location.clone(),
        }
    }

    /// Checks a command. With a question, a person is asked it, whatever the rules allow.
    pub(super) async fn permit_command(
        &self,
        command: CommandRequest,
        egress: CommandEgress,
        question: Option<CommandQuestion>,
    ) -> Result<PermittedCommand, ToolError> {
        let snapshot = self.pipeline.snapshot();
        let stage = self.pipeline.stage_context(&snapshot);
        let runner = &stage.ports.runner;
        let parsed = match self.own_parsed_command(&command) {
            Some(own) => own.parsed(&**runner).clone(),
            None => runner.parse_program(&command.program).map(Arc::new),
        };
        let mut recorder = self.effect_recorder(subject(&parsed), LiveEffect::Command)?;
        recorder.describe_effect(|| EffectKind::Command);
        let steps = async {
            let (tool, rights) = self.current_rights(&snapshot)?;
            let script = parsed?;
            let checked = self.wrap_effect(tool, command_as_arguments(&command));
            leak::check_command(&self.redactor, checked.arguments())
                .map_err(|leak| recorder.report_leak(CanaryDirection::Command, leak))?;
            let patterns = granted_patterns(&script, checked.tool(), &rights)?;
            let evaluation = match &question {
                None => self.evaluate_command(&stage, &checked, (&command, &*script), &patterns),
                Some(question) => {
                    // The question covers the variables, which the host itself sets.
                    let judged = CommandRequest {
                        environment: Vec::new(),
                        ..command.clone()
                    };
                    let judged = (&judged, &*script);
                    let mut evaluation = self.evaluate_command(&stage, &checked, judged, &patterns);
                    question.add_reason(&mut evaluation);
                    evaluation
                }
            };
            recorder.record_decision(&evaluation, stage.sessions);
            if evaluation.decision() == Decision::Deny {
                let remedies = policy::remedies(&evaluation, checked.tool());
                return Err(denied_error(
                    "the command was not run",
                    &evaluation,
                    remedies,
                ));
            }
            check_execution(&stage, checked.tool(), &command).await?;
            let ruled = Ruled {
                assessment: Some(match question {
                    Some(question) => question.into_assessment(),
                    None => summarize_command(&command, &evaluation),
                }),
                evaluation,
                checked,
            };
            let subject = "a command of a running call";
            require_consent(&stage, &ruled, &mut recorder, subject).await?;
            Ok((Arc::clone(ruled.checked.tool()), rights, script))
        };
        let result = steps.await;
        let (tool, rights, script) = finish_effect(recorder, result)?;
        let ports = if self.is_own(&command) {
            ports(&self.arguments)
        } else {
            Vec::new()
        };
        Ok(PermittedCommand {
            ports,
            script,
            command,
            owner: self.owner(),
            tool,
            files: rights.files,
            paths: self.parent.paths.clone(),
            limits: self.limits,
            network: egress,
        })
    }

    /// Evaluates all rules for the command.
    fn evaluate_command(
        &self,
        stage: &StageContext<'_>,
        checked: &Checked,
        (command, script): (&CommandRequest, &ParsedProgram),
        granted: &[CommandPattern],
    ) -> PolicyEvaluation {
        let (policy, tool) = (&stage.snapshot.policy, checked.tool());
        let links = policy::LinkResolver::for_tool(tool);
        let mut evaluation = PolicyEvaluation::default();
        // Without any reason, the decision would be `ask`.
        evaluation.push(DecisionReason {
            layer: PolicyLayer::Commands,
            decision: Decision::Allow,
            rule: "needs.commands".to_owned(),
            source: String::new(),
            text: format!("`{}` was granted this command", tool.name()),
        });
        policy.evaluate_command(
            &CommandCheck {
                tool,
                script,
                directory: command.directory.as_deref(),
                environment: &command.environment,
                has_input: !command.stdin.is_empty(),
                granted,
                paths: checked.paths(),
                links: &links,
                runner: &*stage.ports.runner,
            },
            &mut evaluation,
        );
        policy.evaluate_command_arguments(tool, checked.arguments(), &mut evaluation);
        let session = stage.sessions.get(&checked.context().session_id);
        let accepts_untrusted_content = accepts_untrusted(policy, checked);
        let egress_path = if stage.ports.runner.confines_network() {
            EgressPath::None
        } else {
            EgressPath::Call(ContentSource::Other)
        };
        session.evaluate_taint(accepts_untrusted_content, &egress_path, &mut evaluation);
        // The command in the arguments was evaluated before the call ran, and so was the taint of the session: a person
        // is not asked about the same reason again.
        let is_own = self.is_own(command);
        evaluation.remove_answered(|reason| {
            let was_evaluated_before = is_own || reason.layer == PolicyLayer::Taint;
            was_evaluated_before && self.answered.iter().any(|key| *key == question_key(reason))
        });
        evaluation
    }
}

/// Program that every sandbox has.
const ANY_PROGRAM: &str = "sh";

/// Fails if the sandbox of commands does not enforce `tools.NAME.execution`.
async fn check_execution(
    stage: &StageContext<'_>,
    tool: &Tool,
    command: &CommandRequest,
) -> Result<(), ToolError> {
    let execution = stage.snapshot.policy.execution(tool);
    let runner = &stage.ports.runner;
    let refused = |why: String, remedy: &str| {
        let message = format!("the command was not run: {why}");
        let error = ToolError::new(ToolErrorCode::PolicyDenied, message);
        Err(error.with_remedies([remedy.to_owned()]))
    };
    if execution.network.is_some() && !runner.confines_network() {
        let why = format!(
            "`tools.{}.execution.network` denies the network, which the sandbox `none` cannot block",
            tool.name()
        );
        return refused(why, "set `sandbox: auto` in the settings");
    }
    let Some(required) = execution.sandbox else {
        return Ok(());
    };
    let sandbox = runner.sandbox_name(command.target, ANY_PROGRAM).await?;
    if required.is_met_by(sandbox) {
        return Ok(());
    }
    let why = format!(
        "`tools.{}.execution.sandbox` requires `{}`, but commands run in the sandbox `{sandbox}`",
        tool.name(),
        required.as_str()
    );
    refused(
        why,
        &format!("set `sandbox: {}` in the settings", required.as_str()),
    )
}

/// Returns the ports in the arguments of a call, which the card of the call has shown.
fn ports(arguments: &Value) -> Vec<u16> {
    let listed = arguments["ports"].as_array();
    let ports = listed.into_iter().flatten().filter_map(Value::as_u64);
    ports.filter_map(|port| u16::try_from(port).ok()).collect()
}

/// Returns true if `command` equals `own`, the command in the arguments of the call, except for timeout and target.
fn is_same(own: &CommandRequest, command: &CommandRequest) -> bool {
    own.program == command.program
        && own.directory == command.directory
        && own.environment == command.environment
        && own.stdin == command.stdin
}

/// Returns the granted patterns, or an error if they do not cover every command of the script. Returns no patterns for
/// the need `*`, which covers any command that the settings allow.
fn granted_patterns(
    script: &ParsedProgram,
    tool: &Tool,
    rights: &Needs,
) -> Result<Vec<CommandPattern>, ToolError> {
    let needs = || rights.commands.iter().map(|need| need.pattern.trim());
    if needs().any(|pattern| pattern == "*") {
        return Ok(Vec::new());
    }
    let patterns: Vec<_> = needs().flat_map(CommandPattern::parse).collect();
    let covered =
        |words: &[_]| words.is_empty() || patterns.iter().any(|pattern| pattern.matches(words));
    let uncovered = script
        .commands
        .iter()
        .find(|command| !covered(&command.words));
    let command = match (uncovered, script.unknown.first()) {
        (Some(uncovered), _) => format!("`{}`", display_line(uncovered)),
        (None, Some(unknown)) => {
            format!("a command whose effects are unknown ({unknown})")
        }
        (None, None) => return Ok(patterns),
    };
    let name = tool.name();
    let mut requested = tool.definition.needs.commands.iter();
    let is_requested = requested.any(|need| {
        let pattern = CommandPattern::parse(&need.pattern);
        pattern.is_ok_and(|pattern| {
            uncovered.is_some_and(|uncovered| pattern.matches(&uncovered.words))
        })
    });
    let remedy = if is_requested {
        let name = tool.trust_argument();
        format!("`mimir tools trust {name}` grants the needs of the plugin")
    } else {
        "the plugin must name a pattern for the command among its needs".to_owned()
    };
    let message = format!("`{name}` was not granted {command}");
    Err(ToolError::new(
        ToolErrorCode::PermissionDenied,
        crate::text::visible(&message),
    )
    .with_remedies([remedy]))
}

/// Names the programs of a command for the audit log, without parts that could contain data.
fn subject(parsed: &ParsedText) -> String {
    let Ok(script) = parsed else {
        return "run a command".to_owned();
    };
    let mut programs: Vec<&str> = Vec::new();
    for program in script
        .commands
        .iter()
        .filter_map(|command| command.program())
    {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    let more = if programs.len() > NAMES_MAX {
        ", …"
    } else {
        ""
    };
    programs.truncate(NAMES_MAX);
    crate::text::visible(&format!("run {}{more}", programs.join(", ")))
}

/// Returns the command as arguments, for rules about `command`, `args` and `workdir`, and for the card.
fn command_as_arguments(command: &CommandRequest) -> Value {
    let mut arguments = match &command.program {
        CommandProgram::Script(text) => json!({ "command": text }),
        CommandProgram::Vector(words) => json!({
            "command": words.first(),
            "args": words.get(1..).unwrap_or_default(),
        }),
    };
    if let Some(directory) = &command.directory {
        arguments["workdir"] = json!(directory);
    }
    if !command.environment.is_empty() {
        let variables = command.environment.iter();
        let variables = variables.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        arguments["env"] = Value::Object(variables.collect());
    }
    if !command.stdin.is_empty() {
        arguments["stdin"] = json!(String::from_utf8_lossy(&command.stdin));
    }
    arguments
}

/// Returns the assessment that the card shows.
fn summarize_command(command: &CommandRequest, evaluation: &PolicyEvaluation) -> ToolAssessment {
    ToolAssessment {
        approval: Decision::Ask,
        risk: if evaluation.is_dangerous() {
            RiskLevel::High
        } else {
            RiskLevel::Medium
        },
        summary: format!("run `{}`", command.program.text()),
        risks: Vec::new(),
        scope: None,
        each_time: false,
    }
}
