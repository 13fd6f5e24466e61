//! Conversations, as they are stored.

use std::borrow::Cow;

use mimir_core::outcome::ContentLabel;
use mimir_core::redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::image::limit_images;
use crate::message::Message;
use crate::task_usage::TaskUsage;

/// The messages and the usage of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Conversation {
    /// Unique id, used as the pipeline session and as the file name.
    pub id: String,
    /// The model of the last task, as `PROVIDER/MODEL`.
    pub model: String,
    /// All messages, also those that a summary stands for.
    pub messages: Vec<Message>,
    /// The summaries, the oldest first. The newest is sent in place of the messages that it covers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<ConversationSummary>,
    /// The worker of the task, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Total usage of the conversation.
    pub spent: TaskUsage,
    /// The worst taint label of everything that the conversation has read, as of the last save.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ContentLabel>,
}

/// A summary of the older part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationSummary {
    /// The text that is sent in place of the messages: the user's words and the model's summary.
    pub text: String,
    /// Number of messages, from the first one, that the summary covers.
    pub messages: usize,
    /// The label of everything that the conversation had read when the summary was written.
    pub label: ContentLabel,
}

/// Maximum size of the stored images of a conversation, in base64. Older images are not stored.
const MAX_STORED_IMAGE_BYTES: usize = 8_000_000;

/// Result text of a call that was stopped before it ended.
pub(crate) const STOPPED: &str =
    "CANCELLED: the user stopped this call before it ended; it may be partly done";

impl Conversation {
    /// Creates an empty conversation.
    pub fn new(id: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            model: model.into(),
            ..Self::default()
        }
    }

    /// Returns the model's last non-empty text; empty if there is none.
    pub fn last_reply(&self) -> &str {
        let mut messages = self.messages.iter().rev();
        let reply = messages.find_map(|message| match message {
            Message::Assistant { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        });
        reply.unwrap_or_default()
    }

    /// Returns the taint label for a resumed conversation. Without a stored label, the worst label is assumed.
    pub fn restored_label(&self) -> ContentLabel {
        let unknown = || ContentLabel::worst("an earlier part of the conversation");
        self.read.clone().unwrap_or_else(unknown)
    }

    /// Adds a `CANCELLED` result for each call of the last reply that has no result, because providers reject a call
    /// without one.
    pub fn answer_open_calls(&mut self) {
        let last = self
            .messages
            .iter()
            .rposition(|message| matches!(message, Message::Assistant { .. }));
        let Some((Message::Assistant { calls, .. }, after)) =
            last.and_then(|at| self.messages[at..].split_first())
        else {
            return;
        };
        let has_result = |call_id: &str| {
            after
                .iter()
                .any(|message| matches!(message, Message::Tool { id, .. } if id == call_id))
        };
        let missing: Vec<Message> = calls
            .iter()
            .filter(|call| !has_result(&call.id))
            .map(|call| Message::Tool {
                id: call.id.clone(),
                name: call.name.clone(),
                text: STOPPED.to_owned(),
                failed: true,
                images: Vec::new(),
            })
            .collect();
        // Results have to follow their calls directly.
        let results = after
            .iter()
            .take_while(|message| matches!(message, Message::Tool { .. }))
            .count();
        let at = last.unwrap_or_default() + 1 + results;
        self.messages.splice(at..at, missing);
    }

    /// Returns the messages to send: the newest summary and the messages after it, or all messages.
    pub fn sent_messages(&self) -> Cow<'_, [Message]> {
        sent_messages(&self.messages, &self.summaries)
    }

    /// Returns a copy with all secrets masked, for storage. It has only the newest images if there are many.
    pub fn masked(&self, redactor: &Redactor) -> Self {
        let mut copy = self.clone();
        limit_images(
            &mut copy.messages,
            usize::MAX,
            MAX_STORED_IMAGE_BYTES,
            u64::MAX,
        );
        for summary in &mut copy.summaries {
            redactor.mask_text(&mut summary.text);
        }
        for message in &mut copy.messages {
            match message {
                Message::User { text, .. } | Message::Tool { text, .. } => {
                    redactor.mask_text(text);
                }
                Message::Assistant { text, calls } => {
                    redactor.mask_text(text);
                    for call in calls {
                        redactor.mask_text(&mut call.arguments);
                    }
                }
            }
        }
        copy
    }
}

/// Returns the newest summary followed by the messages that it does not cover, or all messages without a summary. The
/// last message of the user is always among them.
pub(crate) fn sent_messages<'a>(
    all: &'a [Message],
    summaries: &[ConversationSummary],
) -> Cow<'a, [Message]> {
    let Some(summary) = summaries.last() else {
        return Cow::Borrowed(all);
    };
    let (covered, rest) = all.split_at(summary.messages.min(all.len()));
    let is_user = |message: &&Message| matches!(message, Message::User { .. });
    let mut sent = vec![Message::user(summary.text.as_str())];
    if !rest.iter().any(|message| is_user(&message)) {
        sent.extend(covered.iter().rfind(is_user).cloned());
    }
    sent.extend_from_slice(rest);
    Cow::Owned(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;
    use mimir_core::outcome::{DataClass, TrustLevel};

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.into(),
            name: "git".into(),
            ..ToolCall::default()
        }
    }

    #[test]
    fn conversation_answers_interrupted_calls_once() {
        let mut conversation = Conversation::new("c", "m");
        conversation.answer_open_calls();
        conversation.messages = vec![
            Message::user("do"),
            Message::Assistant {
                text: "I do".into(),
                calls: vec![call("a"), call("b")],
            },
            Message::Tool {
                id: "a".into(),
                name: "git".into(),
                text: "ok".into(),
                failed: false,
                images: Vec::new(),
            },
            Message::user("what?"),
        ];
        conversation.answer_open_calls();
        assert!(
            matches!(&conversation.messages[3], Message::Tool { id, failed: true, .. } if id == "b"),
            "{conversation:?}"
        );
        let before = conversation.clone();
        conversation.answer_open_calls();
        assert_eq!(conversation, before);
    }

    #[test]
    fn conversation_without_a_label_is_untrusted_and_sensitive() {
        let mut conversation = Conversation::new("c", "m");
        assert_eq!(conversation.restored_label().trust, TrustLevel::Untrusted);
        assert_eq!(
            conversation.restored_label().data_class,
            DataClass::Sensitive
        );
        let clean = ContentLabel {
            trust: TrustLevel::System,
            data_class: DataClass::Public,
            origin: String::new(),
        };
        conversation.read = Some(clean.clone());
        assert_eq!(conversation.restored_label(), clean);
    }

    #[test]
    fn conversation_is_stored_with_secrets_masked() {
        let mut conversation = Conversation::new("c", "m");
        let mut call_with_secret = call("a");
        call_with_secret.arguments = "{\"x\":\"hunter2-value\"}".into();
        conversation.messages = vec![
            Message::user("it is hunter2-value"),
            Message::Assistant {
                text: "hunter2-value".into(),
                calls: vec![call_with_secret],
            },
        ];
        let redactor = Redactor::new().with_values([("KEY", "hunter2-value")]);
        let text = serde_json::to_string(&conversation.masked(&redactor)).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(serde_json::from_str::<Conversation>(&text).is_ok());
    }
}
