//! The outcome of a recorded call in one word, and the cause of a call that was stopped.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::ToolErrorCode;

/// The outcome of a recorded call, as people search for it. Derived from the facts of its line, so that all lists, filters
/// and figures agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    /// The tool completed.
    Ok,
    /// A rule, a person, a missing permission or the kill switch refused the call or a part of it.
    Refused,
    /// A person, the client, the kill switch or a change of the rules ended the call while it waited or ran.
    Stopped,
    /// The call reached a limit of time, memory, calls or another resource.
    Limited,
    /// Something that the call needs was not available, or its process was lost.
    Unavailable,
    /// The arguments were not valid, or the tool failed.
    Failed,
}

impl OutcomeKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [OutcomeKind; 6] = [
        OutcomeKind::Ok,
        OutcomeKind::Refused,
        OutcomeKind::Stopped,
        OutcomeKind::Limited,
        OutcomeKind::Unavailable,
        OutcomeKind::Failed,
    ];

    /// Derives the outcome from the facts of a call.
    ///
    /// ```
    /// use mimir_core::ToolErrorCode;
    /// use mimir_core::audit::{OutcomeKind, StopCause};
    ///
    /// let denied = Some(ToolErrorCode::ApprovalDenied);
    /// assert_eq!(OutcomeKind::derive(false, denied, None), OutcomeKind::Refused);
    /// let stopped = Some(StopCause::KillSwitch);
    /// let code = Some(ToolErrorCode::Unavailable);
    /// assert_eq!(OutcomeKind::derive(false, code, stopped), OutcomeKind::Stopped);
    /// ```
    pub const fn derive(ok: bool, code: Option<ToolErrorCode>, stop: Option<StopCause>) -> Self {
        if ok {
            return OutcomeKind::Ok;
        }
        match stop {
            Some(StopCause::KillSwitch | StopCause::LostRights) => return OutcomeKind::Stopped,
            Some(StopCause::AllStopped) => return OutcomeKind::Refused,
            None => {}
        }
        match code {
            Some(
                ToolErrorCode::PermissionDenied
                | ToolErrorCode::ApprovalDenied
                | ToolErrorCode::PolicyDenied,
            ) => OutcomeKind::Refused,
            Some(ToolErrorCode::Cancelled) => OutcomeKind::Stopped,
            Some(ToolErrorCode::Timeout | ToolErrorCode::LimitExceeded) => OutcomeKind::Limited,
            Some(ToolErrorCode::Unavailable) => OutcomeKind::Unavailable,
            Some(
                ToolErrorCode::InvalidInput
                | ToolErrorCode::InvalidPath
                | ToolErrorCode::NotFound
                | ToolErrorCode::FileNotFound
                | ToolErrorCode::AlreadyExists
                | ToolErrorCode::Network
                | ToolErrorCode::ExecutionError
                | ToolErrorCode::Internal,
            )
            | None => OutcomeKind::Failed,
        }
    }

    /// Derives the outcome from the texts of a recorded line. Unknown codes and causes, which a newer version may have
    /// written, do not count.
    pub fn from_record(ok: bool, code: Option<&str>, stop: Option<&str>) -> Self {
        let code = code.and_then(|text| {
            let mut codes = ToolErrorCode::ALL.into_iter();
            codes.find(|code| code.as_str() == text)
        });
        let stop = stop.and_then(|text| {
            let mut causes = StopCause::ALL.into_iter();
            causes.find(|cause| cause.as_str() == text)
        });
        Self::derive(ok, code, stop)
    }

    /// Parses a name. Returns `None` for other names.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the name used in filters and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            OutcomeKind::Ok => "ok",
            OutcomeKind::Refused => "refused",
            OutcomeKind::Stopped => "stopped",
            OutcomeKind::Limited => "limited",
            OutcomeKind::Unavailable => "unavailable",
            OutcomeKind::Failed => "failed",
        }
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The cause of a call's end that its error code does not tell. The spelling is part of the log format and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopCause {
    /// All calls were stopped while this one waited or ran.
    KillSwitch,
    /// The call arrived while all calls were stopped.
    AllStopped,
    /// The tool was removed, or has lost rights that the call needs, while the call waited or ran.
    LostRights,
}

impl StopCause {
    /// Every cause.
    pub const ALL: [StopCause; 3] = [
        StopCause::KillSwitch,
        StopCause::AllStopped,
        StopCause::LostRights,
    ];

    /// Returns the spelling in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            StopCause::KillSwitch => "kill-switch",
            StopCause::AllStopped => "all-stopped",
            StopCause::LostRights => "lost-rights",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_kind_of_each_error_code() {
        use OutcomeKind::{Failed, Limited, Ok, Refused, Stopped, Unavailable};
        let expected = [
            ("INVALID_INPUT", Failed),
            ("INVALID_PATH", Failed),
            ("NOT_FOUND", Failed),
            ("FILE_NOT_FOUND", Failed),
            ("ALREADY_EXISTS", Failed),
            ("PERMISSION_DENIED", Refused),
            ("APPROVAL_DENIED", Refused),
            ("POLICY_DENIED", Refused),
            ("TIMEOUT", Limited),
            ("CANCELLED", Stopped),
            ("LIMIT_EXCEEDED", Limited),
            ("NETWORK", Failed),
            ("EXECUTION_ERROR", Failed),
            ("UNAVAILABLE", Unavailable),
            ("INTERNAL", Failed),
        ];
        let codes: Vec<&str> = ToolErrorCode::ALL.map(ToolErrorCode::as_str).to_vec();
        assert_eq!(codes, expected.map(|(code, _)| code));
        for (code, kind) in expected {
            assert_eq!(
                OutcomeKind::from_record(false, Some(code), None),
                kind,
                "{code}"
            );
            assert_eq!(OutcomeKind::from_record(true, Some(code), None), Ok);
        }
        assert_eq!(
            OutcomeKind::from_record(false, Some("NEWER"), Some("newer")),
            Failed
        );
        assert_eq!(OutcomeKind::from_record(false, None, None), Failed);
    }

    #[test]
    fn outcome_kind_of_stopped_calls_is_not_that_of_their_code() {
        let of = |code, stop| OutcomeKind::from_record(false, Some(code), Some(stop));
        assert_eq!(of("UNAVAILABLE", "kill-switch"), OutcomeKind::Stopped);
        assert_eq!(of("UNAVAILABLE", "all-stopped"), OutcomeKind::Refused);
        assert_eq!(of("POLICY_DENIED", "lost-rights"), OutcomeKind::Stopped);
    }

    #[test]
    fn outcome_and_cause_names_are_those_of_their_json_form() {
        for kind in OutcomeKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(OutcomeKind::parse(kind.as_str()), Some(kind));
        }
        for cause in StopCause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
        assert_eq!(OutcomeKind::parse("OK"), None);
    }
}
