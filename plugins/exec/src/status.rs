//! `exec_status`.

use mimir_sdk::commands;
use mimir_sdk::prelude::*;

use crate::job::{self, JobReport};

/// Reports the state of the background commands that `exec` started.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecStatus {
    /// Job number. Default: all jobs of this session.
    #[serde(default)]
    pub job: Option<u32>,
}

/// The jobs of this session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Jobs {
    /// The requested jobs.
    pub jobs: Vec<JobReport>,
}

impl Tool for ExecStatus {
    type Output = Worded<Jobs>;
    const GROUP: Group = Group::Runtime;
    const TITLE: Option<&'static str> = Some("Background jobs");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    fn needs() -> Needs {
        Needs::none().command("*", "to see the commands that `exec` has started")
    }

    fn run(self, _: &Context) -> Result<Self::Output> {
        let jobs: Vec<JobReport> = match self.job {
            Some(id) => vec![job::find(id)?],
            None => commands::jobs()?.into_iter().map(JobReport::from).collect(),
        };
        let lines: Vec<String> = jobs.iter().map(JobReport::line).collect();
        let text = if lines.is_empty() {
            "this session has started no background commands".to_owned()
        } else {
            lines.join("\n")
        };
        Ok(Json(Jobs { jobs }).worded(text))
    }
}
