//! Exit codes of the program, and errors of commands.

use std::io;
use std::process::ExitCode;

use mimir_core::{ToolError, ToolErrorCode};

/// Reason why the program exits. The numbers of the exit codes are stable, because scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// Success.
    Done,
    /// The tool or a check failed.
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
    /// The program starts again with the same arguments. Where that is not possible, it fails.
    Restart,
}

impl ExitReason {
    /// Returns [`Self::Done`] if a check passed, else [`Self::Failed`].
    pub const fn done_if(passed: bool) -> Self {
        if passed { Self::Done } else { Self::Failed }
    }

    /// Returns the exit code of the process.
    pub const fn number(self) -> u8 {
        match self {
            ExitReason::Done => 0,
            ExitReason::Failed | ExitReason::Restart => 1,
            ExitReason::Usage => 2,
            ExitReason::Refused => 3,
            ExitReason::Limit => 4,
            ExitReason::Interrupted => 130,
            ExitReason::Terminated => 143,
        }
    }
}

impl From<ExitReason> for ExitCode {
    fn from(exit: ExitReason) -> Self {
        ExitCode::from(exit.number())
    }
}

impl From<ToolErrorCode> for ExitReason {
    fn from(code: ToolErrorCode) -> Self {
        match code {
            ToolErrorCode::InvalidInput | ToolErrorCode::InvalidPath => ExitReason::Usage,
            ToolErrorCode::PermissionDenied
            | ToolErrorCode::ApprovalDenied
            | ToolErrorCode::PolicyDenied => ExitReason::Refused,
            ToolErrorCode::Timeout | ToolErrorCode::LimitExceeded => ExitReason::Limit,
            ToolErrorCode::Cancelled => ExitReason::Interrupted,
            ToolErrorCode::NotFound
            | ToolErrorCode::FileNotFound
            | ToolErrorCode::AlreadyExists
            | ToolErrorCode::Network
            | ToolErrorCode::ExecutionError
            | ToolErrorCode::Unavailable
            | ToolErrorCode::Internal => ExitReason::Failed,
        }
    }
}

/// Result of a command: by default the reason for the exit code, or the error to print.
pub type CommandResult<T = ExitReason> = Result<T, CommandFailure>;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailure {
    /// An error to print, with the exit code.
    #[error("{error}")]
    Reported {
        /// The error to print.
        error: ToolError,
        /// The exit code.
        exit: ExitReason,
    },
    /// Output is no longer possible: the reader of a pipe is gone, or a disk is full.
    #[error(transparent)]
    Print(#[from] io::Error),
}

impl CommandFailure {
    /// Creates a usage error from one sentence.
    pub fn usage(message: impl std::fmt::Display) -> Self {
        Self::Reported {
            error: ToolError::invalid_input(message),
            exit: ExitReason::Usage,
        }
    }

    /// Creates a failure with an exit code other than the one of the error's code.
    pub fn with_exit(error: ToolError, exit: ExitReason) -> Self {
        Self::Reported { error, exit }
    }
}

impl From<mimir_core::approval::ApprovalStoreError> for CommandFailure {
    fn from(error: mimir_core::approval::ApprovalStoreError) -> Self {
        ToolError::unavailable(error).into()
    }
}

impl From<ToolError> for CommandFailure {
    fn from(error: ToolError) -> Self {
        let exit = error.code.into();
        Self::Reported { error, exit }
    }
}
