//! `mimir tools test`: builds a plugin without installing it, runs its unit tests, and calls it as `cases.yml` says.

use std::path::Path;
use std::time::Duration;

use anstyle::Style;
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use serde::Serialize;

use super::call::wait_for_interrupt;
use super::tools_build::{self, BuildContext, BuiltComponent, PluginFolder, within_time_limit};
use crate::args::{GlobalOptions, ToolsTestArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{BAD, FAINT, GOOD, ResultPrinter, styled};
use mimir::setup::HostSetup;

mod case_run;
mod cases;
mod unit_tests;

use case_run::{CaseReport, CaseRunner};
use cases::{CASES_FILE, PluginCase};
use unit_tests::UnitTestReport;

/// Selected tests of a plugin.
pub struct TestSelection {
    cases: Vec<PluginCase>,
    has_unit_tests: bool,
    network: bool,
}

/// Results of the tests of a plugin.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginTestReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    unit_tests: Option<UnitTestReport>,
    cases: Vec<CaseReport>,
    passed: usize,
    failed: usize,
}

/// Builds and tests a plugin.
pub async fn run(globals: &GlobalOptions, args: &ToolsTestArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let folder = PluginFolder::find(&args.plugin.dir, args.plugin.lang)?;
    // A mistake in the cases is reported before a build that takes minutes.
    let selection = TestSelection::read(&folder, &args.cases, args.network)?;
    let cx = BuildContext::new(&setup, printer, args.network)?;
    let tested = async {
        let component = tools_build::build(&cx, &folder).await?;
        component.print_notes();
        selection.run(&cx, &folder, &component, printer).await
    };
    let report = tokio::select! {
        report = tested => report?,
        // Dropping the future stops the compiler and the call.
        exit = wait_for_interrupt() => {
            let error = ToolError::new(ToolErrorCode::Cancelled, "the tests were stopped");
            return Err(CommandFailure::with_exit(error, exit));
        }
    };
    report.print_summary(printer)?;
    Ok(ExitReason::done_if(report.failed == 0))
}

/// Calls a component that was built earlier as the `cases.yml` in the folder of its plugin says, without network. Prints
/// nothing. `None` if the folder has no cases.
pub async fn run_cases(
    setup: &HostSetup,
    folder: &Path,
    component: &BuiltComponent,
) -> CommandResult<Option<PluginTestReport>> {
    let cases = cases::read_cases(folder)?;
    if cases.is_empty() {
        return Ok(None);
    }
    let runner = CaseRunner {
        component,
        cache: setup.user_dirs.cache.clone(),
        settings: setup.settings.for_test_cases(false)?,
    };
    let silent = ResultPrinter::new(true);
    let mut report = PluginTestReport::default();
    for case in &cases {
        let result = runner.run(case).await?;
        report.count(
            silent,
            result.passed,
            (&*result.name, result.duration_ms),
            None,
        )?;
        report.cases.push(result);
    }
    Ok(Some(report))
}

impl TestSelection {
    /// Reads the cases of a plugin. If `names` is not empty, only these cases run, and no unit tests.
    pub fn read(folder: &PluginFolder, names: &[String], network: bool) -> CommandResult<Self> {
        let mut cases = cases::read_cases(&folder.root)?;
        for name in names {
            if !cases.iter().any(|case| case.name == *name) {
                let known = cases.iter().map(|case| case.name.as_str());
                let hint = did_you_mean(name, known);
                let name = visible(name);
                return Err(CommandFailure::usage(format!(
                    "{CASES_FILE} has no case named `{name}`.{hint}"
                )));
            }
        }
        if !names.is_empty() {
            cases.retain(|case| names.contains(&case.name));
        }
        Ok(Self {
            cases,
            has_unit_tests: names.is_empty(),
            network,
        })
    }

    /// Runs the tests, and prints a line for each as it ends.
    pub async fn run(
        &self,
        cx: &BuildContext<'_>,
        folder: &PluginFolder,
        component: &BuiltComponent,
        printer: ResultPrinter,
    ) -> CommandResult<PluginTestReport> {
        let mut report = PluginTestReport::default();
        if self.has_unit_tests
            && let Some(unit_tests) =
                within_time_limit("the unit tests", unit_tests::run(cx, folder)).await?
        {
            let line = (&*unit_tests.runner, unit_tests.duration_ms);
            report.count(printer, unit_tests.passed, line, None)?;
            report.unit_tests = Some(unit_tests);
        }
        let runner = CaseRunner {
            component,
            cache: cx.setup.user_dirs.cache.clone(),
            settings: cx.setup.settings.for_test_cases(self.network)?,
        };
        for case in &self.cases {
            let result = runner.run(case).await?;
            let line = (&*result.name, result.duration_ms);
            report.count(printer, result.passed, line, result.difference.as_deref())?;
            report.cases.push(result);
        }
        Ok(report)
    }
}

impl PluginTestReport {
    /// Returns the name of each case, with true for a passed one.
    pub fn case_results(&self) -> Vec<(String, bool)> {
        let cases = self.cases.iter();
        cases.map(|case| (case.name.clone(), case.passed)).collect()
    }

    /// Returns true if no test failed.
    pub fn is_passed(&self) -> bool {
        self.failed == 0
    }

    /// Counts a test and prints its line: its name, its duration in milliseconds, and below it what differs.
    fn count(
        &mut self,
        printer: ResultPrinter,
        passed: bool,
        (name, duration_ms): (&str, f64),
        difference: Option<&str>,
    ) -> CommandResult<()> {
        let (style, word): (Style, &str) = if passed {
            (GOOD, "PASS")
        } else {
            (BAD, "FAIL")
        };
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
        if printer.is_json() {
            return Ok(());
        }
        let duration = Duration::try_from_secs_f64(duration_ms / 1_000.0).unwrap_or_default();
        printer.print_result(&(), |out| {
            let duration = styled(FAINT, format_args!("({})", shown_duration(duration)));
            writeln!(out, "{} {} {duration}", styled(style, word), visible(name))?;
            for line in difference.unwrap_or_default().lines() {
                writeln!(out, "  {line}")?;
            }
            Ok(())
        })
    }

    /// Prints the number of passed and failed tests, or the whole report as JSON.
    pub fn print_summary(&self, printer: ResultPrinter) -> CommandResult<()> {
        printer.print_result(self, |out| {
            let Self { passed, failed, .. } = self;
            match (passed, failed) {
                (0, 0) => writeln!(
                    out,
                    "no tests: the plugin was built, but it has neither unit tests nor {CASES_FILE}"
                ),
                (_, 0) => writeln!(out, "{} {passed} passed", styled(GOOD, "ok:")),
                _ => writeln!(
                    out,
                    "{} {passed} passed, {failed} failed",
                    styled(BAD, "failed:")
                ),
            }
        })
    }
}

/// Formats a duration, such as `4 ms` or `1.3 s`.
fn shown_duration(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::PluginLanguage;

    fn plugin_folder(cases: &str) -> (tempfile::TempDir, PluginFolder) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tool.ts"), "").unwrap();
        std::fs::write(dir.path().join(CASES_FILE), cases).unwrap();
        let folder = PluginFolder::find(dir.path(), Some(PluginLanguage::TypeScript)).unwrap();
        (dir, folder)
    }

    #[test]
    fn tools_test_selects_cases_by_name() {
        let (_dir, folder) =
            plugin_folder("- {name: greets, call: a}\n- {name: refuses, call: a}\n");
        let all = TestSelection::read(&folder, &[], false).unwrap();
        assert_eq!(all.cases.len(), 2);
        assert!(all.has_unit_tests);
        let one = TestSelection::read(&folder, &["refuses".to_owned()], false).unwrap();
        assert_eq!(one.cases[0].name, "refuses");
        assert_eq!(one.cases.len(), 1);
        assert!(!one.has_unit_tests);
        let unknown = TestSelection::read(&folder, &["refuse".to_owned()], false);
        let message = unknown.err().unwrap().to_string();
        assert!(
            message.contains("no case named `refuse`. Did you mean `refuses`?"),
            "{message}"
        );
    }

    #[test]
    fn tools_test_durations_have_units() {
        assert_eq!(shown_duration(Duration::from_micros(4_600)), "4 ms");
        assert_eq!(shown_duration(Duration::from_millis(1_340)), "1.3 s");
    }
}
