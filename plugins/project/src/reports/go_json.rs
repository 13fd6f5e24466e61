//! The events that `go test -json` prints, one JSON object per line.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::project_path::{PathMapper, join_path, split_location};
use crate::test_report::{CoveredFile, SourceError, TestFailure, TestReport};

/// An event of `test2json`, or of the build.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TestEvent {
    action: String,
    #[serde(default)]
    package: String,
    test: Option<String>,
    #[serde(default)]
    output: String,
}

/// The state of one test.
#[derive(Debug, Default)]
struct TestState {
    output: String,
    verdict: Option<String>,
}

/// Reads the output of `go test -json` in a module. `folder` is the folder of the module.
pub fn read(
    stdout: &str,
    stderr: &str,
    mapper: &PathMapper,
    folder: &str,
    report: &mut TestReport,
) {
    let mut tests: BTreeMap<(String, String), TestState> = BTreeMap::new();
    let mut packages: Vec<String> = Vec::new();
    let mut covered = Vec::new();
    // Up to Go 1.23, errors of the compiler are on stderr.
    let mut build_output = stderr.to_owned();
    let mut has_events = false;
    for line in stdout.lines() {
        let Ok(event) = serde_json::from_str::<TestEvent>(line) else {
            continue;
        };
        has_events = true;
        if event.action == "build-output" {
            build_output.push_str(&event.output);
            continue;
        }
        if !event.package.is_empty() && !packages.contains(&event.package) {
            packages.push(event.package.clone());
        }
        let Some(test) = event.test else {
            if let Some(percent) = coverage(&event.output) {
                covered.push(CoveredFile {
                    file: event.package,
                    percent,
                });
            }
            continue;
        };
        let state = tests.entry((event.package, test)).or_default();
        match event.action.as_str() {
            "output" => state.output.push_str(&event.output),
            "pass" | "fail" | "skip" => state.verdict = Some(event.action),
            _ => {}
        }
    }
    read_compiler_errors(&build_output, mapper, report);
    if !has_events {
        return;
    }
    let module = common_prefix(&packages);
    let mut counts = [0; 3];
    let names: Vec<(String, String)> = tests.keys().cloned().collect();
    for ((package, test), state) in tests {
        // A parent fails with its subtests, which have the messages.
        let has_subtests = names
            .iter()
            .any(|(other, name)| *other == package && is_subtest(name, &test));
        match state.verdict.as_deref() {
            Some("pass") => counts[0] += u32::from(!has_subtests),
            Some("skip") => counts[2] += 1,
            // A test without a verdict was running when its process died.
            Some("fail") | None if !has_subtests || has_own_message(&state.output) => {
                counts[1] += 1;
                let relative = package.strip_prefix(module).unwrap_or_default();
                let directory = join_path(folder, relative.trim_start_matches('/'));
                let position = position(&state.output, &directory, mapper);
                let (file, line) =
                    position.map_or((None, None), |(file, line)| (Some(file), Some(line)));
                report.push_failure(TestFailure {
                    name: test,
                    file,
                    line,
                    message: without_frames(&state.output),
                });
            }
            _ => {}
        }
    }
    let [passed, failed, skipped] = counts;
    report.count(passed, failed, skipped);
    if !covered.is_empty() {
        let percent = match covered.as_slice() {
            [only] => Some(only.percent),
            _ => None,
        };
        report.cover(percent, covered);
    }
}

fn is_subtest(name: &str, parent: &str) -> bool {
    let rest = name.strip_prefix(parent);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the longest common prefix of the packages that is a whole path: the module, or a folder in it.
fn common_prefix(packages: &[String]) -> &str {
    let Some(first) = packages.first() else {
        return "";
    };
    let mut prefix = first.as_str();
    let is_prefix_of_all = |prefix: &str| {
        packages
            .iter()
            .all(|package| package == prefix || is_subtest(package, prefix))
    };
    while !is_prefix_of_all(prefix) {
        prefix = prefix.rsplit_once('/').map_or("", |(above, _)| above);
        if prefix.is_empty() {
            break;
        }
    }
    prefix
}

/// Returns true for the lines that the test runner adds to the output of a test.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("=== ") || line.starts_with("--- ")
}

fn has_own_message(output: &str) -> bool {
    output
        .lines()
        .any(|line| !is_frame(line) && !line.trim().is_empty())
}

fn without_frames(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !is_frame(line)).collect();
    lines.join("\n")
}

/// Returns the first position in the output of a test: `file_test.go:14:` of the package, or a frame of a panic.
fn position(output: &str, directory: &str, mapper: &PathMapper) -> Option<(String, u32)> {
    output.lines().find_map(|line| {
        let word = line.split_whitespace().next()?;
        let (name, line) = split_location(word.trim_end_matches(':'))?;
        if !name.ends_with(".go") {
            return None;
        }
        // Only an absolute path has its own folder.
        let file = if name.contains('/') {
            mapper.map(name)
        } else {
            mapper
                .map(&join_path(directory, name))
                .or_else(|| mapper.map(name))
        };
        Some((file?, line))
    })
}

/// Returns the percentage in `coverage: 85.7% of statements`.
fn coverage(output: &str) -> Option<f64> {
    let rest = output.trim_start().strip_prefix("coverage: ")?;
    rest.split_once('%')?.0.parse().ok()
}

/// Reads lines such as `bad/bad_test.go:5:30: undefined: x`, and the indented lines that follow.
fn read_compiler_errors(output: &str, mapper: &PathMapper, report: &mut TestReport) {
    let mut errors: Vec<SourceError> = Vec::new();
    for line in output.lines() {
        if line.starts_with(['\t', ' '])
            && let Some(error) = errors.last_mut()
        {
            error.message.push_str(&format!("\n{line}"));
            continue;
        }
        let Some((position, message)) = line.split_once(": ") else {
            continue;
        };
        if let Some((path, number)) = split_location(position)
            && path.ends_with(".go")
        {
            errors.push(SourceError {
                file: Some(mapper.map(path).unwrap_or_else(|| path.to_owned())),
                line: Some(number),
                message: message.to_owned(),
            });
        }
    }
    errors
        .into_iter()
        .for_each(|error| report.push_build_error(error));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::kit;

    #[test]
    fn go_failures_and_compile_errors_are_found() {
        let stdout = include_str!("recorded/go.txt");
        let files = ["calc_test.go", "bad/bad_test.go", "boom/boom_test.go"];
        let report = kit::read_recorded(&files, |mapper, report| {
            read(stdout, "", mapper, "", report);
        });
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(1), Some(2), Some(1)));
        assert_eq!(
            kit::positions(&report),
            [
                "TestSub/small calc_test.go:14",
                "TestBoom boom/boom_test.go:7"
            ]
        );
        assert_eq!(
            report.failures[0].message.trim(),
            "calc_test.go:14: Sub(3, 2) = 5, want 1"
        );
        assert_eq!(kit::build_positions(&report), ["bad/bad_test.go:5"]);
        assert_eq!(report.build_errors[0].message, "undefined: undefinedCall");
        let coverage = report.coverage.unwrap();
        assert_eq!(coverage.percent, Some(100.0));
    }

    #[test]
    fn go_compile_errors_on_stderr_are_found() {
        let stderr = "# example.com/calc\n./calc.go:3:5: x declared and not used\n\tmore\n";
        let report = kit::read_recorded(&["calc.go"], |mapper, report| {
            read("", stderr, mapper, "", report);
        });
        assert_eq!(kit::build_positions(&report), ["calc.go:3"]);
        assert!(report.build_errors[0].message.ends_with("\tmore"));
        assert_eq!(report.passed, None);
    }
}
