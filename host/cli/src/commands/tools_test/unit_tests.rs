//! The unit tests of a plugin, run natively by the tools of its language, in the sandbox of commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mimir_core::ToolError;
use serde::Serialize;

use crate::args::PluginLanguage;
use crate::commands::toolchains::path_text;
use crate::commands::tools_build::{
    self, BuildContext, BuildStep, PluginFolder, TARGET_FOLDER, ZigCache,
};
use crate::exit::CommandResult;

mod c_tests;
mod go_tests;
mod source_files;
mod zig_tests;

use source_files::{files_named, has_content, has_file, has_text};

/// Folder for the compiled tests, in the build folder of the plugin.
const TEST_FOLDER: &str = "tests";

/// Names of Python's test files.
const PYTHON_TESTS: &str = "test*.py";

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

async fn rust_plan(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<TestPlan> {
    let is_source = |name: &str| name.ends_with(".rs");
    if !has_content(folder, is_source, has_test_attribute)? {
        return Ok(TestPlan::default());
    }
    let args = ["test", "--offline", "--target-dir", TARGET_FOLDER];
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

/// Returns true if a source in Rust has a function with an attribute for tests: `#[test]`, or one of a library such as
/// `#[tokio::test]` or `#[rstest]`, with or without arguments.
fn has_test_attribute(source: &str) -> bool {
    let attributes = source.split("#[").skip(1);
    let mut names = attributes.map(|rest| {
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (path, after) = rest.split_at(end);
        (path.rsplit("::").next().unwrap_or(path), after)
    });
    names.any(|(name, after)| {
        let is_attribute = after.starts_with(']') || after.starts_with('(');
        is_attribute
            && (name == "test"
                || name.ends_with("_test")
                || matches!(name, "rstest" | "test_case" | "proptest" | "quickcheck"))
    })
}

fn python_plan(cx: &BuildContext<'_>, folder: &PluginFolder) -> Result<TestPlan, ToolError> {
    let starts = python_start_folders(folder)?;
    if starts.is_empty() {
        return Ok(TestPlan::default());
    }
    let toolchain = folder.toolchain()?;
    let vendor = folder.root.join("vendor");
    let path = std::env::join_paths([cx.sdk.folder("python"), vendor]).map_err(|_| {
        ToolError::unavailable(
            "the path of the plugin or of the cache has a separator of PATH: move one of them",
        )
    })?;
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment = [
        variable("PYTHONPATH", &path.to_string_lossy()),
        variable("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    let step = |start: &PathBuf| {
        let mut args = toolchain.program.clone();
        args.extend(["-m", "unittest", "discover", "--pattern", PYTHON_TESTS].map(str::to_owned));
        // Modules of the plugin are found nevertheless: the working folder is searched too.
        args.extend(["--start-directory".to_owned(), path_text(start)]);
        BuildStep {
            compiler: "unittest",
            args,
            read_only: toolchain.roots.clone(),
            environment: environment.to_vec(),
            ..BuildStep::default()
        }
    };
    Ok(TestPlan {
        run: starts.iter().map(step).collect(),
        ..TestPlan::default()
    })
}

/// Returns the folders from which Python's `unittest` finds all tests, relative to the folder of the plugin: it looks into
/// packages only, so a folder without `__init__.py` is one more start.
fn python_start_folders(folder: &PluginFolder) -> Result<BTreeSet<PathBuf>, ToolError> {
    let is_test = |name: &str| name.starts_with("test") && name.ends_with(".py");
    let files = files_named(&folder.root, is_test)?;
    let start = |file: &PathBuf| {
        let mut parents = file.ancestors().skip(1);
        let start = parents
            .find(|parent| **parent == *folder.root || !parent.join("__init__.py").is_file())?;
        let start = start.strip_prefix(&folder.root).ok()?;
        Some(if start.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            start.to_owned()
        })
    };
    Ok(files.iter().filter_map(start).collect())
}

/// Returns the folder for the compiled tests, and creates it.
fn test_folder(folder: &PluginFolder) -> Result<PathBuf, ToolError> {
    let tests = folder.build_folder()?.join(TEST_FOLDER);
    folder.create_folder(&tests)?;
    Ok(tests)
}

/// Returns the sources of the SDK for C that work outside of a component.
fn native_sources(sdk: &Path) -> [String; 3] {
    ["json.c", "mimir.c", "native.c"].map(|name| path_text(&sdk.join("src").join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_tests_have_any_attribute_for_tests() {
        for source in [
            "#[test]\nfn a() {}",
            "#[tokio::test]\nasync fn a() {}",
            "#[tokio::test(flavor = \"multi_thread\")]",
            "    #[async_std::test]",
            "#[rstest]",
            "#[test_case(1)]",
            "#[wasm_bindgen_test]",
        ] {
            assert!(has_test_attribute(source), "{source}");
        }
        for source in [
            "#[cfg(test)]\nmod tests {}",
            "#[derive(Debug)]",
            "// #[",
            "test]",
            "#[testing]",
        ] {
            assert!(!has_test_attribute(source), "{source}");
        }
    }

    #[test]
    fn python_tests_are_found_in_folders_without_init_file() {
        let dir = tempfile::tempdir().unwrap();
        let starts = |files: &[&str]| {
            for file in files {
                let path = dir.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            let folder = PluginFolder::find(dir.path(), None).unwrap();
            let starts = python_start_folders(&folder).unwrap();
            let starts = starts.iter().map(|start| start.display().to_string());
            starts.collect::<Vec<_>>()
        };
        assert!(starts(&["tool.py"]).is_empty());
        assert_eq!(starts(&["package/__init__.py", "package/test_a.py"]), ["."]);
        assert_eq!(
            starts(&[
                "tests/test_b.py",
                "tests/unit/__init__.py",
                "tests/unit/test_c.py"
            ]),
            [".", "tests"]
        );
    }
}
