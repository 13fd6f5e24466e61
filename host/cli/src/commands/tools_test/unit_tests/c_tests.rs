//! Unit tests in C and C++: `test.c` or `test.cpp`, compiled for this machine.

use std::path::Path;

use mimir_core::ToolError;

use super::{TestPlan, native_sources, test_folder};
use crate::args::PluginLanguage;
use crate::commands::toolchains::{self, FoundToolchain, path_text};
use crate::commands::tools_build::{BuildContext, BuildStep, PluginFolder, ZigCache};

/// Plans to compile the tests, which include the source of the plugin, and to run the program.
pub async fn plan(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<TestPlan, ToolError> {
    let tests = [
        ("test.c", PluginLanguage::C),
        ("test.cpp", PluginLanguage::Cpp),
        ("test.cc", PluginLanguage::Cpp),
        ("test.cxx", PluginLanguage::Cpp),
    ];
    let is_present = |(name, _): &(&str, _)| folder.root.join(name).is_file();
    let Some((source, language)) = tests.into_iter().find(is_present) else {
        return Ok(TestPlan::default());
    };
    let tests = test_folder(folder)?;
    let library = path_text(&tests.join("sdk_native.o"));
    let program = path_text(&tests.join("test"));
    let sdk = cx.sdk.folder("c");
    // The SDK is C in either language.
    let sdk_compiler = native_compiler(folder, PluginLanguage::C)?;
    let test_compiler = native_compiler(folder, language)?;
    let zig_cache = if sdk_compiler.is_zig || test_compiler.is_zig {
        Some(ZigCache::lock(cx).await?)
    } else {
        None
    };
    let mut compile_sdk = compile_step(cx, &tests, sdk_compiler, PluginLanguage::C);
    compile_sdk.args.push("-r".to_owned());
    compile_sdk.args.extend(native_sources(&sdk));
    compile_sdk.args.extend(["-o".to_owned(), library.clone()]);
    let mut compile_test = compile_step(cx, &tests, test_compiler, language);
    let linked = [source, &library, "-lm", "-o", &program].map(str::to_owned);
    compile_test.args.extend(linked);
    let run = BuildStep {
        compiler: source,
        args: vec![program],
        ..BuildStep::default()
    };
    let mut compile = vec![compile_sdk, compile_test];
    if let Some(cache) = &zig_cache {
        compile.iter_mut().for_each(|step| cache.add_to(step));
    }
    Ok(TestPlan {
        compile,
        run: vec![run],
        zig_cache,
    })
}

/// Returns a compiler for this machine: that of the system, else zig.
fn native_compiler(
    folder: &PluginFolder,
    language: PluginLanguage,
) -> Result<FoundToolchain, ToolError> {
    let search = folder.program_search();
    let names = match language {
        PluginLanguage::C => ["cc", "gcc", "clang"],
        _ => ["c++", "g++", "clang++"],
    };
    if let Some(program) = names.iter().find_map(|name| search.program(name)) {
        return Ok(FoundToolchain {
            program: vec![path_text(&program)],
            ..FoundToolchain::default()
        });
    }
    let found = toolchains::find(language, &search).ok();
    found.filter(|found| found.is_zig).ok_or_else(|| {
        ToolError::unavailable(
            "unit tests in C and C++ need a compiler for this machine: install gcc or clang, or zig \
             (pip install ziglang)",
        )
    })
}

/// Returns the start of a step that compiles.
fn compile_step(
    cx: &BuildContext<'_>,
    tests: &Path,
    compiler: FoundToolchain,
    language: PluginLanguage,
) -> BuildStep {
    let standard = match language {
        PluginLanguage::C => "-std=gnu17",
        _ => "-std=c++20",
    };
    let include = path_text(&cx.sdk.folder("c").join("include"));
    let mut args = compiler.program;
    args.extend([standard.to_owned(), format!("-I{include}")]);
    BuildStep {
        compiler: "the C compiler",
        args,
        writable: vec![tests.to_owned()],
        read_only: compiler.roots,
        ..BuildStep::default()
    }
}
