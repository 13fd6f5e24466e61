//! Errors of setting up agents, with stable codes.

use std::io;

use mimir_core::{ToolError, ToolErrorCode};

/// Reason why a config file of an agent is not changed.
#[derive(Debug, thiserror::Error)]
pub enum AgentSetupError {
    /// The file is not valid in its format.
    #[error(
        "{path}:{line}:{column}: not valid {format}: {message}; fix the file and run `mimir setup` again, or add the lines of `mimir mcp config {agent}` by hand"
    )]
    NotValid {
        /// The file.
        path: String,
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error, from 1.
        column: usize,
        /// Name of the format.
        format: &'static str,
        /// Message of the parser.
        message: String,
        /// Name of the agent.
        agent: &'static str,
    },
    /// The file is valid, but a key on the way to the entry has another type, or the editor cannot handle its form.
    #[error("{path}: {reason}; add the lines of `mimir mcp config {agent}` by hand")]
    NotEditable {
        /// The file.
        path: String,
        /// The obstacle, such as "`mcpServers` is not an object".
        reason: String,
        /// Name of the agent.
        agent: &'static str,
    },
    /// The path of a project's file leads out of the project.
    #[error(
        "{path} leads to {target}, outside of the project, and is not written; replace the link by a file or folder of the project"
    )]
    LeadsOut {
        /// The file as it was named.
        path: String,
        /// The file that it leads to.
        target: String,
    },
    /// The path is a link to a missing file.
    #[error("{path} is a link to a missing file; create its target, or remove the link")]
    BrokenLink {
        /// The link.
        path: String,
    },
    /// The file has changed since the plan was made.
    #[error("{path} has changed meanwhile and was not written; run the command again")]
    Changed {
        /// The file.
        path: String,
    },
    /// The platform has no home folder, so the agent's own file cannot be located.
    #[error("the config folder of {agent} cannot be located: HOME is not set to an absolute path")]
    NoHome {
        /// Name of the agent.
        agent: &'static str,
    },
    /// The stored record cannot be understood.
    #[error("the record of the setup, {path}, is not valid: {message}; remove it to start over")]
    Record {
        /// The file of the record.
        path: String,
        /// Message of the parser.
        message: String,
    },
    /// Nothing can be recorded, because the platform defines no folder for the user's settings.
    #[error("the setup cannot be recorded: no folder for your settings; set MIMIR_CONFIG_DIR")]
    NoRecordFolder,
    /// No sign of an agent was found, and none was named.
    #[error("no agent was found on this machine or in this project, so nothing was set up")]
    NoAgent,
    /// No file of the agents can be changed.
    #[error(
        "no agent was set up, because no config file of the agents that were found can be changed"
    )]
    NoUsableAgent,
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// Verb: read, write, remove.
        action: &'static str,
        /// The file.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
}

impl AgentSetupError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotValid { .. } => "CONFIG_NOT_VALID",
            Self::NotEditable { .. } => "CONFIG_NOT_EDITABLE",
            Self::LeadsOut { .. } => "CONFIG_OUTSIDE_PROJECT",
            Self::BrokenLink { .. } => "CONFIG_BROKEN_LINK",
            Self::Changed { .. } => "CONFIG_CHANGED",
            Self::NoHome { .. } => "NO_HOME",
            Self::Record { .. } => "RECORD_NOT_VALID",
            Self::NoRecordFolder => "NO_RECORD_FOLDER",
            Self::NoAgent => "NO_AGENT",
            Self::NoUsableAgent => "NO_USABLE_AGENT",
            Self::File { .. } => "FILE_ERROR",
        }
    }

    /// The steps that solve the problem, if they are not part of the message.
    pub const fn remedies(&self) -> &'static [&'static str] {
        match self {
            Self::NoAgent => &[
                "mimir setup --agent NAME    sets up an agent although it was not found",
                "mimir mcp config AGENT      prints the lines for an agent's config file",
                "mimir init                  only creates .mimir in this folder",
            ],
            Self::NoUsableAgent => &["fix the file, and run `mimir setup` again"],
            _ => &[],
        }
    }

    /// Creates the error of a failed file operation.
    pub(crate) fn file(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        Self::File {
            action,
            path: shown(path),
            source,
        }
    }
}

impl From<AgentSetupError> for ToolError {
    fn from(error: AgentSetupError) -> Self {
        let code = match &error {
            AgentSetupError::NotValid { .. }
            | AgentSetupError::NotEditable { .. }
            | AgentSetupError::Record { .. } => ToolErrorCode::InvalidInput,
            AgentSetupError::LeadsOut { .. } | AgentSetupError::BrokenLink { .. } => {
                ToolErrorCode::InvalidPath
            }
            AgentSetupError::File { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                ToolErrorCode::PermissionDenied
            }
            AgentSetupError::Changed { .. } | AgentSetupError::File { .. } => {
                ToolErrorCode::ExecutionError
            }
            AgentSetupError::NoHome { .. }
            | AgentSetupError::NoRecordFolder
            | AgentSetupError::NoUsableAgent => ToolErrorCode::Unavailable,
            AgentSetupError::NoAgent => ToolErrorCode::NotFound,
        };
        ToolError::new(code, error.to_string())
    }
}

/// A path for messages.
pub(crate) fn shown(path: &std::path::Path) -> String {
    mimir_core::text::visible(&path.display().to_string())
}
