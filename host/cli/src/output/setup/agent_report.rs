//! The part of a plan or a result about one agent.

use std::io::{self, Write};

use mimir_core::text::visible;
use serde::Serialize;

use super::masked_diff;
use crate::output::{BAD, FAINT, GOOD, WARN, indented, shorten_home, styled};
use mimir::agents::{AgentEvidence, AgentKind, AgentPlan, AgentSetupError};
use mimir::workspace::WorkspaceFolder;

/// Columns before the text about an agent.
pub const INDENT: usize = 15;

/// State of an agent in a plan or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AgentState {
    /// No sign of the agent was found.
    NotFound,
    /// Its file starts mimir already.
    AlreadySetUp,
    /// Its file would be changed.
    Planned,
    /// Its file was changed.
    Done,
    /// Its file cannot be changed.
    Failed,
}

/// The part of a report about one agent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReport {
    /// The agent.
    #[serde(skip)]
    pub kind: AgentKind,
    agent: &'static str,
    /// Name as its maker writes it.
    pub title: &'static str,
    /// The state.
    pub state: AgentState,
    /// True if the state is the result of a change, and not known from the plan.
    #[serde(skip)]
    pub is_new_result: bool,
    /// The sign by which it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<FoundSign>,
    /// The config file, relative to the workspace if it is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The file behind a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// True if the file does not exist yet.
    #[serde(skip)]
    is_new_file: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replaces_entry: bool,
    /// The planned change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<SetupErrorReport>,
    /// A sentence about the first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

/// A sign of an agent.
#[derive(Serialize)]
struct FoundSign {
    kind: &'static str,
    path: String,
}

/// An error of an agent's file.
#[derive(Debug, Serialize)]
pub struct SetupErrorReport {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remedies: Vec<String>,
}

impl SetupErrorReport {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The steps that solve the problem.
    pub fn remedies(&self) -> &[String] {
        &self.remedies
    }
}

impl From<&AgentSetupError> for SetupErrorReport {
    fn from(error: &AgentSetupError) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            remedies: error.remedies().iter().map(|&step| step.into()).collect(),
        }
    }
}

impl AgentReport {
    /// Describes the plan of an agent.
    pub fn new(workspace: &WorkspaceFolder, plan: &AgentPlan) -> Self {
        let kind = plan.agent;
        let found = plan.evidence.as_ref().map(|evidence| FoundSign {
            kind: match evidence {
                AgentEvidence::Program(_) => "program",
                AgentEvidence::Folder(_) => "folder",
                AgentEvidence::ProjectFile(_) => "projectFile",
            },
            path: visible(&evidence.path().display().to_string()),
        });
        let mut report = Self {
            kind,
            agent: kind.name(),
            title: kind.title(),
            state: AgentState::NotFound,
            is_new_result: false,
            found,
            file: None,
            target: None,
            is_new_file: false,
            replaces_entry: false,
            diff: String::new(),
            error: None,
            hint: kind.hint(),
        };
        match &plan.change {
            None => {}
            Some(Ok(change)) => {
                let file = workspace.display_path(change.path());
                let target = change.link_target();
                report.target = target.map(|target| visible(&target.display().to_string()));
                report.is_new_file = change.is_new_file();
                report.replaces_entry = change.replaces_entry();
                report.state = if change.is_done() {
                    AgentState::AlreadySetUp
                } else {
                    report.diff = masked_diff(change.diff(file.trim_start_matches('/')));
                    AgentState::Planned
                };
                report.file = Some(file);
            }
            Some(Err(error)) => report.set_error(error),
        }
        report
    }

    fn set_error(&mut self, error: &AgentSetupError) {
        self.state = AgentState::Failed;
        self.error = Some(error.into());
    }

    /// Stores the result of the change.
    pub fn set_applied(&mut self, result: Result<(), AgentSetupError>) {
        self.is_new_result = true;
        match result {
            Ok(()) => self.state = AgentState::Done,
            Err(error) => self.set_error(&error),
        }
    }

    /// Writes the state as a line.
    pub fn print_state(&self, out: &mut dyn Write) -> io::Result<()> {
        let file = shorten_home(self.file.as_deref().unwrap_or_default());
        let text = match self.state {
            AgentState::NotFound => "not found".to_owned(),
            AgentState::AlreadySetUp => format!("already set up in {file}"),
            AgentState::Planned if self.replaces_entry => {
                format!("{file}: its entry `mimir` is different and would be replaced")
            }
            AgentState::Planned if self.is_new_file => format!("{file} would be created"),
            AgentState::Planned => format!("{file} would be changed"),
            AgentState::Done => format!("set up in {file}"),
            AgentState::Failed => {
                let error = self.error.as_ref();
                error.map_or_else(String::new, |error| error.message.clone())
            }
        };
        let mark = match self.state {
            AgentState::NotFound => styled(FAINT, "·"),
            AgentState::AlreadySetUp | AgentState::Done => styled(GOOD, "✓"),
            AgentState::Planned => styled(WARN, "+"),
            AgentState::Failed => styled(BAD, "✗"),
        };
        let found = match &self.found {
            // The file itself is the sign.
            Some(found) if found.kind == "projectFile" => String::new(),
            Some(found) if self.state != AgentState::Done => {
                format!(" (found {})", shorten_home(&found.path))
            }
            _ => String::new(),
        };
        let text = indented(&format!("{text}{found}"), INDENT);
        let text = match self.state {
            AgentState::NotFound => styled(FAINT, text),
            _ => text,
        };
        writeln!(out, "{mark} {:<12} {text}", self.title)
    }
}
