//! The unit tests of a plugin, run natively by the tools of its language, in the sandbox of commands.

use std::path::Path;
use std::time::{Duration, Instant};

use mimir_core::ToolError;
use serde::Serialize;

use crate::args::PluginLanguage;
use crate::commands::toolchains::{self, FoundToolchain, ProgramSearch};
use crate::commands::tools_build::{self, BuildContext, BuildStep, PluginFolder};
use crate::exit::CommandResult;

mod source_files;

use source_files::{has_file, has_text};

/// Result of the unit tests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitTestReport {
    /// The program that ran them, such as `go test`.
    pub runner: String,
    /// True if all of them passed.
    pub passed: bool,
    /// Duration in milliseconds, with the compilation.
    pub duration_ms: f64,
}

/// Runs the unit tests after the plugin was built. Returns `None` if it has none.
///
/// # Errors
///
/// Fails if a program is missing, or cannot run in the sandbox. Tests that fail are a result.
pub async fn run(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
) -> CommandResult<Option<UnitTestReport>> {
    let start = Instant::now();
    let steps = match folder.language {
        // The engine of these languages is in mimir; their tests are the cases.
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => return Ok(None),
        PluginLanguage::Rust => rust_steps(cx, folder).await?,
        PluginLanguage::Python => python_steps(cx, folder)?,
        PluginLanguage::Go => go_steps(cx, folder)?,
        PluginLanguage::C | PluginLanguage::Cpp => c_steps(cx, folder)?,
        PluginLanguage::Zig => zig_steps(cx, folder)?,
    };
    let Some(last) = steps.last() else {
        return Ok(None);
    };
    let runner = last.compiler.to_owned();
    let mut passed = true;
    for step in &steps {
        passed = passed && cx.run_tests(folder, step).await?;
    }
    Ok(Some(UnitTestReport {
        runner,
        passed,
        duration_ms: start.elapsed().as_secs_f64() * 1_000.0,
    }))
}

impl UnitTestReport {
    /// Returns the duration.
    pub fn duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.duration_ms / 1_000.0).unwrap_or_default()
    }
}

fn toolchain(folder: &PluginFolder) -> Result<FoundToolchain, ToolError> {
    let search = ProgramSearch::outside(Some(&folder.root));
    toolchains::find(folder.language, &search).map_err(ToolError::from)
}

async fn rust_steps(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<Vec<BuildStep>> {
    let is_source = |name: &str| name.ends_with(".rs");
    if !has_text(folder, is_source, "#[test]")? {
        return Ok(Vec::new());
    }
    let args = ["test", "--offline", "--target-dir", "target"];
    let step = tools_build::cargo_step(cx, folder, &args).await?;
    Ok(vec![BuildStep {
        compiler: "cargo test",
        ..step
    }])
}

fn python_steps(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<Vec<BuildStep>, ToolError> {
    if !has_file(folder, |name| {
        name.starts_with("test") && name.ends_with(".py")
    })? {
        return Ok(Vec::new());
    }
    let toolchain = toolchain(folder)?;
    let mut args = toolchain.program;
    args.extend(["-m", "unittest", "discover", "--pattern", "test*.py"].map(str::to_owned));
    let vendor = folder.root.join("vendor");
    let path = std::env::join_paths([cx.sdk.folder("python"), vendor]).map_err(|_| {
        ToolError::unavailable(
            "the path of the plugin or of the cache has a separator of PATH: move one of them",
        )
    })?;
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Ok(vec![BuildStep {
        compiler: "unittest",
        args,
        read_only: toolchain.roots,
        environment: vec![
            variable("PYTHONPATH", &path.to_string_lossy()),
            variable("PYTHONDONTWRITEBYTECODE", "1"),
        ],
        ..BuildStep::default()
    }])
}

fn go_steps(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<Vec<BuildStep>, ToolError> {
    if !has_file(folder, |name| name.ends_with("_test.go"))? {
        return Ok(Vec::new());
    }
    let toolchain = toolchain(folder)?;
    let mut args = toolchain.program;
    // The checks of `go vet` would compile it first.
    args.extend(["test", "-vet=off", "./..."].map(str::to_owned));
    let cache = cx.cache("go")?;
    // The same cache as that of the build.
    let cache_text = cache.to_string_lossy().into_owned();
    let fixed = [
        ("GOPROXY", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOFLAGS", "-mod=readonly"),
        ("GOTELEMETRY", "off"),
        ("CGO_ENABLED", "0"),
    ];
    let mut environment: Vec<(String, String)> = fixed
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    environment.push(("GOCACHE".to_owned(), cache_text));
    Ok(vec![BuildStep {
        compiler: "go test",
        args,
        read_only: toolchain.roots,
        caches: vec![cache],
        environment,
        ..BuildStep::default()
    }])
}

/// Compiles `test.c` or `test.cpp`, which includes the source of the plugin, and runs the program.
fn c_steps(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<Vec<BuildStep>, ToolError> {
    let tests = [
        ("test.c", PluginLanguage::C),
        ("test.cpp", PluginLanguage::Cpp),
        ("test.cc", PluginLanguage::Cpp),
        ("test.cxx", PluginLanguage::Cpp),
    ];
    let is_present = |(name, _): &(&str, _)| folder.root.join(name).is_file();
    let Some((source, language)) = tests.into_iter().find(is_present) else {
        return Ok(Vec::new());
    };
    let build_folder = folder.build_folder()?;
    let library = text(&build_folder.join("sdk_native.o"));
    let program = text(&build_folder.join("test"));
    let sdk = cx.sdk.folder("c");
    // The SDK is C in either language.
    let mut compile_sdk = native_compile_step(cx, folder, PluginLanguage::C)?;
    compile_sdk.args.push("-r".to_owned());
    compile_sdk.args.extend(native_sources(&sdk));
    compile_sdk.args.extend(["-o".to_owned(), library.clone()]);
    let mut compile_test = native_compile_step(cx, folder, language)?;
    let linked = [source, &library, "-lm", "-o", &program].map(str::to_owned);
    compile_test.args.extend(linked);
    let run = BuildStep {
        compiler: source,
        args: vec![program],
        ..BuildStep::default()
    };
    Ok(vec![compile_sdk, compile_test, run])
}

/// Returns the start of a step that compiles for this machine: with the compiler of the system, else with zig.
fn native_compile_step(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    language: PluginLanguage,
) -> Result<BuildStep, ToolError> {
    let search = ProgramSearch::outside(Some(&folder.root));
    let (names, standard) = match language {
        PluginLanguage::C => (["cc", "gcc", "clang"], "-std=gnu17"),
        _ => (["c++", "g++", "clang++"], "-std=c++20"),
    };
    let compiler = match names.iter().find_map(|name| search.program(name)) {
        Some(program) => FoundToolchain {
            program: vec![text(&program)],
            ..FoundToolchain::default()
        },
        None => toolchains::find(language, &search)
            .ok()
            .filter(|found| found.is_zig)
            .ok_or_else(|| {
                ToolError::unavailable(
                    "unit tests in C and C++ need a compiler for this machine: install gcc or clang, or zig \
                     (pip install ziglang)",
                )
            })?,
    };
    let include = text(&cx.sdk.folder("c").join("include"));
    let mut args = compiler.program;
    args.extend([standard.to_owned(), format!("-I{include}")]);
    let mut step = BuildStep {
        compiler: "the C compiler",
        args,
        writable: vec![folder.build_folder()?],
        read_only: compiler.roots,
        ..BuildStep::default()
    };
    if compiler.is_zig {
        add_zig_cache(cx, &mut step)?;
    }
    Ok(step)
}

fn zig_steps(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<Vec<BuildStep>, ToolError> {
    if !has_text(folder, |name| name.ends_with(".zig"), "\ntest ")? {
        return Ok(Vec::new());
    }
    let toolchain = toolchain(folder)?;
    let mut args = toolchain.program;
    let sdk = cx.sdk.folder("c");
    args.extend(["test", "--dep", "mimir"].map(str::to_owned));
    args.push(format!("-Mroot={}", text(&folder.entry)));
    args.push(format!("-I{}", text(&sdk.join("include"))));
    args.push("-lc".to_owned());
    args.extend(native_sources(&sdk));
    args.push(format!(
        "-Mmimir={}",
        text(&cx.sdk.folder("zig").join("mimir.zig"))
    ));
    let mut step = BuildStep {
        compiler: "zig test",
        args,
        writable: vec![folder.build_folder()?],
        read_only: toolchain.roots,
        ..BuildStep::default()
    };
    add_zig_cache(cx, &mut step)?;
    Ok(vec![step])
}

/// Lets zig write its caches, which are in the folder of the plugin by default.
fn add_zig_cache(cx: &BuildContext<'_>, step: &mut BuildStep) -> Result<(), ToolError> {
    let cache = cx.cache("zig")?;
    for name in ["ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"] {
        step.environment.push((name.to_owned(), text(&cache)));
    }
    step.caches.push(cache);
    Ok(())
}

/// Returns the sources of the SDK for C that work outside of a component.
fn native_sources(sdk: &Path) -> [String; 3] {
    ["json.c", "mimir.c", "native.c"].map(|name| text(&sdk.join("src").join(name)))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
