//! The result of a test run, which the modules of [`reports`](crate::reports) fill in.

use mimir_sdk::text;
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum number of failures, build errors and covered files in a result.
const MAX_ENTRIES: usize = 50;

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 2_000;

/// Maximum length of the text of a result in characters, and of the output in it.
const MAX_TEXT: usize = 8_000;
const MAX_OUTPUT: usize = 4_000;

/// Maximum number of lines of a failure in the text. The structured result has all lines.
const MAX_LINES: usize = 12;

/// Result of a test run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// The framework.
    pub framework: String,
    /// The command line.
    pub command: String,
    /// Exit code of the command; 0 if all tests passed.
    pub exit_code: i32,
    /// Number of passed tests. The counts are absent if the output has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<u32>,
    /// Number of failed tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u32>,
    /// Number of skipped tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u32>,
    /// Duration of the command in milliseconds.
    pub duration_ms: u64,
    /// The first 50 failed tests.
    pub failures: Vec<TestFailure>,
    /// Files that do not compile or load, so that their tests did not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub build_errors: Vec<SourceError>,
    /// Coverage, if it was requested and measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// True if the output exceeded the limit, so that failures may be missing.
    pub truncated: bool,
    /// Number of entries that were left out.
    #[serde(skip)]
    left_out: usize,
}

/// A failed test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestFailure {
    /// Name of the test.
    pub name: String,
    /// File, relative to the workspace root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line of the failure, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The framework's message.
    pub message: String,
}

/// An error in a source file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceError {
    /// File, relative to the workspace root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The compiler's message.
    pub message: String,
}

/// Coverage of statements or lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Percentage of all statements or lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Up to 50 files or packages, the least covered first.
    pub files: Vec<CoveredFile>,
}

/// Coverage of one file or package.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoveredFile {
    /// File or package.
    pub file: String,
    /// Percentage of its statements or lines.
    pub percent: f64,
}

impl TestReport {
    /// Sets the counts.
    pub fn count(&mut self, passed: u32, failed: u32, skipped: u32) {
        (self.passed, self.failed, self.skipped) = (Some(passed), Some(failed), Some(skipped));
    }

    /// Adds a failed test.
    pub fn push_failure(&mut self, failure: TestFailure) {
        if self.failures.len() < MAX_ENTRIES {
            let message = shorten(&failure.message);
            self.failures.push(TestFailure { message, ..failure });
        } else {
            self.left_out += 1;
        }
    }

    /// Adds an error in a source file, unless it was added before: several targets report errors of a shared file.
    pub fn push_build_error(&mut self, error: SourceError) {
        let message = shorten(&error.message);
        let error = SourceError { message, ..error };
        if self.build_errors.len() < MAX_ENTRIES && !self.build_errors.contains(&error) {
            self.build_errors.push(error);
        }
    }

    /// Sets the coverage.
    pub fn cover(&mut self, percent: Option<f64>, mut files: Vec<CoveredFile>) {
        files.sort_by(|one, other| one.percent.total_cmp(&other.percent));
        files.truncate(MAX_ENTRIES);
        self.coverage = Some(Coverage { percent, files });
    }

    /// Describes the run for a model. `output` is what the command printed, shown if it explains the exit code better.
    pub fn describe(&self, output: &str) -> String {
        let mut lines = vec![self.summary()];
        for error in &self.build_errors {
            let position = position(error.file.as_deref(), error.line);
            lines.push(format!(
                "\nBUILD ERROR{position}: {}",
                brief(&error.message)
            ));
        }
        for failure in &self.failures {
            let position = position(failure.file.as_deref(), failure.line);
            let name = text::name(&failure.name);
            lines.push(format!(
                "\nFAILED {name}{position}\n{}",
                brief(&failure.message)
            ));
        }
        if self.left_out > 0 {
            lines.push(format!("\n[… {} more failures …]", self.left_out));
        }
        if self.truncated {
            lines.push(
                "\n[the output exceeded the limit, so results are missing: name a `path` or a `filter`]"
                    .to_owned(),
            );
        }
        let explained = !self.failures.is_empty() || !self.build_errors.is_empty();
        if (self.exit_code != 0 && !explained) || self.passed.is_none() {
            lines.push(format!("\n{}", tail(output, MAX_OUTPUT)));
        }
        let text = lines.join("\n");
        match text.char_indices().nth(MAX_TEXT) {
            Some((end, _)) => format!(
                "{}\n[… cut; the structured result has every failure …]",
                &text[..end]
            ),
            None => text,
        }
    }

    fn summary(&self) -> String {
        let counts = match (self.passed, self.failed, self.skipped) {
            (Some(passed), Some(failed), Some(skipped)) => {
                format!("{passed} passed, {failed} failed, {skipped} skipped")
            }
            _ if self.exit_code == 0 => "ended without an error".to_owned(),
            _ => "failed".to_owned(),
        };
        let seconds = self.duration_ms / 1_000;
        let tenths = self.duration_ms % 1_000 / 100;
        let mut summary = format!(
            "{}: {counts}, exit code {}, {seconds}.{tenths} s: {}",
            self.framework,
            self.exit_code,
            text::brief(&self.command)
        );
        if let Some(percent) = self.coverage.as_ref().and_then(|covered| covered.percent) {
            summary.push_str(&format!("\ncoverage: {percent:.1} %"));
        }
        summary
    }
}

fn position(file: Option<&str>, line: Option<u32>) -> String {
    match (file, line) {
        (Some(file), Some(line)) => format!(" ({}:{line})", text::name(file)),
        (Some(file), None) => format!(" ({})", text::name(file)),
        _ => String::new(),
    }
}

/// Removes the line breaks around a message and limits its length.
fn shorten(message: &str) -> String {
    let message = message.trim_matches(['\n', '\r']).trim_end();
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}\n[…]", &message[..end]),
        None => message.to_owned(),
    }
}

/// Returns the first lines of a message.
fn brief(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    if lines.len() <= MAX_LINES {
        return message.to_owned();
    }
    let more = lines.len() - MAX_LINES;
    format!("{}\n[… {more} more lines …]", lines[..MAX_LINES].join("\n"))
}

/// Returns the end of an output, from a line break on.
fn tail(output: &str, max_chars: usize) -> &str {
    let output = output.trim_end();
    let Some((start, _)) = output.char_indices().rev().nth(max_chars) else {
        return output;
    };
    let line = output[start..]
        .find('\n')
        .map_or(start, |at| start + at + 1);
    &output[line..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_report_text_names_each_failure_with_its_position() {
        let mut report = TestReport {
            framework: "pytest".into(),
            command: "python3 -m pytest".into(),
            exit_code: 1,
            duration_ms: 1_250,
            ..TestReport::default()
        };
        report.count(2, 1, 0);
        report.push_failure(TestFailure {
            name: "test_sub".into(),
            file: Some("test_calc.py".into()),
            line: Some(11),
            message: "\nassert 5 == 1\n".into(),
        });
        let text = report.describe("everything the command printed");
        assert_eq!(
            text,
            "pytest: 2 passed, 1 failed, 0 skipped, exit code 1, 1.2 s: python3 -m pytest\n\n\
             FAILED test_sub (test_calc.py:11)\nassert 5 == 1"
        );
        report.failures.clear();
        assert!(
            report
                .describe("an unknown option")
                .ends_with("an unknown option")
        );
    }

    #[test]
    fn test_report_limits_entries_and_messages() {
        let mut report = TestReport::default();
        for number in 0..60 {
            report.push_failure(TestFailure {
                name: format!("t{number}"),
                message: "a long line of a message\n".repeat(500),
                ..TestFailure::default()
            });
            report.push_build_error(SourceError {
                message: "the same".into(),
                ..SourceError::default()
            });
        }
        assert_eq!((report.failures.len(), report.build_errors.len()), (50, 1));
        assert!(report.failures[0].message.chars().count() < MAX_MESSAGE + 10);
        let text = report.describe("");
        assert!(text.chars().count() < MAX_TEXT + 100 && text.contains("[… cut"));
    }
}
