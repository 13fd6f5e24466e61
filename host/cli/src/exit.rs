//! How a run of the program ends: the exit codes, and the failure that leads to one.

use std::io;
use std::process::ExitCode;

use mimir_core::{Code, ToolError};

/// How the program ends. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what it was asked.
    Done,
    /// The tool, or a check of `doctor`, failed.
    Failed,
    /// The command line or the arguments are wrong.
    Usage,
    /// A person, a rule or a missing grant said no.
    Refused,
    /// A limit or the time ran out.
    Limit,
    /// Ctrl-C; 128 + SIGINT, as shells have it.
    Interrupted,
    /// Asked to end; 128 + SIGTERM.
    Terminated,
}

impl Exit {
    /// The number that the shell sees.
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

/// Why a command could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error for the person, with how the program ends.
    #[error("{error}")]
    Told {
        /// What to print.
        error: ToolError,
        /// How to end.
        exit: Exit,
    },
    /// Nothing can be printed any more: the reader of a pipe went away, or a disk is full.
    #[error(transparent)]
    Print(#[from] io::Error),
}

impl Failure {
    /// Wrong usage, in one sentence.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Told {
            error: ToolError::new(Code::InvalidInput, message),
            exit: Exit::Usage,
        }
    }

    /// The same error with another ending.
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

/// A file operation that failed, as an error that names the file.
pub fn file_error(doing: &str, path: &std::path::Path, error: &io::Error) -> ToolError {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::FileNotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Code::PermissionDenied
        }
        io::ErrorKind::AlreadyExists => Code::AlreadyExists,
        _ => Code::ExecutionError,
    };
    let place = mimir_core::text::visible(&path.display().to_string());
    ToolError::new(code, format!("cannot {doing} {place}: {error}"))
}
