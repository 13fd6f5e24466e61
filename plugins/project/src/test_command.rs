//! Command lines of test frameworks.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::project_path::{ancestors, join_path};
use crate::test_project::{Framework, TestProject};

/// The command that runs the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestCommand {
    /// Program and arguments.
    pub words: Vec<String>,
}

/// Interpreters of the virtual environments that projects usually have, relative to the project.
const INTERPRETERS: [&str; 4] = [
    ".venv/bin/python",
    "venv/bin/python",
    ".venv/Scripts/python.exe",
    "venv/Scripts/python.exe",
];

impl TestCommand {
    /// Patterns of all commands that this module makes.
    pub const PATTERNS: [&str; 15] = [
        "cargo test *",
        "go test *",
        "node *",
        "npm test *",
        "yarn *",
        "pnpm test *",
        "python3 -m pytest *",
        "python3 -m unittest *",
        ".venv/bin/python -m *",
        "venv/bin/python -m *",
        ".venv/Scripts/python.exe -m *",
        "venv/Scripts/python.exe -m *",
        "mvn *",
        "sh mvnw *",
        "make test *",
    ];

    /// Makes the command for a project. `filter` selects tests by name, as the framework defines it.
    pub fn new(
        cx: &Context,
        project: &TestProject,
        filter: Option<&str>,
        coverage: bool,
    ) -> Result<Self> {
        let framework = project.framework;
        if let Some(filter) = filter
            && (filter.starts_with('-') || filter.contains('\0'))
        {
            return Err(Error::invalid_input(format_args!(
                "the filter `{}` looks like an option: expected a part of a test's name",
                text::brief(filter)
            )));
        }
        let measures = matches!(
            framework,
            Framework::Vitest
                | Framework::Jest
                | Framework::Node
                | Framework::Pytest
                | Framework::Go
        );
        if coverage && !measures {
            return Err(Error::invalid_input(format_args!(
                "`coverage` is not supported for {}: leave it out, and run the project's coverage tool with `exec`",
                framework.as_str()
            )));
        }
        if filter.is_some() && matches!(framework, Framework::Make | Framework::Npm) {
            return Err(Error::invalid_input(format_args!(
                "`filter` is not supported for {}: leave it out, or run one test with `exec`",
                framework.as_str()
            )));
        }
        let words = match framework {
            Framework::Cargo => cargo(cx, project, filter)?,
            Framework::Go => go(cx, project, filter, coverage),
            Framework::Vitest => {
                let mut words = javascript(cx, project, "vitest", "vitest/vitest.mjs")?;
                words.extend(owned(&["run", "--reporter=json"]));
                if coverage {
                    words.extend(owned(&[
                        "--coverage",
                        "--coverage.reportOnFailure",
                        "--coverage.reporter=text-summary",
                    ]));
                }
                words.extend(filter.map(|filter| format!("--testNamePattern={filter}")));
                with_selection(words, project)
            }
            Framework::Jest => {
                let mut words = javascript(cx, project, "jest", "jest/bin/jest.js")?;
                words.extend(owned(&["--ci", "--json"]));
                if coverage {
                    words.extend(owned(&["--coverage", "--coverageReporters=text-summary"]));
                }
                words.extend(filter.map(|filter| format!("--testNamePattern={filter}")));
                with_selection(words, project)
            }
            Framework::Node => {
                let mut words = owned(&["node", "--test", "--test-reporter=tap"]);
                if coverage {
                    words.push("--experimental-test-coverage".to_owned());
                }
                words.extend(filter.map(|filter| format!("--test-name-pattern={filter}")));
                with_selection(words, project)
            }
            Framework::Npm => {
                no_selection(project)?;
                owned(&[package_manager(cx, project), "test"])
            }
            Framework::Pytest => pytest(cx, project, filter, coverage),
            Framework::Unittest => {
                let mut words = vec![interpreter(cx, project)];
                words.extend(owned(&["-m", "unittest", "-v"]));
                if project.selection.is_empty() {
                    // Without `discover`, options are not accepted in older versions.
                    words.insert(3, "discover".to_owned());
                }
                words.extend(filter.map(|filter| format!("-k{filter}")));
                with_selection(words, project)
            }
            Framework::Maven => {
                no_selection(project)?;
                let mut words = maven(cx, project);
                words.extend(owned(&["-B", "-ntp", "test"]));
                words.extend(filter.map(|filter| format!("-Dtest={filter}")));
                words
            }
            Framework::Make => {
                no_selection(project)?;
                owned(&["make", "test"])
            }
        };
        Ok(Self { words })
    }

    /// Returns the command line for display.
    pub fn line(&self) -> String {
        let quote = |word: &String| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@,+%".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        };
        let words: Vec<String> = self.words.iter().map(quote).collect();
        words.join(" ")
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Adds the requested file or folder. It begins with `./`, so that it is never an option.
fn with_selection(mut words: Vec<String>, project: &TestProject) -> Vec<String> {
    if !project.selection.is_empty() {
        words.push(format!("./{}", project.selection));
    }
    words
}

fn no_selection(project: &TestProject) -> Result<()> {
    if project.selection.is_empty() {
        return Ok(());
    }
    let folder = if project.folder.is_empty() {
        "."
    } else {
        &project.folder
    };
    Err(Error::invalid_input(format_args!(
        "{} cannot run the tests of a part of the project: name the project's folder `{}` as `path`",
        project.framework.as_str(),
        text::brief(folder)
    )))
}

fn cargo(cx: &Context, project: &TestProject, filter: Option<&str>) -> Result<Vec<String>> {
    let mut words = owned(&["cargo", "test", "--no-fail-fast"]);
    let selection = project.selection.as_str();
    let target = selection
        .strip_prefix("tests/")
        .and_then(|name| name.strip_suffix(".rs"));
    match target {
        Some(target) if !target.contains('/') => words.push(format!("--test={target}")),
        _ if selection.is_empty() => {
            let manifest = cx
                .workspace()
                .join(join_path(&project.folder, "Cargo.toml"));
            let manifest = crate::test_project::read_text(&manifest).unwrap_or_default();
            if manifest.lines().any(|line| line.trim() == "[workspace]") {
                words.push("--workspace".to_owned());
            }
        }
        _ => {
            return Err(Error::invalid_input(format_args!(
                "cargo cannot run the tests of `{}` alone: name the package's folder or a file in its folder `tests` as `path`, and select tests with `filter`",
                text::brief(selection)
            )));
        }
    }
    words.extend(filter.map(str::to_owned));
    Ok(words)
}

fn go(cx: &Context, project: &TestProject, filter: Option<&str>, coverage: bool) -> Vec<String> {
    let mut words = owned(&["go", "test", "-json"]);
    if coverage {
        words.push("-cover".to_owned());
    }
    words.extend(filter.map(|filter| format!("-run={filter}")));
    let selection = project.selection.as_str();
    let path = cx.workspace().join(join_path(&project.folder, selection));
    words.push(if selection.is_empty() {
        "./...".to_owned()
    } else if path.is_dir() {
        format!("./{selection}/...")
    } else {
        // Go tests packages, not files.
        match selection.rsplit_once('/') {
            Some((folder, _)) => format!("./{folder}"),
            None => ".".to_owned(),
        }
    });
    words
}

fn pytest(
    cx: &Context,
    project: &TestProject,
    filter: Option<&str>,
    coverage: bool,
) -> Vec<String> {
    let mut words = vec![interpreter(cx, project)];
    words.extend(owned(&[
        "-m",
        "pytest",
        "-q",
        "-ojunit_family=xunit1",
        "--junitxml=/dev/stdout",
    ]));
    if coverage {
        words.extend(owned(&["--cov", "--cov-report=term"]));
    }
    words.extend(filter.map(|filter| format!("-k{filter}")));
    with_selection(words, project)
}

/// Returns the interpreter of the project's virtual environment, or `python3`.
fn interpreter(cx: &Context, project: &TestProject) -> String {
    // The interpreter is usually a link out of the workspace, which cannot be followed here.
    let exists = |name: &&str| {
        let path = cx.workspace().join(join_path(&project.folder, name));
        path.symlink_metadata().is_ok()
    };
    let found = INTERPRETERS.iter().copied().find(|name| exists(name));
    found.unwrap_or("python3").to_owned()
}

/// Returns the command of a package's program: its file below `node_modules`, run by node, which needs no shell and no
/// download. With Plug'n'Play there is no such file, and Yarn runs it.
fn javascript(cx: &Context, project: &TestProject, name: &str, file: &str) -> Result<Vec<String>> {
    let mut up = String::new();
    for folder in ancestors(&project.folder) {
        let path = join_path(folder, &format!("node_modules/{file}"));
        if cx.workspace().join(&path).is_file() {
            return Ok(vec!["node".to_owned(), format!("{up}node_modules/{file}")]);
        }
        if cx.workspace().join(join_path(folder, ".pnp.cjs")).is_file() {
            return Ok(owned(&["yarn", name]));
        }
        up.push_str("../");
    }
    Err(Error::unavailable(format_args!(
        "{name} is not installed: `{}` has no node_modules/{name}; install the project's dependencies first (`{} install`)",
        text::brief(if project.folder.is_empty() {
            "."
        } else {
            &project.folder
        }),
        package_manager(cx, project)
    )))
}

/// Returns the package manager whose lock file is nearest.
fn package_manager(cx: &Context, project: &TestProject) -> &'static str {
    for folder in ancestors(&project.folder) {
        let has = |name: &str| cx.workspace().join(join_path(folder, name)).is_file();
        let managers = [
            ("pnpm-lock.yaml", "pnpm"),
            ("yarn.lock", "yarn"),
            ("package-lock.json", "npm"),
        ];
        if let Some((_, manager)) = managers.iter().find(|(lock, _)| has(lock)) {
            return manager;
        }
    }
    "npm"
}

/// Returns the command of Maven: the script in the project that starts a fixed version of it, or the installed program.
/// The script is run by `sh`, since it need not be executable.
fn maven(cx: &Context, project: &TestProject) -> Vec<String> {
    let path = cx.workspace().join(join_path(&project.folder, "mvnw"));
    if path.is_file() {
        owned(&["sh", "mvnw"])
    } else {
        owned(&["mvn"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample(tempfile::TempDir);

    impl Sample {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = dir.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(dir)
        }

        fn command(
            &self,
            path: &str,
            framework: Option<Framework>,
            filter: Option<&str>,
            coverage: bool,
        ) -> Result<String> {
            let cx = Context::at(self.0.path());
            let project = TestProject::find(&cx, path, framework)?;
            TestCommand::new(&cx, &project, filter, coverage).map(|command| command.line())
        }
    }

    #[test]
    fn test_command_selects_tests_by_path_and_filter() {
        let sample = Sample::new(&[
            ("rs/Cargo.toml", "[workspace]\n[package]\n"),
            ("rs/tests/it.rs", ""),
            ("go/go.mod", ""),
            ("go/sub/a_test.go", ""),
            ("py/pytest.ini", ""),
            ("py/.venv/bin/python", ""),
            ("py/t/test_a.py", ""),
            ("js/package.json", r#"{"scripts": {"test": "vitest"}}"#),
            ("node_modules/vitest/vitest.mjs", ""),
            ("mvn/pom.xml", ""),
            ("mvn/mvnw", ""),
        ]);
        for (path, filter, coverage, expected) in [
            ("rs", None, false, "cargo test --no-fail-fast --workspace"),
            (
                "rs/tests/it.rs",
                Some("adds"),
                false,
                "cargo test --no-fail-fast --test=it adds",
            ),
            ("go", None, true, "go test -json -cover ./..."),
            (
                "go/sub/a_test.go",
                Some("^TestA$"),
                false,
                "go test -json '-run=^TestA$' ./sub",
            ),
            ("go/sub", None, false, "go test -json ./sub/..."),
            (
                "py/t/test_a.py",
                Some("a or b"),
                false,
                ".venv/bin/python -m pytest -q -ojunit_family=xunit1 --junitxml=/dev/stdout '-ka or b' ./t/test_a.py",
            ),
            (
                "js",
                Some("adds"),
                false,
                "node ../node_modules/vitest/vitest.mjs run --reporter=json --testNamePattern=adds",
            ),
            ("mvn", None, false, "sh mvnw -B -ntp test"),
        ] {
            assert_eq!(
                sample.command(path, None, filter, coverage).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn test_command_refuses_what_a_framework_cannot_do() {
        let sample = Sample::new(&[
            ("rs/Cargo.toml", ""),
            ("rs/src/lib.rs", ""),
            ("make/Makefile", "test:\n"),
            ("js/package.json", r#"{"scripts": {"test": "jest"}}"#),
            ("js/yarn.lock", ""),
        ]);
        for (path, filter, coverage, says) in [
            ("rs", Some("--help"), false, "looks like an option"),
            ("rs", None, true, "`coverage` is not supported for cargo"),
            ("rs/src/lib.rs", None, false, "select tests with `filter`"),
            (
                "make",
                Some("x"),
                false,
                "`filter` is not supported for make",
            ),
            ("js", None, false, "yarn install"),
        ] {
            let error = sample.command(path, None, filter, coverage).unwrap_err();
            assert!(error.message().contains(says), "{error}");
        }
    }

    #[test]
    fn test_command_patterns_cover_the_programs() {
        let covers = |line: &str| {
            TestCommand::PATTERNS.iter().any(|pattern| {
                let prefix = pattern.trim_end_matches('*');
                line.starts_with(prefix) || line == prefix.trim_end()
            })
        };
        for line in [
            "cargo test --no-fail-fast",
            "sh mvnw test",
            "npm test",
            "pnpm test",
            "yarn test",
        ] {
            assert!(covers(line), "{line}");
        }
        for interpreter in INTERPRETERS {
            assert!(covers(&format!("{interpreter} -m pytest")));
        }
    }
}
