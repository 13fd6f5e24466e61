//! The unit tests of a plugin, run natively by the tools of its language, in the sandbox of commands.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mimir_core::ToolError;
use serde::Serialize;

use crate::args::PluginLanguage;
use crate::commands::toolchains::{self, FoundToolchain, ProgramSearch};
use crate::commands::tools_build::{self, BuildContext, BuildStep, PluginFolder, ZigCache};
use crate::exit::CommandResult;

mod c_tests;
mod go_tests;
mod source_files;
mod zig_tests;

use source_files::{has_file, has_text};

/// Folder for the compiled tests, in the build folder of the plugin.
const TEST_FOLDER: &str = "tests";

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

/// Steps of the unit tests. Compilers have caches, which plugins share; tests run code of the plugin, and could change what
/// later builds of other plugins compile, so they have none.
#[derive(Default)]
struct TestPlan {
    /// Steps that compile. If one fails, the tests have failed.
    compile: Vec<BuildStep>,
    /// Steps that run tests, without caches. All of them run.
    run: Vec<BuildStep>,
    /// zig's cache, if the compilation uses it.
    zig_cache: Option<ZigCache>,
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
    let plan = match folder.language {
        // The engine of these languages is in mimir; their tests are the cases.
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => return Ok(None),
        PluginLanguage::Rust => rust_plan(cx, folder).await?,
        PluginLanguage::Python => python_plan(cx, folder)?,
        PluginLanguage::Go => go_tests::plan(cx, folder).await?,
        PluginLanguage::C | PluginLanguage::Cpp => c_tests::plan(cx, folder).await?,
        PluginLanguage::Zig => zig_tests::plan(cx, folder).await?,
    };
    let Some(last) = plan.run.last() else {
        return Ok(None);
    };
    let runner = last.compiler.to_owned();
    let passed = plan.execute(cx, folder).await?;
    Ok(Some(UnitTestReport {
        runner,
        passed,
        duration_ms: start.elapsed().as_secs_f64() * 1_000.0,
    }))
}

impl TestPlan {
    /// Compiles and runs the tests. Returns true if all of them passed.
    async fn execute(
        self,
        cx: &BuildContext<'_>,
        folder: &PluginFolder,
    ) -> Result<bool, ToolError> {
        debug_assert!(self.run.iter().all(|step| step.caches.is_empty()));
        for step in &self.compile {
            if !cx.run_tests(folder, step).await? {
                return Ok(false);
            }
        }
        // Other builds may use zig while the tests run.
        drop(self.zig_cache);
        let mut passed = true;
        for step in &self.run {
            passed &= cx.run_tests(folder, step).await?;
        }
        Ok(passed)
    }
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

async fn rust_plan(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<TestPlan> {
    let is_source = |name: &str| name.ends_with(".rs");
    if !has_text(folder, is_source, "#[test]")? {
        return Ok(TestPlan::default());
    }
    let args = ["test", "--offline", "--target-dir", "target"];
    let step = tools_build::cargo_step(cx, folder, &args).await?;
    // Cargo writes into the folder of the plugin only.
    let run = vec![BuildStep {
        compiler: "cargo test",
        ..step
    }];
    Ok(TestPlan {
        run,
        ..TestPlan::default()
    })
}

fn python_plan(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<TestPlan, ToolError> {
    if !has_file(folder, |name| {
        name.starts_with("test") && name.ends_with(".py")
    })? {
        return Ok(TestPlan::default());
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
    let run = vec![BuildStep {
        compiler: "unittest",
        args,
        read_only: toolchain.roots,
        environment: vec![
            variable("PYTHONPATH", &path.to_string_lossy()),
            variable("PYTHONDONTWRITEBYTECODE", "1"),
        ],
        ..BuildStep::default()
    }];
    Ok(TestPlan {
        run,
        ..TestPlan::default()
    })
}

/// Returns the folder for the compiled tests, and creates it.
fn test_folder(folder: &PluginFolder) -> Result<PathBuf, ToolError> {
    let tests = folder.build_folder()?.join(TEST_FOLDER);
    folder.create_folder(&tests)?;
    Ok(tests)
}

/// Returns the sources of the SDK for C that work outside of a component.
fn native_sources(sdk: &Path) -> [String; 3] {
    ["json.c", "mimir.c", "native.c"].map(|name| text(&sdk.join("src").join(name)))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
