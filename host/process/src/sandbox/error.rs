//! Errors of commands that did not start or did not complete.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mimir_core::code_language::CodeLanguage;
use mimir_core::command::{CommandOutput, CommandTarget};
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::text::prefix;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use crate::run::workspace_guard::ForbiddenPath;

/// An error of a command that did not start or did not complete.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The argument vector is empty.
    #[error("the command is empty: expected a program")]
    NoProgram,
    /// An argument, a variable or the script cannot be passed to a program.
    #[error("{what} cannot be passed to a program: {why}")]
    InvalidInput {
        /// The argument, variable or script.
        what: String,
        /// The reason.
        why: &'static str,
    },
    /// No folder of `PATH` contains the program.
    #[error("program `{program}` not found.{near}")]
    NotFound {
        /// The name as given.
        program: String,
        /// A suggestion of similar names as a sentence, or empty.
        near: String,
    },
    /// The file exists but cannot be executed.
    #[error("`{program}` is not executable: {why}")]
    NotExecutable {
        /// The name as given.
        program: String,
        /// The reason.
        why: &'static str,
    },
    /// The certificates named in the settings cannot be used.
    #[error("{0}")]
    Roots(mimir_net::Error),
    /// Neither bash nor sh is installed.
    #[error("no shell found: neither `bash` nor `sh` is on the PATH")]
    NoShell,
    /// The start folder does not exist.
    #[error("the start folder `{0}` does not exist")]
    NoDirectory(String),
    /// The start folder is not a folder.
    #[error("the start folder `{0}` is a file: expected a folder")]
    NotDirectory(String),
    /// The start folder is outside the workspace.
    #[error("`{0}` is not in the workspace")]
    Outside(String),
    /// A program without a sandbox, or with secrets, would run files that anyone with write access to the workspace can
    /// change.
    #[error(
        "{0} leads into the workspace, so any file that is written there could run without a sandbox, or with the \
         secrets of this program"
    )]
    WorkspaceCode(String),
    /// No sandbox can make this workspace writable without losing its protection.
    #[error(
        "`{0}` cannot be the workspace of a sandboxed command: it contains folders that the sandbox itself uses"
    )]
    Workspace(PathBuf),
    /// A folder cannot be mounted.
    #[error("`{at}` cannot be mounted: {why}")]
    Mount {
        /// The target path.
        at: PathBuf,
        /// The reason.
        why: String,
    },
    /// The sandbox does not support a request of the settings or the command.
    #[error("the sandbox `{sandbox}` does not support {what} here: {why}")]
    Unsupported {
        /// The name of the sandbox.
        sandbox: &'static str,
        /// The unsupported request.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// The sandbox is not available on this machine.
    #[error("the sandbox `{sandbox}` is not available here: {why}")]
    Unavailable {
        /// The name of the sandbox.
        sandbox: &'static str,
        /// The reason.
        why: String,
    },
    /// Neither of the two suitable sandboxes is available.
    #[error("{0}; {1}")]
    Neither(Box<SandboxError>, Box<SandboxError>),
    /// Code requires a container, but no image is configured for its language.
    #[error("no image is configured to run {} in a container", .0.as_str())]
    NoContainerImage(CodeLanguage),
    /// Code requires host programs, but the settings require containers.
    #[error("`sandbox.mode: container` does not allow host programs")]
    ContainersOnly,
    /// The image of containers is not on this machine.
    #[error("the image `{image}` is not on this machine, and images are not fetched automatically")]
    NoImage {
        /// The name of the image.
        image: String,
        /// The command that fetches it.
        pull: String,
    },
    /// The image cannot be used.
    #[error("the image `{image}` cannot be used: {why}")]
    BadImage {
        /// The name of the image.
        image: String,
        /// The reason.
        why: String,
    },
    /// The container engine failed or is gone.
    #[error("the container engine failed {doing}: {why}")]
    Engine {
        /// The failed step.
        doing: &'static str,
        /// The error message of the engine, or its state.
        why: String,
    },
    /// A step of the sandbox setup failed.
    #[error("the sandbox could not be set up: {stage}: {error}")]
    Setup {
        /// The failed step.
        stage: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The command exceeded its time limit.
    #[error("it was stopped after {:.1} s", .0.after.as_secs_f32())]
    Timeout(Box<StoppedCommand>),
    /// The command exceeded its memory limit.
    #[error("it was stopped: it used more than {}", mimir_core::text::bytes(.0.bound))]
    Memory(Box<StoppedCommand>),
    /// The command created a forbidden path.
    #[error(
        "it created `{path}`, which {rule}, and was stopped if it was still running; what it created is now `{renamed_to}`{}",
        ForbiddenPath::others_note(*.others)
    )]
    ForbiddenPathCreated {
        /// The created path, relative to the workspace.
        path: String,
        /// The reason why it is forbidden.
        rule: String,
        /// The new name of the path.
        renamed_to: String,
        /// The number of further forbidden paths.
        others: usize,
        /// Output and exit code until then.
        stopped: Box<StoppedCommand>,
    },
    /// Concurrent commands created many forbidden paths.
    #[error(
        "it was stopped, like all commands that ran at the same time: one of them created {created}"
    )]
    ForbiddenPathCreatedConcurrently {
        /// The first path, with its new name and the number of the others.
        created: String,
        /// Output and exit code until then.
        stopped: Box<StoppedCommand>,
    },
    /// Another program replaced a protected file while the command ran, so the protection no longer applied.
    #[error(
        "it was stopped: `{path}`, which commands may not change or read, was replaced by another program while it ran"
    )]
    Uncovered {
        /// The path, relative to the workspace.
        path: String,
        /// Output and exit code until then.
        stopped: Box<StoppedCommand>,
    },
    /// Another program replaced a file needed by the sandbox during the setup.
    #[error("cannot set up the sandbox: another program replaced `{0}` meanwhile")]
    Replaced(PathBuf),
    /// The session has too many background commands.
    #[error("{0} commands are running in the background, the maximum of a session; stop one first")]
    TooManyJobs(usize),
    /// The session has no background command with this number.
    #[error("this session has no background command {0}")]
    NoJob(u32),
    /// An internal error, or an error of the machine.
    #[error("{doing}: {error}")]
    Io {
        /// The failed step.
        doing: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

/// A stopped command, with its output until then.
#[derive(Debug)]
pub struct StoppedCommand {
    /// Run time of the command.
    pub after: Duration,
    /// The exceeded limit, if it is a number; otherwise 0.
    pub bound: u64,
    /// The exit code and the output.
    pub finished: CommandOutput,
}

/// Maximum number of output characters in the details of an error.
const MAX_ERROR_OUTPUT: usize = 16_000;

impl SandboxError {
    /// Path rules as an unsupported request: they cannot be enforced if too many paths need protection. No settings key
    /// corresponds to them.
    pub(crate) const RULES: &'static str = "the path rules";

    pub(crate) fn io_error(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { doing, error }
    }

    pub(crate) fn unsupported(
        sandbox: &'static str,
        what: &'static str,
        why: impl Into<String>,
    ) -> Self {
        let why = why.into();
        Self::Unsupported { sandbox, what, why }
    }

    pub(crate) fn not_found<'a>(program: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::NotFound {
            program: prefix(program, 200).to_owned(),
            near: did_you_mean(program, known),
        }
    }

    /// Returns the stable error code.
    pub fn code(&self) -> ToolErrorCode {
        match self {
            Self::NoProgram | Self::InvalidInput { .. } => ToolErrorCode::InvalidInput,
            Self::NotFound { .. } | Self::NoJob(_) => ToolErrorCode::NotFound,
            Self::NotExecutable { .. }
            | Self::ForbiddenPathCreated { .. }
            | Self::ForbiddenPathCreatedConcurrently { .. }
            | Self::WorkspaceCode(_) => ToolErrorCode::PermissionDenied,
            Self::NoDirectory(_) | Self::NotDirectory(_) => ToolErrorCode::FileNotFound,
            Self::Outside(_) => ToolErrorCode::InvalidPath,
            Self::Timeout(_) => ToolErrorCode::Timeout,
            Self::Memory(_) | Self::TooManyJobs(_) => ToolErrorCode::LimitExceeded,
            Self::NoShell
            | Self::Roots(_)
            | Self::Workspace(_)
            | Self::Mount { .. }
            | Self::Unsupported { .. }
            | Self::Unavailable { .. }
            | Self::Neither(..)
            | Self::NoImage { .. }
            | Self::NoContainerImage(_)
            | Self::ContainersOnly
            | Self::Uncovered { .. }
            | Self::Replaced(_)
            | Self::BadImage { .. }
            | Self::Engine { .. } => ToolErrorCode::Unavailable,
            Self::Setup { .. } | Self::Io { .. } => ToolErrorCode::Internal,
        }
    }

    /// Returns the exit code that a shell would report: 124 for a timeout, as the program `timeout` does.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::Timeout(_) => 124,
            Self::Memory(stopped)
            | Self::Uncovered { stopped, .. }
            | Self::ForbiddenPathCreated { stopped, .. }
            | Self::ForbiddenPathCreatedConcurrently { stopped, .. } => stopped.finished.exit_code,
            _ => 1,
        }
    }

    /// Converts the error of a command with this target. A command that needs a container cannot run without one, so the
    /// hint is not to turn the sandbox off.
    pub(crate) fn for_target(self, target: CommandTarget) -> ToolError {
        let remedy = self.container_remedy(target);
        let error = ToolError::from(self);
        match remedy {
            Some(remedy) => error.with_remedies([remedy]),
            None => error,
        }
    }

    /// Returns a hint for a command that runs in a container whatever the settings say. `None` if that of
    /// [`Self::remedy`] is right.
    fn container_remedy(&self, target: CommandTarget) -> Option<String> {
        let is_named_image = match target {
            CommandTarget::Default | CommandTarget::HostPrograms => return None,
            CommandTarget::Container(_) => false,
            CommandTarget::Image(_) => true,
        };
        let remedy = match self {
            Self::Unavailable { .. } | Self::Neither(..) | Self::Engine { .. } => {
                "start Docker or Podman, or set `sandbox.socket` in the settings to the socket of a running engine; \
                 `mimir doctor` shows whether it is found"
            }
            Self::Workspace(_) => "use another folder as the workspace",
            Self::Unsupported { what, .. } if *what != Self::RULES => {
                "remove that key from `sandbox` in the settings; `mimir doctor` lists what containers support here"
            }
            Self::BadImage { .. } if is_named_image => {
                "set another image in `platform.docker` of the tool, and grant it with `mimir tools trust`"
            }
            Self::NoImage { pull, .. } if is_named_image => {
                let engine = pull.split(' ').next().unwrap_or_default();
                return Some(format!(
                    "fetch the image that `platform.docker.image` of the tool names with `{pull}`; it may have another \
                     ID: put the one that `{engine} image inspect --format '{{{{.Id}}}}' NAME` prints into \
                     `platform.docker.id`, and grant the tool again with `mimir tools trust`"
                ));
            }
            _ => return None,
        };
        Some(remedy.to_owned())
    }

    /// Returns a hint on how to solve the problem.
    fn remedy(&self) -> Option<String> {
        match self {
            Self::NoImage { pull, .. } => Some(format!("fetch it with `{pull}`")),
            Self::NoContainerImage(language) => Some(format!(
                "set `sandbox.images: {{{}: IMAGE}}` in the settings",
                language.as_str()
            )),
            Self::ContainersOnly => {
                Some("set another `sandbox.mode` in the settings, or run the code in a container".into())
            }
            Self::Uncovered { .. } => {
                Some("run it again: files that exist when a command starts are protected".into())
            }
            Self::Replaced(_) => Some(
                "run it again when no background program moves that file or its parent folders".into(),
            ),
            Self::WorkspaceCode(_) => Some(
                "move it outside the workspace, or run it in a sandbox without secrets; to accept the risk, set \
                 `workspaceCode: true` in its block of the settings"
                    .into(),
            ),
            Self::BadImage { .. } => {
                Some("set another `sandbox.image` in the settings".into())
            }
            Self::Unsupported { what, .. } if *what != Self::RULES => Some(
                "`mimir doctor` lists what each sandbox supports here; remove that key from `sandbox` in the settings, or set another `mode`"
                    .into(),
            ),
            Self::Workspace(_)
            | Self::Unsupported { .. }
            | Self::Unavailable { .. }
            | Self::Neither(..)
            | Self::Engine { .. } => {
                Some("`mimir doctor` lists what each sandbox supports here; `sandbox: none` in the settings runs commands without a sandbox".into())
            }
            _ => None,
        }
    }
}

impl From<SandboxError> for ToolError {
    fn from(fault: SandboxError) -> Self {
        let error = Self::new(fault.code(), fault.to_string()).with_remedies(fault.remedy());
        match &fault {
            SandboxError::Timeout(stopped)
            | SandboxError::Memory(stopped)
            | SandboxError::Uncovered { stopped, .. }
            | SandboxError::ForbiddenPathCreated { stopped, .. }
            | SandboxError::ForbiddenPathCreatedConcurrently { stopped, .. } => {
                let output = String::from_utf8_lossy(&stopped.finished.combined.bytes);
                let length = output.chars().count();
                let last: String = output
                    .chars()
                    .skip(length.saturating_sub(MAX_ERROR_OUTPUT))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_named_image_says_how_to_get_the_image() {
        let id = format!("sha256:{}", "ab".repeat(32));
        let error = |target| {
            let missing = SandboxError::NoImage {
                image: id.clone(),
                pull: "podman pull NAME".to_owned(),
            };
            missing.for_target(target)
        };
        let named = error(CommandTarget::Image(id.parse().unwrap()));
        assert_eq!(named.code, ToolErrorCode::Unavailable);
        assert_eq!(named.remedies.len(), 1, "{named:?}");
        for part in [
            "`podman pull NAME`",
            "`podman image inspect --format '{{.Id}}' NAME`",
            "platform.docker.id",
            "mimir tools trust",
        ] {
            assert!(named.remedies[0].contains(part), "{part}: {named:?}");
        }
        let general = error(CommandTarget::Default);
        assert_eq!(general.remedies[0], "fetch it with `podman pull NAME`");
    }
}
