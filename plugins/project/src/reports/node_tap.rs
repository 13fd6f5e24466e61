//! The TAP that `node --test --test-reporter=tap` prints: version 13, with a YAML block after each result.

use crate::project_path::{PathMapper, split_location};
use crate::test_report::{CoveredFile, SourceError, TestFailure, TestReport};

/// A line `ok 1 - NAME` or `not ok 1 - NAME`, with its block.
#[derive(Debug, Default)]
struct TapResult {
    name: String,
    is_ok: bool,
    /// Values of one line each, by key.
    values: Vec<(String, String)>,
}

impl TapResult {
    fn value(&self, key: &str) -> Option<&str> {
        let mut values = self.values.iter().filter(|(name, _)| name == key);
        values.next().map(|(_, value)| value.as_str())
    }
}

/// Reads the results.
pub fn read(stdout: &str, mapper: &PathMapper, report: &mut TestReport) {
    let mut counts: [Option<u32>; 5] = [None; 5];
    let names = ["pass", "fail", "skipped", "todo", "cancelled"];
    for line in stdout.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            continue;
        };
        for (count, name) in counts.iter_mut().zip(names) {
            if let Some(number) = comment
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(' '))
            {
                // A test can print such a line; the summary is last.
                *count = number.parse().ok().or(*count);
            }
        }
    }
    if let [Some(passed), Some(failed), skipped, todo, cancelled] = counts {
        report.count(
            passed,
            failed.saturating_add(cancelled.unwrap_or(0)),
            skipped.unwrap_or(0).saturating_add(todo.unwrap_or(0)),
        );
    }
    for result in results(stdout) {
        if result.is_ok || result.value("failureType") == Some("subtestsFailed") {
            continue;
        }
        push_failure(&result, stdout, mapper, report);
    }
    read_coverage(stdout, report);
}

fn push_failure(result: &TapResult, stdout: &str, mapper: &PathMapper, report: &mut TestReport) {
    let location = result.value("location").and_then(split_location);
    let own = location.and_then(|(path, line)| Some((mapper.map(path)?, line)));
    let file = mapper.map(&result.name);
    let (is_file, exit) = (file.is_some(), result.value("exitCode"));
    if is_file && exit.is_some() {
        // The process of the file failed, usually because the file could not be loaded. Its stderr is in comments.
        let message = load_error(stdout, &result.name);
        let line = message
            .lines()
            .find_map(|line| split_location(line))
            .map(|(_, line)| line);
        report.push_build_error(SourceError {
            file,
            line,
            message,
        });
        return;
    }
    let stack = result.value("stack").unwrap_or_default();
    let position = super::first_position(stack, mapper).or(own);
    let (file, line) = position.map_or((None, None), |(file, line)| (Some(file), Some(line)));
    let message = result.value("error").unwrap_or_default();
    let mut message = unquote(message);
    for key in ["expected", "actual"] {
        if let Some(value) = result.value(key) {
            message.push_str(&format!("\n{key}: {value}"));
        }
    }
    report.push_failure(TestFailure {
        name: result.name.clone(),
        file,
        line,
        message,
    });
}

/// Reads all results with their blocks, nested ones as well.
fn results(stdout: &str) -> Vec<TapResult> {
    let mut results: Vec<TapResult> = Vec::new();
    let mut lines = stdout.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let (is_ok, rest) = match (trimmed.strip_prefix("ok "), trimmed.strip_prefix("not ok ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => continue,
        };
        let Some((number, name)) = rest.split_once(" - ") else {
            continue;
        };
        if number.parse::<u32>().is_err() {
            continue;
        }
        let mut result = TapResult {
            name: name.replace("\\#", "#").replace("\\\\", "\\"),
            is_ok,
            values: Vec::new(),
        };
        let begin = format!("{}---", " ".repeat(indent + 2));
        if lines.next_if(|line| *line == begin).is_some() {
            read_block(&mut lines, indent + 2, &mut result.values);
        }
        results.push(result);
    }
    results
}

/// Reads the lines of a block up to `...`: `key: value`, and `key: |-` with the indented lines that follow.
fn read_block<'a>(
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    indent: usize,
    values: &mut Vec<(String, String)>,
) {
    for line in lines {
        let Some(content) = line.get(indent..) else {
            continue;
        };
        if content == "..." {
            return;
        }
        if content.starts_with(' ') {
            if let Some((_, value)) = values.last_mut() {
                value.push_str(content.trim_start());
                value.push('\n');
            }
        } else if let Some((key, value)) = content.split_once(':') {
            let value = match value.trim() {
                "|-" | "|" | ">-" => String::new(),
                value => unquote(value),
            };
            values.push((key.to_owned(), value));
        }
    }
}

/// Removes the quotes around a YAML string.
fn unquote(value: &str) -> String {
    let inner = value
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    match inner {
        Some(inner) => inner.replace("''", "'").replace("\\n", "\n"),
        None => value.trim_end().to_owned(),
    }
}

/// Returns what the process of a file printed before it failed: the comments in front of `# Subtest: NAME`.
fn load_error(stdout: &str, name: &str) -> String {
    let subtest = format!("# Subtest: {name}");
    let mut comments: Vec<&str> = Vec::new();
    for line in stdout.lines() {
        if line == subtest {
            break;
        }
        match line.strip_prefix("# ") {
            Some(comment) if !comment.starts_with("Subtest: ") => comments.push(comment),
            _ => comments.clear(),
        }
    }
    let lines: Vec<&str> = comments
        .into_iter()
        .filter(|line| !line.trim_start().starts_with("at ") && !line.starts_with("Node.js v"))
        .collect();
    lines.join("\n")
}

/// Reads the table of `--experimental-test-coverage`: `# file | line % | branch % | funcs % | uncovered lines`. Folders
/// are lines without numbers, and the names below are indented.
fn read_coverage(stdout: &str, report: &mut TestReport) {
    let Some(start) = stdout.find("\n# start of coverage report") else {
        return;
    };
    let mut files = Vec::new();
    let mut folders: Vec<(usize, String)> = Vec::new();
    let mut all = None;
    for line in stdout[start..].lines() {
        let Some(row) = line.strip_prefix("# ") else {
            continue;
        };
        if row.starts_with("end of coverage report") {
            break;
        }
        let mut cells = row.split('|');
        let (Some(cell), Some(number)) = (cells.next(), cells.next()) else {
            continue;
        };
        let name = cell.trim();
        let depth = cell.len() - cell.trim_start().len();
        folders.retain(|(above, _)| *above < depth);
        let Ok(percent) = number.trim().parse::<f64>() else {
            folders.push((depth, name.to_owned()));
            continue;
        };
        if name == "all files" {
            all = Some(percent);
            continue;
        }
        let path: Vec<&str> = folders.iter().map(|(_, name)| name.as_str()).collect();
        let path = path.join("/");
        files.push(CoveredFile {
            file: crate::project_path::join_path(&path, name),
            percent,
        });
    }
    report.cover(all, files);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::kit;

    fn report(stdout: &str) -> TestReport {
        kit::read_recorded(
            &["nod/calc.test.js", "nod/bad.test.js"],
            |mapper, report| {
                read(stdout, mapper, report);
            },
        )
    }

    #[test]
    fn node_results_have_positions_and_broken_files() {
        let report = report(include_str!("recorded/node-tap.txt"));
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(1), Some(2), Some(2)));
        assert_eq!(kit::positions(&report), ["subtracts nod/calc.test.js:8"]);
        assert_eq!(report.failures[0].message, "5 == 1\nexpected: 1\nactual: 5");
        assert_eq!(kit::build_positions(&report), ["nod/bad.test.js:1"]);
        let message = &report.build_errors[0].message;
        assert!(
            message.contains("SyntaxError: Unexpected token ';'"),
            "{message}"
        );
    }

    #[test]
    fn node_counts_do_not_overflow() {
        let report =
            report("# pass 1\n# fail 4294967295\n# cancelled 1\n# skipped 4294967295\n# todo 1\n");
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(1), Some(u32::MAX), Some(u32::MAX)));
    }

    #[test]
    fn node_coverage_table_is_read() {
        let report = report(include_str!("recorded/node-coverage.txt"));
        let coverage = report.coverage.unwrap();
        assert!(coverage.percent.is_some(), "{coverage:?}");
        assert!(
            coverage
                .files
                .iter()
                .any(|file| file.file.ends_with("calc.js")),
            "{coverage:?}"
        );
    }
}
