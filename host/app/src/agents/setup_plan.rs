//! The changes that make agents use mimir, before any of them is made.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::agent_environment::{AgentEnvironment, AgentEvidence};
use super::agent_file::AgentFile;
use super::agent_kind::{AgentKind, ServeCommand};
use super::config_text::EntryEdit;
use super::line_diff::unified_diff;
use super::setup_error::AgentSetupError;

/// The changes that `mimir setup` would make for the agents of this machine.
#[derive(Debug)]
pub struct SetupPlan {
    /// Name or path of the program that the agents start.
    pub program: String,
    /// The agents, in a fixed order.
    pub agents: Vec<AgentPlan>,
}

/// The part of a plan about one agent.
#[derive(Debug)]
pub struct AgentPlan {
    /// The agent.
    pub agent: AgentKind,
    /// The sign by which it was found.
    pub evidence: Option<AgentEvidence>,
    /// The change of its file; `None` if it was neither found nor chosen.
    pub change: Option<Result<FileChange, AgentSetupError>>,
}

/// A change of a config file.
#[derive(Debug, Clone)]
pub struct FileChange {
    pub(crate) file: AgentFile,
    /// The new text; equal to the old one if the agent uses mimir already.
    pub(crate) after: String,
    /// The entry that is replaced.
    pub(crate) previous_entry: Option<Value>,
    /// Folders that are created, outermost first.
    pub(crate) new_folders: Vec<PathBuf>,
}

impl SetupPlan {
    /// Looks for agents and plans the changes of their files. With `chosen`, exactly those agents are planned, found or
    /// not. `program` is this program's own path.
    pub fn make(
        project: &Path,
        environment: &AgentEnvironment,
        program: &Path,
        chosen: &[AgentKind],
    ) -> Self {
        let agents = AgentKind::ALL.into_iter();
        let agents = agents.filter(|agent| chosen.is_empty() || chosen.contains(agent));
        let agents = agents.map(|agent| {
            let evidence = environment.find_agent(agent, project);
            let is_planned = evidence.is_some() || chosen.contains(&agent);
            let change = is_planned.then(|| plan_change(agent, project, environment, program));
            AgentPlan {
                agent,
                evidence,
                change,
            }
        });
        Self {
            agents: agents.collect(),
            program: environment.program_name(program, project),
        }
    }

    /// Checks that at least one agent uses mimir already or will use it.
    pub fn check_any_agent(&self) -> Result<(), AgentSetupError> {
        let changes = || self.agents.iter().filter_map(|plan| plan.change.as_ref());
        if changes().any(Result::is_ok) {
            Ok(())
        } else if changes().next().is_some() {
            Err(AgentSetupError::NoUsableAgent)
        } else {
            Err(AgentSetupError::NoAgent)
        }
    }

    /// The changes that differ from the files on disk.
    pub fn pending_changes(&self) -> impl Iterator<Item = &FileChange> {
        self.changes().filter(|change| !change.is_done())
    }

    /// The changes, and the files that have the entry already.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &FileChange> {
        let changes = self.agents.iter().filter_map(|plan| plan.change.as_ref());
        changes.filter_map(|change| change.as_ref().ok())
    }
}

fn plan_change(
    agent: AgentKind,
    project: &Path,
    environment: &AgentEnvironment,
    program: &Path,
) -> Result<FileChange, AgentSetupError> {
    let file = AgentFile::read(agent, project, environment)?;
    let previous_entry = file.entry()?;
    let name = environment.program_name(program, project);
    let command = agent.serve_command(&name);
    let wanted = agent.entry(&command);
    // `mimir mcp config` writes the project's path.
    let with_path = agent.entry(&ServeCommand {
        workspace: Some(project.display().to_string()),
        ..command
    });
    let has_entry = previous_entry.clone().is_some_and(|mut entry| {
        // Another name of this program, such as that of a script that starts it, is as good.
        if let Some(word) = AgentKind::entry_program(&mut entry)
            && environment.starts_program(word, program, project)
        {
            word.clone_from(&name);
        }
        is_entry(&entry, &wanted) || is_entry(&entry, &with_path)
    });
    let after = match &file.text {
        Some(text) if has_entry => text.clone(),
        _ => file.edit(EntryEdit::Set(&wanted))?,
    };
    Ok(FileChange {
        new_folders: file.missing_folders(),
        file,
        after,
        previous_entry,
    })
}

/// Returns true if an entry has all the keys of `wanted`. Others, such as an environment, are the person's.
fn is_entry(entry: &Value, wanted: &Value) -> bool {
    let (Some(entry), Some(wanted)) = (entry.as_object(), wanted.as_object()) else {
        return false;
    };
    let is_off = entry.get("enabled") == Some(&Value::Bool(false))
        || entry.get("disabled") == Some(&Value::Bool(true));
    // Defaults, which a person may leave out or change.
    let is_optional = |key: &str| {
        matches!(
            key,
            "type" | "source" | "env" | "name" | "timeout" | "enabled"
        )
    };
    let has = |(key, value): (&String, &Value)| match entry.get(key) {
        Some(found) => found == value || matches!(key.as_str(), "env" | "timeout" | "name"),
        None => is_optional(key),
    };
    !is_off && wanted.iter().all(has)
}

impl FileChange {
    /// The agent.
    pub fn agent(&self) -> AgentKind {
        self.file.agent
    }

    /// The file that the agent reads.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The file that is written, if the path is or contains a link.
    pub fn link_target(&self) -> Option<&Path> {
        let path = &self.file.path;
        // A project may itself be below a link, which is of no interest.
        let is_link =
            path.is_symlink() || (!self.file.in_project && path.ancestors().any(Path::is_symlink));
        (is_link && self.file.target != self.file.path).then_some(self.file.target.as_path())
    }

    /// True if the file belongs to the project and not to the user.
    pub fn is_in_project(&self) -> bool {
        self.file.in_project
    }

    /// True if the agent uses mimir already.
    pub fn is_done(&self) -> bool {
        self.file.text.as_deref() == Some(self.after.as_str())
    }

    /// True if the file does not exist yet.
    pub fn is_new_file(&self) -> bool {
        self.file.text.is_none()
    }

    /// True if an entry `mimir` with another content is replaced.
    pub fn replaces_entry(&self) -> bool {
        self.previous_entry.is_some() && !self.is_done()
    }

    /// The change as a unified diff, with this name for the file.
    pub fn diff(&self, name: &str) -> String {
        unified_diff(name, self.file.text.as_deref(), Some(&self.after))
    }

    /// Writes the file.
    pub fn apply(&self) -> Result<(), AgentSetupError> {
        self.file.replace(Some(&self.after))
    }
}

#[cfg(test)]
mod tests;
