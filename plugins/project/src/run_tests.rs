//! The tool `run_tests`.

use std::time::Duration;

use mimir_sdk::commands::{Command, Finished};
use mimir_sdk::prelude::*;
use mimir_sdk::serde_json::Value;
use mimir_sdk::text;

use crate::missing_program;
use crate::project_path::PathMapper;
use crate::reports;
use crate::test_command::TestCommand;
use crate::test_project::{Framework, TestProject};
use crate::test_report::TestReport;

/// Runs the tests of a project with its own framework, in the sandbox, and returns counts and failures with file, line
/// and message. The framework is detected.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunTests {
    /// Project folder, or a folder or file of tests. Default: the workspace root.
    #[serde(default)]
    pub path: Option<String>,
    /// Only tests whose name matches, as the framework defines it.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub filter: Option<String>,
    /// Framework, if the folder has several.
    #[serde(default)]
    pub framework: Option<Framework>,
    /// Measure coverage.
    #[serde(default)]
    pub coverage: bool,
    /// Seconds. Default: 600.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u32>,
}

/// Default time limit. Test runs often compile first.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Result of a run, which also sets the exit code of the output, as `exec` does.
#[derive(Debug)]
pub struct Reported(Worded<TestReport>);

impl IntoOutput for Reported {
    fn schema() -> Option<Value> {
        Worded::<TestReport>::schema()
    }

    fn into_output(self) -> Result<Output> {
        let code = self.0.value.exit_code;
        Ok(self.0.into_output()?.exit_code(code))
    }
}

impl Tool for RunTests {
    type Output = Reported;
    const GROUP: Group = Group::Runtime;
    const TITLE: Option<&'static str> = Some("Run tests");
    const RISK: Risk = Risk::Medium;
    const HINTS: Hints = Hints::NONE.destructive();

    fn needs() -> Needs {
        TestCommand::PATTERNS
            .iter()
            .fold(Needs::none(), |needs, pattern| {
                needs.command(*pattern, "to run tests")
            })
            .write(".", "for the tests to work on")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let (project, command) = self.plan(cx)?;
        let framework = project.framework;
        let limit = self
            .timeout
            .map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.into()));
        let stale = reports::junit_xml::existing_reports(cx.workspace(), &project);
        let mut run = Command::new(command.words[0].clone())
            .args(command.words[1..].iter().cloned())
            .timeout(limit);
        if !project.folder.is_empty() {
            run = run.directory(project.folder.clone());
        }
        let finished = run
            .run()
            .map_err(|error| missing_program::explain(error, &command.words[0]))?;
        let mapper = PathMapper::new(cx.workspace(), &project.folder);
        let mut report = TestReport::default();
        framework.as_str().clone_into(&mut report.framework);
        report.command = command.line();
        report.exit_code = finished.exit_code;
        report.duration_ms = u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX);
        report.truncated = finished.truncated;
        check_installed(&project, &finished)?;
        if framework == Framework::Maven {
            reports::junit_xml::read_new_reports(cx.workspace(), &project, &stale, &mut report);
        }
        reports::read_output(&project, &finished, &mapper, &mut report);
        if finished.truncated && framework != Framework::Maven {
            // The middle of the output is missing, and with it an unknown number of results.
            (report.passed, report.failed, report.skipped) = (None, None, None);
        }
        let output = reports::plain_text(&finished.combined);
        let mut text = report.describe(&output);
        if let Some(note) = project.note(self.framework) {
            text.push_str(&format!("\n\n{note}"));
        }
        Ok(Reported(Json(report).worded(text)))
    }
}

impl RunTests {
    fn plan(&self, cx: &Context) -> Result<(TestProject, TestCommand)> {
        let path = self.path.as_deref().unwrap_or(".");
        let project = TestProject::find(cx, path, self.framework)?;
        let filter = self.filter.as_deref();
        let command = TestCommand::new(cx, &project, filter, self.coverage)?;
        Ok((project, command))
    }
}

impl Assess for RunTests {
    fn assess(&self, cx: &Context) -> Assessment {
        match self.plan(cx) {
            Ok((project, command)) => {
                let folder = match project.folder.as_str() {
                    "" => "the workspace".to_owned(),
                    folder => format!("`{}`", text::brief(folder)),
                };
                let line = command.line();
                Assessment::ask(format!("run the tests of {folder}: {}", text::brief(&line)))
                    .because("runs the project's code in the sandbox of commands")
            }
            // The call plans again when it runs, and may then find what is missing now.
            Err(error) => Assessment::ask(error.to_string()),
        }
    }
}

/// Fails if the output says that the framework itself is missing.
fn check_installed(project: &TestProject, finished: &Finished) -> Result<()> {
    let output = reports::plain_text(&finished.combined);
    let is_missing = match project.framework {
        Framework::Pytest => output.contains("No module named pytest"),
        _ => false,
    };
    if !is_missing {
        let needs_plugin = project.framework == Framework::Pytest
            && output.contains("unrecognized arguments: --cov");
        if needs_plugin {
            return Err(Error::unavailable(
                "coverage needs the package pytest-cov, which is not installed for this Python: install it, or leave out `coverage`",
            ));
        }
        return Ok(());
    }
    Err(Error::unavailable(format_args!(
        "{} is not installed for this project: run `python3 -m venv .venv && .venv/bin/pip install pytest`, or set \
         `framework`",
        project.framework.as_str()
    )))
}
