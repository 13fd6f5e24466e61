//! `mimir tools build`: compiles a plugin in any language and installs it into `.mimir/tools`.
//!
//! Each language has a module with a function `build`, which runs its compiler in the sandbox of commands and returns a
//! component.

use std::path::PathBuf;

use mimir_core::{ToolError, ToolErrorCode};

use super::call::wait_for_interrupt;
use crate::args::{GlobalOptions, PluginLanguage, ToolsBuildArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, note, styled};
use mimir::setup::HostSetup;

mod build_context;
mod c;
mod compiler_messages;
mod core_module;
mod go;
mod install;
mod plugin_folder;
mod python;
mod rust;
mod source_watch;
mod typescript;
mod watch_loop;
mod zig;

pub use build_context::{BuildContext, BuildStep};
pub use go::{GoEnvironment, GoTarget};
pub use install::install;
pub use plugin_folder::{BUILD_FOLDER, PluginFolder};
pub use rust::cargo_step;
pub use watch_loop::repeat_on_change;
pub use zig::ZigCache;

/// A component that a build has made, not yet installed.
pub struct BuiltComponent {
    /// Name of its file in `.mimir/tools`.
    pub file_name: PathBuf,
    /// The component.
    pub bytes: Vec<u8>,
    /// Notes for the user about the build.
    pub notes: Vec<String>,
}

/// Builds a plugin. Installs nothing.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<BuiltComponent> {
    let built = match folder.language {
        PluginLanguage::Rust => rust::build(cx, folder).await,
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => {
            typescript::build(cx, folder).await
        }
        PluginLanguage::Python => python::build(cx, folder).await,
        PluginLanguage::Go => go::build(cx, folder).await,
        PluginLanguage::C | PluginLanguage::Cpp => c::build(cx, folder).await,
        PluginLanguage::Zig => zig::build(cx, folder).await,
    };
    built.map_err(as_build_failure)
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
    let folder = PluginFolder::find(&args.dir, args.lang)?;
    let cx = BuildContext::new(&setup, printer, args.network)?;
    if args.watch {
        return watch(&cx, &folder, args).await;
    }
    let built = tokio::select! {
        built = build(&cx, &folder) => built?,
        // Dropping the future stops the compiler.
        exit = wait_for_interrupt() => {
            let error = ToolError::new(ToolErrorCode::Cancelled, "the build was stopped");
            return Err(CommandFailure::with_exit(error, exit));
        }
    };
    let installed = install(&setup, &built).await?;
    installed.print(printer)?;
    if !setup.settings.config.tools.auto_load_custom_tools {
        note(".mimir/tools is not read, because the config has `tools.autoLoadCustomTools: false`");
    }
    Ok(ExitReason::done_if(installed.has_tools()))
}

/// Builds and installs the plugin after each change, until Ctrl-C. A build that fails leaves the installed component in
/// place.
async fn watch(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    args: &ToolsBuildArgs,
) -> CommandResult {
    let cycle = async || {
        // The name of the plugin may have changed, too.
        let folder = PluginFolder::find(&args.dir, args.lang)?;
        let component = build(cx, &folder).await?;
        let installed = install(cx.setup, &component).await?;
        note(format_args!(
            "{} {}",
            styled(GOOD, "built"),
            installed.summary()
        ));
        installed.print_left_out();
        Ok(())
    };
    tokio::select! {
        ended = repeat_on_change(&folder.watched, cx.printer(), cycle) => ended,
        // The usual end.
        _ = wait_for_interrupt() => Ok(ExitReason::Done),
    }
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
