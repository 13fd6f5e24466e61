//! Unit tests in Zig: the `test` blocks of the plugin, compiled for this machine.

use mimir_core::ToolError;

use super::{TestPlan, has_text, native_sources, test_folder};
use crate::commands::toolchains::path_text;
use crate::commands::tools_build::{BuildContext, BuildStep, PluginFolder, ZigCache};

/// Plans to compile the tests into one program, and to run it.
pub async fn plan(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<TestPlan, ToolError> {
    if !has_text(folder, |name| name.ends_with(".zig"), "\ntest ")? {
        return Ok(TestPlan::default());
    }
    let toolchain = folder.toolchain()?;
    let tests = test_folder(folder)?;
    let program = path_text(&tests.join("test"));
    let sdk = cx.sdk.folder("c");
    let mut args = toolchain.program;
    args.extend(["test", "--test-no-exec"].map(str::to_owned));
    args.push(format!("-femit-bin={program}"));
    args.extend(["--dep", "mimir"].map(str::to_owned));
    args.push(format!("-Mroot={}", path_text(&folder.entry)));
    args.push(format!("-I{}", path_text(&sdk.join("include"))));
    args.push("-lc".to_owned());
    args.extend(native_sources(&sdk));
    let module = cx.sdk.folder("zig").join("mimir.zig");
    args.push(format!("-Mmimir={}", path_text(&module)));
    let mut compile = BuildStep {
        compiler: "zig test",
        args,
        writable: vec![tests],
        read_only: toolchain.roots,
        ..BuildStep::default()
    };
    let zig_cache = ZigCache::lock(cx).await?;
    zig_cache.add_to(&mut compile);
    let run = BuildStep {
        compiler: "zig test",
        args: vec![program],
        ..BuildStep::default()
    };
    Ok(TestPlan {
        compile: vec![compile],
        run: vec![run],
        zig_cache: Some(zig_cache),
    })
}
