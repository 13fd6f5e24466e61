//! `exec_stop`.

use mimir_sdk::commands;
use mimir_sdk::prelude::*;

use crate::job::{self, JobReport};

/// Ends a background command that `exec` started, including its child processes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecStop {
    /// Job number.
    pub job: u32,
}

impl Tool for ExecStop {
    type Output = Worded<JobReport>;
    const GROUP: Group = Group::Runtime;
    const TITLE: Option<&'static str> = Some("Stop a background job");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.idempotent();

    fn needs() -> Needs {
        Needs::none().command("*", "to stop the commands that `exec` has started")
    }

    fn run(self, _: &Context) -> Result<Self::Output> {
        job::find(self.job)?;
        let report = JobReport::from(commands::stop(self.job)?);
        let text = report.line();
        Ok(Json(report).worded(text))
    }
}
