//! List and search of stored conversations.

use jiff::Timestamp;
use mimir_agent::{Conversation, Message};
use mimir_core::ToolError;
use mimir_core::text::{prefix, visible};
use serde::Serialize;

use super::ConversationStore;

/// A stored conversation, as lists show it. All texts are masked and on one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationEntry {
    /// The id, for `mimir chat --resume`.
    pub id: String,
    /// Time of the last change, RFC 3339 in UTC.
    pub time: String,
    /// The model of the last task.
    pub model: String,
    /// The worker of the task, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Number of replies of the model.
    pub turns: u64,
    /// Number of messages.
    pub messages: usize,
    /// The beginning of the first message of the user.
    pub first_words: String,
    /// The text around the first match of a search.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched_text: Option<String>,
}

/// The stored conversations of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationCatalog {
    /// The conversations, most recently changed first.
    pub entries: Vec<ConversationEntry>,
    /// Reasons why other conversations cannot be read.
    pub unreadable: Vec<String>,
}

/// Maximum number of characters of the first words.
const MAX_FIRST_WORDS: usize = 200;

/// Number of characters shown before and after a match.
const MATCH_CONTEXT_CHARS: usize = 60;

impl ConversationStore {
    /// Lists the stored conversations, or those that contain all words of `search`. Upper and lower case are equal. The
    /// search is over the masked texts, with the secrets that are known today, so that it does not find a secret that
    /// was stored before it was known.
    pub fn catalog(&self, search: Option<&str>) -> Result<ConversationCatalog, ToolError> {
        let redactor = self.vault.redactor().map_err(ToolError::unavailable)?;
        let words: Vec<String> = search
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        if search.is_some() && words.is_empty() {
            let message = "the search is empty: expected one or more words";
            return Err(ToolError::invalid_input(message));
        }
        let mut catalog = ConversationCatalog::default();
        for (time, id) in self.list() {
            let conversation = match self.read(&id) {
                Ok(conversation) => conversation.masked(&redactor),
                Err(error) => {
                    catalog.unreadable.push(error.message);
                    continue;
                }
            };
            let matched_text = match find_words(&conversation, &words) {
                None if !words.is_empty() => continue,
                matched_text => matched_text,
            };
            let time = Timestamp::try_from(time).unwrap_or_default();
            let time = time.round(jiff::Unit::Second).unwrap_or(time);
            catalog.entries.push(ConversationEntry {
                id,
                time: time.to_string(),
                first_words: first_words(&conversation),
                model: visible(&conversation.model),
                worker: conversation.worker.as_deref().map(visible),
                turns: conversation.spent.turns,
                messages: conversation.messages.len(),
                matched_text,
            });
        }
        Ok(catalog)
    }
}

fn first_words(conversation: &Conversation) -> String {
    let first = conversation
        .messages
        .iter()
        .find_map(|message| match message {
            Message::User { text, .. } => Some(text.trim()),
            _ => None,
        });
    visible(prefix(first.unwrap_or_default(), MAX_FIRST_WORDS))
}

/// Returns the texts of a message: what was written, and the arguments of calls.
fn texts(message: &Message) -> Vec<&str> {
    match message {
        Message::User { text, .. } | Message::Tool { text, .. } => vec![text],
        Message::Assistant { text, calls } => {
            let arguments = calls.iter().map(|call| call.arguments.as_str());
            std::iter::once(text.as_str()).chain(arguments).collect()
        }
    }
}

/// Returns the text around the first match of the first word if the conversation contains all words, which are in lower
/// case.
fn find_words(conversation: &Conversation, words: &[String]) -> Option<String> {
    let first = words.first()?;
    let mut missing: Vec<&String> = words.iter().collect();
    let mut matched_text = None;
    for text in conversation.messages.iter().flat_map(texts) {
        let text = text.to_lowercase();
        missing.retain(|word| !text.contains(word.as_str()));
        if matched_text.is_none()
            && let Some(at) = text.find(first.as_str())
        {
            matched_text = Some(text_around(&text, at, first.len()));
        }
    }
    missing.is_empty().then_some(matched_text).flatten()
}

/// Returns the text around a match at byte `at`, on one line.
fn text_around(text: &str, at: usize, length: usize) -> String {
    let before = text[..at].char_indices().rev().nth(MATCH_CONTEXT_CHARS - 1);
    let start = before.map_or(0, |(start, _)| start);
    let after = prefix(&text[at + length..], MATCH_CONTEXT_CHARS);
    let end = at + length + after.len();
    let dots = |is_cut: bool| if is_cut { "…" } else { "" };
    format!(
        "{}{}{}",
        dots(start > 0),
        visible(text[start..end].trim()),
        dots(end < text.len())
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use mimir_core::Redactor;

    fn store(folder: &std::path::Path, secret: &str) -> ConversationStore {
        let redactor = Redactor::new().with_values([("KEY", secret)]);
        ConversationStore::new(Some(folder.join("chats")), Arc::new(redactor))
    }

    fn save(store: &ConversationStore, number: usize, messages: Vec<Message>) -> String {
        let mut conversation = Conversation::new(format!("{number:012x}-a-1"), "local/m");
        conversation.messages = messages;
        conversation.spent.turns = 2;
        store.save(&conversation).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        conversation.id
    }

    #[test]
    fn conversations_are_listed_newest_first_and_searched_by_all_words() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), "hunter2-value");
        let long = format!(
            "{} The Needle \u{1b}[2Jis {}",
            "a".repeat(300),
            "b".repeat(300)
        );
        let first = save(
            &store,
            1,
            vec![Message::user("fix the tests"), Message::user(long)],
        );
        let second = save(&store, 2, vec![Message::user("write\na needle")]);
        let all = store.catalog(None).unwrap();
        let ids: Vec<&str> = all.entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, [&second, &first]);
        assert_eq!(all.entries[0].first_words, "write a needle");
        assert_eq!((all.entries[1].turns, all.entries[1].messages), (2, 2));
        assert!(all.entries[0].time.ends_with('Z') && all.entries[0].matched_text.is_none());

        let found = store.catalog(Some("NEEDLE tests")).unwrap().entries;
        assert_eq!(found.len(), 1);
        let matched = found[0].matched_text.as_deref().unwrap();
        assert!(
            matched.starts_with("…aaa") && matched.contains("the needle is bbb"),
            "{matched}"
        );
        assert!(matched.chars().count() < 150 && !matched.contains('\u{1b}'));
        assert_eq!(store.catalog(Some("needle")).unwrap().entries.len(), 2);
        assert_eq!(store.catalog(Some("nothing")).unwrap().entries, []);
        assert!(store.catalog(Some(" ")).is_err());
    }

    #[test]
    fn conversation_search_does_not_find_secrets() {
        let folder = tempfile::tempdir().unwrap();
        // Stored before the value was known to be a secret.
        save(
            &store(folder.path(), "another-value"),
            1,
            vec![Message::user("it is hunter2-value")],
        );
        let store = store(folder.path(), "hunter2-value");
        assert_eq!(store.catalog(Some("hunter2-value")).unwrap().entries, []);
        let all = store.catalog(None).unwrap();
        assert_eq!(all.entries[0].first_words, "it is [REDACTED:secret:KEY]");
    }

    #[test]
    fn conversation_is_deleted_by_unique_id_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), "hunter2-value");
        let first = save(&store, 1, vec![Message::user("one")]);
        let second = save(&store, 2, vec![Message::user("two")]);
        for id in ["", "0000", "latest", "../x"] {
            assert!(store.delete(id).is_err(), "{id}");
        }
        assert_eq!(store.delete(&first[..12]).unwrap(), first);
        assert_eq!(store.load(Some("latest")).unwrap().id, second);
        assert_eq!(store.catalog(None).unwrap().entries.len(), 1);
    }

    #[test]
    fn conversation_of_an_earlier_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), "hunter2-value");
        let id = save(&store, 1, vec![Message::user("one")]);
        let old = r#"{"id": "x", "model": "local/m", "messages": [{"role": "user", "text": "old"},
            {"role": "tool", "id": "a", "name": "git", "text": "fine"}],
            "spent": {"turns": 1, "toolCalls": 0, "inputTokens": 5, "outputTokens": 1, "timeMs": 3}}"#;
        store.write(&format!("{id}.json"), old).unwrap();
        let loaded = store.load(None).unwrap();
        assert_eq!(loaded.messages[0], Message::user("old"));
        assert_eq!(loaded.sent_messages().len(), 2);
        // What has no new parts is stored as before.
        let text = serde_json::to_string(&loaded).unwrap();
        for new in ["images", "summaries", "worker", "cachedTokens"] {
            assert!(!text.contains(new), "{text}");
        }
    }
}
