//! Builds of plugins in C and C++: with clang and wasi-libc, or with zig.
//!
//! The objects of the SDK stay in the build folder of the plugin. They are compiled again if the compiler or the SDK
//! changes.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;

use super::core_module::{add_remedies, export_remedy, finish_module, is_mentioned};
use super::zig::ZigCache;
use super::{BUILD_FOLDER, BuildContext, CompiledPlugin, PluginFolder};
use crate::args::PluginLanguage;
use crate::exit::CommandResult;
use crate::output::note;
use mimir::file_error::{file_error, write_atomically};

mod clangd_flags;
mod plugin_sources;
mod wasm_compiler;

use plugin_sources::PluginSources;
use wasm_compiler::WasmCompiler;

/// The macro that exports the tools.
const EXPORT_MACRO: &str = "MIMIR_EXPORT";

/// The line with it.
const EXPORT_LINE: &str = "MIMIR_EXPORT(\"name\", \"0.1.0\", \"What it does.\", &tool)";

/// File in the folder of the SDK's objects that names what they were made with. It is written last.
const OBJECTS_KEY: &str = "compiler.txt";

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<CompiledPlugin> {
    let search = folder.program_search();
    let sources = PluginSources::find(folder)?;
    let compiler = WasmCompiler::find(cx, folder.language, &search)?;
    // The SDK is C in either language.
    let c_compiler = WasmCompiler::find(cx, PluginLanguage::C, &search)?;
    let build_folder = folder.build_folder()?;
    if !clangd_flags::write(&folder.root, &compiler)? {
        note("compile_flags.txt was not written by mimir, and stays as it is");
    }
    let is_exported = is_mentioned(folder, sources.all(), EXPORT_MACRO);
    let missing_export = (!is_exported).then(|| export_remedy(EXPORT_LINE));
    let build = CBuild {
        cx,
        folder,
        c_compiler,
        build_folder: &build_folder,
        zig_cache: if compiler.is_zig() {
            Some(ZigCache::lock(cx).await?)
        } else {
            None
        },
    };
    build.link(&compiler, &sources).await.map_err(|error| {
        let remedies = missing_export.clone().into_iter();
        add_remedies(error, remedies.chain(compiler.missing_library()))
    })?;
    drop(build);
    let module = build_folder.join("core.wasm");
    Ok(finish_module(cx, folder, &module, missing_export).await?)
}

/// Returns the paths of the C SDK's sources.
pub fn sdk_sources(cx: &BuildContext<'_>) -> Result<Vec<String>, ToolError> {
    let folder = cx.sdk.folder("c").join("src");
    let failure = |error: std::io::Error| file_error("read", &folder, &error);
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failure)? {
        let path = entry.map_err(failure)?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path.to_string_lossy().into_owned());
        }
    }
    sources.sort();
    Ok(sources)
}

/// One build of a plugin.
struct CBuild<'a> {
    cx: &'a BuildContext<'a>,
    folder: &'a PluginFolder,
    c_compiler: WasmCompiler,
    build_folder: &'a Path,
    /// The cache, if zig is the compiler.
    zig_cache: Option<ZigCache>,
}

impl CBuild<'_> {
    /// Compiles and links the module.
    async fn link(
        &self,
        compiler: &WasmCompiler,
        sources: &PluginSources,
    ) -> Result<(), ToolError> {
        let library = compiler.language().title();
        if let Some(cache) = &self.zig_cache {
            cache.announce_library(library);
        }
        let mut inputs = sources.main.clone();
        for (index, source) in sources.other.iter().enumerate() {
            let object = format!("{BUILD_FOLDER}/c{index}.o");
            self.compile(source, &object).await?;
            inputs.push(object);
        }
        inputs.extend(self.sdk_objects().await?);
        let mut args = compiler.link_options();
        args.extend(inputs);
        args.extend(["-o".to_owned(), format!("{BUILD_FOLDER}/core.wasm")]);
        self.run(compiler, args).await?;
        if let Some(cache) = &self.zig_cache {
            cache.remember_library(library);
        }
        Ok(())
    }

    /// Returns the objects of the SDK, and compiles them if they are not from this compiler and SDK.
    async fn sdk_objects(&self) -> Result<Vec<String>, ToolError> {
        let folder = self.build_folder.join("sdk");
        self.folder.create_folder(&folder)?;
        let key_file = folder.join(OBJECTS_KEY);
        let key = self.c_compiler.key();
        let is_current = std::fs::read_to_string(&key_file).is_ok_and(|found| found == key);
        let mut objects = Vec::new();
        for source in sdk_sources(self.cx)? {
            let mut object = PathBuf::from(&source);
            object.set_extension("o");
            let name = object.file_name().unwrap_or_default().to_string_lossy();
            let object = format!("{BUILD_FOLDER}/sdk/{name}");
            if !is_current || !self.folder.root.join(&object).is_file() {
                self.compile(&source, &object).await?;
            }
            objects.push(object);
        }
        if !is_current {
            write_atomically(&key_file, key.as_bytes())
                .map_err(|error| file_error("write", &key_file, &error))?;
        }
        Ok(objects)
    }

    /// Compiles a source in C.
    async fn compile(&self, source: &str, object: &str) -> Result<(), ToolError> {
        let args = ["-c", source, "-o", object].map(str::to_owned);
        self.run(&self.c_compiler, args.to_vec()).await
    }

    async fn run(&self, compiler: &WasmCompiler, args: Vec<String>) -> Result<(), ToolError> {
        let mut step = compiler.step(args);
        step.writable.push(self.build_folder.to_owned());
        if let Some(cache) = &self.zig_cache {
            cache.add_to(&mut step);
        }
        self.cx.run(self.folder, &step).await?;
        Ok(())
    }
}
