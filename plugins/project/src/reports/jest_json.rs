//! The JSON that `jest --json` and `vitest --reporter=json` print.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::project_path::PathMapper;
use crate::test_report::{CoveredFile, SourceError, TestFailure, TestReport};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JestResults {
    num_passed_tests: u32,
    num_failed_tests: u32,
    #[serde(default)]
    num_pending_tests: u32,
    #[serde(default)]
    num_todo_tests: u32,
    test_results: Vec<FileResult>,
    coverage_map: Option<BTreeMap<String, FileCoverage>>,
}

/// Results of one test file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileResult {
    name: String,
    status: String,
    #[serde(default)]
    message: String,
    assertion_results: Vec<AssertionResult>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssertionResult {
    full_name: String,
    status: String,
    #[serde(default)]
    failure_messages: Vec<String>,
}

/// Coverage of one file in the format of Istanbul. Jest adds levels that are not read here.
#[derive(Debug, Deserialize)]
struct FileCoverage {
    /// How often each statement ran.
    #[serde(default)]
    s: BTreeMap<String, u64>,
}

/// Reads the results. Setup code may print in front of them.
pub fn read(stdout: &str, mapper: &PathMapper, report: &mut TestReport) {
    let starts = stdout
        .match_indices("{\"num")
        .filter(|(at, _)| *at == 0 || stdout.as_bytes()[at - 1] == b'\n');
    let results = starts.filter_map(|(at, _)| {
        let mut values =
            serde_json::Deserializer::from_str(&stdout[at..]).into_iter::<JestResults>();
        values.next()?.ok()
    });
    let Some(results) = results.last() else {
        return;
    };
    report.count(
        results.num_passed_tests,
        results.num_failed_tests,
        results
            .num_pending_tests
            .saturating_add(results.num_todo_tests),
    );
    for file in &results.test_results {
        read_file(file, mapper, report);
    }
    if let Some(map) = &results.coverage_map {
        read_coverage(map, mapper, report);
    }
}

fn read_file(file: &FileResult, mapper: &PathMapper, report: &mut TestReport) {
    let own = mapper.map(&file.name);
    let mut has_failure = false;
    for test in &file.assertion_results {
        if test.status != "failed" {
            continue;
        }
        has_failure = true;
        let message = test.failure_messages.join("\n");
        let position = super::first_position(&message, mapper);
        let (file, line) = match position {
            Some((file, line)) => (Some(file), Some(line)),
            None => (own.clone(), None),
        };
        report.push_failure(TestFailure {
            name: test.full_name.clone(),
            file,
            line,
            message: without_stack(&message),
        });
    }
    // A file that could not be loaded has no tests.
    if file.status == "failed" && !has_failure {
        let line = position_in_brackets(&file.message).or_else(|| {
            let (path, line) = super::first_position(&file.message, mapper)?;
            (Some(&path) == own.as_ref()).then_some(line)
        });
        report.push_build_error(SourceError {
            file: own,
            line,
            message: without_stack(details(&file.message)),
        });
    }
}

/// Returns the part of Jest's message about a broken file after its general advice.
fn details(message: &str) -> &str {
    let details = message.split_once("\n    Details:\n");
    details.map_or(message, |(_, details)| details)
}

/// Returns the line in the position `(LINE:COLUMN)` of Babel's syntax errors.
fn position_in_brackets(message: &str) -> Option<u32> {
    let mut parts = message.split('(').skip(1);
    parts.find_map(|part| {
        let (position, _) = part.split_once(')')?;
        let (line, column) = position.split_once(':')?;
        column.parse::<u32>().ok()?;
        line.parse().ok()
    })
}

/// Removes the frames of stack traces.
fn without_stack(message: &str) -> String {
    let lines = message.lines();
    let lines: Vec<&str> = lines
        .filter(|line| !line.trim_start().starts_with("at "))
        .collect();
    lines.join("\n")
}

fn read_coverage(
    map: &BTreeMap<String, FileCoverage>,
    mapper: &PathMapper,
    report: &mut TestReport,
) {
    let (mut all, mut all_covered) = (0, 0);
    let mut files = Vec::new();
    for (path, file) in map {
        let total = file.s.len();
        let covered = file.s.values().filter(|count| **count > 0).count();
        (all, all_covered) = (all + total, all_covered + covered);
        if total > 0 {
            files.push(CoveredFile {
                file: mapper.map(path).unwrap_or_else(|| path.clone()),
                percent: percent(covered, total),
            });
        }
    }
    report.cover((all > 0).then(|| percent(all_covered, all)), files);
}

fn percent(covered: usize, total: usize) -> f64 {
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    count(covered) * 100.0 / count(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::kit;

    #[test]
    fn vitest_results_have_positions_and_broken_files() {
        let stdout = include_str!("recorded/vitest.txt");
        let files = ["vit/calc.test.js", "vit/bad.test.js", "vit/calc.js"];
        let report = kit::read_recorded(&files, |mapper, report| {
            read(stdout, mapper, report);
        });
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(1), Some(1), Some(2)));
        assert_eq!(
            kit::positions(&report),
            ["calc subtracts vit/calc.test.js:10"]
        );
        assert_eq!(
            report.failures[0].message,
            "AssertionError: expected 5 to be 1 // Object.is equality"
        );
        assert_eq!(kit::build_positions(&report), ["vit/bad.test.js:?"]);
        assert!(report.build_errors[0].message.contains("./missing.js"));
        let coverage = report.coverage.unwrap();
        assert_eq!((coverage.percent, coverage.files.len()), (Some(100.0), 1));
        assert_eq!(coverage.files[0].file, "vit/calc.js");
    }

    #[test]
    fn jest_results_have_positions_and_broken_files() {
        let stdout = include_str!("recorded/jest.txt");
        let files = ["jes/calc.test.js", "jes/bad.test.js"];
        let report = kit::read_recorded(&files, |mapper, report| {
            read(&format!("setup {{\n{stdout}"), mapper, report);
        });
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(1), Some(1), Some(1)));
        assert_eq!(
            kit::positions(&report),
            ["calc subtracts jes/calc.test.js:9"]
        );
        assert_eq!(kit::build_positions(&report), ["jes/bad.test.js:1"]);
        let message = &report.build_errors[0].message;
        assert!(
            message.trim_start().starts_with("SyntaxError:"),
            "{message}"
        );
    }

    #[test]
    fn jest_counts_do_not_overflow() {
        let stdout = "{\"numPassedTests\": 1, \"numFailedTests\": 0, \"numPendingTests\": 4294967295, \"numTodoTests\": 1, \"testResults\": []}";
        let report = kit::read_recorded(&[], |mapper, report| read(stdout, mapper, report));
        assert_eq!(report.skipped, Some(u32::MAX));
    }

    #[test]
    fn jest_output_without_results_has_no_counts() {
        let report = kit::read_recorded(&[], |mapper, report| {
            read("{\"num\": tests}\nno tests found\n", mapper, report);
        });
        assert_eq!(report.passed, None);
    }
}
