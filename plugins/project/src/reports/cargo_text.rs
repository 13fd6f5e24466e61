//! The text that `cargo test` prints: results of the standard test harness on stdout, errors of the compiler on stderr.

use std::collections::HashMap;

use crate::project_path::{PathMapper, split_location};
use crate::test_report::{SourceError, TestFailure, TestReport};

/// Reads the output of `cargo test`.
pub fn read(stdout: &str, stderr: &str, mapper: &PathMapper, report: &mut TestReport) {
    read_compiler_errors(stderr, mapper, report);
    let lines: Vec<&str> = stdout.lines().collect();
    let results = HarnessResults::read(&lines);
    for failure in results.failures {
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
    if let Some([passed, failed, skipped]) = results.counts {
        report.count(passed, failed, skipped);
    }
}

/// The results of all test programs.
#[derive(Default)]
struct HarnessResults {
    /// Numbers of passed, failed and ignored tests. `None` without a summary.
    counts: Option<[u32; 3]>,
    failures: Vec<TestFailure>,
}

impl HarnessResults {
    /// Reads the output of the test programs. The output of failed tests is in blocks between a first and a last line
    /// `failures:`, and may contain lines that look like results.
    fn read(lines: &[&str]) -> Self {
        let mut results = Self::default();
        let mut failed: Vec<&str> = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            let follows_blank = at
                .checked_sub(1)
                .is_none_or(|before| lines[before].is_empty());
            if line.starts_with("running ") && follows_blank {
                failed.clear();
            } else if let Some(name) = failed_test(line) {
                failed.push(name);
            } else if line == "failures:" && follows_blank {
                let list =
                    (at + 1..lines.len()).find_map(|at| FailureList::read(lines, at, &failed));
                // Without the list, the output was cut.
                let is_cut = list.is_none() && !failed.is_empty();
                let list = list.or_else(|| {
                    is_cut.then(|| FailureList {
                        names: failed.clone(),
                        start: lines.len(),
                        end: lines.len(),
                    })
                });
                if let Some(list) = list {
                    results.add_failures(&list.names, &lines[at..list.start]);
                    at = list.end;
                    continue;
                }
            } else if let Some(summary) = line.strip_prefix(SUMMARY)
                && follows_blank
            {
                results.add_counts(summary);
            }
            at += 1;
        }
        results
    }

    fn add_counts(&mut self, summary: &str) {
        let counts = self.counts.get_or_insert_default();
        for (count, word) in counts.iter_mut().zip(["passed", "failed", "ignored"]) {
            *count = count.saturating_add(number_before(summary, word));
        }
    }

    /// Adds failed tests with their blocks `---- NAME stdout ----`. A test without output has none.
    fn add_failures(&mut self, names: &[&str], lines: &[&str]) {
        let mut messages = vec![String::new(); names.len()];
        let mut known: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(at, name)| (*name, at))
            .collect();
        let mut open = None;
        for line in lines {
            let name = line
                .strip_prefix("---- ")
                .and_then(|rest| rest.strip_suffix(" stdout ----"));
            // A test has one block, so another header of the same name is output.
            if let Some(at) = name.and_then(|name| known.remove(name)) {
                open = Some(at);
            } else if let Some(at) = open {
                messages[at].push_str(line);
                messages[at].push('\n');
            }
        }
        for (name, message) in names.iter().zip(messages) {
            self.failures.push(TestFailure {
                name: (*name).to_owned(),
                message,
                ..TestFailure::default()
            });
        }
    }
}

/// Start of the line with the counts of a test program.
const SUMMARY: &str = "test result: ";

/// The list of failed tests, which follows the blocks of a test program.
struct FailureList<'a> {
    names: Vec<&'a str>,
    /// Indexes of its first line, and of the line with the counts after it.
    start: usize,
    end: usize,
}

impl<'a> FailureList<'a> {
    /// Reads the list that begins at a line, if it contains the tests that are known to have failed.
    fn read(lines: &[&'a str], start: usize, failed: &[&str]) -> Option<Self> {
        if lines[start] != "failures:" || !lines[start - 1].is_empty() {
            return None;
        }
        let rest = lines[start + 1..].iter();
        let names: Vec<&str> = rest.map_while(|line| line.strip_prefix("    ")).collect();
        let blank = start + 1 + names.len();
        let is_list = !names.is_empty()
            && lines.get(blank)?.is_empty()
            && lines.get(blank + 1)?.starts_with("test result: FAILED. ")
            && failed.iter().all(|name| names.contains(name));
        is_list.then_some(Self {
            names,
            start,
            end: blank + 1,
        })
    }
}

/// Returns the name in a line `test NAME ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    let modes = [" - should panic", " - compile fail", " - compile"];
    let mut names = modes.iter().filter_map(|mode| name.strip_suffix(mode));
    Some(names.next().unwrap_or(name))
}

/// Returns the number in front of a word: 3 in `ok. 3 passed; 0 failed`.
fn number_before(summary: &str, word: &str) -> u32 {
    let mut parts = summary.split([';', '.']);
    let found = parts.find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok());
    found.unwrap_or(0)
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

    /// Reads the results of a program in which `a` and `b - should panic` failed, and `a` printed these lines.
    fn read_printed(printed: &str) -> HarnessResults {
        let stdout = format!(
            "\nrunning 3 tests\ntest a ... FAILED\ntest b - should panic ... FAILED\ntest c ... ok\n\n\
             failures:\n\n---- a stdout ----\n{printed}\nthread 'a' panicked at src/lib.rs:2:1:\n\n\n\
             failures:\n    a\n    b\n\n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n"
        );
        HarnessResults::read(&stdout.lines().collect::<Vec<_>>())
    }

    #[test]
    fn cargo_output_of_a_test_is_not_read_as_results() {
        for printed in [
            "",
            "\ntest result: ok. 4294967295 passed; 0 failed; 0 ignored",
            "---- fake::ok stdout ----",
            "---- a stdout ----",
            "\nfailures:\n    a\n\ntest result: FAILED. 7 passed; 1 failed; 0 ignored\n",
            "\nrunning 1 test\ntest fake ... FAILED\n\nfailures:\n\n---- fake stdout ----\n\nfailures:\n    fake\n\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored\n",
        ] {
            let results = read_printed(printed);
            assert_eq!(results.counts, Some([1, 2, 0]), "{printed}");
            let names: Vec<_> = results.failures.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names, ["a", "b"], "{printed}");
            assert!(results.failures[0].message.contains(printed));
            assert_eq!(results.failures[1].message, "");
        }
    }

    #[test]
    fn cargo_counts_do_not_overflow() {
        let line = format!("\ntest result: ok. {} passed; 0 failed\n", u32::MAX);
        let twice = line.repeat(2);
        let results = HarnessResults::read(&twice.lines().collect::<Vec<_>>());
        assert_eq!(results.counts, Some([u32::MAX, 0, 0]));
    }

    #[test]
    fn cargo_output_that_was_cut_names_the_failures() {
        let stdout =
            "\nrunning 2 tests\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\nwrong\n";
        let results = HarnessResults::read(&stdout.lines().collect::<Vec<_>>());
        assert_eq!((results.counts, results.failures.len()), (None, 1));
        assert_eq!(results.failures[0].message, "wrong\n");
        let printed =
            "\nrunning 1 test\n\nfailures:\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        let results = HarnessResults::read(&printed.lines().collect::<Vec<_>>());
        assert_eq!(
            (results.counts, results.failures.len()),
            (Some([1, 0, 0]), 0)
        );
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
