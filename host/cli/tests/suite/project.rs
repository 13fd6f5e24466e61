//! `run_tests` and `format_code` on small real projects, with the programs of this machine.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use crate::kit;
use serde_json::{Value, json};

/// A workspace with these files.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

/// A call that a person approves. Returns mimir's exit code and the outcome.
fn call(home: &Path, tool: &str, arguments: &Value) -> (i32, Value) {
    let arguments = arguments.to_string();
    let words = ["--json", "call", "--approve", "always", tool, &arguments];
    let (code, out, err) = kit::run(home, &words);
    let outcome = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    (code, outcome)
}

/// Checks the counts, and the position of the only failure.
fn check(outcome: &Value, counts: [u64; 3], file: &str, line: u64) {
    let result = &outcome["structured"];
    let found = ["passed", "failed", "skipped"].map(|key| result[key].as_u64());
    assert_eq!(found, counts.map(Some), "{outcome:#}");
    let failure = &result["failures"][0];
    assert_eq!(
        (&failure["file"], &failure["line"]),
        (&json!(file), &json!(line)),
        "{outcome:#}"
    );
}

const RUST: &str = "pub fn sub(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n#[test]\nfn subtracts() {\n    \
                    assert_eq!(sub(3, 2), 1);\n}\n\n#[test]\nfn adds() {\n    assert_eq!(sub(1, 2), 3);\n}\n";

#[test]
#[ignore = "needs cargo, go, node, and MIMIR_TEST_PYTHON with pytest, which .ci/everyday installs"]
fn run_tests_finds_the_failures_of_each_ecosystem() {
    let rust = project(&[
        (
            "Cargo.toml",
            "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        ("src/lib.rs", RUST),
    ]);
    let (code, outcome) = call(rust.path(), "run_tests", &json!({}));
    assert_eq!((code, &outcome["ok"]), (1, &json!(true)), "{outcome:#}");
    check(&outcome, [1, 1, 0], "src/lib.rs", 7);
    let (code, outcome) = call(rust.path(), "run_tests", &json!({"filter": "adds"}));
    assert_eq!(
        (code, &outcome["structured"]["passed"]),
        (0, &json!(1)),
        "{outcome:#}"
    );

    let go = project(&[
        ("go.mod", "module example.com/calc\n\ngo 1.24\n"),
        (
            "calc_test.go",
            "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {}\n\nfunc TestSub(t *testing.T) {\n\tt.Error(\"wrong\")\n}\n",
        ),
    ]);
    let (_, outcome) = call(go.path(), "run_tests", &json!({}));
    check(&outcome, [1, 1, 0], "calc_test.go", 8);

    let node = project(&[
        (
            "package.json",
            r#"{"type": "module", "scripts": {"test": "node --test"}}"#,
        ),
        (
            "calc.test.js",
            "import assert from 'node:assert';\nimport { test } from 'node:test';\ntest('adds', () => {});\n\
             test('subtracts', () => {\n  assert.equal(3 + 2, 1);\n});\ntest('later', { skip: true }, () => {});\n",
        ),
    ]);
    let (_, outcome) = call(node.path(), "run_tests", &json!({}));
    check(&outcome, [1, 1, 1], "calc.test.js", 5);

    let python = project(&[
        ("pytest.ini", "[pytest]\n"),
        (
            "test_calc.py",
            "def test_add():\n    pass\n\n\ndef test_sub():\n    assert 3 + 2 == 1\n",
        ),
    ]);
    // Packages outside of the workspace are not visible in the sandbox.
    let environment = std::env::var("MIMIR_TEST_PYTHON").unwrap();
    copy_folder(Path::new(&environment), &python.path().join(".venv"));
    let (_, outcome) = call(python.path(), "run_tests", &json!({}));
    check(&outcome, [1, 1, 0], "test_calc.py", 6);
}

#[test]
#[ignore = "needs python3, cargo and make, which .ci/everyday installs"]
fn run_tests_reports_unittest_make_and_compile_errors() {
    let python = project(&[(
        "test_calc.py",
        "import unittest\n\n\nclass Sums(unittest.TestCase):\n    def test_sub(self):\n        self.assertEqual(3 + 2, 1)\n",
    )]);
    let (_, outcome) = call(python.path(), "run_tests", &json!({}));
    assert_eq!(
        outcome["structured"]["framework"], "unittest",
        "{outcome:#}"
    );
    check(&outcome, [0, 1, 0], "test_calc.py", 6);

    let make = project(&[("Makefile", "test:\n\t@echo broken; exit 3\n")]);
    let (code, outcome) = call(make.path(), "run_tests", &json!({}));
    assert_eq!(
        (code, &outcome["structured"]["passed"]),
        (1, &Value::Null),
        "{outcome:#}"
    );
    assert!(
        outcome["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("broken"),
        "{outcome:#}"
    );

    let rust = project(&[
        (
            "Cargo.toml",
            "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        ("src/lib.rs", "pub fn x() -> i32 {\n    missing()\n}\n"),
    ]);
    let (_, outcome) = call(rust.path(), "run_tests", &json!({}));
    let error = &outcome["structured"]["buildErrors"][0];
    assert_eq!(
        (&error["file"], &error["line"]),
        (&json!("src/lib.rs"), &json!(2)),
        "{outcome:#}"
    );
}

#[test]
#[ignore = "needs maven with the plugins and JUnit of Debian, which .ci/everyday installs"]
fn run_tests_runs_maven() {
    let home = project(&[
        (
            "pom.xml",
            "<project><modelVersion>4.0.0</modelVersion><groupId>demo</groupId><artifactId>calc</artifactId>\
             <version>1</version><properties><maven.compiler.source>17</maven.compiler.source>\
             <maven.compiler.target>17</maven.compiler.target></properties><dependencies><dependency>\
             <groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version><scope>test</scope>\
             </dependency></dependencies></project>",
        ),
        // Debian's packages have this repository.
        (
            ".mvn/maven.config",
            "-o\n-Dmaven.repo.local=/usr/share/maven-repo\n",
        ),
        (
            "src/test/java/demo/CalcTest.java",
            "package demo;\n\nimport org.junit.Assert;\nimport org.junit.Test;\n\npublic class CalcTest {\n    \
             @Test public void adds() {}\n    @Test public void subtracts() {\n        Assert.assertEquals(1, 3 + 2);\n    }\n}\n",
        ),
    ]);
    let (_, outcome) = call(home.path(), "run_tests", &json!({}));
    assert_eq!(outcome["structured"]["framework"], "maven", "{outcome:#}");
    check(&outcome, [1, 1, 0], "src/test/java/demo/CalcTest.java", 9);
}

#[test]
#[ignore = "needs npm, yarn and pnpm, which .ci/everyday installs"]
fn run_tests_runs_the_script_of_each_package_manager() {
    for (lock_file, manager) in [
        ("package-lock.json", "npm"),
        ("yarn.lock", "yarn"),
        ("pnpm-lock.yaml", "pnpm"),
    ] {
        let home = project(&[
            ("package.json", r#"{"scripts": {"test": "node check.js"}}"#),
            (
                "check.js",
                "console.log('is ' + 'broken'); process.exit(3);\n",
            ),
            (lock_file, ""),
        ]);
        let (code, outcome) = call(home.path(), "run_tests", &json!({}));
        let result = &outcome["structured"];
        assert_eq!(
            (code, &result["command"]),
            (1, &json!(format!("{manager} test"))),
            "{outcome:#}"
        );
        let text = outcome["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("is broken"), "{text}");
    }
}

#[test]
#[ignore = "needs Biome, Ruff, Black and clang-format, which .ci/everyday installs"]
fn format_code_uses_the_formatter_that_the_project_configures() {
    let home = project(&[
        ("biome.json", "{}\n"),
        ("a.ts", "const x  = 1\n"),
        ("b.py", "x  =  'a'\n"),
        (".clang-format", "BasedOnStyle: LLVM\n"),
        ("d.cpp", "int  main( ) { }\n"),
        ("old/pyproject.toml", "[tool.black]\n"),
        ("old/c.py", "y  =  'a'\n"),
    ]);
    let modules = std::env::var("MIMIR_TEST_NODE_MODULES").unwrap();
    let target = home.path().join("node_modules");
    fs::create_dir(&target).unwrap();
    copy_folder(&Path::new(&modules).join("@biomejs"), &target);
    let paths = json!({"paths": ["a.ts", "b.py", "d.cpp", "old/c.py"]});
    let (code, outcome) = call(home.path(), "format_code", &paths);
    assert_eq!(code, 0, "{outcome:#}");
    let changed = outcome["structured"]["changed"].as_array().unwrap();
    let formatters: Vec<_> = changed.iter().map(|file| &file["formatter"]).collect();
    assert_eq!(
        formatters,
        ["biome", "ruff", "clang-format", "black"],
        "{outcome:#}"
    );
    for (name, text) in [
        ("a.ts", "const x = 1;\n"),
        ("b.py", "x = \"a\"\n"),
        ("d.cpp", "int main() {}\n"),
        ("old/c.py", "y = \"a\"\n"),
    ] {
        assert_eq!(fs::read_to_string(home.path().join(name)).unwrap(), text);
    }
}

#[test]
#[ignore = "needs rustfmt and gofmt, which .ci/everyday installs"]
fn format_code_formats_each_language_and_can_be_undone() {
    let files = [
        ("Cargo.toml", "[package]\nedition = \"2021\"\n"),
        ("a.rs", "fn  main( ) { }\n"),
        ("b.go", "package b\nfunc  F( ) { }\n"),
    ];
    let home = project(&files);
    let (code, outcome) = call(home.path(), "format_code", &json!({"check": true}));
    let changed = outcome["structured"]["changed"].as_array().unwrap();
    assert_eq!((code, changed.len()), (1, 2), "{outcome:#}");
    let read = |name: &str| fs::read_to_string(home.path().join(name)).unwrap();
    assert_eq!(read("a.rs"), files[1].1, "a check changes nothing");

    let (code, outcome) = call(home.path(), "format_code", &json!({}));
    assert_eq!(code, 0, "{outcome:#}");
    let diff = outcome["structured"]["diff"].as_str().unwrap();
    assert!(diff.contains("-fn  main( ) { }\n+fn main() {}\n"), "{diff}");
    assert_eq!(read("a.rs"), "fn main() {}\n");
    assert_eq!(read("b.go"), "package b\n\nfunc F() {}\n");
    let (code, outcome) = call(home.path(), "format_code", &json!({}));
    let result = &outcome["structured"];
    assert_eq!((code, &result["unchanged"]), (0, &json!(2)), "{outcome:#}");

    let (code, out, err) = kit::run(home.path(), &["undo"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(
        (read("a.rs").as_str(), read("b.go").as_str()),
        (files[1].1, files[2].1)
    );
}

#[test]
#[ignore = "needs rustfmt, which .ci/everyday installs"]
fn format_code_reports_a_syntax_error_and_changes_nothing() {
    let home = project(&[("a.rs", "fn main( {\n"), ("b.rs", "fn  b() {}\n")]);
    let (code, outcome) = call(home.path(), "format_code", &json!({}));
    let result = &outcome["structured"];
    assert_eq!(
        (code, &result["errors"][0]["path"]),
        (1, &json!("a.rs")),
        "{outcome:#}"
    );
    assert_eq!(result["changed"][0]["path"], "b.rs", "{outcome:#}");
    let kept = fs::read_to_string(home.path().join("a.rs")).unwrap();
    assert_eq!(kept, "fn main( {\n");
}

#[test]
#[ignore = "needs npm packages, which .ci/everyday installs: MIMIR_TEST_NODE_MODULES names their folder"]
fn run_tests_and_format_code_use_packages_of_the_project() {
    let modules = std::env::var("MIMIR_TEST_NODE_MODULES").unwrap();
    for (framework, import) in [
        ("vitest", "import { expect, test } from 'vitest';\n"),
        ("jest", "// globals\n"),
    ] {
        let package = format!(r#"{{"scripts": {{"test": "{framework}"}}}}"#);
        let test = format!(
            "{import}test('adds', () => {{\n  expect(1 + 2).toBe(3);\n}});\ntest('subtracts', () => {{\n  expect(3 + 2).toBe(1);\n}});\n"
        );
        let home = project(&[("package.json", &package), ("calc.test.js", &test)]);
        copy_folder(Path::new(&modules), &home.path().join("node_modules"));
        let (_, outcome) = call(home.path(), "run_tests", &json!({}));
        assert_eq!(outcome["structured"]["framework"], framework, "{outcome:#}");
        check(&outcome, [1, 1, 0], "calc.test.js", 6);
        fs::write(home.path().join("x.ts"), "const x  = 1\n").unwrap();
        let (_, outcome) = call(home.path(), "format_code", &json!({"paths": ["x.ts"]}));
        assert_eq!(
            outcome["structured"]["changed"][0]["formatter"], "prettier",
            "{outcome:#}"
        );
        let formatted = fs::read_to_string(home.path().join("x.ts")).unwrap();
        assert_eq!(formatted, "const x = 1;\n");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status()
        .unwrap();
    assert!(copied.success());
}
