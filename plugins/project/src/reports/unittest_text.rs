//! The text that `python -m unittest -v` prints on stderr.

use crate::project_path::PathMapper;
use crate::test_report::{SourceError, TestFailure, TestReport};

/// The lines around and in a failure.
const DOUBLE: &str = "======================================================================";
const SINGLE: &str = "----------------------------------------------------------------------";

/// Reads the results.
pub fn read(stderr: &str, mapper: &PathMapper, report: &mut TestReport) {
    let lines: Vec<&str> = stderr.lines().collect();
    let mut unloaded = 0;
    let mut at = 0;
    while at < lines.len() {
        let header = (lines[at] == DOUBLE).then(|| lines.get(at + 1)).flatten();
        let name = header.and_then(|line| {
            line.strip_prefix("FAIL: ")
                .or_else(|| line.strip_prefix("ERROR: "))
        });
        let Some(name) = name else {
            at += 1;
            continue;
        };
        // A description may follow the name.
        let body = lines[at..].iter().position(|line| *line == SINGLE);
        let start = body.map_or(lines.len(), |body| at + body + 1);
        let length = lines[start..]
            .iter()
            .position(|line| *line == DOUBLE || *line == SINGLE);
        let end = length.map_or(lines.len(), |length| start + length);
        let message = lines[start..end].join("\n");
        let position = position(&message, mapper);
        let (file, line) = position.map_or((None, None), |(file, line)| (Some(file), Some(line)));
        if name.contains("unittest.loader._FailedTest") {
            unloaded += 1;
            report.push_build_error(SourceError {
                file,
                line,
                message: last_line(&message),
            });
        } else {
            report.push_failure(TestFailure {
                name: name.to_owned(),
                file,
                line,
                message: without_traceback(&message),
            });
        }
        at = end;
    }
    read_counts(&lines, unloaded, report);
}

/// Reads `Ran 5 tests in 0.001s`, and `FAILED (failures=2, errors=1, skipped=1)` or `OK (skipped=1)` after it. Files
/// that could not be loaded count as errors there.
fn read_counts(lines: &[&str], unloaded: u32, report: &mut TestReport) {
    let ran = lines.iter().rev().find_map(|line| {
        let rest = line.strip_prefix("Ran ")?;
        rest.split(' ').next()?.parse::<u32>().ok()
    });
    let verdict = lines
        .iter()
        .rev()
        .find(|line| line.starts_with("FAILED") || line.starts_with("OK"));
    let (Some(ran), Some(verdict)) = (ran, verdict) else {
        return;
    };
    let count = |key: &str| {
        let mut parts = verdict.split(['(', ')', ',']);
        let found = parts.find_map(|part| part.trim().strip_prefix(key)?.parse::<u32>().ok());
        found.unwrap_or(0)
    };
    let failed = count("failures=")
        .saturating_add(count("errors="))
        .saturating_add(count("unexpected successes="));
    let (failed, skipped) = (failed.saturating_sub(unloaded), count("skipped="));
    let passed = ran
        .saturating_sub(failed)
        .saturating_sub(skipped)
        .saturating_sub(unloaded);
    report.count(passed, failed, skipped);
}

/// Returns the last position of a traceback that is a file of the workspace.
fn position(message: &str, mapper: &PathMapper) -> Option<(String, u32)> {
    let mut positions = message.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("File \"")?;
        let (path, rest) = rest.split_once("\", line ")?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((mapper.map(path)?, digits.parse().ok()?))
    });
    positions.next_back()
}

/// Returns the message after the frames of the traceback.
fn without_traceback(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    let is_frame = |line: &&str| line.starts_with("  ") || line.starts_with("Traceback ");
    let start = lines.iter().rposition(is_frame).map_or(0, |at| at + 1);
    let rest = lines[start..].join("\n");
    if rest.trim().is_empty() {
        message.to_owned()
    } else {
        rest
    }
}

fn last_line(message: &str) -> String {
    let mut lines = message.lines().rev().filter(|line| !line.trim().is_empty());
    lines.next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::kit;

    #[test]
    fn unittest_results_have_positions() {
        let stderr = include_str!("recorded/unittest.txt");
        let report = kit::read_recorded(&["un/test_unit.py"], |mapper, report| {
            read(stderr, mapper, report);
        });
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(1), Some(3), Some(1)));
        assert_eq!(
            kit::positions(&report),
            [
                "test_error (test_unit.Sums.test_error) un/test_unit.py:17",
                "test_sub (test_unit.Sums.test_sub) (n=2) un/test_unit.py:22",
                "test_wrong (test_unit.Sums.test_wrong) un/test_unit.py:10"
            ]
        );
        assert_eq!(report.failures[0].message.trim(), "ValueError: boom");
    }

    #[test]
    fn unittest_file_that_does_not_load_is_a_build_error() {
        let stderr = include_str!("recorded/unittest-import.txt");
        let report = kit::read_recorded(&["unbad/test_bad.py"], |mapper, report| {
            read(stderr, mapper, report);
        });
        assert_eq!(kit::build_positions(&report), ["unbad/test_bad.py:1"]);
        assert_eq!(
            report.build_errors[0].message,
            "ModuleNotFoundError: No module named 'nothing'"
        );
        assert_eq!((report.passed, report.failed), (Some(0), Some(0)));
    }
}
