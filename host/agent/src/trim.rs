//! Selects the messages of a conversation to send: all if they fit, else the newest.
//!
//! Old images are removed first. Then old tool results are replaced by placeholders, and then whole rounds (a reply with
//! its tool results, or an earlier user message) are removed, in all cases the oldest first. The last user message and
//! the current round always stay.
//! The stored conversation remains complete.

use std::borrow::Cow;

use crate::image::SAVE_SPACE;
use crate::message::{Message, tokens};

/// The messages to send.
#[derive(Debug, PartialEq)]
pub(crate) struct TrimmedConversation<'a> {
    /// The messages in their original order, without the removed ones.
    pub messages: Cow<'a, [Message]>,
    /// Number of messages shortened or left out.
    pub left_out: usize,
    /// Estimated number of tokens of the messages.
    pub tokens: u64,
}

/// Results of up to this many tokens are not replaced, because the placeholder would be about as long.
const MIN_TRIMMED_TOKENS: u64 = 60;

/// Fits a conversation into about `max_tokens` tokens. `has_summary` is true if the first message is a summary, which
/// always stays. Returns `None` if the messages that always stay do not fit.
pub(crate) fn trim_to_fit(
    all: &[Message],
    has_summary: bool,
    max_tokens: u64,
) -> Option<TrimmedConversation<'_>> {
    let mut total: u64 = all.iter().map(Message::estimate_tokens).sum();
    if total <= max_tokens {
        return Some(TrimmedConversation {
            messages: Cow::Borrowed(all),
            left_out: 0,
            tokens: total,
        });
    }
    let mut messages: Vec<Option<Message>> = all.iter().cloned().map(Some).collect();
    let last_question = all
        .iter()
        .rposition(|message| matches!(message, Message::User { .. }));
    let last_reply = all
        .iter()
        .rposition(|message| matches!(message, Message::Assistant { .. }));
    let current_round_start = last_reply.max(last_question).unwrap_or_default();
    let earlier = &mut messages[..current_round_start];
    let mut left_out = remove_old_images(earlier, last_question, &mut total, max_tokens);
    left_out += shorten_old_results(earlier, &mut total, max_tokens);
    left_out += drop_old_rounds(
        earlier,
        usize::from(has_summary),
        last_question,
        &mut total,
        max_tokens,
    );
    let mut messages: Vec<Message> = messages.into_iter().flatten().collect();
    // Some providers require a user message first.
    if !matches!(messages.first(), Some(Message::User { .. })) {
        let placeholder = Message::user("[earlier messages were removed to save space]");
        total += placeholder.estimate_tokens();
        messages.insert(0, placeholder);
    }
    (total <= max_tokens).then_some(TrimmedConversation {
        messages: Cow::Owned(messages),
        left_out,
        tokens: total,
    })
}

/// Removes images, the oldest first, until `total` is at most `max_tokens`. Those of the message `last_question` stay.
/// Returns the number of shortened messages.
fn remove_old_images(
    messages: &mut [Option<Message>],
    last_question: Option<usize>,
    total: &mut u64,
    max_tokens: u64,
) -> usize {
    let mut shortened = 0;
    for (at, message) in messages.iter_mut().enumerate() {
        if *total <= max_tokens {
            break;
        }
        let Some(message) = message.as_mut().filter(|_| Some(at) != last_question) else {
            continue;
        };
        let before = message.estimate_tokens();
        if message.remove_images(SAVE_SPACE) > 0 {
            *total = *total - before + message.estimate_tokens();
            shortened += 1;
        }
    }
    shortened
}

/// Replaces tool results by placeholders, the oldest first, until `total` is at most `max_tokens`. Returns the number
/// of replaced results.
fn shorten_old_results(
    messages: &mut [Option<Message>],
    total: &mut u64,
    max_tokens: u64,
) -> usize {
    let mut shortened = 0;
    for message in messages.iter_mut().flatten() {
        if *total <= max_tokens {
            break;
        }
        let before = message.estimate_tokens();
        if let Message::Tool {
            text, name, images, ..
        } = message
            && before > MIN_TRIMMED_TOKENS
        {
            *text = format!(
                "[result of `{name}` removed to save space ({} characters); call the tool again if you need it]",
                text.chars().count()
            );
            images.clear();
            *total = *total - before + message.estimate_tokens();
            shortened += 1;
        }
    }
    shortened
}

/// Removes rounds, the oldest first and from the message `start` on, until `total` is at most `max_tokens`. The message
/// `last_question` stays. Returns the number of removed messages.
fn drop_old_rounds(
    messages: &mut [Option<Message>],
    start: usize,
    last_question: Option<usize>,
    total: &mut u64,
    max_tokens: u64,
) -> usize {
    let mut dropped = 0;
    let mut at = start;
    while *total > max_tokens && at < messages.len() {
        // An assistant message is removed together with the tool messages after it, because providers reject a result
        // without its call.
        let end = (at + 1..messages.len())
            .find(|&next| !matches!(messages[next], Some(Message::Tool { .. })))
            .unwrap_or(messages.len());
        if Some(at) != last_question {
            for removed in messages[at..end].iter_mut().filter_map(Option::take) {
                *total -= removed.estimate_tokens();
                dropped += 1;
            }
        }
        at = end;
    }
    dropped
}

/// Estimates the number of tokens of the system prompt and the tools, which every request contains.
pub(crate) fn fixed_tokens(system: &str, tools: &[crate::message::ToolSpec]) -> u64 {
    let tools = tools.iter().map(|tool| {
        tool.name.len() + tool.description.len() + mimir_core::outcome::json_len(&tool.schema)
    });
    tokens(system.len() + tools.sum::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;

    fn round(id: &str, length: usize) -> [Message; 2] {
        [
            Message::Assistant {
                text: String::new(),
                calls: vec![ToolCall {
                    id: id.into(),
                    name: "read_file".into(),
                    ..ToolCall::default()
                }],
            },
            Message::Tool {
                id: id.into(),
                name: "read_file".into(),
                text: "x".repeat(length),
                failed: false,
                images: Vec::new(),
            },
        ]
    }

    fn long() -> Vec<Message> {
        let mut all = vec![Message::user("first")];
        all.extend(round("a", 4_000));
        all.extend(round("b", 4_000));
        all.push(Message::user("second"));
        all.extend(round("c", 4_000));
        all.extend(round("d", 4_000));
        all
    }

    fn ids(fitted: &TrimmedConversation<'_>) -> Vec<(String, bool)> {
        let tool = |one: &Message| match one {
            Message::Tool { id, text, .. } => Some((
                id.clone(),
                text.starts_with("[result of `read_file` removed"),
            )),
            _ => None,
        };
        fitted.messages.iter().filter_map(tool).collect()
    }

    #[test]
    fn trim_leaves_fitting_messages_unchanged() {
        let all = long();
        let fitted = trim_to_fit(&all, false, 100_000).unwrap();
        assert!(matches!(fitted.messages, Cow::Borrowed(_)));
        assert_eq!(fitted.left_out, 0);
    }

    #[test]
    fn trim_drops_old_results_before_whole_rounds() {
        let all = long();
        let fitted = trim_to_fit(&all, false, 3_300).unwrap();
        let of = |id: &str, out: bool| (id.to_owned(), out);
        assert_eq!(
            ids(&fitted),
            [
                of("a", true),
                of("b", false),
                of("c", false),
                of("d", false)
            ]
        );
        assert_eq!(fitted.left_out, 1);
        assert!(fitted.tokens <= 3_300);
        let fitted = trim_to_fit(&all, false, 1_150).unwrap();
        assert_eq!(
            ids(&fitted).last(),
            Some(&of("d", false)),
            "the newest result was changed"
        );
        assert!(fitted.messages.contains(&Message::user("second")));
        assert!(fitted.tokens <= 1_150, "{fitted:?}");
    }

    #[test]
    fn trim_removes_old_images_before_texts() {
        let mut all = long();
        all.insert(1, crate::image::tests::message(1));
        all.insert(1, crate::image::tests::call_of_message());
        let full: u64 = all.iter().map(Message::estimate_tokens).sum();
        let fitted = trim_to_fit(&all, false, full - 20).unwrap();
        assert_eq!(fitted.left_out, 1);
        assert!(
            fitted
                .messages
                .iter()
                .all(|message| message.images().is_empty())
        );
        assert!(ids(&fitted).iter().all(|(_, is_removed)| !is_removed));
    }

    #[test]
    fn trim_keeps_calls_and_results_together() {
        let all = long();
        for max_tokens in (1_050..5_000).step_by(50) {
            let Some(fitted) = trim_to_fit(&all, false, max_tokens) else {
                continue;
            };
            let mut open: Vec<&str> = Vec::new();
            for message in fitted.messages.iter() {
                match message {
                    Message::Assistant { calls, .. } => {
                        assert!(open.is_empty(), "{max_tokens}");
                        open.extend(calls.iter().map(|call| call.id.as_str()));
                    }
                    Message::Tool { id, .. } => {
                        assert!(open.contains(&id.as_str()), "{max_tokens}: {id}");
                        open.retain(|one| *one != id.as_str());
                    }
                    Message::User { .. } => assert!(open.is_empty(), "{max_tokens}"),
                }
            }
            assert!(open.is_empty(), "{max_tokens}");
        }
    }

    #[test]
    fn trim_keeps_a_summary() {
        let all = long();
        let fitted = |has_summary| trim_to_fit(&all, has_summary, 1_150).unwrap();
        let first = Message::user("first");
        assert!(!fitted(false).messages.contains(&first));
        assert!(fitted(true).messages.contains(&first));
        assert!(fitted(true).tokens <= 1_150);
    }

    #[test]
    fn trim_fails_if_required_messages_do_not_fit() {
        assert_eq!(
            trim_to_fit(&[Message::user("x".repeat(10_000))], false, 1_000),
            None
        );
        assert!(trim_to_fit(&long(), false, 500).is_none());
    }
}
