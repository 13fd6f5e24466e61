//! Plans and results of `mimir setup`.

use std::io::{self, Write};

use mimir_core::text::visible;
use mimir_core::{Outcome, Redactor};
use serde::Serialize;

use super::outcome::print_steps;
use super::{BAD, FAINT, GOOD, STRONG, WARN, indented, labelled_note, shorten_home, styled};
use crate::exit::ExitReason;
use mimir::agents::{AgentSetupError, SetupPlan};
use mimir::workspace::WorkspaceFolder;

mod agent_report;

pub use agent_report::{AgentReport, AgentState, INDENT, SetupErrorReport};

/// A plan or a result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetupReport {
    workspace: String,
    /// True if the workspace is the root of the repository and not the current folder.
    #[serde(skip)]
    is_above: bool,
    program: String,
    /// True if the changes were made.
    #[serde(rename = "applied")]
    pub is_applied: bool,
    /// The agents.
    pub agents: Vec<AgentReport>,
    makes_workspace: bool,
    makes_tool: bool,
    /// Files and folders that were created in the workspace.
    pub created: Vec<String>,
    /// Outcome of the first call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_call: Option<Outcome>,
    /// `false` next to an error, as in every failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    /// The reason why no agent was set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<SetupErrorReport>,
    next: Vec<&'static str>,
}

/// The commands that follow a setup.
const NEXT: [(&str, &str); 3] = [
    ("mimir tools list", "the tools that your agents can call"),
    (
        "mimir tools new NAME --lang yaml-js",
        "a tool of your own, in one file",
    ),
    ("mimir setup --undo", "take this setup back"),
];

/// Joins names by commas, with this word before the last one.
pub fn list_names<S: AsRef<str>>(names: &[S], word: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} {word} {last}", rest.join(", ")),
    }
}

/// Masks secrets in a diff, which shows lines around the change.
pub fn masked_diff(mut diff: String) -> String {
    Redactor::new().mask_text(&mut diff);
    diff
}

/// Writes a diff in colours, without control characters.
pub fn write_diff(out: &mut dyn Write, diff: &str) -> io::Result<()> {
    for line in diff.lines() {
        let text = visible(line);
        let text = match line.as_bytes().first() {
            Some(b'+') if !line.starts_with("+++ ") => styled(GOOD, text),
            Some(b'-') if !line.starts_with("--- ") => styled(BAD, text),
            Some(b' ') => text,
            _ => styled(FAINT, text),
        };
        writeln!(out, "  {text}")?;
    }
    Ok(())
}

impl SetupReport {
    /// Describes a plan.
    pub fn new(
        workspace: &WorkspaceFolder,
        plan: &SetupPlan,
        makes_workspace: bool,
        makes_tool: bool,
    ) -> Self {
        let (agents, root) = (plan.agents.iter(), workspace.root());
        Self {
            workspace: visible(&workspace.root().display().to_string()),
            is_above: std::env::current_dir()
                .is_ok_and(|current| current != root && current.starts_with(root)),
            program: visible(&plan.program),
            is_applied: false,
            agents: agents
                .map(|plan| AgentReport::new(workspace, plan))
                .collect(),
            makes_workspace,
            makes_tool,
            created: Vec::new(),
            first_call: None,
            ok: None,
            error: None,
            next: NEXT.map(|(command, _)| command).to_vec(),
        }
    }

    /// Writes what would be changed.
    pub fn print_plan(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "Workspace: {}", self.workspace)?;
        if self.is_above {
            let text = "the folder above that has .mimir or .git; to set up the current folder alone: mimir setup -C .";
            writeln!(out, "           {}", styled(FAINT, indented(text, 11)))?;
        }
        writeln!(out)?;
        let (missing, found): (Vec<_>, Vec<_>) = self
            .agents
            .iter()
            .partition(|agent| agent.state == AgentState::NotFound);
        for agent in found {
            agent.print_state(out)?;
        }
        if !missing.is_empty() {
            let titles: Vec<&str> = missing.iter().map(|agent| agent.title).collect();
            let text = indented(&titles.join(", "), INDENT);
            writeln!(
                out,
                "{}",
                styled(FAINT, format_args!("· not found    {text}"))
            )?;
        }
        for agent in &self.agents {
            if !agent.diff.is_empty() {
                writeln!(out)?;
                if let Some(target) = &agent.target {
                    let file = agent.file.as_deref().unwrap_or_default();
                    let text = format!("{file} is a link; the file that is written is {target}");
                    writeln!(out, "  {}", indented(&text, 2))?;
                }
                write_diff(out, &agent.diff)?;
            }
        }
        if self.makes_workspace || self.makes_tool {
            writeln!(out)?;
        }
        if self.makes_workspace {
            writeln!(out, "  new: .mimir/, as `mimir init` makes it")?;
        }
        if self.makes_tool {
            writeln!(
                out,
                "  new: .mimir/tools/word_count.yml, a first tool, which is then called"
            )?;
        }
        let has_changes = self
            .agents
            .iter()
            .any(|agent| agent.state == AgentState::Planned);
        if self.program != "mimir" && has_changes {
            let text = format!(
                "this program is not `mimir` on the PATH, so the files contain its path, which other machines do not have: {}",
                self.program
            );
            writeln!(out, "\n{} {}", styled(WARN, "note:"), indented(&text, 6))?;
        }
        writeln!(out)
    }

    /// The changes in one sentence, for the question.
    pub fn summary(&self) -> String {
        let planned = self.agents.iter();
        let planned: Vec<_> = planned
            .filter(|agent| agent.state == AgentState::Planned)
            .collect();
        let files: Vec<String> = planned
            .iter()
            .map(|agent| {
                let file = agent.file.as_deref().unwrap_or_default();
                format!("{} for {}", shorten_home(file), agent.title)
            })
            .collect();
        let made: Vec<&str> = [
            (self.makes_workspace, ".mimir"),
            (self.makes_tool, "the tool `word_count`, and calls it"),
        ]
        .into_iter()
        .filter_map(|(is_made, name)| is_made.then_some(name))
        .collect();
        let mut parts = Vec::new();
        if !files.is_empty() {
            parts.push(format!("writes {}", list_names(&files, "and")));
        }
        if !made.is_empty() {
            parts.push(format!("creates {}", made.join(" with ")));
        }
        let none = if files.is_empty() {
            "No agent will be changed. "
        } else {
            ""
        };
        format!("{none}Setup {}.", parts.join("; it "))
    }

    /// Stores the reason why no agent is set up. Then nothing else is made either.
    pub fn set_error(&mut self, error: &AgentSetupError) {
        self.ok = Some(false);
        self.error = Some(error.into());
        self.makes_workspace = false;
        self.makes_tool = false;
        self.next.clear();
    }

    /// Prints the reason why no agent was set up.
    pub fn print_error(&self) {
        if let Some(error) = &self.error {
            let message = format!("{} [{}]", error.message(), error.code());
            labelled_note(BAD, "error:", message);
            print_steps("To fix this, do the following:", error.remedies());
        }
    }

    /// Writes what was changed.
    pub fn print_applied(&self, out: &mut dyn Write) -> io::Result<()> {
        for agent in &self.agents {
            if agent.is_new_result {
                agent.print_state(out)?;
                if let Some(hint) = agent.hint.filter(|_| agent.state == AgentState::Done) {
                    writeln!(out, "  {}", styled(FAINT, hint))?;
                }
            }
        }
        for path in &self.created {
            writeln!(out, "{} {path}", styled(GOOD, "made"))?;
        }
        Ok(())
    }

    /// Writes the commands that follow.
    pub fn print_next(&self, out: &mut dyn Write) -> io::Result<()> {
        let ready = self
            .agents
            .iter()
            .filter(|agent| matches!(agent.state, AgentState::Done | AgentState::AlreadySetUp));
        let ready: Vec<&str> = ready.map(|agent| agent.title).collect();
        if !ready.is_empty() {
            let text = format!(
                "Start {} in this folder to use the tools.",
                list_names(&ready, "or")
            );
            writeln!(out, "\n{}", indented(&text, 0))?;
        }
        writeln!(out, "\nNext:")?;
        for (command, purpose) in NEXT {
            writeln!(
                out,
                "  {}  {purpose}",
                styled(STRONG, format_args!("{command:<36}"))
            )?;
        }
        Ok(())
    }

    /// The exit code: a failure if a file could not be changed, or the first call failed.
    pub fn exit(&self) -> ExitReason {
        let failed = self
            .agents
            .iter()
            .any(|agent| agent.state == AgentState::Failed);
        let call_failed = self
            .first_call
            .as_ref()
            .is_some_and(|outcome| outcome.result().is_err());
        ExitReason::done_if(!failed && !call_failed)
    }
}
