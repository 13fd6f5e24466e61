//! The text that `cargo test` prints: results of the standard test harness on stdout, errors of the compiler on stderr.

use crate::project_path::{PathMapper, split_location};
use crate::test_report::{SourceError, TestFailure, TestReport};

/// Reads the output of `cargo test`.
pub fn read(stdout: &str, stderr: &str, mapper: &PathMapper, report: &mut TestReport) {
    read_compiler_errors(stderr, mapper, report);
    let mut counts = [0; 3];
    let mut has_summary = false;
    for line in stdout.lines() {
        if let Some(summary) = line.strip_prefix("test result: ") {
            has_summary = true;
            for (count, word) in counts.iter_mut().zip(["passed", "failed", "ignored"]) {
                *count += number_before(summary, word);
            }
        }
    }
    for failure in failures(stdout) {
        let position = panic_position(&failure.message);
        let (file, line) = match position {
            Some((path, line)) => (mapper.map(path), Some(line)),
            None => (None, None),
        };
        report.push_failure(TestFailure {
            line: line.filter(|_| file.is_some()),
            file,
            message: without_backtrace(&failure.message),
            ..failure
        });
    }
    if has_summary {
        let [passed, failed, skipped] = counts;
        report.count(passed, failed, skipped);
    }
}

/// Returns the number in front of a word: 3 in `ok. 3 passed; 0 failed`.
fn number_before(summary: &str, word: &str) -> u32 {
    let mut parts = summary.split([';', '.']);
    let found = parts.find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok());
    found.unwrap_or(0)
}

/// Splits the blocks `---- NAME stdout ----` out of the output.
fn failures(stdout: &str) -> Vec<TestFailure> {
    let mut failures: Vec<TestFailure> = Vec::new();
    let mut is_inside = false;
    for line in stdout.lines() {
        let name = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            failures.push(TestFailure {
                name: name.to_owned(),
                ..TestFailure::default()
            });
            is_inside = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            is_inside = false;
        } else if is_inside && let Some(failure) = failures.last_mut() {
            failure.message.push_str(line);
            failure.message.push('\n');
        }
    }
    failures
}

/// Returns the position in the line `thread 'NAME' (ID) panicked at FILE:LINE:COLUMN:`.
fn panic_position(message: &str) -> Option<(&str, u32)> {
    let mut lines = message.lines().filter(|line| line.starts_with("thread '"));
    let line = lines.next()?;
    let (_, position) = line.rsplit_once(" panicked at ")?;
    split_location(position.trim_end_matches(':'))
}

/// Removes the backtrace, which ends a message: the position of the panic is known.
fn without_backtrace(message: &str) -> String {
    let end = message
        .find("\nstack backtrace:\n")
        .unwrap_or(message.len());
    let note = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";
    message[..end].replace(note, "").trim().to_owned()
}

/// Reads blocks that begin with `error: …` or `error[E0425]: …`, with ` --> FILE:LINE:COLUMN` in one of the next lines.
fn read_compiler_errors(stderr: &str, mapper: &PathMapper, report: &mut TestReport) {
    let is_start = |line: &str| line.starts_with("error: ") || line.starts_with("error[");
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    let mut is_inside = false;
    for line in stderr.lines() {
        if is_start(line) {
            blocks.push(Vec::new());
            is_inside = true;
        } else if line.trim().is_empty() {
            is_inside = false;
        }
        if is_inside && let Some(block) = blocks.last_mut() {
            block.push(line);
        }
    }
    for block in blocks {
        let mut positions = block.iter().filter_map(|line| {
            let position = line.trim_start().strip_prefix("--> ")?;
            split_location(position.trim_end())
        });
        // Summaries, such as `error: could not compile`, have no position.
        if let Some((path, line)) = positions.next() {
            report.push_build_error(SourceError {
                file: Some(mapper.map(path).unwrap_or_else(|| path.to_owned())),
                line: Some(line),
                message: block.join("\n"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::kit;

    #[test]
    fn cargo_results_of_all_targets_are_summed() {
        let stdout = include_str!("recorded/cargo.txt");
        let stderr = include_str!("recorded/cargo.err");
        let report = kit::read_recorded(&["src/lib.rs", "tests/it.rs"], |mapper, report| {
            read(stdout, stderr, mapper, report);
        });
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(2), Some(3), Some(1)));
        assert_eq!(
            kit::positions(&report),
            [
                "tests::fails_by_result ?:?",
                "tests::subtracts src/lib.rs:28",
                "integration tests/it.rs:1"
            ]
        );
        assert_eq!(report.failures[0].message, "Error: \"no luck\"");
        let message = &report.failures[1].message;
        assert!(
            message.contains("left: 5") && !message.contains("backtrace"),
            "{message}"
        );
        assert!(report.build_errors.is_empty(), "{:?}", report.build_errors);
    }

    #[test]
    fn cargo_compile_errors_have_file_and_line() {
        let stderr = include_str!("recorded/cargo-compile.txt");
        let report = kit::read_recorded(&["src/lib.rs"], |mapper, report| {
            read("", stderr, mapper, report);
        });
        assert_eq!(
            kit::build_positions(&report),
            ["src/lib.rs:40", "src/lib.rs:41"]
        );
        assert!(
            report.build_errors[0]
                .message
                .starts_with("error[E0425]: cannot find function")
        );
        assert_eq!((report.passed, report.failures.len()), (None, 0));
    }
}
