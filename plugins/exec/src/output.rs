//! `exec_output`.

use std::time::{Duration, Instant};

use mimir_sdk::commands;
use mimir_sdk::prelude::*;

use crate::{job, report};

/// Shows the output of a background command that `exec` started.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecOutput {
    /// Job number.
    pub job: u32,
    /// Byte offset to start from: the `next` of an earlier result. Default: 0.
    #[serde(default)]
    pub from: u64,
    /// Seconds to wait for new output or for the end of the job. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 50))]
    pub wait: u32,
}

/// Output of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// Job number.
    pub job: u32,
    /// Stdout and stderr in the order of arrival, without terminal codes.
    pub output: String,
    /// Byte offset of the next chunk.
    pub next: u64,
    /// True if output is missing: it was dropped before this call read it, or left out of the middle.
    pub truncated: bool,
    /// True while the job runs.
    pub running: bool,
    /// Exit code, once the job has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Poll interval while waiting for output.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Tool for ExecOutput {
    type Output = Worded<Written>;
    const GROUP: Group = Group::Runtime;
    const TITLE: Option<&'static str> = Some("Output of a background job");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only();

    fn needs() -> Needs {
        Needs::none().command("*", "to see the output of commands that `exec` has started")
    }

    fn run(self, _: &Context) -> Result<Self::Output> {
        let until = Instant::now() + Duration::from_secs(self.wait.into());
        let (state, chunk) = loop {
            // The state is read first, so that the chunk includes everything that was written before the end.
            let state = job::find(self.job)?;
            let chunk = commands::output(self.job, self.from)?;
            if !chunk.data.is_empty() || !state.running || Instant::now() >= until {
                break (state, chunk);
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        let cut = report::truncate(&report::render_as_terminal(&chunk.data), report::MAX_TEXT);
        let mut text = String::new();
        if chunk.missing > 0 {
            let note = format!(
                "[… {} earlier bytes are no longer stored …]\n",
                chunk.missing
            );
            text.push_str(&note);
        }
        text.push_str(&cut.text);
        let end = match state.exit_code {
            Some(code) => format!("(job {} has ended with exit code {code})", self.job),
            None => format!(
                "(job {} is still running; continue from {})",
                self.job, chunk.next
            ),
        };
        report::push_line(&mut text, &end);
        let written = Written {
            job: self.job,
            output: cut.text,
            next: chunk.next,
            truncated: cut.is_truncated || chunk.missing > 0,
            running: state.running,
            exit_code: state.exit_code,
        };
        Ok(Json(written).worded(text))
    }
}
