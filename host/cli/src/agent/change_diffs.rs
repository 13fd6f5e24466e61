//! Shows what a call has changed in files, as a unified diff below the result of the call.

use std::io::IsTerminal as _;
use std::sync::Arc;

use mimir_agent::{AgentEvent, AgentEventSink, Conversation, ToolCall};
use mimir_core::call::CallObserver;
use mimir_core::redact::Vault;
use mimir_core::text::{prefix, visible};
use mimir_core::{BoxFuture, RequestId};

use crate::output::{BAD, FAINT, GOOD, STRONG, columns, note, styled};
use mimir::undo::{CallDiff, CallDiffKind, UndoStore};

/// Maximum number of lines shown per call.
const MAX_LINES: usize = 40;

/// Width of a tab.
const TAB: &str = "    ";

/// Indentation of a diff.
const INDENT: &str = "  ";

/// Source of the differences that calls have made.
pub struct ChangeDiffs {
    undo: UndoStore,
    vault: Arc<dyn Vault>,
}

impl ChangeDiffs {
    /// Creates a source over the undo records of a workspace. `vault` has the secrets to mask.
    pub fn new(undo: UndoStore, vault: Arc<dyn Vault>) -> Self {
        Self { undo, vault }
    }

    fn print(&self, request_id: &RequestId) {
        // Without the secrets to mask, nothing is shown.
        let Ok(redactor) = self.vault.redactor() else {
            return;
        };
        let diffs = self
            .undo
            .call_diffs(&request_id.to_string(), &redactor, MAX_LINES);
        let text: Vec<String> = diffs
            .iter()
            .map(|diff| format_diff(diff, columns()))
            .collect();
        if !text.is_empty() {
            note(text.join("\n"));
        }
    }
}

/// Event sink that forwards events, and shows the changed files of each call on a terminal.
pub struct DiffEventSink<'a> {
    events: &'a dyn AgentEventSink,
    /// `None` if stderr is not a terminal.
    diffs: Option<ChangeDiffs>,
}

impl<'a> DiffEventSink<'a> {
    /// Creates a sink in front of `events`. It only forwards events if stderr is not a terminal.
    pub fn new(events: &'a dyn AgentEventSink, diffs: ChangeDiffs) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self {
            events,
            diffs: is_terminal.then_some(diffs),
        }
    }
}

impl AgentEventSink for DiffEventSink<'_> {
    fn handle_event(&self, event: AgentEvent<'_>) {
        self.events.handle_event(event);
        if let (
            Some(diffs),
            AgentEvent::Result {
                request_id: Some(request_id),
                outcome: Some(outcome),
                ..
            },
        ) = (&self.diffs, event)
            && !outcome.receipt().cached
        {
            diffs.print(request_id);
        }
    }

    fn conversation_changed(&self, conversation: &Conversation) {
        self.events.conversation_changed(conversation);
    }

    fn observer(&self, call: &ToolCall) -> Arc<dyn CallObserver> {
        self.events.observer(call)
    }

    fn calls_stop_requested(&self) -> BoxFuture<'_, ()> {
        self.events.calls_stop_requested()
    }
}

/// Formats the difference of a file. Lines are cut to `width` characters.
fn format_diff(diff: &CallDiff, width: Option<usize>) -> String {
    let path = styled(STRONG, visible(&diff.path));
    let mut text = match diff.unknown {
        Some(reason) => {
            let reason = styled(FAINT, format_args!("(changed; {reason})"));
            format!("{INDENT}{path} {reason}")
        }
        None => format!(
            "{INDENT}{path} {} {}",
            styled(GOOD, format_args!("+{}", diff.added)),
            styled(BAD, format_args!("-{}", diff.removed))
        ),
    };
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT.len() + 1));
    for line in &diff.lines {
        let (style, sign) = match line.kind {
            CallDiffKind::Position => (FAINT, ""),
            CallDiffKind::Unchanged => (FAINT, " "),
            CallDiffKind::Added => (GOOD, "+"),
            CallDiffKind::Removed => (BAD, "-"),
        };
        let shown = visible(&line.text.replace('\t', TAB));
        let shown = format!("{sign}{shown}");
        let shown = prefix(&shown, room);
        text.push_str(&format!("\n{INDENT}{}", styled(style, shown)));
    }
    if diff.lines_left_out > 0 {
        let more = format_args!("… {} more lines", diff.lines_left_out);
        text.push_str(&format!("\n{INDENT}{}", styled(FAINT, more)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir::undo::CallDiffLine;

    #[test]
    fn diff_is_cut_to_the_terminal_and_has_no_control_characters() {
        let line = |kind, text: &str| CallDiffLine {
            kind,
            text: text.to_owned(),
        };
        let diff = CallDiff {
            path: "a\u{1b}[2J.txt".to_owned(),
            added: 2,
            removed: 1,
            lines: vec![
                line(CallDiffKind::Position, "@@ -1 +1,2 @@"),
                line(CallDiffKind::Removed, "\tone"),
                line(CallDiffKind::Added, &"two\u{1b}]0;title\u{7}\r".repeat(40)),
            ],
            lines_left_out: 3,
            unknown: None,
        };
        let text = anstream::adapter::strip_str(&format_diff(&diff, Some(30))).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  a.txt +2 -1");
        assert_eq!(lines[1..3], ["  @@ -1 +1,2 @@", "  -    one"]);
        assert!(lines[3].starts_with("  +two") && lines[3].chars().count() < 30);
        assert_eq!(lines[4], "  … 3 more lines");
        assert!(
            !text.chars().any(|c| c.is_control() && c != '\n'),
            "{text:?}"
        );
        let unknown = CallDiff {
            unknown: Some("it is not a text file"),
            lines: Vec::new(),
            lines_left_out: 0,
            ..diff
        };
        let text = anstream::adapter::strip_str(&format_diff(&unknown, None)).to_string();
        assert_eq!(text, "  a.txt (changed; it is not a text file)");
    }
}
