//! Common parts of the builds of all languages: the SDKs, the caches of compilers, and the steps that run compilers
//! in the sandbox of commands.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::command::CommandStream;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::platform::create_private_folder;
use mimir_core::redact::{Redactor, Vault as _};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_process::{BuildCommand, BuildNetwork, run_build};
use serde_json::json;

use super::PluginFolder;
use super::compiler_messages::CompilerMessages;
use crate::exit::CommandResult;
use crate::output::{ResultPrinter, note};
use crate::sdk::{self, SdkLayout};
use mimir::file_error::file_error;
use mimir::servers::network_gate::{self, CurrentSettings, DeclaredNetwork};
use mimir::setup::HostSetup;

/// Time limit of a build, for all of its steps together, and of the unit tests.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Maximum size of a file that a build makes, in bytes.
const MAX_OUTPUT_SIZE: u64 = 256 << 20;

/// Maximum number of bytes of a step's standard output to return.
const MAX_STDOUT_BYTES: usize = 8 << 20;

/// Maximum number of bytes to capture of a step that prints nothing.
const MAX_CAPTURED_BYTES: usize = 64 << 10;

/// Context of a build, in any language.
pub struct BuildContext<'a> {
    /// The workspace, settings and folders of the user.
    pub setup: &'a HostSetup,
    /// The SDKs.
    pub sdk: SdkLayout,
    printer: ResultPrinter,
    network: BuildNetwork,
    redactor: Redactor,
}

/// A program of a build, such as a compiler.
#[derive(Debug, Clone, Default)]
pub struct BuildStep {
    /// Name for messages, such as `Go`.
    pub compiler: &'static str,
    /// Program and arguments. The program has an absolute path.
    pub args: Vec<String>,
    /// Folder that is visible, if it is larger than the folder of the plugin.
    pub visible_folder: Option<PathBuf>,
    /// Working folder, if it is not the folder of the plugin but one in it.
    pub directory: Option<PathBuf>,
    /// Existing folders in the folder of the plugin that the program may change.
    pub writable: Vec<PathBuf>,
    /// Toolchains and libraries outside of the folder. The SDKs are visible without being listed.
    pub read_only: Vec<PathBuf>,
    /// Caches of the compiler (see [`BuildContext::cache`]).
    pub caches: Vec<PathBuf>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
}

/// Runs a build or its tests within the time limit. What runs when it ends is stopped. `subject` begins the message.
pub async fn within_time_limit<T>(
    subject: &str,
    work: impl Future<Output = CommandResult<T>>,
) -> CommandResult<T> {
    within(TIMEOUT, subject, work).await
}

async fn within<T>(
    limit: Duration,
    subject: &str,
    work: impl Future<Output = CommandResult<T>>,
) -> CommandResult<T> {
    // On the heap: the futures of builds are large.
    match tokio::time::timeout(limit, Box::pin(work)).await {
        Ok(result) => result,
        Err(_) => {
            let minutes = limit.as_secs().div_ceil(60);
            let message = format!("{subject} took longer than {minutes} min and was stopped");
            Err(ToolError::new(ToolErrorCode::Timeout, message).into())
        }
    }
}

impl<'a> BuildContext<'a> {
    /// Lays out the SDKs. `network` is true if builds may reach the hosts in `network.allowedHosts`.
    pub fn new(
        setup: &'a HostSetup,
        printer: ResultPrinter,
        network: bool,
    ) -> Result<Self, ToolError> {
        let redactor = setup.vault.redactor().map_err(ToolError::unavailable)?;
        Ok(Self {
            sdk: sdk::lay_out(setup.user_dirs.cache.as_deref())?,
            network: if network {
                BuildNetwork::Proxied(proxy(setup)?)
            } else {
                BuildNetwork::Off
            },
            setup,
            printer,
            redactor,
        })
    }

    /// Returns a cache folder of a compiler, and creates it.
    pub fn cache(&self, name: &str) -> Result<PathBuf, ToolError> {
        let Some(cache) = &self.setup.user_dirs.cache else {
            return Err(ToolError::unavailable(
                "this system has no cache folder: set MIMIR_CACHE_DIR to a folder",
            ));
        };
        let folder = cache.join("build").join(name);
        create_private_folder(&folder, true)
            .map_err(|error| file_error("create", &folder, &error))?;
        Ok(folder)
    }

    /// Runs a step, which must succeed. Its messages go to stderr as they arrive. Returns the lines of its standard
    /// output.
    pub async fn run(
        &self,
        folder: &PluginFolder,
        step: &BuildStep,
    ) -> Result<Vec<String>, ToolError> {
        let mut messages = self.messages(folder);
        let (exit_code, lines) = self
            .execute(folder, step, &mut |line| messages.add(line))
            .await?;
        if exit_code == 0 {
            return Ok(lines);
        }
        let compiler = step.compiler;
        let message = format!("{compiler} could not build the plugin; its messages are above");
        Err(self.failure(ToolError::execution(message), messages))
    }

    /// Runs a step that tests the plugin. All of its output goes to stderr as it arrives. Returns true if it succeeds.
    pub async fn run_tests(
        &self,
        folder: &PluginFolder,
        step: &BuildStep,
    ) -> Result<bool, ToolError> {
        let mut messages = self.messages(folder);
        let (exit_code, lines) = self
            .execute(folder, step, &mut |line| messages.add(line))
            .await?;
        lines.iter().for_each(|line| messages.add(line));
        Ok(exit_code == 0)
    }

    /// Returns true if the user has asked for the network.
    pub fn has_network(&self) -> bool {
        matches!(self.network, BuildNetwork::Proxied(_))
    }

    /// Announces a step that takes long, unless a program reads the output.
    pub fn announce(&self, what: &str) {
        if !self.printer.is_json() || io::stderr().is_terminal() {
            note(what);
        }
    }

    /// Returns the printer of results.
    pub fn printer(&self) -> ResultPrinter {
        self.printer
    }

    /// Runs a step that asks a compiler about itself. Returns its standard output, or `None` if it fails.
    pub async fn query(
        &self,
        folder: &PluginFolder,
        step: &BuildStep,
    ) -> Result<Option<String>, ToolError> {
        let (exit_code, lines) = self.execute(folder, step, &mut |_| {}).await?;
        Ok((exit_code == 0).then(|| lines.join("\n")))
    }

    /// Runs a step without printing anything. Returns its exit code, and the beginning of its output with secrets masked.
    pub async fn capture(
        &self,
        folder: &PluginFolder,
        step: &BuildStep,
    ) -> Result<(i32, String), ToolError> {
        let mut text = String::new();
        let (exit_code, lines) = self
            .execute(folder, step, &mut |line| add_line(&mut text, line))
            .await?;
        lines.iter().for_each(|line| add_line(&mut text, line));
        self.redactor.mask_text(&mut text);
        Ok((exit_code, text))
    }

    /// Creates the printer of a compiler's messages.
    pub fn messages<'m>(&'m self, folder: &'m PluginFolder) -> CompilerMessages<'m> {
        CompilerMessages::new(&self.redactor, folder)
    }

    /// Adds the messages of a compiler to the error of a failed build, in JSON mode.
    pub fn failure(&self, error: ToolError, messages: CompilerMessages<'_>) -> ToolError {
        if self.printer.is_json() {
            error.with_details(json!({ "messages": messages.into_last_lines() }))
        } else {
            error
        }
    }

    /// Reads a file that a build has made. Its code may have put a link there.
    pub fn read_output(&self, folder: &PluginFolder, file: &Path) -> Result<Vec<u8>, ToolError> {
        files::reject_links(&folder.root, file)
            .and_then(|()| files::read(file, LinkPolicy::Refuse, MAX_OUTPUT_SIZE))
            .map_err(|error| file_error("read", file, &error))
    }

    async fn execute(
        &self,
        folder: &PluginFolder,
        step: &BuildStep,
        on_message: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(i32, Vec<String>), ToolError> {
        let mut read_only = step.read_only.clone();
        read_only.push(self.sdk.root.clone());
        let visible = step.visible_folder.as_ref().unwrap_or(&folder.root);
        let command = BuildCommand {
            args: step.args.clone(),
            folder: visible.clone(),
            directory: step.directory.as_ref().unwrap_or(&folder.root).clone(),
            writable: step.writable.clone(),
            read_only,
            caches: step.caches.clone(),
            environment: step.environment.clone(),
            network: self.network.clone(),
            timeout: TIMEOUT,
        };
        let mut stdout = Vec::new();
        let mut stdout_bytes = 0;
        let settings = &self.setup.settings.config.sandbox;
        let output = run_build(settings, &command, &mut |stream, line| match stream {
            CommandStream::Stdout => {
                stdout_bytes += line.len();
                if stdout_bytes <= MAX_STDOUT_BYTES {
                    stdout.push(line.to_owned());
                }
            }
            CommandStream::Stderr => on_message(line),
        })
        .await?;
        if stdout_bytes > MAX_STDOUT_BYTES {
            let message = format!(
                "{} printed more than {}: a build must not print to its standard output",
                step.compiler,
                mimir_core::text::bytes(MAX_STDOUT_BYTES as u64)
            );
            return Err(ToolError::new(ToolErrorCode::LimitExceeded, message));
        }
        Ok((output.exit_code, stdout))
    }
}

/// Adds a line to a text of limited length.
fn add_line(text: &mut String, line: &str) {
    if text.len() + line.len() < MAX_CAPTURED_BYTES {
        text.push_str(line);
        text.push('\n');
    }
}

/// Creates the proxy of a build with network access.
fn proxy(setup: &HostSetup) -> Result<mimir_net::Proxy, ToolError> {
    let declared = DeclaredNetwork {
        program: "the build".to_owned(),
        // Those in `network.allowedHosts`.
        hosts: Vec::new(),
        registry: false,
        remedy: "add `{host}` to network.allowedHosts".to_owned(),
        refused: None,
    };
    let current = Arc::new(CurrentSettings::new(&setup.settings));
    network_gate::proxy(declared, current, setup.workspace.root(), setup.audit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::CommandFailure;

    #[tokio::test]
    async fn build_as_a_whole_has_a_time_limit() {
        let limit = Duration::from_millis(100);
        // No step takes as long as the limit.
        let steps = async {
            loop {
                tokio::time::sleep(limit / 10).await;
            }
        };
        let ended: CommandResult<()> = within(limit, "the build", steps).await;
        let Err(CommandFailure::Reported { error, .. }) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(error.code, ToolErrorCode::Timeout);
        assert!(
            error.message.starts_with("the build took longer than"),
            "{error}"
        );
        let done = within_time_limit("the build", async { Ok(5) }).await;
        assert_eq!(done.unwrap(), 5);
    }
}
