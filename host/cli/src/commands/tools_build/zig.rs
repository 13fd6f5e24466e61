//! Builds of plugins in Zig, with the C SDK.

use std::path::Path;

use super::c::sdk_sources;
use super::core_module::{add_remedies, export_remedy, finish_module, is_mentioned};
use super::{BUILD_FOLDER, BuildContext, BuildStep, CompiledPlugin, PluginFolder};
use crate::exit::CommandResult;

mod zig_cache;

pub use zig_cache::ZigCache;

/// The function that exports the tools.
const EXPORT_FUNCTION: &str = "mimir.exportPlugin";

/// The line with it.
const EXPORT_LINE: &str =
    "comptime { mimir.exportPlugin(\"name\", \"0.1.0\", \"What it does.\", .{Tool}); }";

/// Settings of each module of the program. They hold for one module only.
const MODULE: [&str; 4] = ["-target", "wasm32-wasi", "-O", "ReleaseSmall"];

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<CompiledPlugin> {
    let toolchain = folder.toolchain()?;
    let build_folder = folder.build_folder()?;
    let entry = folder.entry.file_name().unwrap_or_default();
    let entry = entry.to_string_lossy().into_owned();
    let mut args = toolchain.program;
    args.extend(arguments(&cx.sdk.root, &sdk_sources(cx)?, &entry));
    let mut step = BuildStep {
        compiler: "zig",
        args,
        writable: vec![build_folder.clone()],
        read_only: toolchain.roots,
        ..BuildStep::default()
    };
    let is_exported = is_mentioned(folder, [&entry], EXPORT_FUNCTION);
    let missing_export = (!is_exported).then(|| export_remedy(EXPORT_LINE));
    let cache = ZigCache::lock(cx).await?;
    cache.add_to(&mut step);
    cache.announce_library("C");
    let compiled = cx.run(folder, &step).await;
    compiled.map_err(|error| add_remedies(error, missing_export.clone()))?;
    cache.remember_library("C");
    drop(cache);
    let module = build_folder.join("core.wasm");
    Ok(finish_module(cx, folder, &module, missing_export).await?)
}

/// Returns the arguments of zig. The order matters: options belong to the module that follows.
fn arguments(sdk: &Path, c_sources: &[String], entry: &str) -> Vec<String> {
    let path = |below: &str| sdk.join("sdk").join(below).display().to_string();
    let owned = |args: &[&str]| -> Vec<String> { args.iter().map(|&arg| arg.into()).collect() };
    let mut args = owned(&["build-exe"]);
    args.extend(owned(&MODULE));
    args.extend(owned(&[
        "-fstrip", "-lc", "--dep", "mimir", "--dep", "tool",
    ]));
    args.push(format!("-Mroot={}", path("zig/entry.zig")));
    args.extend(owned(&MODULE));
    args.push(format!("-I{}", path("c/include")));
    args.extend_from_slice(c_sources);
    args.push(format!("-Mmimir={}", path("zig/mimir.zig")));
    args.extend(owned(&MODULE));
    args.extend(owned(&["--dep", "mimir"]));
    args.push(format!("-Mtool={entry}"));
    args.extend(owned(&["-mexec-model=reactor", "-rdynamic"]));
    args.push(format!("-femit-bin={BUILD_FOLDER}/core.wasm"));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zig_compiles_the_c_sdk_into_the_module_of_the_sdk() {
        let sources = ["/s/sdk/c/src/host.c".to_owned()];
        let args = arguments(Path::new("/s"), &sources, "words.zig").join(" ");
        let before_tool = args.split("-Mtool=words.zig").next().unwrap();
        let (_, of_sdk) = before_tool.split_once("entry.zig").unwrap();
        let (c_part, _) = of_sdk.split_once("-Mmimir=").unwrap();
        assert!(c_part.contains("-I/s/sdk/c/include /s/sdk/c/src/host.c"));
    }
}
