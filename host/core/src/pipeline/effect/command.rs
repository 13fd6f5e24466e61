//! Judges the commands of a tool while its call runs, by the same stages as the call, and records them before they
//! run.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::backend::Assessment;
use crate::call::{Observer, Unobserved};
use crate::command::{
    Command, CommandPattern, Finished, Job, JobId, Owner, Piece, Place, Program, Runner, Script,
};
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::error::{Code, ToolError};
use crate::limits::Limits;
use crate::needs::{Access, FileNeed, Needs};
use crate::paths::PathRules;
use crate::pipeline::Road;
use crate::pipeline::decide::{Ruled, accepts_untrusted};
use crate::pipeline::session::{ContentSource, WayOut};
use crate::pipeline::validate::Checked;
use crate::policy::{self, CommandQuestion};
use crate::redact::AROUND;
use crate::tool::{Risk, Tool};

use super::judge::asked_as;
use super::{Effects, Inner, Outside, consented, denied, leak, recorded};

/// A command that passed every stage. Only the effect gate creates one.
#[derive(Debug)]
pub struct Permitted {
    command: Command,
    owner: Owner,
    tool: Arc<Tool>,
    files: Vec<FileNeed>,
    paths: PathRules,
    limits: Limits,
    outside: Outside,
    ports: Vec<u16>,
}

impl Permitted {
    /// Returns the command to run.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Returns the session and plugin that own the command.
    pub fn owner(&self) -> &Owner {
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

    /// Returns true if it may change the whole workspace.
    pub fn writes_workspace(&self) -> bool {
        let all = |need: &FileNeed| need.path == "." && need.access == Access::ReadWrite;
        self.files.iter().any(all)
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
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Returns the ports that the call declares: requests of the session may reach the command there if it runs in the
    /// background.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns the time limit: the requested one, within the limit of the call.
    pub fn timeout(&self) -> std::time::Duration {
        let most = self.limits.wall;
        self.command.timeout.map_or(most, |asked| asked.min(most))
    }
}

/// Maximum number of programs of one command that the record names.
const NAMED: usize = 8;

impl Effects {
    /// Judges a command, asks a person if needed, and records the result. A command that cannot be recorded does not
    /// run.
    pub(crate) async fn command(&self, command: Command) -> Result<Permitted, ToolError> {
        // On the heap: it holds a card and an answer, and few calls get here.
        let outside = Outside::of(self);
        Box::pin(self.0.command(command, outside)).await
    }

    /// Runs a command to its end, if it is allowed. Dropping the future kills it.
    pub async fn run(&self, command: Command) -> Result<Finished, ToolError> {
        // The output of a helper command is not shown: the tool itself reports its result.
        let observer: Arc<dyn Observer> = match self.0.is_own(&command) {
            true => Arc::clone(&self.0.observer),
            false => Arc::new(Unobserved),
        };
        self.run_watched(command, observer).await
    }

    /// Runs a command, and records the files it made or changed that other programs obey.
    async fn run_watched(
        &self,
        command: Command,
        observer: Arc<dyn Observer>,
    ) -> Result<Finished, ToolError> {
        let permitted = self.command(command).await?;
        let finished = self.0.runner().run(permitted, observer).await?;
        self.0.record_obeyed(&finished.obeyed)?;
        Ok(finished)
    }

    /// Runs a command that the arguments of the call do not name, but that the call is about: its output is shown to
    /// the observer.
    pub async fn run_shown(&self, command: Command) -> Result<Finished, ToolError> {
        let observer = Arc::clone(&self.0.observer);
        self.run_watched(command, observer).await
    }

    /// Returns the name of the sandbox that a command would run in, or an error if there is no sandbox. See
    /// [`Runner::offers`].
    pub async fn offers(&self, place: Place, program: &str) -> Result<&'static str, ToolError> {
        self.0.runner().offers(place, program).await
    }

    /// Records in the audit log the files that the call itself made or changed and that agents or build tools obey.
    pub fn record_obeyed(&self, paths: &[String]) -> Result<(), ToolError> {
        self.0.record_obeyed(paths)
    }

    /// Starts a command that continues after the call has ended, if it is allowed.
    pub async fn start(&self, command: Command) -> Result<JobId, ToolError> {
        let permitted = self.command(command).await?;
        self.0.runner().start(permitted).await
    }

    /// Returns the commands that tools of this plugin have started in this session.
    pub fn jobs(&self) -> Vec<Job> {
        self.0.runner().jobs(&self.0.owner())
    }

    /// Returns the output of one of them from `begin` on. Secrets are masked as in the whole output: the caller
    /// chooses where a chunk begins, so it could otherwise split one.
    pub fn output(&self, job: JobId, begin: u64) -> Result<Piece, ToolError> {
        self.0.hears_what_the_session_has();
        let (runner, owner) = (self.0.runner(), self.0.owner());
        let goes_on = |one: &Job| one.id == job && one.exit_code.is_none();
        let more = runner.jobs(&owner).iter().any(goes_on);
        let around = begin.saturating_sub(AROUND as u64);
        let wide = runner.output(&owner, job, around)?;
        let start = wide.next - wide.bytes.len() as u64;
        let from = usize::try_from(begin.saturating_sub(start)).unwrap_or(usize::MAX);
        let window = self.0.redactor.window(&wide.bytes, from, more);
        Ok(Piece {
            bytes: window.bytes,
            next: start + window.end as u64,
            missing: start.saturating_sub(begin),
        })
    }

    /// Kills one of them.
    pub async fn stop(&self, job: JobId) -> Result<Job, ToolError> {
        self.0.runner().stop(&self.0.owner(), job).await
    }
}

impl Inner {
    fn runner(&self) -> &dyn Runner {
        &*self.pipeline.0.ports.runner
    }

    /// Returns true if it is the command that the call is about.
    fn is_own(&self, command: &Command) -> bool {
        policy::command_of(&self.arguments).is_some_and(|own| is_same(&own, command))
    }

    /// Records files that a command made or changed and that agents or build tools obey by themselves.
    fn record_obeyed(&self, paths: &[String]) -> Result<(), ToolError> {
        if paths.is_empty() {
            return Ok(());
        }
        let more = match paths.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<&str> = paths.iter().take(NAMED).map(String::as_str).collect();
        let subject = format!(
            "changed {}{more}, which other programs obey",
            named.join(", ")
        );
        let trail = self.effect_trail(crate::text::visible(&subject))?;
        recorded(trail, Ok(()))
    }

    fn owner(&self) -> Owner {
        Owner {
            session: self.context.session_id.clone(),
            plugin: self.tool.origin.location.clone(),
        }
    }

    async fn command(&self, command: Command, outside: Outside) -> Result<Permitted, ToolError> {
        let world = self.pipeline.world();
        let road = self.pipeline.road(&world);
        let read = road.ports.runner.read(&command.program);
        let mut trail = self.effect_trail(subject(&read))?;
        let judged = async {
            let (tool, rights) = self.standing(&world)?;
            let script = read?;
            let checked = self.checked(tool, arguments(&command));
            leak::check_command(&self.redactor, checked.arguments())?;
            let patterns = granted(&script, checked.tool(), &rights)?;
            let evaluation = self.judged(&road, &checked, (&command, &script), &patterns);
            trail.decided(&evaluation);
            if evaluation.decision() == Decision::Deny {
                let ways = policy::ways(&evaluation, checked.tool());
                return Err(denied("the command was not run", &evaluation, ways));
            }
            let ruled = Ruled {
                assessment: Some(summary(&command, &evaluation)),
                evaluation,
                checked,
            };
            let what = "a command in the middle of a call";
            consented(&road, &ruled, &mut trail, what).await?;
            Ok((Arc::clone(ruled.checked.tool()), rights))
        };
        let result = judged.await;
        let (tool, rights) = recorded(trail, result)?;
        let ports = match self.is_own(&command) {
            true => ports(&self.arguments),
            false => Vec::new(),
        };
        Ok(Permitted {
            ports,
            command,
            owner: self.owner(),
            tool,
            files: rights.files,
            paths: self.parent.paths.clone(),
            limits: self.limits,
            outside,
        })
    }

    /// Evaluates all rules for the command.
    fn judged(
        &self,
        road: &Road<'_>,
        checked: &Checked,
        (command, script): (&Command, &Script),
        granted: &[CommandPattern],
    ) -> Evaluation {
        let (policy, tool) = (&road.world.policy, checked.tool());
        let links = policy::Links::of(tool);
        let mut all = Evaluation::default();
        all.push(Reason {
            layer: Layer::Commands,
            decision: Decision::Allow,
            rule: "needs.commands".to_owned(),
            source: String::new(),
            text: format!("`{}` was granted to run it", tool.name()),
        });
        policy.command(
            &CommandQuestion {
                tool,
                script,
                directory: command.directory.as_deref(),
                environment: &command.environment,
                granted,
                paths: checked.paths(),
                links: &links,
                runner: &*road.ports.runner,
            },
            &mut all,
        );
        policy.command_arguments(tool, checked.arguments(), &mut all);
        let session = road.sessions.get(&checked.context().session_id);
        let accepts = accepts_untrusted(policy, checked);
        let out = if road.ports.runner.confines() {
            WayOut::None
        } else {
            WayOut::Call(ContentSource::Other)
        };
        session.taint(accepts, &out, &mut all);
        let same = self.is_own(command);
        all.settle(|reason| {
            let here = same || reason.layer == Layer::Taint;
            here && self.answered.iter().any(|one| *one == asked_as(reason))
        });
        all
    }
}

/// Returns the ports in the arguments of a call, which a person has seen with it.
fn ports(arguments: &Value) -> Vec<u16> {
    let named = arguments["ports"].as_array();
    let ports = named.into_iter().flatten().filter_map(Value::as_u64);
    ports.filter_map(|port| u16::try_from(port).ok()).collect()
}

/// Returns true if the call's own arguments name this command: then it was judged before the call ran.
fn is_same(own: &Command, command: &Command) -> bool {
    own.program == command.program
        && own.directory == command.directory
        && own.environment == command.environment
        && own.stdin == command.stdin
}

/// Returns the granted patterns, if they cover every command of the script. The need `*` covers any command that the
/// settings allow, and gives no patterns.
fn granted(script: &Script, tool: &Tool, rights: &Needs) -> Result<Vec<CommandPattern>, ToolError> {
    let needs = || rights.commands.iter().map(|need| need.pattern.trim());
    if needs().any(|pattern| pattern == "*") {
        return Ok(Vec::new());
    }
    let patterns: Vec<_> = needs().flat_map(CommandPattern::parse).collect();
    let covered =
        |words: &[_]| words.is_empty() || patterns.iter().any(|pattern| pattern.matches(words));
    let stray = script.commands.iter().find(|one| !covered(&one.words));
    let what = match (stray, script.unknown.first()) {
        (Some(stray), _) => format!("`{}`", stray.shown()),
        (None, Some(unknown)) => {
            format!("a command whose effects are unknown ({unknown})")
        }
        (None, None) => return Ok(patterns),
    };
    let name = tool.name();
    let asked = tool.definition.needs.commands.iter();
    let is_asked = asked.clone().any(|need| {
        let pattern = CommandPattern::parse(&need.pattern);
        pattern.is_ok_and(|pattern| stray.is_some_and(|stray| pattern.matches(&stray.words)))
    });
    let way = match is_asked {
        true => format!("`mimir tools trust {name}` grants what it asks for"),
        false => "the plugin must name a pattern for the command among its needs".to_owned(),
    };
    let message = format!("`{name}` was not granted {what}");
    Err(ToolError::new(Code::PermissionDenied, crate::text::visible(&message)).with_way_out([way]))
}

/// Names the programs, without parts that could carry content.
fn subject(read: &Result<Script, ToolError>) -> String {
    let Ok(script) = read else {
        return "run a command".to_owned();
    };
    let mut programs: Vec<&str> = Vec::new();
    for program in script.commands.iter().filter_map(|one| one.program()) {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    let more = if programs.len() > NAMED { ", …" } else { "" };
    programs.truncate(NAMED);
    crate::text::visible(&format!("run {}{more}", programs.join(", ")))
}

/// Returns the arguments that rules about `command`, `args` and `workdir` match, and that a person sees.
fn arguments(command: &Command) -> Value {
    let mut all = match &command.program {
        Program::Script(text) => json!({ "command": text }),
        Program::Vector(words) => json!({
            "command": words.first(),
            "args": words.get(1..).unwrap_or_default(),
        }),
    };
    if let Some(directory) = &command.directory {
        all["workdir"] = json!(directory);
    }
    if !command.environment.is_empty() {
        let variables = command.environment.iter();
        let variables = variables.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        all["env"] = Value::Object(variables.collect());
    }
    if !command.stdin.is_empty() {
        all["stdin"] = json!(String::from_utf8_lossy(&command.stdin));
    }
    all
}

/// Returns the summary that a person reads first.
fn summary(command: &Command, evaluation: &Evaluation) -> Assessment {
    Assessment {
        approval: Decision::Ask,
        risk: match evaluation.is_dangerous() {
            true => Risk::High,
            false => Risk::Medium,
        },
        summary: format!("run `{}`", command.program.text()),
        risks: Vec::new(),
    }
}
