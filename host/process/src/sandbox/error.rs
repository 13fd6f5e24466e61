//! Why a command did not start, or did not come to its end.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mimir_core::code::Language;
use mimir_core::command::Finished;
use mimir_core::names::did_you_mean;
use mimir_core::text::prefix;
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::run::guard::Made;

/// A command that did not start, or did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The argument vector is empty.
    #[error("a command needs a program")]
    NoProgram,
    /// A word, a variable or the script is none that a program can be given.
    #[error("{what} cannot be given to a program: {why}")]
    Unfit {
        /// Which.
        what: String,
        /// Why not.
        why: &'static str,
    },
    /// No folder of `PATH` has the program.
    #[error("there is no program `{program}` here.{near}")]
    NotFound {
        /// As it was asked for.
        program: String,
        /// The nearest names, as a sentence, or nothing.
        near: String,
    },
    /// The file is there and is no program.
    #[error("`{program}` is not executable: {why}")]
    NotExecutable {
        /// As it was asked for.
        program: String,
        /// What is missing.
        why: &'static str,
    },
    /// The certificates that the settings name cannot be used.
    #[error("{0}")]
    Roots(mimir_net::Error),
    /// There is neither bash nor sh.
    #[error("there is no shell here: neither `bash` nor `sh` is on the PATH")]
    NoShell,
    /// The folder to start in is not there.
    #[error("there is no folder `{0}` to start in")]
    NoDirectory(String),
    /// What the command was to start in is something else.
    #[error("`{0}` is a file, and commands start in folders")]
    NotDirectory(String),
    /// The folder to start in is not in the workspace.
    #[error("`{0}` is not in the workspace")]
    Outside(String),
    /// A program that is in no sandbox, or has secrets, would run what anybody may write who may write the workspace.
    #[error(
        "{0} leads into the workspace, and whoever writes a file there would have it run without a sandbox, or with \
         the secrets that it is given"
    )]
    WorkspaceCode(String),
    /// A workspace that no sandbox can make writable without giving itself up.
    #[error(
        "`{0}` cannot be the workspace of a sandboxed command: it holds what the sandbox is made of"
    )]
    Workspace(PathBuf),
    /// A folder that was to be seen cannot be.
    #[error("`{at}` cannot be mounted: {why}")]
    Mount {
        /// Which.
        at: PathBuf,
        /// Why not.
        why: String,
    },
    /// Something was asked for that this sandbox cannot hold.
    #[error("the sandbox `{sandbox}` cannot hold {what} here: {why}")]
    CannotHold {
        /// Which sandbox.
        sandbox: &'static str,
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// The sandbox is not to be had here.
    #[error("the sandbox `{sandbox}` is not available here: {why}")]
    Unavailable {
        /// Which sandbox.
        sandbox: &'static str,
        /// Why not.
        why: String,
    },
    /// Of two sandboxes that would do, neither is to be had.
    #[error("{0}; {1}")]
    Neither(Box<Fault>, Box<Fault>),
    /// Code is to run in a container, and the settings have no image for it.
    #[error("no image is named for {} in a container", .0.as_str())]
    NoneNamed(Language),
    /// Code is to run with the programs of this machine, and the settings want containers.
    #[error("`sandbox.mode: container` keeps the programs of this machine from running")]
    ContainersAlone,
    /// The image of containers is not on this machine.
    #[error("the image `{image}` is not on this machine, and none is fetched unasked")]
    NoImage {
        /// Which.
        image: String,
        /// The command that fetches it.
        pull: String,
    },
    /// The image cannot be used.
    #[error("the image `{image}` cannot be used: {why}")]
    BadImage {
        /// Which.
        image: String,
        /// Why not.
        why: String,
    },
    /// The container engine did not do what it was asked for, or is gone.
    #[error("the container engine failed {doing}: {why}")]
    Engine {
        /// What it was asked for.
        doing: &'static str,
        /// What it said, or what became of it.
        why: String,
    },
    /// A step on the way into the sandbox failed.
    #[error("the sandbox could not be set up: {stage}: {error}")]
    Setup {
        /// What was being done.
        stage: String,
        /// What the system said.
        error: io::Error,
    },
    /// It ran for too long.
    #[error("it was stopped after {:.1} s", .0.after.as_secs_f32())]
    Timeout(Box<Stopped>),
    /// It used too much memory.
    #[error("it was stopped: it used more than {}", mimir_core::text::bytes(.0.bound))]
    Memory(Box<Stopped>),
    /// It made something that no command may make.
    #[error(
        "it made `{path}`, which {rule}, and was stopped if it still ran; what it made is now `{kept}`{}",
        Made::and_others(*.others)
    )]
    Shielded {
        /// What it made, below the workspace.
        path: String,
        /// Why it may not.
        rule: String,
        /// What that is called now.
        kept: String,
        /// How many more there were.
        others: usize,
        /// How far it came.
        stopped: Box<Stopped>,
    },
    /// Another program has replaced what it may not change or read, so that it could.
    #[error(
        "it was stopped: `{path}`, which commands may not change or read, was replaced by another program while it ran"
    )]
    Uncovered {
        /// Which, below the workspace.
        path: String,
        /// How far it came.
        stopped: Box<Stopped>,
    },
    /// What a sandbox was to be made of was replaced while it was made.
    #[error("the sandbox could not be made: `{0}` was replaced by another program meanwhile")]
    Replaced(PathBuf),
    /// There are too many commands in the background.
    #[error(
        "{0} commands are running in the background, which is as many as a session may have; stop one first"
    )]
    TooManyJobs(usize),
    /// There is no such command in the background.
    #[error("this session has no command {0} in the background")]
    NoJob(u32),
    /// A fault of ours or of the machine.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// A command that was stopped, and what it had written by then.
#[derive(Debug)]
pub struct Stopped {
    /// After how long.
    pub after: Duration,
    /// The bound that it went beyond, where that is a number.
    pub bound: u64,
    /// How it ended and what it wrote.
    pub finished: Finished,
}

/// Characters of output that go with an error.
const OUTPUT_WITH_ERROR: usize = 16_000;

impl Fault {
    /// What no key of the settings asks for, and cannot be held where too much is to be covered.
    pub(crate) const RULES: &'static str = "the rules about paths";

    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { doing, error }
    }

    pub(crate) fn not_found<'a>(program: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::NotFound {
            program: prefix(program, 200).to_owned(),
            near: did_you_mean(program, known),
        }
    }

    /// The stable code that a call fails with.
    pub fn code(&self) -> Code {
        match self {
            Self::NoProgram | Self::Unfit { .. } => Code::InvalidInput,
            Self::NotFound { .. } | Self::NoJob(_) => Code::NotFound,
            Self::NotExecutable { .. } | Self::Shielded { .. } | Self::WorkspaceCode(_) => {
                Code::PermissionDenied
            }
            Self::NoDirectory(_) | Self::NotDirectory(_) => Code::FileNotFound,
            Self::Outside(_) => Code::InvalidPath,
            Self::Timeout(_) => Code::Timeout,
            Self::Memory(_) | Self::TooManyJobs(_) => Code::LimitExceeded,
            Self::NoShell
            | Self::Roots(_)
            | Self::Workspace(_)
            | Self::Mount { .. }
            | Self::CannotHold { .. }
            | Self::Unavailable { .. }
            | Self::Neither(..)
            | Self::NoImage { .. }
            | Self::NoneNamed(_)
            | Self::ContainersAlone
            | Self::Uncovered { .. }
            | Self::Replaced(_)
            | Self::BadImage { .. }
            | Self::Engine { .. } => Code::Unavailable,
            Self::Setup { .. } | Self::Io { .. } => Code::Internal,
        }
    }

    /// What a shell would say that the command ended with: 124 where its time was up, as `timeout` has it.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::Timeout(_) => 124,
            Self::Memory(stopped)
            | Self::Uncovered { stopped, .. }
            | Self::Shielded { stopped, .. } => stopped.finished.exit_code,
            _ => 1,
        }
    }

    /// What a person can do about it.
    fn way_out(&self) -> Option<String> {
        match self {
            Self::NoImage { pull, .. } => Some(format!("`{pull}` fetches it")),
            Self::NoneNamed(language) => Some(format!(
                "`sandbox.images: {{{}: IMAGE}}` in the settings names one",
                language.as_str()
            )),
            Self::ContainersAlone => {
                Some("another `sandbox.mode` in the settings lets them; a container needs nothing of this machine".into())
            }
            Self::Uncovered { .. } => {
                Some("run it again: what is there when a command starts is covered for it".into())
            }
            Self::Replaced(_) => Some(
                "run it again when nothing in the background moves that file or the folders that it is in".into(),
            ),
            Self::WorkspaceCode(_) => Some(
                "keep it outside of the workspace, or in a sandbox and without secrets; `workspaceCode: true` in its \
                 block of the settings takes the risk"
                    .into(),
            ),
            Self::BadImage { .. } => {
                Some("`sandbox.image` in the settings names another one".into())
            }
            Self::CannotHold { what, .. } if *what != Self::RULES => Some(
                "`mimir doctor` says what each sandbox gives here; leave that key out of `sandbox` in the settings, or name another `mode` there"
                    .into(),
            ),
            Self::Workspace(_)
            | Self::CannotHold { .. }
            | Self::Unavailable { .. }
            | Self::Neither(..)
            | Self::Engine { .. } => {
                Some("`mimir doctor` says what each sandbox gives here; `sandbox: none` in the settings does without one".into())
            }
            _ => None,
        }
    }
}

impl From<Fault> for ToolError {
    fn from(fault: Fault) -> Self {
        let error = Self::new(fault.code(), fault.to_string()).with_way_out(fault.way_out());
        match &fault {
            Fault::Timeout(stopped)
            | Fault::Memory(stopped)
            | Fault::Uncovered { stopped, .. }
            | Fault::Shielded { stopped, .. } => {
                let output = String::from_utf8_lossy(&stopped.finished.combined.bytes);
                let all = output.chars().count();
                let last: String = output
                    .chars()
                    .skip(all.saturating_sub(OUTPUT_WITH_ERROR))
                    .collect();
                error.with_details(json!({
                    "output": last,
                    "exitCode": stopped.finished.exit_code,
                    "durationMs": u64::try_from(stopped.after.as_millis()).unwrap_or(u64::MAX),
                }))
            }
            _ => error,
        }
    }
}
