//! Readers of the output of test frameworks.

pub mod cargo_text;
pub mod go_json;
pub mod jest_json;
pub mod junit_xml;
pub mod node_tap;
pub mod unittest_text;

use mimir_sdk::commands::Finished;

use crate::project_path::PathMapper;
use crate::test_project::{Framework, TestProject};
use crate::test_report::TestReport;

/// Reads the output of a finished run into the report. What it cannot read is left out.
pub fn read_output(
    project: &TestProject,
    finished: &Finished,
    mapper: &PathMapper,
    report: &mut TestReport,
) {
    let stdout = plain_text(&finished.stdout);
    let stderr = plain_text(&finished.stderr);
    match project.framework {
        Framework::Cargo => cargo_text::read(&stdout, &stderr, mapper, report),
        Framework::Go => go_json::read(&stdout, &stderr, mapper, &project.folder, report),
        Framework::Vitest | Framework::Jest => jest_json::read(&stdout, mapper, report),
        Framework::Node => node_tap::read(&stdout, mapper, report),
        Framework::Pytest => {
            junit_xml::read(&stdout, mapper, report);
            junit_xml::read_pytest_coverage(&stdout, mapper, report);
        }
        Framework::Unittest => unittest_text::read(&stderr, mapper, report),
        Framework::Maven => junit_xml::read_maven_errors(&stdout, mapper, report),
        Framework::Npm | Framework::Make => {}
    }
}

/// Returns output as text, without terminal codes.
pub fn plain_text(bytes: &[u8]) -> String {
    anstream::adapter::strip_str(&String::from_utf8_lossy(bytes)).to_string()
}

/// Finds the first position in a stack trace or message that is a file of the workspace: `path:line` or
/// `path:line:column`, in brackets or not.
fn first_position(text: &str, mapper: &PathMapper) -> Option<(String, u32)> {
    let words = text.split(|c: char| c.is_whitespace() || "()\"'<>".contains(c));
    words
        .filter_map(|word| {
            let word = word.trim_end_matches([':', ',', '.']);
            let (path, line) = crate::project_path::split_location(word)?;
            Some((mapper.map(path)?, line))
        })
        .next()
}

#[cfg(test)]
pub(crate) mod kit {
    //! A workspace with the files that recorded outputs name.

    use crate::project_path::PathMapper;
    use crate::test_report::TestReport;

    /// Reads a recorded output, in a workspace with these empty files.
    pub fn read_recorded(
        files: &[&str],
        read: impl FnOnce(&PathMapper, &mut TestReport),
    ) -> TestReport {
        let dir = tempfile::tempdir().unwrap();
        for name in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let mut report = TestReport::default();
        read(&PathMapper::new(dir.path(), ""), &mut report);
        report
    }

    /// Returns each failure as `name file:line`.
    pub fn positions(report: &TestReport) -> Vec<String> {
        let each = report.failures.iter().map(|failure| {
            let file = failure.file.as_deref().unwrap_or("?");
            let line = failure.line.map_or("?".to_owned(), |line| line.to_string());
            format!("{} {file}:{line}", failure.name)
        });
        each.collect()
    }

    /// Returns each build error as `file:line`.
    pub fn build_positions(report: &TestReport) -> Vec<String> {
        let each = report.build_errors.iter().map(|error| {
            let file = error.file.as_deref().unwrap_or("?");
            let line = error.line.map_or("?".to_owned(), |line| line.to_string());
            format!("{file}:{line}")
        });
        each.collect()
    }
}
