//! Exit codes, and the failures that lead to them.

use std::io;
use std::process::ExitCode;

use mimir_core::{Code, ToolError};

/// Reason why the program exits. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done,
    /// The tool, or a check of `doctor`, failed.
    Failed,
    /// The command line or the arguments are wrong.
    Usage,
    /// Refused by a person, a rule or a missing grant.
    Refused,
    /// A limit or a timeout was reached.
    Limit,
    /// Interrupted by Ctrl-C; 128 + SIGINT, as in shells.
    Interrupted,
    /// Terminated; 128 + SIGTERM.
    Terminated,
}

impl Exit {
    /// Exit code of the process.
    pub const fn number(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Limit => 4,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.number())
    }
}

impl From<Code> for Exit {
    fn from(code: Code) -> Self {
        match code {
            Code::InvalidInput | Code::InvalidPath => Exit::Usage,
            Code::PermissionDenied | Code::ApprovalDenied | Code::PolicyDenied => Exit::Refused,
            Code::Timeout | Code::LimitExceeded => Exit::Limit,
            Code::Cancelled => Exit::Interrupted,
            Code::NotFound
            | Code::FileNotFound
            | Code::AlreadyExists
            | Code::Network
            | Code::ExecutionError
            | Code::Unavailable
            | Code::Internal => Exit::Failed,
        }
    }
}

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error to print, with the exit code.
    #[error("{error}")]
    Told {
        /// The error to print.
        error: ToolError,
        /// The exit code.
        exit: Exit,
    },
    /// Output is no longer possible: the reader of a pipe is gone, or a disk is full.
    #[error(transparent)]
    Print(#[from] io::Error),
}

impl Failure {
    /// Creates a usage error from one sentence.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Told {
            error: ToolError::new(Code::InvalidInput, message),
            exit: Exit::Usage,
        }
    }

    /// Replaces the exit code.
    pub fn ending(error: ToolError, exit: Exit) -> Self {
        Self::Told { error, exit }
    }
}

impl From<mimir_core::approval::LedgerError> for Failure {
    fn from(error: mimir_core::approval::LedgerError) -> Self {
        ToolError::new(Code::Unavailable, error.to_string()).into()
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        let exit = error.code.into();
        Self::Told { error, exit }
    }
}
