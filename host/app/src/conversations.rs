//! Stored conversations: readable by this user only, with secrets masked, in the user's own folder. They are not in the
//! workspace, because a resumed conversation counts as the user's own words, and files in a workspace may have come
//! with a checkout.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mimir_agent::Conversation;
use mimir_core::redact::Vault;
use mimir_core::text::{prefix, visible};
use mimir_core::{RequestId, ToolError};

use crate::approval_store;
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

mod catalog;

pub use catalog::{ConversationCatalog, ConversationEntry};

/// The conversations of a workspace.
#[derive(Clone)]
pub struct ConversationStore {
    /// `None` on platforms without a folder for the user's settings.
    folder: Option<PathBuf>,
    vault: Arc<dyn Vault>,
}

/// Maximum number of stored conversations. Older ones are removed.
const MAX_CONVERSATIONS: usize = 100;

/// Name of the newest conversation, in place of an id.
const LATEST: &str = "latest";

/// Maximum number of stored input lines, and of characters in each.
const MAX_INPUT_LINES: usize = 500;
const MAX_INPUT_LINE_CHARS: usize = 4_000;

impl ConversationStore {
    /// Creates the store of a workspace. The folder is created when something is stored.
    pub fn for_workspace(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        vault: Arc<dyn Vault>,
    ) -> Self {
        Self::new(
            approval_store::user_state_path(user_dirs, workspace, "chats"),
            vault,
        )
    }

    fn new(folder: Option<PathBuf>, vault: Arc<dyn Vault>) -> Self {
        Self { folder, vault }
    }

    fn folder(&self) -> Result<&Path, ToolError> {
        self.folder.as_deref().ok_or_else(|| {
            let message =
                "this platform has no folder for your own settings, where conversations are stored";
            let remedy = "set MIMIR_CONFIG_DIR".to_owned();
            ToolError::unavailable(message).with_remedies([remedy])
        })
    }

    /// Stores the current state of a conversation, with secrets masked. Removes the oldest conversations if there are
    /// too many.
    pub fn save(&self, conversation: &Conversation) -> Result<(), ToolError> {
        let redactor = self.vault.redactor();
        let redactor = redactor.map_err(ToolError::unavailable)?;
        let text =
            serde_json::to_string(&conversation.masked(&redactor)).map_err(ToolError::internal)?;
        if text.len() as u64 > private_files::MAX_FILE_SIZE {
            let message = "the conversation is too large to be stored; `/clear` starts a new one";
            return Err(ToolError::limit_exceeded(message));
        }
        self.write(&format!("{}.json", conversation.id), &text)?;
        self.remove_oldest();
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ToolError> {
        let folder = self.folder()?;
        let path = folder.join(name);
        let written = private_files::private_folder(folder)
            .and_then(|()| private_files::replace(&path, text.as_bytes(), FileReaders::Owner));
        written.map_err(|error| crate::file_error::file_error("write", &path, &error))
    }

    /// Loads the conversation with this id or unique id prefix, or the newest one if `id` is `None` or `latest`.
    pub fn load(&self, id: Option<&str>) -> Result<Conversation, ToolError> {
        self.read(&self.find_id(id.filter(|id| *id != LATEST))?)
    }

    /// Removes the conversation with this id or unique id prefix. Returns its id.
    pub fn delete(&self, id: &str) -> Result<String, ToolError> {
        let id = self.find_id(Some(id))?;
        let path = self.folder()?.join(format!("{id}.json"));
        std::fs::remove_file(&path)
            .map_err(|error| crate::file_error::file_error("remove", &path, &error))?;
        Ok(id)
    }

    /// Finds the conversation with this id or unique id prefix, or the newest one if `id` is `None`.
    fn find_id(&self, id: Option<&str>) -> Result<String, ToolError> {
        let conversations = self.list();
        let matches = match id {
            None => conversations.into_iter().next(),
            Some(id) => {
                let mut matches = conversations
                    .into_iter()
                    .filter(|known| !id.is_empty() && known.1.starts_with(id));
                match (matches.next(), matches.next()) {
                    (Some(_), Some(_)) => {
                        return Err(ToolError::invalid_input(format!(
                            "several conversations begin with `{}`",
                            visible(prefix(id, 64))
                        )));
                    }
                    (only, _) => only,
                }
            }
        };
        let Some((_, id)) = matches else {
            let message = match id {
                Some(id) => format!("unknown conversation `{}`", visible(prefix(id, 64))),
                None => "no conversations are stored for this workspace".to_owned(),
            };
            let remedy = "`mimir chat --list` lists the conversations".to_owned();
            return Err(ToolError::not_found(message).with_remedies([remedy]));
        };
        Ok(id)
    }

    fn read(&self, id: &str) -> Result<Conversation, ToolError> {
        let path = self.folder()?.join(format!("{id}.json"));
        let unusable = |why: &dyn std::fmt::Display| {
            let shown = visible(&path.display().to_string());
            ToolError::unavailable(format!("{shown} cannot be used: {why}"))
        };
        let text =
            private_files::read(&path, OwnerOnly::Reading).map_err(|error| unusable(&error))?;
        let text = text.ok_or_else(|| unusable(&"it no longer exists"))?;
        let mut conversation: Conversation =
            serde_json::from_str(&text).map_err(|error| unusable(&error))?;
        id.clone_into(&mut conversation.id);
        Ok(conversation)
    }

    /// Lists the stored conversations, most recently changed first.
    fn list(&self) -> Vec<(SystemTime, String)> {
        let entries = self.folder.iter().flat_map(std::fs::read_dir).flatten();
        let mut conversations: Vec<(SystemTime, String)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let id = name.strip_suffix(".json")?;
                // Skips the input history and files that mimir did not write.
                let meta = entry.metadata().ok()?;
                let is_conversation = meta.is_file() && RequestId::is_valid(id);
                is_conversation.then_some((meta.modified().ok()?, id.to_owned()))
            })
            .collect();
        conversations.sort_by(|one, other| other.cmp(one));
        conversations
    }

    /// Removes all conversations but the newest [`MAX_CONVERSATIONS`].
    fn remove_oldest(&self) {
        for (_, id) in self.list().into_iter().skip(MAX_CONVERSATIONS) {
            // A file that cannot be read is kept, so that the user can repair it.
            if let (Ok(_), Ok(folder)) = (self.read(&id), self.folder()) {
                let _ = std::fs::remove_file(folder.join(format!("{id}.json")));
            }
        }
    }

    /// Returns the input history of this workspace, oldest line first; empty if it cannot be read.
    pub fn read_input_history(&self) -> Vec<String> {
        let folder = self.folder().ok();
        let text = folder
            .map(|folder| private_files::read(&folder.join("typed.json"), OwnerOnly::Reading));
        let text = text.and_then(Result::ok).flatten().unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Stores the newest lines of the input history, with secrets masked. Errors are ignored, because the history is
    /// only a convenience.
    pub fn save_input_history(&self, lines: &[String]) {
        let Ok(redactor) = self.vault.redactor() else {
            return;
        };
        let from = lines.len().saturating_sub(MAX_INPUT_LINES);
        let masked: Vec<String> = lines[from..]
            .iter()
            .map(|line| {
                let mut line = prefix(line, MAX_INPUT_LINE_CHARS).to_owned();
                redactor.mask_text(&mut line);
                line
            })
            .collect();
        if let Ok(text) = serde_json::to_string(&masked) {
            let _ = self.write("typed.json", &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::ToolErrorCode;

    use super::*;
    use mimir_agent::Message;
    use mimir_core::Redactor;

    fn store(folder: &Path) -> ConversationStore {
        let redactor = Redactor::new().with_values([("KEY", "hunter2-value")]);
        ConversationStore::new(Some(folder.join("chats")), Arc::new(redactor))
    }

    fn id(count: usize) -> String {
        format!("{count:012x}-a-1")
    }

    fn conversation(id: &str, words: &str) -> Conversation {
        let mut conversation = Conversation::new(id, "m");
        conversation.messages.push(Message::user(words));
        conversation
    }

    #[test]
    fn conversation_is_saved_redacted_and_loaded_by_id_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        assert_eq!(store.load(None).unwrap_err().code, ToolErrorCode::NotFound);
        store.save(&conversation(&id(1), "old")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        store
            .save(&conversation(&id(2), "it is hunter2-value"))
            .unwrap();
        store.save_input_history(&["my hunter2-value".to_owned()]);
        let newest = store.load(None).unwrap();
        assert_eq!(newest.id, id(2));
        assert_eq!(
            newest.messages,
            [Message::user("it is [REDACTED:secret:KEY]")]
        );
        assert_eq!(
            store.load(Some("000000000001")).unwrap().messages,
            [Message::user("old")]
        );
        assert_eq!(
            store.load(Some("x")).unwrap_err().code,
            ToolErrorCode::NotFound
        );
        assert_eq!(store.read_input_history(), ["my [REDACTED:secret:KEY]"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
            let chats = folder.path().join("chats");
            let newest = chats.join(format!("{}.json", id(2)));
            assert_eq!(mode(&newest) & 0o777, 0o600);
            assert_eq!(mode(&chats) & 0o777, 0o700);
            std::fs::set_permissions(newest, std::fs::Permissions::from_mode(0o644)).unwrap();
            let error = store.load(None).unwrap_err();
            assert!(error.message.contains("other users can read it"), "{error}");
        }
    }

    #[test]
    fn conversations_prune_oldest_and_report_damaged_files() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let chats = folder.path().join("chats");
        std::fs::create_dir(&chats).unwrap();
        // Older than all others, and not written by mimir.
        let strange = ["plan-2024.json".to_owned(), format!("{}.json", id(9_999))];
        for name in &strange {
            std::fs::write(chats.join(name), "{}").unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        for n in 0..MAX_CONVERSATIONS + 3 {
            store.save(&conversation(&id(n), "x")).unwrap();
        }
        assert_eq!(store.list().len(), MAX_CONVERSATIONS + 1);
        for name in &strange {
            assert!(chats.join(name).exists(), "{name}");
        }
        store
            .write(&format!("{}.json", id(50)), "{\"id\": 1")
            .unwrap();
        assert_eq!(
            store.load(Some(&id(50))).unwrap_err().code,
            ToolErrorCode::Unavailable
        );
        assert_eq!(
            store.load(Some("00000000")).unwrap_err().code,
            ToolErrorCode::InvalidInput
        );
    }

    #[test]
    fn conversation_over_the_size_limit_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        store.save(&conversation(&id(1), "short")).unwrap();
        let long = "x ".repeat(9 << 20);
        let error = store.save(&conversation(&id(1), &long)).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        assert_eq!(
            store.load(None).unwrap().messages,
            [Message::user("short")],
            "the stored conversation was lost"
        );
    }

    #[test]
    fn conversations_are_unavailable_without_a_user_directory() {
        let store = ConversationStore::new(None, Arc::new(Redactor::new()));
        let error = store.save(&conversation(&id(1), "x")).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable);
        assert!(error.remedies[0].contains("MIMIR_CONFIG_DIR"), "{error:?}");
        assert_eq!(store.load(None).unwrap_err().code, ToolErrorCode::NotFound);
        assert!(store.read_input_history().is_empty());
    }
}
