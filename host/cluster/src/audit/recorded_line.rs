//! The members of a line that the cluster acts on.

use std::borrow::Cow;

use mimir_core::audit::EventKind;
use serde::Deserialize;

/// A line of the log, as far as the cluster acts on it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedLine<'a> {
    #[serde(borrow, default)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) subject: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) detail: Cow<'a, str>,
    /// The workspace of the process, in the first line of its writer.
    #[serde(borrow, default)]
    pub(crate) workspace: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) ok: bool,
    #[serde(borrow, default)]
    pub(crate) code: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) may_have_run: bool,
}

impl<'a> RecordedLine<'a> {
    /// Parses a line without its line end. Returns `None` if it is not JSON with these members.
    pub(crate) fn read(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    fn is(&self, kind: EventKind) -> bool {
        self.event == kind.as_str()
    }

    /// Returns true for the outcome of a call.
    pub(crate) fn is_outcome(&self) -> bool {
        self.is(EventKind::Call)
    }

    /// Returns true for the announcement of a call.
    pub(crate) fn is_announcement(&self) -> bool {
        self.is(EventKind::Announced)
    }

    /// Returns true for the first line of a writer.
    pub(crate) fn is_opened(&self) -> bool {
        self.is(EventKind::Opened)
    }

    /// Returns true for the last line of a writer.
    pub(crate) fn is_closed(&self) -> bool {
        self.is(EventKind::Closed)
    }
}
