//! Conversations on disk: `.mimir/state/chats/ID.json`, for this user alone, and without secrets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use mimir_agent::Conversation;
use mimir_core::redact::Vault;
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};

use crate::private::{self, Closed, Readers};

/// The conversations of a workspace.
pub struct Shelf {
    folder: PathBuf,
    vault: Arc<dyn Vault>,
}

/// How many conversations stay. Who looks for an older one has a copy, or none.
const KEPT: usize = 100;

/// Lines of what was typed that stay, and characters of each.
const LINES: usize = 500;
const LINE_MOST: usize = 4_000;

impl Shelf {
    /// The conversations below this folder; nothing is made before something is kept.
    pub fn new(state: PathBuf, vault: Arc<dyn Vault>) -> Self {
        Self {
            folder: state.join("chats"),
            vault,
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    /// Keeps a conversation as it is now.
    pub fn keep(&self, talk: &Conversation) -> Result<(), ToolError> {
        let redactor = self.vault.redactor();
        let redactor =
            redactor.map_err(|error| ToolError::new(Code::Unavailable, error.to_string()))?;
        let text = serde_json::to_string(&talk.masked(&redactor))
            .map_err(|error| ToolError::new(Code::Internal, error.to_string()))?;
        self.write(&format!("{}.json", talk.id), &text)?;
        self.tidy();
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ToolError> {
        let path = self.folder.join(name);
        let written = private::private_folder(&self.folder)
            .and_then(|()| private::replace(&path, text.as_bytes(), Readers::Owner));
        written.map_err(|error| crate::exit::file_error("write", &path, &error))
    }

    /// The conversation with this id, or whose id begins like that; the newest if none is named.
    pub fn take(&self, id: Option<&str>) -> Result<Conversation, ToolError> {
        let all = self.all();
        let found = match id {
            None => all.into_iter().next(),
            Some(id) => {
                let mut found = all.into_iter().filter(|known| known.1.starts_with(id));
                match (found.next(), found.next()) {
                    (Some(_), Some(_)) => {
                        return Err(ToolError::new(
                            Code::InvalidInput,
                            format!(
                                "several conversations begin with `{}`",
                                visible(prefix(id, 64))
                            ),
                        ));
                    }
                    (one, _) => one,
                }
            }
        };
        let Some((_, id)) = found else {
            let message = match id {
                Some(id) => format!("there is no conversation `{}`", visible(prefix(id, 64))),
                None => "there is no conversation here yet".to_owned(),
            };
            return Err(ToolError::new(Code::NotFound, message));
        };
        self.read(&id)
    }

    fn read(&self, id: &str) -> Result<Conversation, ToolError> {
        let path = self.path(id);
        let bad = |why: &dyn std::fmt::Display| {
            let place = visible(&path.display().to_string());
            ToolError::new(Code::Unavailable, format!("{place} cannot be used: {why}"))
        };
        let text = private::read(&path, Closed::Reading).map_err(|error| bad(&error))?;
        let text = text.ok_or_else(|| bad(&"it is gone"))?;
        let mut talk: Conversation = serde_json::from_str(&text).map_err(|error| bad(&error))?;
        id.clone_into(&mut talk.id);
        Ok(talk)
    }

    /// The conversations, the one that was kept last first.
    fn all(&self) -> Vec<(SystemTime, String)> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let mut all: Vec<(SystemTime, String)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let id = name.strip_suffix(".json")?.to_owned();
                // What was typed has a name of its own kind.
                let changed = entry.metadata().ok()?.modified().ok()?;
                id.contains('-').then_some((changed, id))
            })
            .collect();
        all.sort_by(|one, other| other.cmp(one));
        all
    }

    /// Removes what is older than the newest [`KEPT`].
    fn tidy(&self) {
        for (_, id) in self.all().into_iter().skip(KEPT) {
            let _ = std::fs::remove_file(self.path(&id));
        }
    }

    /// What was typed here before, the oldest first.
    pub fn typed(&self) -> Vec<String> {
        let text = private::read(&self.folder.join("typed.json"), Closed::Reading);
        let text = text.ok().flatten().unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Keeps what was typed. It helps with typing it again, and nothing else: that it cannot be kept harms nothing.
    pub fn keep_typed(&self, lines: &[String]) {
        let Ok(redactor) = self.vault.redactor() else {
            return;
        };
        let from = lines.len().saturating_sub(LINES);
        let kept: Vec<String> = lines[from..]
            .iter()
            .map(|line| {
                let mut line = prefix(line, LINE_MOST).to_owned();
                redactor.text(&mut line);
                line
            })
            .collect();
        if let Ok(text) = serde_json::to_string(&kept) {
            let _ = self.write("typed.json", &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_agent::Message;
    use mimir_core::Redactor;

    fn shelf(state: &std::path::Path) -> Shelf {
        let redactor = Redactor::new().with_values([("KEY", "hunter2-value")]);
        Shelf::new(state.to_owned(), Arc::new(redactor))
    }

    fn talk(id: &str, words: &str) -> Conversation {
        let mut talk = Conversation::new(id, "m");
        talk.messages.push(Message::user(words));
        talk
    }

    #[test]
    fn what_is_kept_is_found_again_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = shelf(folder.path());
        assert_eq!(shelf.take(None).unwrap_err().code, Code::NotFound);
        shelf.keep(&talk("a-1", "old")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        shelf.keep(&talk("b-2", "it is hunter2-value")).unwrap();
        shelf.keep_typed(&["my hunter2-value".to_owned()]);
        let newest = shelf.take(None).unwrap();
        assert_eq!(newest.id, "b-2");
        assert_eq!(
            newest.messages,
            [Message::user("it is [REDACTED:secret:KEY]")]
        );
        assert_eq!(
            shelf.take(Some("a")).unwrap().messages,
            [Message::user("old")]
        );
        assert_eq!(shelf.take(Some("x")).unwrap_err().code, Code::NotFound);
        assert_eq!(shelf.typed(), ["my [REDACTED:secret:KEY]"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(shelf.path("b-2")) & 0o777, 0o600);
            assert_eq!(mode(shelf.folder.clone()) & 0o777, 0o700);
            std::fs::set_permissions(shelf.path("b-2"), std::fs::Permissions::from_mode(0o644))
                .unwrap();
            let error = shelf.take(None).unwrap_err();
            assert!(
                error.message.contains("somebody else can read it"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_damaged_says_so_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = shelf(folder.path());
        for n in 0..KEPT + 3 {
            shelf.keep(&talk(&format!("c-{n:04}"), "x")).unwrap();
        }
        assert_eq!(shelf.all().len(), KEPT);
        shelf.write("c-0050.json", "{\"id\": 1").unwrap();
        assert_eq!(
            shelf.take(Some("c-0050")).unwrap_err().code,
            Code::Unavailable
        );
        assert_eq!(
            shelf.take(Some("c-00")).unwrap_err().code,
            Code::InvalidInput
        );
    }
}
