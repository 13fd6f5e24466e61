//! Detection of a project and its test framework from the files of a folder.

use std::path::Path;

use mimir_sdk::prelude::*;
use mimir_sdk::serde_json::Value;
use mimir_sdk::text;

use crate::project_path::{ancestors, join_path, parent_path, resolve_path};

/// A test framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[expect(missing_docs, reason = "each is the name of a program")]
pub enum Framework {
    Cargo,
    Go,
    Vitest,
    Jest,
    Node,
    Npm,
    Pytest,
    Unittest,
    Maven,
    Make,
}

impl Framework {
    /// The name in arguments and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Vitest => "vitest",
            Self::Jest => "jest",
            Self::Node => "node",
            Self::Npm => "npm",
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Maven => "maven",
            Self::Make => "make",
        }
    }

    /// Files of which one marks a project folder of this framework.
    const fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Cargo => &["Cargo.toml"],
            Self::Go => &["go.mod"],
            Self::Vitest | Self::Jest | Self::Node | Self::Npm => &["package.json"],
            Self::Pytest | Self::Unittest => PYTHON,
            Self::Maven => &["pom.xml"],
            Self::Make => MAKE,
        }
    }
}

const PYTHON: &[&str] = &[
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "pytest.ini",
    "tox.ini",
    "conftest.py",
    "requirements.txt",
    "Pipfile",
];
const MAKE: &[&str] = &["Makefile", "makefile", "GNUmakefile"];

/// Maximum number of bytes of a project file to read.
const MAX_FILE: u64 = 1 << 20;

/// Maximum number of test files to inspect.
const MAX_TEST_FILES: usize = 20;

/// The project that a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProject {
    /// The framework to run.
    pub framework: Framework,
    /// Folder of the project, relative to the workspace root; empty for the root.
    pub folder: String,
    /// The requested file or folder, relative to the project; empty for the whole project.
    pub selection: String,
    /// Other frameworks of the same folder.
    others: Vec<Framework>,
}

impl TestProject {
    /// Finds the project of a path: its folder, or the nearest folder above it with a known project file.
    pub fn find(cx: &Context, path: &str, requested: Option<Framework>) -> Result<Self> {
        let path = resolve_path(cx, path)?;
        let root = cx.workspace();
        let is_folder = root.join(&path).is_dir();
        let start = if is_folder {
            &path
        } else {
            parent_path(&path).unwrap_or_default()
        };
        for folder in ancestors(start) {
            let (framework, others) = match requested {
                Some(requested) => {
                    let files = Files::new(root, folder);
                    if !files.has_any(requested.markers()) && !files.tests_without_marker(requested)
                    {
                        continue;
                    }
                    (requested, Vec::new())
                }
                None => {
                    let mut found = detect(root, folder);
                    if found.is_empty() {
                        continue;
                    }
                    (found.remove(0), found)
                }
            };
            let is_python = matches!(framework, Framework::Pytest | Framework::Unittest);
            let folder = if is_python {
                python_root(root, folder)
            } else {
                folder
            };
            let framework = match requested {
                None if is_python => Files::new(root, folder).python().unwrap_or(framework),
                _ => framework,
            };
            let selection = path.strip_prefix(folder).unwrap_or(&path);
            return Ok(Self {
                framework,
                folder: folder.to_owned(),
                selection: selection.trim_start_matches('/').to_owned(),
                others,
            });
        }
        let shown = match path.as_str() {
            "" => "the workspace".into(),
            path => format!("`{}`", text::brief(path)),
        };
        Err(match requested {
            Some(framework) => Error::not_found(format_args!(
                "{shown} is not a {} project: expected {} there or in a folder above",
                framework.as_str(),
                framework.markers().join(" or ")
            )),
            None => Error::not_found(format_args!(
                "{shown} has no tests that are recognized: expected Cargo.toml, go.mod, package.json, a Python project, \
                 pom.xml or a Makefile with `test:`; name the project's folder as `path`, or run the tests with `exec`"
            )),
        })
    }

    /// Returns a note about the frameworks that were not run.
    pub fn note(&self, requested: Option<Framework>) -> Option<String> {
        let others: Vec<&str> = self.others.iter().map(|other| other.as_str()).collect();
        (requested.is_none() && !others.is_empty()).then(|| {
            format!(
                "The folder also has tests of: {}. Set `framework` to run them.",
                others.join(", ")
            )
        })
    }
}

/// Returns the folder of the Python project that test files belong to: the nearest one with a project file, or else the
/// folder of the tests.
fn python_root<'a>(root: &Path, folder: &'a str) -> &'a str {
    let mut folders = ancestors(folder);
    let found = folders.find(|folder| Files::new(root, folder).has_any(PYTHON));
    found.unwrap_or(folder)
}

/// Returns the frameworks of a folder, the one to run first.
fn detect(root: &Path, folder: &str) -> Vec<Framework> {
    let files = Files::new(root, folder);
    let mut found = Vec::new();
    if files.has("Cargo.toml") {
        found.push(Framework::Cargo);
    }
    if files.has("go.mod") {
        found.push(Framework::Go);
    }
    found.extend(files.javascript());
    found.extend(files.python());
    if files.has("pom.xml") {
        found.push(Framework::Maven);
    }
    let is_test_rule = |line: &str| line.starts_with("test:") && !line.starts_with("test:=");
    let has_rule = |name: &&str| {
        let text = files.read(name);
        text.is_some_and(|text| text.lines().any(is_test_rule))
    };
    // A Makefile usually wraps another framework, whose own results are better.
    if found.is_empty() && MAKE.iter().any(has_rule) {
        found.push(Framework::Make);
    }
    found
}

/// The files of one folder.
struct Files<'a> {
    root: &'a Path,
    folder: &'a str,
}

impl<'a> Files<'a> {
    fn new(root: &'a Path, folder: &'a str) -> Self {
        Self { root, folder }
    }

    fn has(&self, name: &str) -> bool {
        self.root.join(join_path(self.folder, name)).is_file()
    }

    fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    fn read(&self, name: &str) -> Option<String> {
        read_text(&self.root.join(join_path(self.folder, name)))
    }

    /// Returns true if the folder has tests of a framework that needs no project file.
    fn tests_without_marker(&self, framework: Framework) -> bool {
        match framework {
            Framework::Pytest | Framework::Unittest => !self.python_tests().is_empty(),
            Framework::Node => self.has_node_tests(),
            _ => false,
        }
    }

    fn javascript(&self) -> Option<Framework> {
        let text = self.read("package.json")?;
        let package: Value = serde_json::from_str(&text).ok()?;
        let script = package["scripts"]["test"].as_str().unwrap_or_default();
        let words = script.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
        let runs = |name: &str| words.clone().any(|word| word == name);
        let depends = |name: &str| {
            ["dependencies", "devDependencies"]
                .iter()
                .any(|block| package[*block].get(name).is_some())
        };
        if runs("vitest") {
            return Some(Framework::Vitest);
        }
        if runs("jest") {
            return Some(Framework::Jest);
        }
        if script.contains("node ") && runs("--test") {
            return Some(Framework::Node);
        }
        if depends("vitest") {
            return Some(Framework::Vitest);
        }
        if depends("jest") {
            return Some(Framework::Jest);
        }
        // The script that `npm init` writes.
        if !script.is_empty() && !script.contains("no test specified") {
            return Some(Framework::Npm);
        }
        self.has_node_tests().then_some(Framework::Node)
    }

    fn has_node_tests(&self) -> bool {
        let is_test = |name: &str| {
            [".test.js", ".test.mjs", ".test.cjs"]
                .iter()
                .any(|ending| name.ends_with(ending))
        };
        ["", "test", "tests", "src"]
            .iter()
            .any(|sub| self.names(sub).iter().any(|name| is_test(name)))
    }

    fn python(&self) -> Option<Framework> {
        let mentions =
            |name: &str, word: &str| self.read(name).is_some_and(|text| text.contains(word));
        let mentions_pytest = self.has("pytest.ini")
            || self.has("conftest.py")
            || [
                "pyproject.toml",
                "setup.cfg",
                "tox.ini",
                "setup.py",
                "Pipfile",
            ]
            .iter()
            .any(|name| mentions(name, "pytest"))
            || self.names("").iter().any(|name| {
                name.starts_with("requirements")
                    && name.ends_with(".txt")
                    && mentions(name, "pytest")
            });
        if mentions_pytest {
            return Some(Framework::Pytest);
        }
        let tests = self.python_tests();
        if tests.is_empty() && !self.has_any(PYTHON) {
            return None;
        }
        let is_pytest = |text: &String| {
            text.contains("import pytest")
                || text.lines().any(|line| {
                    line.starts_with("def test_") || line.starts_with("async def test_")
                })
        };
        let (pytest, unittest) = (
            tests.iter().any(is_pytest),
            tests.iter().any(|text| text.contains("unittest")),
        );
        match (pytest, unittest) {
            (true, _) => Some(Framework::Pytest),
            (false, true) => Some(Framework::Unittest),
            (false, false) if tests.is_empty() => None,
            (false, false) => Some(Framework::Pytest),
        }
    }

    /// Returns the content of some test files.
    fn python_tests(&self) -> Vec<String> {
        let is_test = |name: &str| {
            name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"))
        };
        let mut texts = Vec::new();
        for sub in ["", "tests", "test"] {
            for name in self.names(sub) {
                if is_test(&name) && texts.len() < MAX_TEST_FILES {
                    texts.extend(self.read(&join_path(sub, &name)));
                }
            }
        }
        texts
    }

    /// Returns the sorted names of a folder below this one.
    fn names(&self, sub: &str) -> Vec<String> {
        let path = self.root.join(join_path(self.folder, sub));
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// Reads a text file of limited size.
pub fn read_text(path: &Path) -> Option<String> {
    let size = std::fs::metadata(path).ok()?.len();
    (size <= MAX_FILE).then(|| std::fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], path: &str) -> Result<(Framework, String, String)> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let project = TestProject::find(&Context::at(dir.path()), path, None)?;
        Ok((project.framework, project.folder, project.selection))
    }

    #[test]
    fn test_project_framework_is_detected_from_files() {
        use Framework::*;
        let package = |test: &str, dev: &str| {
            format!(r#"{{"scripts": {{"test": "{test}"}}, "devDependencies": {{{dev}}}}}"#)
        };
        let (vitest, jest) = (r#""vitest": "3""#, r#""jest": "30""#);
        for (name, text, framework) in [
            ("Cargo.toml", String::new(), Cargo),
            ("go.mod", String::new(), Go),
            ("package.json", package("vitest run", ""), Vitest),
            ("package.json", package("", vitest), Vitest),
            ("package.json", package("react-scripts test", jest), Jest),
            ("package.json", package("c8 node --test", ""), Node),
            ("package.json", package("mocha", ""), Npm),
            ("pyproject.toml", "[tool.pytest.ini_options]".into(), Pytest),
            ("test_a.py", "def test_a(): pass".into(), Pytest),
            ("tests/test_a.py", "import unittest\n".into(), Unittest),
            ("pom.xml", String::new(), Maven),
            ("Makefile", "all:\n\ntest: all\n\t./t\n".into(), Make),
        ] {
            let (found, folder, _) = found(&[(name, &text)], ".").unwrap();
            assert_eq!((found, folder.as_str()), (framework, ""), "{name}: {text}");
        }
        for (name, text) in [
            ("Makefile", "all:\n"),
            (
                "package.json",
                r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#,
            ),
            ("requirements.txt", "requests"),
        ] {
            let error = found(&[(name, text)], ".").unwrap_err();
            assert_eq!(*error.code(), mimir_sdk::Code::NotFound, "{name}");
        }
    }

    #[test]
    fn test_project_is_the_nearest_folder_above_a_path() {
        let files = [
            ("Cargo.toml", ""),
            ("web/package.json", r#"{"scripts": {"test": "jest"}}"#),
            ("web/src/a.test.js", ""),
        ];
        assert_eq!(
            found(&files, "web/src/a.test.js").unwrap(),
            (Framework::Jest, "web".into(), "src/a.test.js".into())
        );
        assert_eq!(found(&files, ".").unwrap().0, Framework::Cargo);
    }

    #[test]
    fn test_project_framework_of_a_call_must_fit() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        std::fs::write(dir.path().join("test_a.py"), "").unwrap();
        let cx = Context::at(dir.path());
        let find = |requested| TestProject::find(&cx, ".", requested);
        assert_eq!(find(None).unwrap().framework, Framework::Cargo);
        assert!(find(None).unwrap().note(None).unwrap().contains("pytest"));
        let python = find(Some(Framework::Pytest)).unwrap();
        assert_eq!(python.framework, Framework::Pytest);
        assert!(
            find(Some(Framework::Go))
                .unwrap_err()
                .message()
                .contains("go.mod")
        );
    }
}
