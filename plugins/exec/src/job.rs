//! Reports of background commands, shared by several tools.

use mimir_sdk::commands::Job;
use mimir_sdk::prelude::*;
use mimir_sdk::text;

/// Exit code of a command that was stopped at its time limit, as in `timeout`.
const TIMEOUT_EXIT_CODE: i32 = 124;

/// State of a background command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobReport {
    /// Job number.
    pub job: u32,
    /// The command as requested.
    pub command: String,
    /// True while the command runs.
    pub running: bool,
    /// Exit code, once the command has ended; 124 if it was stopped at its time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Run time so far, or the total once the command has ended, in milliseconds.
    pub duration: u64,
}

impl From<Job> for JobReport {
    fn from(job: Job) -> Self {
        Self {
            job: job.id,
            command: job.command,
            running: job.exit_code.is_none(),
            exit_code: job.exit_code,
            duration: u64::try_from(job.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl JobReport {
    /// Describes the job in one line.
    pub fn line(&self) -> String {
        let time = match self.duration {
            short @ ..10_000 => format!("{}.{} s", short / 1_000, short % 1_000 / 100),
            long => format!("{} s", long / 1_000),
        };
        let state = match self.exit_code {
            Some(TIMEOUT_EXIT_CODE) => format!("stopped after {time}, at its time limit (124)"),
            Some(code) => format!("ended with {code} after {time}"),
            None => format!("running for {time}"),
        };
        format!("job {}: {state}: {}", self.job, text::brief(&self.command))
    }
}

/// Finds a job of this session by its number.
pub fn find(id: u32) -> Result<JobReport> {
    let jobs = mimir_sdk::commands::jobs()?;
    let known: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    match jobs.into_iter().find(|job| job.id == id) {
        Some(job) => Ok(job.into()),
        None if known.is_empty() => Err(Error::not_found(format_args!(
            "job {id} does not exist: this session has started no background commands"
        ))),
        None => Err(Error::not_found(format_args!(
            "job {id} does not exist; jobs of this session: {}",
            known.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_line_shows_the_state() {
        let mut report = JobReport {
            job: 3,
            command: "npm run\ndev".into(),
            running: true,
            exit_code: None,
            duration: 61_500,
        };
        assert_eq!(report.line(), r#"job 3: running for 61 s: "npm run\ndev""#);
        report.exit_code = Some(143);
        assert!(
            report
                .line()
                .starts_with("job 3: ended with 143 after 61 s")
        );
        (report.exit_code, report.duration) = (Some(TIMEOUT_EXIT_CODE), 1_090);
        assert!(
            report
                .line()
                .starts_with("job 3: stopped after 1.0 s, at its time limit (124)")
        );
    }
}
