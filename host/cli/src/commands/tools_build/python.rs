//! Builds of plugins in Python, with componentize-py.
//!
//! The module is imported twice, both times in the sandbox: by the Python of this machine, which reports errors with file
//! and line and lists the needs of the tools, and then in WebAssembly, where the state after the import becomes the
//! component. Its world has only the interfaces that the needs ask for. Files and sockets of WASI are sealed afterwards
//! instead of with `--stub-wasi`, with which `time`, `random` and every file trap instead of raising an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_wasm::LoadedTools;
use serde_json::Value;

use super::install::load_alone;
use super::{BUILD_FOLDER, BuildContext, BuildStep, CompiledPlugin, PluginFolder};
use crate::commands::toolchains::{FoundToolchain, path_text};
use crate::exit::CommandResult;
use mimir::file_error::{file_error, write_atomically};

mod build_key;
mod entry_module;
mod module_report;
mod world;

use build_key::{build_key, sha256_hex};
use entry_module::EntryModule;
use module_report::ModuleReport;
use world::PythonWorld;

/// Folder for packages, in the folder of the plugin.
const VENDOR: &str = "vendor";

/// Name of the component in the build folder.
const COMPONENT: &str = "tool.wasm";

/// Folder of the user's cache with the digests of components, by the keys of their builds. The folder of the plugin may
/// come from another person, so no file in it can prove where a component comes from.
const RECORDS: &str = "python-builds";

/// Time limit of the first import. It takes less than a second, unless the module waits or loops.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<CompiledPlugin> {
    let toolchain = folder.toolchain()?;
    let build = PythonBuild {
        entry: EntryModule::find(&folder.entry)?,
        sdk: cx.sdk.folder("python"),
        build_folder: folder.build_folder()?,
        cx,
        folder,
        toolchain: &toolchain,
    };
    build.clean_build_folder()?;
    build.link_sdk()?;
    let report = build.describe().await?;
    let component = build.componentize(&report).await?;
    let host = cx.setup.host();
    let finished = mimir_wasm::finish_plugin(&host, &component).await;
    let bytes = finished.map_err(ToolError::from)?;
    let loaded = build.check_description(&report, &bytes).await?;
    Ok(CompiledPlugin {
        notes: toolchain.note.iter().cloned().collect(),
        loaded: Some(loaded),
        uses: report.uses,
        ..CompiledPlugin::new(folder.component_name(), bytes)
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
    /// Removes everything from the build folder that no build writes: a plugin could read it during the import, although
    /// it does not count as a source.
    fn clean_build_folder(&self) -> Result<(), ToolError> {
        let failed = |error| file_error("list", &self.build_folder, &error);
        for entry in std::fs::read_dir(&self.build_folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !["sdk", "wit", "py", COMPONENT]
                .iter()
                .any(|own| entry.file_name() == *own)
            {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

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

    /// Makes the component of the module, or returns that of the last build if nothing has changed since.
    async fn componentize(&self, report: &ModuleReport) -> Result<Vec<u8>, ToolError> {
        let (wit, modules) = (self.build_folder.join("wit"), self.build_folder.join("py"));
        let component = self.build_folder.join(COMPONENT);
        let args = self.arguments(report.world);
        let texts = self.entry.modules(&self.folder.package);
        let key = || {
            let world = report.world.text();
            let inputs = [&self.toolchain.version, &world].into_iter().chain(&args);
            let inputs = inputs.chain(&self.toolchain.program);
            let inputs = inputs.chain(texts.iter().map(|(_, text)| text));
            build_key(&self.folder.root, inputs.map(String::as_str))
        };
        let key_before = key();
        let records = self.cx.cache(RECORDS)?;
        if let Some(key) = &key_before
            && let Ok(last) = self.cx.read_output(self.folder, &component)
            && let Ok(recorded) = files::read_text(&records.join(key), LinkPolicy::Refuse, 64)
            && recorded == sha256_hex(&last)
        {
            return Ok(last);
        }
        // A plugin may have put links there.
        for stale in [&wit, &modules, &component] {
            remove(stale)?;
        }
        self.folder.create_folder(&wit)?;
        self.folder.create_folder(&modules)?;
        report.world.write(&self.cx.sdk.root, &wit)?;
        for (name, text) in &texts {
            let path = modules.join(name);
            write_atomically(&path, text.as_bytes())
                .map_err(|error| file_error("write", &path, &error))?;
        }
        self.cx.announce(
            "componentize-py bundles Python into the component, which takes 20 to 60 s …",
        );
        let script = componentize_script(&self.toolchain.roots);
        let step = self.step("componentize-py", script, args.iter().cloned());
        self.cx.run(self.folder, &step).await?;
        let bytes = self.cx.read_output(self.folder, &component)?;
        // A file may have changed during the build.
        if let Some(key) = key_before.filter(|before| key().as_ref() == Some(before)) {
            let record = records.join(key);
            write_atomically(&record, sha256_hex(&bytes).as_bytes())
                .map_err(|error| file_error("write", &record, &error))?;
        }
        Ok(bytes)
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
        folders.push(path_text(&self.sdk));
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

    /// Loads the component. Fails if the host does not accept it, or if it has other tools or needs than the module has on
    /// this machine.
    async fn check_description(
        &self,
        report: &ModuleReport,
        bytes: &[u8],
    ) -> Result<LoadedTools, ToolError> {
        let loaded = load_alone(self.cx.setup, &self.folder.component_name(), bytes).await?;
        if let Some(left_out) = loaded.quarantined.first() {
            return Err(ToolError::new(left_out.code, left_out.reason.clone()));
        }
        report.compare(&loaded.tools)?;
        Ok(loaded)
    }
}

/// Returns the script that runs componentize-py. Its package may be in a folder that an isolated Python does not search.
fn componentize_script(roots: &[PathBuf]) -> String {
    let roots: Vec<Value> = roots.iter().map(|root| path_text(root).into()).collect();
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
