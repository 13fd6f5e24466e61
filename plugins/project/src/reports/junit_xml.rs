//! JUnit XML: what pytest prints at the end of a run, and the files that Maven writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use roxmltree::{Document, Node};

use crate::project_path::{PathMapper, join_path, split_location};
use crate::test_project::{Framework, TestProject};
use crate::test_report::{CoveredFile, SourceError, TestFailure, TestReport};

/// Folders with the reports of Maven's test runs.
const FOLDERS: [&str; 2] = ["target/surefire-reports", "target/failsafe-reports"];

/// Maximum depth of modules below a project, and maximum number of report files.
const MAX_DEPTH: usize = 4;
const MAX_FILES: usize = 2_000;

/// Counts of test cases.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct CaseCounts {
    passed: u32,
    failed: u32,
    skipped: u32,
}

/// Maximum number of starts and ends of a document that are tried: a test can print both.
const MAX_TRIES: usize = 16;

/// Reads the report in the output of pytest. It is the first document: the output of failed tests, which may contain
/// another one, follows it.
pub fn read(stdout: &str, mapper: &PathMapper, report: &mut TestReport) {
    const END: &str = "</testsuites>";
    for (start, _) in stdout.match_indices("<?xml ").take(MAX_TRIES) {
        let text = &stdout[start..];
        let mut ends = text.match_indices(END).take(MAX_TRIES);
        let counts = ends.find_map(|(at, _)| {
            let document = Document::parse(&text[..at + END.len()]).ok()?;
            let is_report = document.root_element().has_tag_name("testsuites");
            is_report.then(|| read_cases(&document, mapper, report))
        });
        if let Some(counts) = counts {
            report.count(counts.passed, counts.failed, counts.skipped);
            return;
        }
    }
}

/// Reads one document. Returns `None` if it is not valid.
fn read_document(text: &str, mapper: &PathMapper, report: &mut TestReport) -> Option<CaseCounts> {
    let document = Document::parse(text).ok()?;
    Some(read_cases(&document, mapper, report))
}

fn read_cases(document: &Document<'_>, mapper: &PathMapper, report: &mut TestReport) -> CaseCounts {
    let mut counts = CaseCounts::default();
    let cases = document.descendants();
    for case in cases.filter(|node| node.has_tag_name("testcase")) {
        read_case(case, mapper, &mut counts, report);
    }
    counts
}

fn read_case(
    case: Node<'_, '_>,
    mapper: &PathMapper,
    counts: &mut CaseCounts,
    report: &mut TestReport,
) {
    let mut children = case.children();
    let problem = children.find(|node| node.has_tag_name("failure") || node.has_tag_name("error"));
    let Some(problem) = problem else {
        let is_skipped = case.children().any(|node| node.has_tag_name("skipped"));
        counts.skipped += u32::from(is_skipped);
        counts.passed += u32::from(!is_skipped);
        return;
    };
    let text = problem.text().unwrap_or_default();
    let summary = problem.attribute("message").unwrap_or_default();
    // pytest could not import the file, so none of its tests ran.
    if problem.has_tag_name("error") && summary == "collection failure" {
        let (file, line) = trace_position(text, mapper);
        report.push_build_error(SourceError {
            file,
            line,
            message: error_lines(text),
        });
        return;
    }
    counts.failed += 1;
    let own = case.attribute("file").and_then(|file| mapper.map(file));
    let (file, line) = match trace_position(text, mapper) {
        // The `line` of a test case is its first line, from 0.
        (None, _) => {
            let first = case.attribute("line").and_then(|line| line.parse().ok());
            (own, first.map(|line: u32| line.saturating_add(1)))
        }
        position => position,
    };
    report.push_failure(TestFailure {
        name: case_name(case),
        file,
        line,
        message: if text.trim().is_empty() {
            summary.to_owned()
        } else {
            error_lines(text)
        },
    });
}

/// Returns the name with the class, as in `Sums.test_add`.
fn case_name(case: Node<'_, '_>) -> String {
    let name = case.attribute("name").unwrap_or_default();
    let class = case.attribute("classname").unwrap_or_default();
    let class = class.rsplit('.').next().unwrap_or_default();
    // In pytest, the class of a function is its module.
    let is_class = class.starts_with(|c: char| c.is_ascii_uppercase());
    if is_class {
        format!("{class}.{name}")
    } else {
        name.to_owned()
    }
}

/// Returns the last position of pytest's trace (`test_calc.py:11: AssertionError`), or the first of a Java stack trace
/// (`at CalcTest.adds(CalcTest.java:12)`).
fn trace_position(text: &str, mapper: &PathMapper) -> (Option<String>, Option<u32>) {
    let mut python = text.lines().filter_map(|line| {
        let word = line.split(": ").next()?;
        let (path, line) = split_location(word.trim_end_matches(':'))?;
        Some((mapper.map(path)?, line))
    });
    if let Some((file, line)) = python.next_back() {
        return (Some(file), Some(line));
    }
    let java = text.lines().find_map(|line| {
        let frame = line.trim_start().strip_prefix("at ")?;
        let (method, position) = frame.split_once('(')?;
        let (name, line) = split_location(position.trim_end_matches(')'))?;
        let class = method.rsplit_once('.')?.0.rsplit('/').next()?;
        let package = class.rsplit_once('.').map_or("", |(package, _)| package);
        let path = join_path(&package.replace('.', "/"), name);
        let folders = [
            "src/test/java",
            "src/test/kotlin",
            "src/main/java",
            "src/main/kotlin",
        ];
        let mut files = folders.iter().map(|folder| format!("{folder}/{path}"));
        Some((files.find_map(|file| mapper.map(&file))?, line))
    });
    java.map_or((None, None), |(file, line)| (Some(file), Some(line)))
}

/// Returns the lines of pytest that explain the failure: the failed line (`>`) and the explanation (`E`). For other
/// texts, returns everything but the frames of the stack trace.
fn error_lines(text: &str) -> String {
    let explains = |line: &&str| line.starts_with("E  ") || line.starts_with(">  ");
    let lines: Vec<&str> = text.lines().filter(explains).collect();
    if !lines.is_empty() {
        let lines: Vec<&str> = lines
            .iter()
            .map(|line| line.strip_prefix("E   ").unwrap_or(line))
            .collect();
        return lines.join("\n");
    }
    let lines = text.lines();
    let lines: Vec<&str> = lines
        .filter(|line| !line.trim_start().starts_with("at "))
        .collect();
    lines.join("\n")
}

/// Reads the table of pytest-cov: `NAME STMTS MISS COVER`, with two more columns if branches are measured.
pub fn read_pytest_coverage(stdout: &str, mapper: &PathMapper, report: &mut TestReport) {
    let mut lines = stdout.lines();
    let has_table = lines.any(|line| line.starts_with("Name ") && line.contains(" Stmts "));
    if !has_table {
        return;
    }
    let mut files = Vec::new();
    let mut all = None;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(number)) = (words.first(), words.last()) else {
            break;
        };
        let Some(percent) = number.strip_suffix('%').and_then(|text| text.parse().ok()) else {
            continue;
        };
        if *name == "TOTAL" {
            all = Some(percent);
            break;
        }
        files.push(CoveredFile {
            file: mapper.map(name).unwrap_or_else(|| (*name).to_owned()),
            percent,
        });
    }
    report.cover(all, files);
}

/// Report files of a project with the time of their last change.
pub type ReportTimes = BTreeMap<String, SystemTime>;

/// Lists the report files that earlier runs have written.
pub fn existing_reports(workspace: &Path, project: &TestProject) -> ReportTimes {
    let mut times = ReportTimes::new();
    if project.framework == Framework::Maven {
        collect_reports(workspace, &project.folder, 0, &mut times);
    }
    times
}

fn collect_reports(workspace: &Path, folder: &str, depth: usize, times: &mut ReportTimes) {
    for name in FOLDERS {
        let path = join_path(folder, name);
        let entries = std::fs::read_dir(workspace.join(&path));
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            if name.starts_with("TEST-")
                && name.ends_with(".xml")
                && times.len() < MAX_FILES
                && let Ok(changed) = changed
            {
                times.insert(join_path(&path, &name), changed);
            }
        }
    }
    if depth == MAX_DEPTH {
        return;
    }
    let entries = std::fs::read_dir(workspace.join(folder));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_module = !name.starts_with('.')
            && !["src", "target", "build", "node_modules"].contains(&name.as_str())
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_module {
            collect_reports(workspace, &join_path(folder, &name), depth + 1, times);
        }
    }
}

/// Reads the report files that the run has written or changed.
pub fn read_new_reports(
    workspace: &Path,
    project: &TestProject,
    earlier: &ReportTimes,
    report: &mut TestReport,
) {
    let mut sum: Option<CaseCounts> = None;
    for (path, changed) in existing_reports(workspace, project) {
        if earlier.get(&path) == Some(&changed) {
            continue;
        }
        let Some(text) = crate::test_project::read_text(&workspace.join(&path)) else {
            report.truncated = true;
            continue;
        };
        // Positions are relative to the module, three folders above the file.
        let module: Vec<&str> = path.split('/').rev().skip(3).collect();
        let module: Vec<&str> = module.into_iter().rev().collect();
        let mapper = PathMapper::new(workspace, &module.join("/"));
        if let Some(counts) = read_document(&text, &mapper, report) {
            let sum = sum.get_or_insert_default();
            sum.passed += counts.passed;
            sum.failed += counts.failed;
            sum.skipped += counts.skipped;
        }
    }
    if let Some(sum) = sum {
        report.count(sum.passed, sum.failed, sum.skipped);
    }
}

/// Reads errors of the Java compiler in Maven's output: `[ERROR] /w/src/A.java:[3,5] message`.
pub fn read_maven_errors(stdout: &str, mapper: &PathMapper, report: &mut TestReport) {
    for line in stdout.lines() {
        let Some((path, rest)) = line
            .strip_prefix("[ERROR] ")
            .and_then(|rest| rest.split_once(":["))
        else {
            continue;
        };
        let Some((position, message)) = rest.split_once("] ") else {
            continue;
        };
        let number = position
            .split(',')
            .next()
            .and_then(|text| text.parse().ok());
        if let (Some(file), Some(number)) = (mapper.map(path), number) {
            report.push_build_error(SourceError {
                file: Some(file),
                line: Some(number),
                message: message.to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::kit;

    #[test]
    fn pytest_results_have_positions() {
        let stdout = include_str!("recorded/pytest.txt");
        let report = kit::read_recorded(&["test_calc.py", "calc.py"], |mapper, report| {
            read(stdout, mapper, report);
        });
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(2), Some(3), Some(1)));
        assert_eq!(
            kit::positions(&report),
            [
                "test_sub test_calc.py:11",
                "test_fixture test_calc.py:21",
                "TestMore.test_param[2] test_calc.py:32"
            ]
        );
        let message = &report.failures[0].message;
        assert!(message.contains("assert 5 == 1"), "{message}");
        assert_eq!(report.coverage, None);
    }

    #[test]
    fn pytest_output_of_a_test_does_not_end_the_report() {
        let stdout = include_str!("recorded/pytest.txt");
        let printed = "<?xml version='1.0'?><testsuites><testcase name='fake'/></testsuites>\n";
        for stdout in [
            format!("{stdout}\n{printed}"),
            format!("<?xml broken\n{stdout}</testsuites>\n"),
        ] {
            let report = kit::read_recorded(&["test_calc.py"], |mapper, report| {
                read(&stdout, mapper, report);
            });
            let counts = (report.passed, report.failed, report.skipped);
            assert_eq!(counts, (Some(2), Some(3), Some(1)));
        }
    }

    #[test]
    fn pytest_file_that_does_not_load_is_a_build_error() {
        let stdout = include_str!("recorded/pytest-collect.txt");
        let report = kit::read_recorded(&["test_bad.py"], |mapper, report| {
            read(stdout, mapper, report);
        });
        assert_eq!(kit::build_positions(&report), ["test_bad.py:1"]);
        let message = &report.build_errors[0].message;
        assert!(
            message.contains("No module named 'nothing_here'"),
            "{message}"
        );
        assert_eq!((report.passed, report.failed), (Some(0), Some(0)));
    }

    #[test]
    fn pytest_coverage_table_is_read() {
        let stdout = include_str!("recorded/pytest-cov.txt");
        let report = kit::read_recorded(&["calc.py", "test_calc.py"], |mapper, report| {
            read(stdout, mapper, report);
            read_pytest_coverage(stdout, mapper, report);
        });
        assert_eq!(report.failed, Some(3));
        let coverage = report.coverage.unwrap();
        assert_eq!(coverage.percent, Some(91.0));
        let files: Vec<_> = coverage
            .files
            .iter()
            .map(|file| file.file.as_str())
            .collect();
        assert_eq!(files, ["test_calc.py", "calc.py"]);
    }

    fn maven_project(dir: &Path) -> TestProject {
        std::fs::write(dir.join("pom.xml"), "").unwrap();
        TestProject::find(&mimir_sdk::Context::at(dir), ".", None).unwrap()
    }

    #[test]
    fn maven_reports_of_this_run_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let project = maven_project(dir.path());
        let reports = dir.path().join("module/target/surefire-reports");
        let test = dir.path().join("module/src/test/java/demo/CalcTest.java");
        for folder in [reports.as_path(), test.parent().unwrap()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(test, "").unwrap();
        std::fs::write(
            reports.join("TEST-old.xml"),
            "<testsuite><testcase name='a'/></testsuite>",
        )
        .unwrap();
        let earlier = existing_reports(dir.path(), &project);
        assert_eq!(earlier.len(), 1);
        let recorded = include_str!("recorded/surefire.xml");
        std::fs::write(reports.join("TEST-demo.CalcTest.xml"), recorded).unwrap();
        let mut report = TestReport::default();
        read_new_reports(dir.path(), &project, &earlier, &mut report);
        let counts = (report.passed, report.failed, report.skipped);
        assert_eq!(counts, (Some(1), Some(1), Some(1)));
        assert_eq!(
            kit::positions(&report),
            ["CalcTest.subtracts module/src/test/java/demo/CalcTest.java:16"]
        );
        let message = report.failures[0].message.trim();
        assert_eq!(
            message,
            "java.lang.AssertionError: expected:<1> but was:<5>"
        );
    }

    #[test]
    fn maven_compile_errors_have_file_and_line() {
        let stdout = include_str!("recorded/maven-compile.txt");
        let files = ["mvnbad/src/main/java/demo/Calc.java"];
        let report = kit::read_recorded(&files, |mapper, report| {
            read_maven_errors(stdout, mapper, report);
        });
        assert_eq!(
            kit::build_positions(&report),
            ["mvnbad/src/main/java/demo/Calc.java:5"]
        );
        assert!(
            report.build_errors[0]
                .message
                .contains("cannot find symbol")
        );
    }
}
