//! Builds of plugins in TypeScript and JavaScript, by mimir itself: no compiler runs. A bundler, for plugins that import
//! other modules, runs in the sandbox of commands.

use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, text};
use mimir_script::{BuiltPlugin, BundlerCommand, BundlerOutput, BundlerRunner, PluginSource};

use super::{BuildContext, BuildStep, CompiledPlugin, PluginFolder};
use crate::args::PluginLanguage;
use crate::commands::tools_check::faults_failure;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use mimir::file_error::file_error;

/// Maximum size of a source file in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Folder of the bundler in the build folder.
const BUNDLE_FOLDER: &str = "bundle";

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<CompiledPlugin> {
    let source = source(folder)?;
    let built = build_source(cx, folder, &source).await?;
    let mut notes = Vec::new();
    if let Some(bundler) = &built.bundler {
        let bundler = text::visible(&bundler.display().to_string());
        notes.push(format!("its imports were bundled by {bundler}"));
    }
    for (tool, export) in &built.tools {
        if tool != export {
            notes.push(format!("`{export}` is the tool `{tool}`"));
        }
    }
    Ok(CompiledPlugin {
        notes,
        ..CompiledPlugin::new(folder.component_name(), built.component)
    })
}

/// Builds a module. `folder` is its folder.
pub async fn build_source(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    source: &PluginSource,
) -> CommandResult<BuiltPlugin> {
    let scripts = cx.setup.scripts(cx.setup.host());
    let runner = SandboxedBundler { cx, folder };
    let engine = scripts.engine();
    let built = mimir_script::build(engine, mimir_builtins::PLUGIN, source, &runner).await;
    built.map_err(faults_failure)
}

/// Runs bundlers in the sandbox of commands.
struct SandboxedBundler<'a> {
    cx: &'a BuildContext<'a>,
    folder: &'a PluginFolder,
}

impl BundlerRunner for SandboxedBundler<'_> {
    fn create_work_folder(&self) -> Result<PathBuf, ToolError> {
        let work = self.folder.build_folder()?.join(BUNDLE_FOLDER);
        // The bundler of the last build may have put links there.
        let removed = match work.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(&work),
            Ok(_) => std::fs::remove_file(&work),
            Err(_) => Ok(()),
        };
        removed.map_err(|error| file_error("remove", &work, &error))?;
        self.folder.create_folder(&work)?;
        Ok(work)
    }

    async fn run(&self, command: &BundlerCommand) -> Result<BundlerOutput, ToolError> {
        let mut args = vec![command.program.to_string_lossy().into_owned()];
        args.extend(command.args.iter().cloned());
        let step = BuildStep {
            compiler: command.name,
            args,
            writable: vec![command.work_folder.clone()],
            read_only: command.read_only.clone(),
            environment: vec![("NO_COLOR".to_owned(), "1".to_owned())],
            ..BuildStep::default()
        };
        let (exit_code, text) = self.cx.capture(self.folder, &step).await?;
        Ok(BundlerOutput {
            succeeded: exit_code == 0,
            text,
        })
    }

    fn read(&self, file: &Path) -> Result<String, ToolError> {
        let bytes = self.cx.read_output(self.folder, file)?;
        files::text(bytes).map_err(|error| file_error("read", file, &error))
    }
}

fn source(folder: &PluginFolder) -> CommandResult<PluginSource> {
    let file = &folder.shown;
    let place = text::visible(&file.display().to_string());
    let content = files::read(file, LinkPolicy::Follow, MAX_FILE_SIZE);
    let content = content.map_err(|error| {
        CommandFailure::with_exit(file_error("read", file, &error), ExitReason::Usage)
    })?;
    let text = String::from_utf8(content)
        .map_err(|_| ToolError::invalid_input(format!("{place} is not UTF-8")))?;
    let package = folder.package.clone();
    Ok(PluginSource {
        typed: folder.language == PluginLanguage::TypeScript,
        name: package.name,
        version: package.version,
        description: package.description,
        path: file.to_owned(),
        place,
        text,
    })
}
