//! The command rules: the modes `full`, `allowlist` and `deny` of `execApprovals`, and the default list if no mode is
//! set.
//!
//! A program is evaluated in its parsed form: as simple commands, each an argument vector. Each command is evaluated
//! separately, and the strictest decision wins. In addition to the mode, three checks apply to every command: unknown
//! parts require approval, file accesses are checked like those of a tool, and dangerous effects require approval. With
//! `mode: full`, only denied file accesses and dangers count; a part of the script that cannot be parsed is a danger.

use std::sync::Arc;

use serde_json::Value;

use mimir_commands::{
    dangers, hidden_danger, is_harmless, loads_code, only_stages, reads_input_as_data, subcommands,
    unseen_code,
};

use crate::command::{
    CommandPattern, CommandProgram, CommandRequest, CommandRunner, CommandTarget, CommandVerdict,
    ParsedCommand, ParsedProgram, ShellRedirection, display_line,
};
use crate::config::{AddedBy, ExecApprovals, ExecMode};
use crate::decision::{
    ApprovalOffer, Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleBasis,
};
use crate::error::ToolError;
use crate::paths::PathRules;
use crate::text;
use crate::tool::{Tool, ToolGroup, ToolSource};

use super::error::PolicyError;
use super::link_resolver::LinkResolver;
use super::source::RuleSource;
use super::{Policy, danger};

mod approval_offer;
mod file_access;
mod globs;
#[cfg(test)]
mod tests;
mod worker_rules;

pub use worker_rules::WorkerCommandRules;

use file_access::WorkingDirectories;

/// The command rules of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandRules {
    mode: Option<ExecMode>,
    patterns: Vec<(CommandPattern, AddedBy)>,
    /// The patterns as written in the file.
    written: Vec<String>,
    /// The rules of a worker, which replace mode and patterns.
    worker: Option<WorkerCommandRules>,
}

/// A command to evaluate.
pub(crate) struct CommandCheck<'a> {
    /// The tool that runs the command.
    pub(crate) tool: &'a Tool,
    /// The parsed program.
    pub(crate) script: &'a ParsedProgram,
    /// The working directory, relative to the workspace root.
    pub(crate) directory: Option<&'a str>,
    /// The environment variables set for the command.
    pub(crate) environment: &'a [(String, String)],
    /// True if the caller sets the standard input of the program.
    pub(crate) has_input: bool,
    /// The command patterns granted to the tool. If no mode is set, they allow matching commands.
    pub(crate) granted: &'a [CommandPattern],
    /// The rules for workspace paths that the tool may not reach or change.
    pub(crate) paths: &'a PathRules,
    /// The resolver for links among the paths.
    pub(crate) links: &'a LinkResolver<'a>,
    /// The runner that would run the command.
    pub(crate) runner: &'a dyn CommandRunner,
}

pub(super) use crate::decision::BUILT_IN_SOURCE;

/// The name of the rule that asks about unknown parts of a command.
const UNKNOWN: &str = "unknown effects";

/// The name of the rule that applies if no mode is set.
pub const DEFAULT_LIST: &str = "the default list of commands";

/// Returns the command in the arguments of a call, in the form that the tool `exec` accepts.
pub(crate) fn command_in_arguments(arguments: &Value) -> Option<CommandRequest> {
    let command = arguments["command"].as_str()?;
    let program = match arguments["args"].as_array() {
        None => CommandProgram::Script(command.to_owned()),
        Some(args) => {
            let rest = args.iter().map(|arg| arg.as_str().map(str::to_owned));
            let words = std::iter::once(Some(command.to_owned())).chain(rest);
            CommandProgram::Vector(words.collect::<Option<_>>()?)
        }
    };
    let text = |key: &str| arguments[key].as_str().map(str::to_owned);
    let variables = arguments["env"].as_object().into_iter().flatten();
    let variables =
        variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Some(CommandRequest {
        program,
        directory: text("workdir"),
        environment: variables.collect(),
        stdin: text("stdin").unwrap_or_default().into_bytes(),
        timeout: None,
        target: CommandTarget::Default,
    })
}

impl CommandRules {
    pub(super) fn new(settings: &ExecApprovals, source: &RuleSource) -> Result<Self, PolicyError> {
        let mut patterns = Vec::new();
        for (at, approval) in settings.approvals.iter().enumerate() {
            let key = format!("execApprovals.approvals[{at}]");
            let fault = |text: String| PolicyError::Rule {
                location: source.at(&key),
                text: format!("{key}: {text}"),
            };
            let last_used = approval.last_used.as_deref();
            if last_used.is_some_and(|time| !is_time(time)) {
                return Err(fault(
                    "lastUsed must be a time such as 2026-01-31T12:00:00Z or 2026-01-31".into(),
                ));
            }
            let pattern = CommandPattern::parse(&approval.pattern).map_err(fault)?;
            patterns.push((pattern, approval.added_by));
        }
        let approvals = settings.approvals.iter();
        Ok(Self {
            mode: settings.mode,
            patterns,
            written: approvals.map(|approval| approval.pattern.clone()).collect(),
            worker: None,
        })
    }

    /// Creates the rules of a worker.
    pub(super) fn for_worker(worker: WorkerCommandRules) -> Self {
        Self {
            worker: Some(worker),
            ..Self::default()
        }
    }

    /// Returns the mode, if it is set.
    pub(super) fn mode(&self) -> Option<ExecMode> {
        self.mode
    }

    /// Returns the patterns as written in the file.
    pub(super) fn written(&self) -> &[String] {
        &self.written
    }

    /// Denies every call of a tool that runs commands, with any arguments, if the mode is `deny`.
    pub(super) fn evaluate_deny_mode(
        &self,
        tool: &Tool,
        source: &RuleSource,
        evaluation: &mut PolicyEvaluation,
    ) {
        let runs_commands = tool.definition.group == ToolGroup::Runtime
            || !tool.definition.needs.commands.is_empty();
        if self.mode == Some(ExecMode::Deny) && runs_commands {
            let text = "no command may run".to_owned();
            evaluation.push(self.mode_reason(Decision::Deny, text, source));
        }
    }

    /// Evaluates the mode, or the worker's rules, for one command. `None` if no mode is set, or if there is a list and
    /// the command runs no program.
    fn evaluate(&self, simple: &ParsedCommand, source: &RuleSource) -> Option<DecisionReason> {
        let shown = display_line(simple);
        if let Some(worker) = &self.worker {
            return worker.evaluate(simple, &shown, source);
        }
        let (decision, text) = match self.mode? {
            ExecMode::Full => (Decision::Allow, format!("`{shown}`: every command may run")),
            ExecMode::Deny => (Decision::Deny, format!("`{shown}`: no command may run")),
            ExecMode::Allowlist if simple.words.is_empty() => return None,
            ExecMode::Allowlist => self.evaluate_allowlist(simple, &shown),
        };
        Some(self.mode_reason(decision, text, source))
    }

    /// Evaluates the allowlist for one command.
    fn evaluate_allowlist(&self, simple: &ParsedCommand, shown: &str) -> (Decision, String) {
        let find_match = |by| {
            let mut patterns = self.patterns.iter().filter(|(_, added_by)| *added_by == by);
            patterns.find(|(pattern, _)| pattern.matches(&simple.words))
        };
        if let Some((pattern, _)) = find_match(AddedBy::User) {
            let text = format!("`{shown}` is in the list: `{}`", pattern.as_str());
            return (Decision::Allow, text);
        }
        if let Some((pattern, _)) = find_match(AddedBy::Auto) {
            let pattern = pattern.as_str();
            let text = format!(
                "`{shown}` is in the list, but no person has confirmed the entry `{pattern}`"
            );
            return (Decision::Ask, text);
        }
        let mut patterns = self.patterns.iter();
        if patterns.any(|(pattern, _)| pattern.may_match(&simple.words)) {
            let text =
                format!("`{shown}` may be in the list, but only the shell can determine that");
            return (Decision::Ask, text);
        }
        let Some(program) = simple.program() else {
            let text = format!("`{shown}`: the program is not known");
            return (Decision::Ask, text);
        };
        let program = text::visible(text::prefix(program, 64));
        let text = format!("no pattern of the list matches this `{program}` command: `{shown}`");
        (Decision::Deny, text)
    }

    fn mode_reason(&self, decision: Decision, text: String, source: &RuleSource) -> DecisionReason {
        let mode = match self.mode {
            Some(ExecMode::Full) => "full",
            Some(ExecMode::Deny) => "deny",
            Some(ExecMode::Allowlist) | None => "allowlist",
        };
        DecisionReason {
            layer: PolicyLayer::Commands,
            decision,
            rule: format!("execApprovals.mode: {mode}"),
            source: source.at("execApprovals"),
            text,
        }
    }
}

impl Policy {
    /// Returns true if the command in a call's arguments is evaluated before the call runs: for built-in tools of the
    /// group `runtime` always, for other tools of this group if a mode is set.
    pub(crate) fn evaluates_commands_of(&self, tool: &Tool) -> bool {
        let has_mode = || self.files.iter().any(|file| file.commands.mode.is_some());
        tool.definition.group == ToolGroup::Runtime
            && (tool.source == ToolSource::BuiltIn || has_mode())
    }

    /// Adds the reason for a program that cannot be parsed. Returns true if the program may run nevertheless.
    pub(crate) fn evaluate_unparsed_command(
        &self,
        error: &ToolError,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        let lenient = self.is_lenient();
        let decision = if lenient {
            Decision::Allow
        } else {
            Decision::Ask
        };
        let text = format!("the command cannot be analyzed: {}", error.message);
        let reason = built_in_reason(PolicyLayer::Commands, decision, UNKNOWN, text);
        ask_each_time(reason, evaluation);
        lenient
    }

    /// Returns the modes set in accepted files.
    fn modes(&self) -> impl Iterator<Item = ExecMode> {
        self.accepted_files().filter_map(|file| file.commands.mode)
    }

    /// Returns true if `mode: full` is set, and no accepted file sets another mode.
    fn is_lenient(&self) -> bool {
        let mut modes = self.modes().peekable();
        modes.peek().is_some() && modes.all(|mode| mode == ExecMode::Full)
    }

    /// Returns true if a person has allowed all calls of this tool: then the default list of commands does not apply.
    fn is_allowed_by_person(&self, tool: &Tool) -> bool {
        let mut evaluation = PolicyEvaluation::default();
        let is_set = self.accepted_files().fold(false, |is_set, file| {
            file.evaluate_tool_approval(tool, &mut evaluation) | is_set
        });
        is_set && evaluation.decision() == Decision::Allow
    }

    /// Evaluates the argument rules for a command of a running call. `arguments` has the form of `exec` arguments.
    pub(crate) fn evaluate_command_arguments(
        &self,
        tool: &Tool,
        arguments: &Value,
        evaluation: &mut PolicyEvaluation,
    ) {
        self.evaluate_effect(tool, (arguments, super::COMMAND), evaluation);
    }

    /// Evaluates all command rules. Returns true if all of them allow the whole program.
    pub(crate) fn evaluate_command(
        &self,
        check: &CommandCheck<'_>,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        let script = check.script;
        let lenient = self.is_lenient();
        let default_list_applies =
            self.modes().next().is_none() && !self.is_allowed_by_person(check.tool);
        let start = evaluation.reasons().len();
        let mut directories = WorkingDirectories::new(check);
        if let Some(reason) = directories.outside_reason() {
            evaluation.push(reason);
        }
        if !lenient {
            for text in &script.unknown {
                ask_each_time(unknown_reason(text.clone()), evaluation);
            }
            for name in unsafe_variables(check) {
                let reason = unknown_reason(variable_text(name));
                if loads_code(name) {
                    ask_each_time(reason, evaluation);
                } else {
                    evaluation.push(reason);
                }
            }
        } else {
            let unknown_parts = script
                .unknown
                .iter()
                .map(|why| danger::unparsed_reason(why));
            unknown_parts.for_each(|reason| ask_each_time(reason, evaluation));
        }
        for (at, simple) in script.commands.iter().enumerate() {
            let first = evaluation.reasons().len();
            for danger in dangers(script, at) {
                ask_each_time(danger::danger_reason(simple, danger), evaluation);
            }
            directories.enter_command(at, simple);
            let executed = directories.executed_files(simple);
            evaluation.add_executed_files(&executed);
            let file_reasons = directories.evaluate_files(simple);
            for (reason, basis) in file_reasons {
                if !lenient || reason.decision == Decision::Deny {
                    evaluation.push_with_basis(reason, basis);
                }
            }
            if !lenient {
                let unseen = unseen_code(simple, check.has_input);
                if let Some(why) = &unseen
                    && !simple.unknown.contains(why)
                {
                    ask_each_time(unknown_part(simple, why), evaluation);
                }
                for reason in unknown_command_parts(simple) {
                    if simple.hides_command || unseen.is_some() {
                        ask_each_time(reason, evaluation);
                    } else {
                        evaluation.push(reason);
                    }
                }
            } else if let Some(danger) = hidden_danger(simple) {
                ask_each_time(danger::danger_reason(simple, danger), evaluation);
            }
            for file in &self.files {
                let before = evaluation.reasons().len();
                if let Some(reason) = file.commands.evaluate(simple, &file.source) {
                    evaluation.push(reason);
                }
                file.mark_reasons(before, evaluation);
            }
            if default_list_applies {
                directories
                    .write_reasons(simple)
                    .into_iter()
                    .for_each(|reason| evaluation.push(reason));
                let version_file = || directories.version_file(simple);
                let (reason, offer) = default_list_reason(simple, check, &executed, version_file);
                evaluation.push_with_basis(
                    reason,
                    RuleBasis {
                        offer,
                        ..RuleBasis::default()
                    },
                );
            }
            add_command_verdict(simple, first, evaluation);
        }
        let mut decisions = evaluation
            .reasons()
            .skip(start)
            .map(|reason| reason.decision);
        decisions.len() > 0 && decisions.all(|decision| decision == Decision::Allow)
    }
}

/// Returns true if a script only reads: all its programs only read, and the shell opens no file for writing.
pub(crate) fn only_reads(script: &ParsedProgram) -> bool {
    let overwrites_file = |redirection: &ShellRedirection| {
        redirection.writes && redirection.target.known() != Some("/dev/null")
    };
    script.unknown.is_empty()
        && script.commands.iter().all(|simple| {
            simple.unknown.is_empty()
                && (simple.words.is_empty() || mimir_commands::only_reads(simple))
                && !simple.redirections.iter().any(overwrites_file)
        })
}

/// Evaluates the default list, which applies if no mode is set: commands that only read or stage files, and commands
/// that the tool was granted, are allowed. All other commands require approval; a person can approve all similar ones.
fn default_list_reason(
    simple: &ParsedCommand,
    check: &CommandCheck<'_>,
    executed: &[String],
    version_file: impl FnOnce() -> Option<String>,
) -> (DecisionReason, Option<Arc<ApprovalOffer>>) {
    let shown = display_line(simple);
    let reason =
        |decision, text| built_in_reason(PolicyLayer::Commands, decision, DEFAULT_LIST, text);
    if simple.words.is_empty() {
        let text = format!("`{shown}` runs no program");
        return (reason(Decision::Allow, text), None);
    }
    if let Some(pattern) = check
        .granted
        .iter()
        .find(|pattern| pattern.matches(&simple.words))
    {
        let text = format!("`{shown}` was granted: `{}`", pattern.as_str());
        return (reason(Decision::Allow, text), None);
    }
    let harmless = if mimir_commands::only_reads(simple) {
        Some("only reads")
    } else if only_stages(simple) {
        Some("only stages files for a commit")
    } else {
        None
    };
    if let Some(effect) = harmless {
        if let Some(file) = version_file() {
            let text =
                format!("`{shown}` may run a program of the workspace, which `{file}` selects");
            return (reason(Decision::Ask, text), None);
        }
        let writes = |redirection: &ShellRedirection| redirection.writes;
        let text = if simple.redirections.iter().any(writes) {
            format!("the program of `{shown}` {effect}")
        } else {
            format!("`{shown}` {effect}")
        };
        return (reason(Decision::Allow, text), None);
    }
    // A pattern would cover any later input, which a program that is not listed may run.
    let runs_no_input =
        !(check.has_input || simple.has_input) || reads_input_as_data(&simple.words);
    let pattern = approval_offer::pattern_for(&simple.words).filter(|_| runs_no_input);
    let offer = pattern.map(|pattern| {
        Arc::new(ApprovalOffer {
            words: simple.words.clone(),
            pattern,
            code: executed.to_vec(),
            builds: subcommands::runs_project_code(&simple.words),
        })
    });
    let text = format!("`{shown}` is not on the list of commands that run without a question");
    (reason(Decision::Ask, text), offer)
}

/// Adds a reason about a dangerous or unknown effect. No stored approval covers it: a person is asked each time.
fn ask_each_time(reason: DecisionReason, evaluation: &mut PolicyEvaluation) {
    let basis = RuleBasis {
        each_time: true,
        ..RuleBasis::default()
    };
    evaluation.push_with_basis(reason, basis);
}

fn unknown_reason(text: String) -> DecisionReason {
    built_in_reason(PolicyLayer::Commands, Decision::Ask, UNKNOWN, text)
}

/// Returns the names of the variables of the call that may change which programs it runs.
fn unsafe_variables<'a>(check: &CommandCheck<'a>) -> impl Iterator<Item = &'a str> {
    let names = check.environment.iter().map(|(name, _)| name.as_str());
    names.filter(|name| !is_harmless(name))
}

fn variable_text(name: &str) -> String {
    let name = text::visible(text::prefix(name, 64));
    format!("the variable `{name}` may change which programs and settings are used")
}

/// Returns a reason for each unknown part of one command.
fn unknown_command_parts(simple: &ParsedCommand) -> impl Iterator<Item = DecisionReason> {
    let unsafe_variables = simple
        .assignments
        .iter()
        .filter(|(name, _)| !is_harmless(name));
    let unsafe_variables = unsafe_variables.map(|(name, _)| variable_text(name));
    let parts = simple.unknown.iter().cloned().chain(unsafe_variables);
    parts.map(|why| unknown_part(simple, &why))
}

/// Returns the reason for one unknown part of a command.
fn unknown_part(simple: &ParsedCommand, why: &str) -> DecisionReason {
    unknown_reason(format!("`{}`: {why}", display_line(simple)))
}

/// Adds the verdict on one command: its strictest reason, among those from index `first` on.
fn add_command_verdict(simple: &ParsedCommand, first: usize, evaluation: &mut PolicyEvaluation) {
    let reasons = || evaluation.reasons().skip(first);
    let decision = reasons().map(|reason| reason.decision).max();
    let decision = decision.unwrap_or(Decision::Allow);
    let strictest = reasons().find(|reason| reason.decision == decision);
    let (rule, why) = strictest.map_or_else(Default::default, |reason| {
        (reason.rule.clone(), reason.text.clone())
    });
    evaluation.add_command_verdict(CommandVerdict {
        command: display_line(simple),
        decision,
        rule,
        why,
        span: (simple.span.start, simple.span.end),
    });
}

/// Creates the reason of a built-in rule.
pub(super) fn built_in_reason(
    layer: PolicyLayer,
    decision: Decision,
    rule: &str,
    text: String,
) -> DecisionReason {
    DecisionReason {
        layer,
        decision,
        rule: rule.to_owned(),
        source: BUILT_IN_SOURCE.to_owned(),
        text: text::visible(&text),
    }
}

/// Returns true if the text is a time or a date.
fn is_time(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::Date>().is_ok()
}
