//! Plans and results of `mimir setup`.

use std::io::{self, Write};

use mimir_core::text::visible;
use mimir_core::{Outcome, Redactor};
use serde::Serialize;

use super::{BAD, FAINT, GOOD, STRONG, WARN, styled};
use crate::exit::ExitReason;
use mimir::agents::SetupPlan;
use mimir::workspace::WorkspaceFolder;

mod agent_report;

pub use agent_report::{AgentReport, AgentState, SetupErrorReport};

/// A plan or a result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetupReport {
    workspace: String,
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
        let agents = plan.agents.iter();
        Self {
            workspace: visible(&workspace.root().display().to_string()),
            program: visible(&plan.program),
            is_applied: false,
            agents: agents
                .map(|plan| AgentReport::new(workspace, plan))
                .collect(),
            makes_workspace,
            makes_tool,
            created: Vec::new(),
            first_call: None,
            next: NEXT.map(|(command, _)| command).to_vec(),
        }
    }

    /// Writes what would be changed.
    pub fn print_plan(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "Workspace: {}\n", self.workspace)?;
        for agent in &self.agents {
            agent.print_state(out)?;
        }
        if self
            .agents
            .iter()
            .all(|agent| agent.state == AgentState::NotFound)
        {
            writeln!(
                out,
                "\nNo agent was found. `mimir setup --agent NAME` sets one up anyway, and\n\
                 `mimir mcp config AGENT` prints the lines for others."
            )?;
        }
        for agent in &self.agents {
            if !agent.diff.is_empty() {
                writeln!(out)?;
                if let Some(target) = &agent.target {
                    let file = agent.file.as_deref().unwrap_or_default();
                    writeln!(
                        out,
                        "  {file} is a link; the file that is written is {target}"
                    )?;
                }
                write_diff(out, &agent.diff)?;
            }
        }
        if self.makes_workspace || self.makes_tool {
            writeln!(out)?;
        }
        if self.makes_workspace {
            writeln!(
                out,
                "  new: .mimir/ with a commented config, as `mimir init` makes it"
            )?;
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
            writeln!(
                out,
                "\n{} this program is not `mimir` on the PATH, so the files contain its path,\n\
                 which other machines do not have: {}",
                styled(WARN, "note:"),
                self.program
            )?;
        }
        writeln!(out)
    }

    /// Writes what was changed.
    pub fn print_applied(&self, out: &mut dyn Write) -> io::Result<()> {
        for agent in &self.agents {
            if matches!(agent.state, AgentState::Done | AgentState::Failed) {
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
