//! Judges the commands of a tool while its call runs, by the same stages as the call, and records them before they
//! run.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::backend::ToolAssessment;
use crate::call::{CallObserver, NoObserver};
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

use super::judge::question_key;
use super::{CommandEgress, EffectGate, Inner, denied, finish_effect, leak, require_consent};

/// A command that passed every stage. Only the effect gate creates one.
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

    /// Returns the parsed program, as it was judged.
    pub fn script(&self) -> &ParsedProgram {
        &self.script
    }

    /// Returns the session and plugin that own the command.
    pub fn owner(&self) -> &JobOwner {
        &self.owner
    }

    /// Returns the tool that runs it.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the directories below the workspace that the tool was granted: a command reaches no others.
    pub fn files(&self) -> &[FileNeed] {
        &self.files
    }

    /// Returns the rules for the paths below the workspace that it may not reach or change.
    pub fn paths(&self) -> &PathRules {
        &self.paths
    }

    /// Returns the limits of its call, which hold for its resources and its output.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the judge of its requests, if it has access to the network.
    pub fn network(&self) -> &CommandEgress {
        &self.network
    }

    /// Returns the ports that the call declares: requests of the session may reach the command there if it runs in the
    /// background.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns the time limit: the requested one, within the limit of the call.
    pub fn timeout(&self) -> std::time::Duration {
        let limit = self.limits.wall;
        self.command
            .timeout
            .map_or(limit, |requested| requested.min(limit))
    }
}

/// Maximum number of programs of one command that the record names.
const NAMES_MAX: usize = 8;

impl EffectGate {
    /// Judges a command, asks a person if needed, and records the result. A command that cannot be recorded does not
    /// run.
    pub(crate) async fn permit_command(
        &self,
        command: CommandRequest,
    ) -> Result<PermittedCommand, ToolError> {
        // On the heap: it holds a card and an answer, and few calls get here.
        let egress = CommandEgress::new(self);
        Box::pin(self.0.permit_command(command, egress)).await
    }

    /// Runs a command to its end, if it is allowed. Dropping the future kills it.
    pub async fn run(&self, command: CommandRequest) -> Result<CommandOutput, ToolError> {
        // The output of a helper command is not shown: the tool itself reports its result.
        let observer: Arc<dyn CallObserver> = match self.0.is_own(&command) {
            true => Arc::clone(&self.0.observer),
            false => Arc::new(NoObserver),
        };
        self.run_watched(command, observer).await
    }

    /// Runs a command, and records the files that it made or changed and that other programs obey.
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

    /// Runs a command that the arguments of the call do not name, but that the call is about: its output is shown to
    /// the observer.
    pub async fn run_shown(&self, command: CommandRequest) -> Result<CommandOutput, ToolError> {
        let observer = Arc::clone(&self.0.observer);
        self.run_watched(command, observer).await
    }

    /// Returns the name of the sandbox that a command would run in, or an error if there is no sandbox. See
    /// [`CommandRunner::sandbox_name`].
    pub async fn sandbox_name(
        &self,
        target: CommandTarget,
        program: &str,
    ) -> Result<&'static str, ToolError> {
        self.0.runner().sandbox_name(target, program).await
    }

    /// Records in the audit log the files that the call itself made or changed and that agents or build tools obey.
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

    /// Returns the output of a started command from byte `begin` on. Secrets are masked as in the whole output: the
    /// caller chooses where a chunk begins, and could otherwise split a secret.
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
    fn runner(&self) -> &dyn CommandRunner {
        &*self.pipeline.0.ports.runner
    }

    /// Returns the parsed command of the call itself, if `command` is that command.
    fn own_parsed_command(&self, command: &CommandRequest) -> Option<&CallCommand> {
        let own = self.own_command.as_deref();
        own.filter(|own| is_same(&own.request, command))
    }

    /// Returns true if the arguments of the call name this command.
    fn is_own(&self, command: &CommandRequest) -> bool {
        self.own_parsed_command(command).is_some()
    }

    /// Records files that a command made or changed and that agents or build tools obey by themselves.
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
            "changed {}{more}, which other programs obey",
            named.join(", ")
        );
        let recorder = self.effect_recorder(crate::text::visible(&subject))?;
        finish_effect(recorder, Ok(()))
    }

    fn owner(&self) -> JobOwner {
        JobOwner {
            session: self.context.session_id.clone(),
            plugin: self.tool.origin.location.clone(),
        }
    }

    async fn permit_command(
        &self,
        command: CommandRequest,
        egress: CommandEgress,
    ) -> Result<PermittedCommand, ToolError> {
        let snapshot = self.pipeline.snapshot();
        let stage = self.pipeline.stage_context(&snapshot);
        let runner = &stage.ports.runner;
        let parsed = match self.own_parsed_command(&command) {
            Some(own) => own.parsed(&**runner).clone(),
            None => runner.parse_program(&command.program).map(Arc::new),
        };
        let mut recorder = self.effect_recorder(subject(&parsed))?;
        let steps = async {
            let (tool, rights) = self.current_rights(&snapshot)?;
            let script = parsed?;
            let checked = self.wrap_effect(tool, arguments(&command));
            leak::check_command(&self.redactor, checked.arguments())?;
            let patterns = granted_patterns(&script, checked.tool(), &rights)?;
            let evaluation =
                self.evaluate_command(&stage, &checked, (&command, &*script), &patterns);
            recorder.record_decision(&evaluation);
            if evaluation.decision() == Decision::Deny {
                let remedies = policy::remedies(&evaluation, checked.tool());
                return Err(denied("the command was not run", &evaluation, remedies));
            }
            let ruled = Ruled {
                assessment: Some(summary(&command, &evaluation)),
                evaluation,
                checked,
            };
            let subject = "a command in the middle of a call";
            require_consent(&stage, &ruled, &mut recorder, subject).await?;
            Ok((Arc::clone(ruled.checked.tool()), rights, script))
        };
        let result = steps.await;
        let (tool, rights, script) = finish_effect(recorder, result)?;
        let ports = match self.is_own(&command) {
            true => ports(&self.arguments),
            false => Vec::new(),
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
        evaluation.push(DecisionReason {
            layer: PolicyLayer::Commands,
            decision: Decision::Allow,
            rule: "needs.commands".to_owned(),
            source: String::new(),
            text: format!("`{}` was granted to run it", tool.name()),
        });
        policy.evaluate_command(
            &CommandCheck {
                tool,
                script,
                directory: command.directory.as_deref(),
                environment: &command.environment,
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
        let is_own = self.is_own(command);
        evaluation.remove_answered(|reason| {
            let was_judged_before = is_own || reason.layer == PolicyLayer::Taint;
            was_judged_before && self.answered.iter().any(|key| *key == question_key(reason))
        });
        evaluation
    }
}

/// Returns the ports in the arguments of a call, which a person has seen with it.
fn ports(arguments: &Value) -> Vec<u16> {
    let listed = arguments["ports"].as_array();
    let ports = listed.into_iter().flatten().filter_map(Value::as_u64);
    ports.filter_map(|port| u16::try_from(port).ok()).collect()
}

/// Returns true if the call's own arguments name this command: then it was judged before the call ran.
fn is_same(own: &CommandRequest, command: &CommandRequest) -> bool {
    own.program == command.program
        && own.directory == command.directory
        && own.environment == command.environment
        && own.stdin == command.stdin
}

/// Returns the granted patterns, if they cover every command of the script. The need `*` covers any command that the
/// settings allow, and gives no patterns.
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
    let remedy = match is_requested {
        true => format!("`mimir tools trust {name}` grants what it asks for"),
        false => "the plugin must name a pattern for the command among its needs".to_owned(),
    };
    let message = format!("`{name}` was not granted {command}");
    Err(ToolError::new(
        ToolErrorCode::PermissionDenied,
        crate::text::visible(&message),
    )
    .with_remedies([remedy]))
}

/// Names the programs of a command, for the record, without parts that could carry content.
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

/// Returns the arguments that rules about `command`, `args` and `workdir` match, and that a person sees.
fn arguments(command: &CommandRequest) -> Value {
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

/// Returns the summary that a person reads first.
fn summary(command: &CommandRequest, evaluation: &PolicyEvaluation) -> ToolAssessment {
    ToolAssessment {
        approval: Decision::Ask,
        risk: match evaluation.is_dangerous() {
            true => RiskLevel::High,
            false => RiskLevel::Medium,
        },
        summary: format!("run `{}`", command.program.text()),
        risks: Vec::new(),
    }
}
