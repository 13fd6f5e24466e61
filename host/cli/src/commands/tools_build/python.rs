//! Builds of plugins in Python, with componentize-py.
//!
//! The module is imported twice, both times in the sandbox: by the Python of this machine, which reports errors with file
//! and line and lists the needs of the tools, and then in WebAssembly, where the state after the import becomes the
//! component. Its world has only the interfaces that the needs ask for. Files and sockets of WASI are sealed afterwards
//! instead of with `--stub-wasi`, with which `time`, `random` and every file trap instead of raising an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode};
use mimir_wasm::Toolbox;
use serde_json::Value;

use super::{BUILD_FOLDER, BuildContext, BuildStep, BuiltComponent, PluginFolder};
use crate::commands::toolchains::{self, FoundToolchain, ProgramSearch};
use crate::exit::CommandResult;
use mimir::file_error::{file_error, write_atomically};

mod entry_module;
mod module_report;
mod world;

use entry_module::EntryModule;
use module_report::ModuleReport;
use world::PythonWorld;

/// Folder for packages, in the folder of the plugin.
const VENDOR: &str = "vendor";

/// Name of the component in the build folder.
const COMPONENT: &str = "tool.wasm";

/// Time limit of the first import. It takes less than a second, unless the module waits or loops.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<BuiltComponent> {
    let search = ProgramSearch::outside(Some(&folder.root));
    let toolchain = toolchains::find(folder.language, &search).map_err(ToolError::from)?;
    let build = PythonBuild {
        entry: EntryModule::find(&folder.entry)?,
        sdk: cx.sdk.folder("python"),
        build_folder: folder.build_folder()?,
        cx,
        folder,
        toolchain: &toolchain,
    };
    build.link_sdk()?;
    let report = build.describe().await?;
    let component = build.componentize(&report).await?;
    let host = cx.setup.host();
    let finished = mimir_wasm::finish_plugin(&host, &component).await;
    let bytes = finished.map_err(ToolError::from)?;
    build.check_description(&report, &bytes).await?;
    Ok(BuiltComponent {
        file_name: folder.component_name(),
        bytes,
        notes: toolchain.note.iter().cloned().collect(),
    })
}

/// One build of a plugin.
struct PythonBuild<'a> {
    cx: &'a BuildContext<'a>,
    folder: &'a PluginFolder,
    toolchain: &'a FoundToolchain,
    entry: EntryModule,
    /// The SDK's folder, from which `mimir` is imported.
    sdk: PathBuf,
    build_folder: PathBuf,
}

impl PythonBuild<'_> {
    /// Links the SDK into the build folder, where editors and unit tests find it. A system without links has none.
    fn link_sdk(&self) -> Result<(), ToolError> {
        let link = self.build_folder.join("sdk");
        if std::fs::read_link(&link).is_ok_and(|target| target == self.sdk) {
            return Ok(());
        }
        remove(&link)?;
        #[cfg(unix)]
        std::os::unix::fs::symlink(&self.sdk, &link)
            .map_err(|error| file_error("create", &link, &error))?;
        Ok(())
    }

    /// Imports the module, and returns the description of its tools.
    async fn describe(&self) -> Result<ModuleReport, ToolError> {
        let script = self.entry.describe_script(&self.sdk, &self.folder.root);
        let step = self.step("Python", script, []);
        let lines = tokio::time::timeout(IMPORT_TIMEOUT, self.cx.run(self.folder, &step)).await;
        let lines = lines.map_err(|_| {
            let message = format!(
                "importing {} took longer than {} s and was stopped: a module must not wait or loop while it is imported",
                self.entry.file_name,
                IMPORT_TIMEOUT.as_secs()
            );
            ToolError::new(ToolErrorCode::Timeout, message)
        })??;
        ModuleReport::parse(&lines, &self.entry.file_name)?.map_err(|error| {
            let mut messages = self.cx.messages(self.folder);
            messages.add(&error);
            let message = "Python could not build the plugin; its messages are above";
            self.cx.failure(ToolError::execution(message), messages)
        })
    }

    /// Makes the component of the module.
    async fn componentize(&self, report: &ModuleReport) -> Result<Vec<u8>, ToolError> {
        let (wit, modules) = (self.build_folder.join("wit"), self.build_folder.join("py"));
        let component = self.build_folder.join(COMPONENT);
        // A plugin may have put links there.
        for stale in [&wit, &modules, &component] {
            remove(stale)?;
        }
        self.folder.create_folder(&wit)?;
        self.folder.create_folder(&modules)?;
        report.world.write(&self.cx.sdk.root, &wit)?;
        for (name, text) in self.entry.modules(&self.folder.package) {
            let path = modules.join(name);
            write_atomically(&path, text.as_bytes())
                .map_err(|error| file_error("write", &path, &error))?;
        }
        let script = componentize_script(&self.toolchain.roots);
        let step = self.step("componentize-py", script, self.arguments(report.world));
        self.cx.run(self.folder, &step).await?;
        self.cx.read_output(self.folder, &component)
    }

    /// Returns the arguments of componentize-py.
    fn arguments(&self, world: PythonWorld) -> Vec<String> {
        let below = |name: &str| format!("{BUILD_FOLDER}/{name}");
        let mut args = vec!["-d".to_owned(), below("wit")];
        args.extend(["-w", "plugin"].map(str::to_owned));
        for name in world.interface_names() {
            args.extend(["--import-interface-name".to_owned(), name]);
        }
        args.push("componentize".to_owned());
        let mut folders = vec![below("py"), ".".to_owned()];
        if self.folder.root.join(VENDOR).is_dir() {
            folders.push(VENDOR.to_owned());
        }
        folders.push(self.sdk.to_string_lossy().into_owned());
        for folder in folders {
            args.extend(["-p".to_owned(), folder]);
        }
        args.push(entry_module::ENTRY.to_owned());
        args.extend(["-o".to_owned(), below(COMPONENT)]);
        args
    }

    /// Returns the step that runs a script. Python is isolated from its environment and from the working directory, so
    /// that no file of the plugin replaces a module of componentize-py.
    fn step(
        &self,
        compiler: &'static str,
        script: String,
        args: impl IntoIterator<Item = String>,
    ) -> BuildStep {
        let mut command = self.toolchain.program.clone();
        command.extend(["-I", "-X", "utf8", "-c"].map(str::to_owned));
        command.push(script);
        command.extend(args);
        BuildStep {
            compiler,
            args: command,
            writable: vec![self.build_folder.clone()],
            read_only: self.toolchain.roots.clone(),
            environment: vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())],
            ..BuildStep::default()
        }
    }

    /// Fails if the host does not accept the component, or if it has other tools or needs than the module has on this
    /// machine.
    async fn check_description(
        &self,
        report: &ModuleReport,
        bytes: &[u8],
    ) -> Result<(), ToolError> {
        let temporary = std::env::temp_dir();
        let folder = tempfile::tempdir()
            .map_err(|error| file_error("create a folder in", &temporary, &error))?;
        let path = folder.path().join(self.folder.component_name());
        write_atomically(&path, bytes).map_err(|error| file_error("write", &path, &error))?;
        let host = self.cx.setup.host();
        let toolbox = Toolbox::new(host, Vec::new(), Some(folder.path().to_owned()));
        let loaded = toolbox.load().await;
        if let Some(left_out) = loaded.quarantined.first() {
            return Err(ToolError::new(left_out.code, left_out.reason.clone()));
        }
        report.compare(&loaded.tools)
    }
}

/// Returns the script that runs componentize-py. Its package may be in a folder that an isolated Python does not search.
fn componentize_script(roots: &[PathBuf]) -> String {
    let roots: Vec<Value> = roots.iter().map(|root| text(root).into()).collect();
    let roots = Value::from(roots);
    format!(
        "import sys\nsys.path += {roots}\nfrom componentize_py import script\nsys.argv[0] = 'componentize-py'\n\
         sys.exit(script())\n"
    )
}

/// Removes a file, a folder or a link, if it exists.
fn remove(path: &Path) -> Result<(), ToolError> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(|error| file_error("remove", path, &error))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
