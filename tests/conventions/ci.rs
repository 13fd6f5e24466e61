//! Scripts of CI: which tests they run.

use std::fs;

use super::root;
use super::tree::sources;

/// The filters with which CI runs ignored tests of the program `cli`.
fn filters_of_ignored_tests() -> Vec<String> {
    let mut filters = vec![];
    for script in fs::read_dir(root().join(".ci")).unwrap() {
        let script = script.unwrap().path();
        if !script.is_file() {
            continue;
        }
        let text = fs::read_to_string(&script).unwrap().replace("\\\n", " ");
        for line in text.lines().filter(|line| line.contains("--test cli")) {
            if let Some((_, words)) = line.split_once("--ignored ") {
                filters.extend(words.split_whitespace().map(str::to_owned));
            }
        }
    }
    filters
}

/// The ignored tests of the program `cli`, with their modules.
fn ignored_tests() -> Vec<String> {
    let suite = root().join("host/cli/tests/suite");
    let mut tests = vec![];
    for file in sources(&suite) {
        let module = file.strip_prefix(&suite).unwrap().with_extension("");
        let module: Vec<_> = module.iter().map(|part| part.to_string_lossy()).collect();
        let text = fs::read_to_string(&file).unwrap();
        for after in text.split("#[ignore = ").skip(1) {
            let name = after.split("fn ").nth(1).unwrap();
            let name = name.split('(').next().unwrap();
            tests.push(format!("{}::{name}", module.join("::")));
        }
    }
    tests
}

/// A newcomer does not need the programs of these tests, so only CI notices when they fail.
#[test]
fn ignored_tests_run_in_ci() {
    let (filters, tests) = (filters_of_ignored_tests(), ignored_tests());
    assert!(filters.len() > 10 && tests.len() > 50, "{filters:?}");
    let is_run = |test: &&String| filters.iter().any(|filter| test.contains(filter));
    let missing: Vec<_> = tests.iter().filter(|test| !is_run(test)).collect();
    assert!(
        missing.is_empty(),
        "CI does not run these tests; name their module after `--ignored` in a script of .ci: {missing:#?}"
    );
}
