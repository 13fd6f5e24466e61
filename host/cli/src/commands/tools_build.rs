//! `mimir tools build`: compiles a plugin in any language and installs it into `.mimir/tools`.
//!
//! Each language has a module with a function `build`, which runs its compiler in the sandbox of commands and returns a
//! component.

use std::path::PathBuf;

use mimir_core::{ToolError, ToolErrorCode};
use mimir_wasm::LoadedTools;

use super::call::wait_for_interrupt;
use super::tools_add::build_warning;
use crate::args::{GlobalOptions, PluginLanguage, ToolsBuildArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{note, warn};
use mimir::setup::HostSetup;

mod build_context;
mod build_freshness;
mod c;
mod compiler_messages;
mod core_module;
mod go;
mod install;
mod installed_sources;
mod marked_file;
mod plugin_folder;
mod python;
mod rust;
mod source_snapshot;
mod source_watch;
mod typescript;
mod undeclared_needs;
mod watch_loop;
mod worker_tools;
mod zig;

pub use build_context::{BuildContext, BuildStep, within_time_limit};
pub use build_freshness::{check_build_file, check_build_of};
pub use go::{GoEnvironment, GoTarget};
pub use install::install;
pub(super) use install::load_alone;
pub use plugin_folder::{BUILD_FOLDER, PluginFolder};
pub use rust::{TARGET_FOLDER, cargo_step};
use source_snapshot::{SourceDigest, SourceSnapshot};
use undeclared_needs::HostFeature;
pub use watch_loop::repeat_until_interrupt;
pub use zig::ZigCache;

/// A component that the compiler of a language has made.
struct CompiledPlugin {
    /// Name of its file in `.mimir/tools`.
    file_name: PathBuf,
    /// The component.
    bytes: Vec<u8>,
    /// Notes for the user about the build.
    notes: Vec<String>,
    /// The loaded component, if the build has loaded it.
    loaded: Option<LoadedTools>,
    /// Features of the host that the sources use, besides those that the imports of the component show.
    uses: Vec<HostFeature>,
}

impl CompiledPlugin {
    fn new(file_name: PathBuf, bytes: Vec<u8>) -> Self {
        Self {
            file_name,
            bytes,
            notes: Vec::new(),
            loaded: None,
            uses: Vec::new(),
        }
    }
}

/// A component that a build has made, not yet installed.
pub struct BuiltComponent {
    /// Name of its file in `.mimir/tools`.
    pub file_name: PathBuf,
    /// The component.
    pub bytes: Vec<u8>,
    /// The tools in it, loaded without other tools.
    pub loaded: LoadedTools,
    /// The sources of the build; `None` if they were too large to be read.
    sources: Option<SourceDigest>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

impl BuiltComponent {
    /// Creates a component that was built earlier, for its test cases.
    pub fn from_earlier_build(file_name: PathBuf, bytes: Vec<u8>) -> Self {
        Self {
            file_name,
            bytes,
            loaded: LoadedTools::default(),
            sources: None,
            notes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Prints what the user should know about the build.
    pub fn print_notes(&self) {
        self.notes.iter().for_each(note);
        self.warnings.iter().for_each(warn);
    }
}

/// Builds a plugin. Installs nothing.
///
/// # Errors
///
/// Fails if a step fails, or if the build as a whole takes longer than a build may.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<BuiltComponent> {
    let before = SourceSnapshot::read(&folder.watched);
    let built = within_time_limit("the build", async {
        let compiled = compile(cx, folder).await?;
        let loaded = match compiled.loaded {
            Some(loaded) => loaded,
            None => load_alone(cx.setup, &compiled.file_name, &compiled.bytes).await?,
        };
        let after = before.and_then(|before| {
            let after = SourceSnapshot::read(&folder.watched)?;
            Some(before.of_build(after).digest())
        });
        Ok(BuiltComponent {
            sources: after,
            warnings: undeclared_needs::warnings(folder.language, &loaded.tools, &compiled.uses),
            file_name: compiled.file_name,
            bytes: compiled.bytes,
            notes: compiled.notes,
            loaded,
        })
    });
    built.await.map_err(as_build_failure)
}

/// Compiles a plugin.
async fn compile(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<CompiledPlugin> {
    match folder.language {
        PluginLanguage::Rust => rust::build(cx, folder).await,
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => {
            typescript::build(cx, folder).await
        }
        PluginLanguage::Python => python::build(cx, folder).await,
        PluginLanguage::Go => go::build(cx, folder).await,
        PluginLanguage::C | PluginLanguage::Cpp => c::build(cx, folder).await,
        PluginLanguage::Zig => zig::build(cx, folder).await,
    }
}

/// Gives a failed build the same exit code for all faults of a plugin: the command line is right.
fn as_build_failure(failure: CommandFailure) -> CommandFailure {
    match failure {
        CommandFailure::Reported {
            error,
            exit: ExitReason::Usage,
        } => CommandFailure::with_exit(error, ExitReason::Failed),
        other => other,
    }
}

/// Compiles a plugin and installs it into `.mimir/tools`.
pub async fn run(globals: &GlobalOptions, args: &ToolsBuildArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    if let Some(sources) = worker_tools::find_sources(&setup, &args.plugin.dir)? {
        if args.watch {
            let message = "`--watch` is not supported for the tools of workers: mimir builds modules without imports at the first call after a change";
            return Err(CommandFailure::usage(message));
        }
        let cx = BuildContext::new(&setup, printer, args.network)?;
        return worker_tools::build(&cx, &sources).await;
    }
    let folder = PluginFolder::find(&args.plugin.dir, args.plugin.lang)?;
    let cx = BuildContext::new(&setup, printer, args.network)?;
    // A build takes minutes.
    if let Some(line) = build_warning(&setup) {
        warn(line);
    }
    if args.watch {
        return watch(&cx, args).await;
    }
    let built = tokio::select! {
        built = build(&cx, &folder) => built?,
        // Dropping the future stops the compiler.
        exit = wait_for_interrupt() => {
            let error = ToolError::new(ToolErrorCode::Cancelled, "the build was stopped");
            return Err(CommandFailure::with_exit(error, exit));
        }
    };
    let installed = install(&setup, &folder, &built).await?;
    installed.print(printer)?;
    if !setup.settings.config.tools.auto_load_custom_tools {
        note(".mimir/tools is not read, because the config has `tools.autoLoadCustomTools: false`");
    }
    Ok(ExitReason::done_if(installed.has_tools()))
}

/// Builds and installs the plugin after each change, until Ctrl-C. A build that fails leaves the installed component in
/// place.
async fn watch(cx: &BuildContext<'_>, args: &ToolsBuildArgs) -> CommandResult {
    let cycle = async |folder: PluginFolder| {
        let component = build(cx, &folder).await?;
        let installed = install(cx.setup, &folder, &component).await?;
        installed.note_built();
        installed.print_left_out();
        Ok(())
    };
    repeat_until_interrupt(&args.plugin, cx.printer(), cycle).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_builds_have_one_exit_code_for_faults_of_the_plugin() {
        let exit = |error: ToolError| match as_build_failure(error.into()) {
            CommandFailure::Reported { exit, .. } => exit,
            CommandFailure::Print(error) => panic!("{error}"),
        };
        let no_tools = ToolError::invalid_input("it describes no tools");
        assert_eq!(exit(no_tools), ExitReason::Failed);
        assert_eq!(exit(ToolError::execution("exit 1")), ExitReason::Failed);
        let stopped = ToolError::new(ToolErrorCode::Timeout, "15 min");
        assert_eq!(exit(stopped), ExitReason::Limit);
    }
}
