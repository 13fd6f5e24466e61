//! The history of a run: calls as clients saw them, the audit record, effects in workspaces, and answers to approvals.

use std::collections::BTreeMap;

use serde_json::Value;

/// The tools of the test workspace, by the promise that the cluster makes about their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TestTool {
    /// `read_file`: may run any number of times.
    Read,
    /// `write_file` with fixed content: may run any number of times.
    Write,
    /// `record_effect`: leaves a file for each run, so that a second run is visible.
    Effect,
    /// `approved_effect`: like `record_effect`, after an approval for this call.
    Approved,
    /// `limited_effect`: like `record_effect`, limited per minute.
    Limited,
    /// `untrusted_text`: returns a text that makes its session untrusted.
    Untrusted,
    /// `guarded_effect`: asks if its session has read untrusted text; the clients of this tool cannot answer.
    Guarded,
    /// `busy_work`: computes for some milliseconds. For figures only.
    Work,
}

impl TestTool {
    /// All tools.
    pub const ALL: [TestTool; 8] = [
        TestTool::Read,
        TestTool::Write,
        TestTool::Effect,
        TestTool::Approved,
        TestTool::Limited,
        TestTool::Untrusted,
        TestTool::Guarded,
        TestTool::Work,
    ];

    /// Returns the name over MCP.
    pub fn name(self) -> &'static str {
        match self {
            TestTool::Read => "read_file",
            TestTool::Write => "write_file",
            TestTool::Effect => "record_effect",
            TestTool::Approved => "approved_effect",
            TestTool::Limited => "limited_effect",
            TestTool::Untrusted => "untrusted_text",
            TestTool::Guarded => "guarded_effect",
            TestTool::Work => "busy_work",
        }
    }

    /// Returns true if the cluster may run a call twice.
    pub fn is_repeatable(self) -> bool {
        matches!(self, TestTool::Read | TestTool::Write)
    }

    /// Returns true if each run leaves a file.
    pub fn has_effect(self) -> bool {
        matches!(
            self,
            TestTool::Effect | TestTool::Approved | TestTool::Limited | TestTool::Guarded
        )
    }
}

/// Result of an attempt, as the client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAnswer {
    /// The tool's result.
    Done {
        /// True if the result is labelled untrusted.
        untrusted: bool,
    },
    /// The error of the tool or of mimir, with its code.
    Failed {
        /// The code.
        code: String,
        /// `details.mayHaveRun`.
        may_have_run: bool,
        /// `details.recorded`.
        recorded: bool,
        /// The message.
        message: String,
    },
    /// A JSON-RPC error or an HTTP status of a server: the request was not accepted.
    Rejected(String),
    /// The connection failed, or the answer did not arrive in time: the client knows nothing.
    Unknown(String),
}

/// One attempt of a client to call a tool.
#[derive(Debug, Clone)]
pub struct CallAttempt {
    /// Number of the client.
    pub client: usize,
    /// Session of the client. Empty for clients without one.
    pub session: String,
    /// The tool.
    pub tool: TestTool,
    /// Id of the operation, which all attempts of a client share. Part of the arguments and of the effect.
    pub operation: String,
    /// Trace id of this attempt, in the audit record.
    pub trace: String,
    /// Start in milliseconds since the start of the run.
    pub start_ms: u64,
    /// End in milliseconds since the start of the run.
    pub end_ms: u64,
    /// The answer.
    pub answer: ClientAnswer,
}

impl CallAttempt {
    /// Returns true if the cluster has excluded that this attempt had or will have an effect.
    pub fn has_surely_not_run(&self) -> bool {
        match &self.answer {
            ClientAnswer::Done { .. } | ClientAnswer::Unknown(_) => false,
            ClientAnswer::Failed { may_have_run, .. } => !may_have_run,
            // Other statuses may be those of the proxy, which has lost a server in the middle of a call.
            ClientAnswer::Rejected(text) => text.starts_with("HTTP 4"),
        }
    }
}

/// The kind of a line of the audit record, as far as the checker needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A call is about to run.
    Announced,
    /// The outcome of a call.
    Outcome,
    /// The chain has ended.
    Closed,
    /// Any other event.
    Other,
}

/// A line of the audit record.
#[derive(Debug, Clone)]
pub struct RecordLine {
    /// The writer: a chain of its own.
    pub writer: String,
    /// Position in the chain.
    pub position: u64,
    /// The kind.
    pub kind: RecordKind,
    /// Id of the call.
    pub id: String,
    /// Trace id of the request. Empty if none was sent.
    pub trace: String,
    /// Tool of the call.
    pub tool: String,
    /// True if the call succeeded.
    pub ok: bool,
    /// The error code.
    pub code: Option<String>,
    /// True if the record says that a failed call may have run.
    pub may_have_run: bool,
    /// Time in milliseconds since 1970.
    pub time_ms: u64,
    /// Time from arrival to outcome in milliseconds, without waiting for approvals. `None` if it is not known.
    pub duration_ms: Option<u64>,
    /// The detail, for messages.
    pub detail: String,
    /// True if the call was made by another one.
    pub is_nested: bool,
}

impl RecordLine {
    /// Reads a line of a chain.
    pub fn parse(writer: &str, text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| format!("a line of {writer} is not JSON: {error}: {text}"))?;
        let text_of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let event = text_of("event");
        let kind = match event.as_str() {
            "call" => RecordKind::Outcome,
            "announced" => RecordKind::Announced,
            "closed" => RecordKind::Closed,
            _ => RecordKind::Other,
        };
        // `00-TRACE-SPAN-FLAGS`
        let trace = text_of("trace");
        let trace = trace.split('-').nth(1).unwrap_or_default().to_owned();
        Ok(Self {
            writer: writer.to_owned(),
            position: value["seq"].as_u64().unwrap_or_default(),
            kind,
            id: text_of("id"),
            trace,
            tool: text_of("tool"),
            ok: value["ok"].as_bool().unwrap_or_default(),
            code: value["code"].as_str().map(str::to_owned),
            may_have_run: value["mayHaveRun"] == true,
            time_ms: parse_time(&text_of("time")).unwrap_or_default(),
            duration_ms: value["durationMs"].as_f64().map(|ms| ms.ceil() as u64),
            detail: text_of("detail"),
            is_nested: value["parent"].is_string(),
        })
    }
}

/// Converts RFC 3339 in UTC with milliseconds to milliseconds since 1970.
fn parse_time(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let millis = number(20..23).unwrap_or(0);
    // Days since 1970 of a date of the Gregorian calendar, with years that begin in March.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (century, of_century) = (shifted / 100, shifted % 100);
    let month_index = (month + 9) % 12;
    let days = 146_097 * century / 4 + 1461 * of_century / 4 + (153 * month_index + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millis)
}

/// A run of a tool with an effect, as found in the workspace of a worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundEffect {
    /// The worker.
    pub worker: String,
    /// The operation.
    pub operation: String,
}

/// Everything that is known about a run.
#[derive(Debug, Clone, Default)]
pub struct RunHistory {
    /// The attempts of all clients.
    pub attempts: Vec<CallAttempt>,
    /// The audit record, in order within each writer.
    pub record: Vec<RecordLine>,
    /// The effects in the workspaces of all workers.
    pub effects: Vec<FoundEffect>,
    /// Number of `once` answers given for each operation.
    pub answers: BTreeMap<String, usize>,
    /// Calls per minute of the limited tool. `None` if it is not limited.
    pub calls_per_minute: Option<usize>,
    /// Errors of `mimir audit verify --cluster`. Empty if it passed.
    pub verify_errors: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_line_time_is_milliseconds_since_1970() {
        assert_eq!(parse_time("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(
            parse_time("2026-11-29T18:11:45.123Z"),
            Some(1_795_975_905_123)
        );
        assert_eq!(
            parse_time("2024-02-29T00:00:00.000Z"),
            Some(1_709_164_800_000)
        );
        assert_eq!(parse_time("yesterday"), None);
    }

    #[test]
    fn record_line_has_the_trace_id_of_the_request() {
        let line = r#"{"time":"2026-11-29T18:11:45.123Z","event":"call","id":"1-2-3","tool":"read_file","trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","ok":false,"code":"UNAVAILABLE","seq":7,"prev":"0"}"#;
        let line = RecordLine::parse("w", line).unwrap();
        assert_eq!(line.trace, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(
            (line.kind, line.position, line.ok),
            (RecordKind::Outcome, 7, false)
        );
        assert!(RecordLine::parse("w", "{").is_err());
    }
}
