//! The changes that the calls of open questions would make. Each has a digest, with which a person says what they have seen.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use mimir_core::{Tool, ToolError, ToolErrorCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use mimir::shared_questions::SharedQuestion;
use mimir::undo::{CallPreview, PreviewedCall};

use super::undo::diff_value;
use super::workspace::LoadedWorkspace;

/// Maximum number of previews that are stored. Later ones replace the oldest ones.
const STORED_MAX: usize = 200;

/// Maximum number of previews that are computed at a time. Further ones wait.
const RUNNING_MAX: usize = 4;

/// Maximum number of previews that are computed again at a time, before an answer counts. They do not wait for the ones of
/// new questions, of which an agent can ask many.
const CHECKS_MAX: usize = 4;

/// Maximum time for computing a preview.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Note of a preview that was not computed in that time.
const TOO_LONG: &str = "not shown: the difference takes too long to compute";

/// The previews of open questions, by the id of the question. Only for showing them: answers are compared with a preview that
/// is computed at the time of the answer.
pub struct PreviewCache {
    previews: Mutex<StoredPreviews>,
    running: Semaphore,
    checks: Semaphore,
}

#[derive(Default)]
struct StoredPreviews {
    by_id: HashMap<String, Option<Value>>,
    /// Ids of the questions, oldest first.
    order: VecDeque<String>,
}

impl StoredPreviews {
    /// Adds the preview of a new question, and removes the oldest one if there are too many.
    fn add(&mut self, id: &str, preview: Option<Value>) {
        self.by_id.insert(id.to_owned(), preview);
        self.order.push_back(id.to_owned());
        if self.order.len() > STORED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }
}

impl Default for PreviewCache {
    fn default() -> Self {
        Self {
            previews: Mutex::default(),
            running: Semaphore::new(RUNNING_MAX),
            checks: Semaphore::new(CHECKS_MAX),
        }
    }
}

impl PreviewCache {
    /// Returns the preview of a question. `None` if it was not computed yet.
    pub fn get(&self, id: &str) -> Option<Option<Value>> {
        self.previews.lock().by_id.get(id).cloned()
    }

    /// Stores the preview of a question. It replaces an earlier one.
    fn replace(&self, id: &str, preview: Option<Value>) {
        let mut previews = self.previews.lock();
        match previews.by_id.get_mut(id) {
            Some(known) => *known = preview,
            None => previews.add(id, preview),
        }
    }

    /// Stores the preview of a question, unless it is known: another page may have computed it later and be faster.
    fn add(&self, id: &str, preview: Option<Value>) {
        let mut previews = self.previews.lock();
        if !previews.by_id.contains_key(id) {
            previews.add(id, preview);
        }
    }

    /// Computes the changes that the call of a question would make, unless they are known.
    pub async fn fill(&self, workspace: &LoadedWorkspace, question: &SharedQuestion) {
        if self.get(&question.id).is_some() {
            return;
        }
        let preview = limited(&self.running, preview(workspace, question)).await;
        let preview = preview.unwrap_or_else(|| Some(note(TOO_LONG)));
        self.add(&question.id, preview);
    }

    /// Computes the preview of a question again. Returns true if the person who answers has seen it: `shown` is the digest of
    /// the preview that they saw, `None` if they saw none. Otherwise it replaces the stored preview, to be shown.
    ///
    /// # Errors
    /// It takes too long.
    pub async fn is_current(
        &self,
        workspace: &LoadedWorkspace,
        question: &SharedQuestion,
        shown: Option<&str>,
    ) -> Result<bool, ToolError> {
        if shown.is_some() && shown == digest(&note(TOO_LONG)) {
            // A person who answers knows that they have not seen the change.
            return Ok(true);
        }
        let preview = limited(&self.checks, preview(workspace, question)).await;
        let preview = preview.ok_or_else(|| {
            ToolError::new(
                ToolErrorCode::Unavailable,
                "whether the difference is still the one that was shown cannot be checked in time, so the answer does not count; answer again",
            )
        })?;
        if was_seen(preview.as_ref(), shown) {
            return Ok(true);
        }
        self.replace(&question.id, preview);
        Ok(false)
    }
}

/// Runs a task once few enough others run. `None` if it takes too long.
async fn limited<T>(running: &Semaphore, task: impl Future<Output = T>) -> Option<T> {
    let _permit = running.acquire().await;
    timeout(TIME_MAX, task).await.ok()
}

/// Returns the digest of a preview.
pub fn digest(preview: &Value) -> Option<&str> {
    preview["digest"].as_str()
}

/// Returns true if an answer with this digest is for this preview. Without a digest, it is for previews without a difference.
fn was_seen(preview: Option<&Value>, shown: Option<&str>) -> bool {
    match (preview, shown) {
        (Some(preview), Some(shown)) => digest(preview) == Some(shown),
        (Some(preview), None) => preview["diff"].as_array().is_none_or(Vec::is_empty),
        (None, shown) => shown.is_none(),
    }
}

/// Returns a preview that only says why no difference is shown.
fn note(text: impl Into<String>) -> Value {
    with_digest(json!({ "diff": [], "note": text.into() }))
}

/// Adds the digest of all that a preview shows.
fn with_digest(mut preview: Value) -> Value {
    preview["digest"] = format!("{:x}", Sha256::digest(preview.to_string())).into();
    preview
}

/// Returns the difference that a call would make, or the reason why it is not known. `None` for tools that change nothing.
async fn preview(workspace: &LoadedWorkspace, question: &SharedQuestion) -> Option<Value> {
    let card = &question.card;
    let snapshot = workspace.snapshot();
    let tool = snapshot.registry.get(&card.tool);
    if let Some(reason) = reason_without(workspace, question, tool.map(AsRef::as_ref)) {
        return Some(note(reason));
    }
    if !CallPreview::is_supported(&card.tool) {
        return None;
    }
    let arguments = serde_json::from_str(&card.arguments).ok()?;
    let redactor = workspace.redactor().ok()?;
    let paths = snapshot.policy.paths(tool?);
    let call = PreviewedCall {
        tool: &card.tool,
        arguments: &arguments,
        paths: &paths,
    };
    let setup = &workspace.setup;
    let root = setup.workspace.root();
    match CallPreview::new(&setup.user_dirs, root, call, &redactor).await {
        Ok(preview) => preview.map(|preview| {
            let diffs = preview.diffs.iter();
            let diffs: Vec<Value> = diffs
                .map(|(kind, diff)| diff_value(Some(kind), diff))
                .collect();
            with_digest(json!({ "diff": diffs, "note": preview.note }))
        }),
        Err(error) => Some(note(error.message)),
    }
}

/// Returns the reason why the change of a call is not known in advance.
fn reason_without(
    workspace: &LoadedWorkspace,
    question: &SharedQuestion,
    tool: Option<&Tool>,
) -> Option<&'static str> {
    let card = &question.card;
    if !CallPreview::is_supported(&card.tool) {
        let is_reader = tool.is_some_and(|tool| tool.definition.hints.read_only);
        return (!is_reader).then_some(
            "not known in advance: mimir only shows the changes of its own file tools before they happen",
        );
    }
    let root = workspace.setup.workspace.root().display().to_string();
    if question.workspace != root {
        Some("not shown: the call runs in another workspace than this console")
    } else if tool.is_none_or(|tool| tool.origin.digest != card.digest) {
        Some("not shown: the call runs another build of the tool than the one of this console")
    } else if !card.editable {
        // The arguments are those of the effect.
        Some("not shown: the call runs already, and asks about one of its steps")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn previews_are_computed_few_at_a_time_and_end() {
        let cache = Arc::new(PreviewCache::default());
        let running = Arc::new(AtomicUsize::new(0));
        let mut previews = Vec::new();
        for number in 0..12 {
            let (cache, running) = (Arc::clone(&cache), Arc::clone(&running));
            previews.push(tokio::spawn(async move {
                let compute = async {
                    let count = running.fetch_add(1, Ordering::Relaxed) + 1;
                    // Two of the first four never end.
                    let time = TIME_MAX * if number < 2 { 1000 } else { 1 } / 2;
                    tokio::time::sleep(time).await;
                    running.fetch_sub(1, Ordering::Relaxed);
                    count
                };
                limited(&cache.running, compute).await
            }));
        }
        // A check of an answer does not wait for them.
        assert_eq!(limited(&cache.checks, async { 1 }).await, Some(1));
        let mut counts = Vec::new();
        for preview in previews {
            counts.push(preview.await.unwrap());
        }
        assert_eq!(&counts[..2], [None, None]);
        // Those that were cut off have not counted down.
        let most = counts.iter().flatten().max().unwrap();
        assert!((2..=RUNNING_MAX + 2).contains(most), "{counts:?}");
        assert_eq!(cache.running.available_permits(), RUNNING_MAX);
    }

    #[test]
    fn previews_are_seen_only_by_those_who_name_their_digest() {
        let with_text = |text: &str| with_digest(json!({ "diff": [{ "lines": [text] }] }));
        let (seen, other) = (with_text("a"), with_text("b"));
        assert_ne!(digest(&seen), digest(&other));
        assert!(was_seen(Some(&seen), digest(&seen)));
        for shown in [None, Some(""), digest(&other), digest(&note("why"))] {
            assert!(!was_seen(Some(&seen), shown), "{shown:?}");
        }
        // Without a difference, there is nothing to see, but a difference that was seen has vanished.
        assert!(was_seen(Some(&note("why")), None));
        assert!(!was_seen(Some(&note("why")), digest(&seen)));
        assert!(was_seen(None, None));
        assert!(!was_seen(None, digest(&seen)));
    }

    #[test]
    fn previews_of_many_questions_replace_only_the_oldest() {
        let cache = PreviewCache::default();
        for number in 0..=STORED_MAX {
            cache.add(&number.to_string(), Some(note(number.to_string())));
            cache.replace(&number.to_string(), Some(note("again")));
            // Of a page that was slower.
            cache.add(&number.to_string(), Some(note("earlier")));
        }
        assert_eq!(cache.get("0"), None);
        assert_eq!(cache.get("1"), Some(Some(note("again"))));
        assert_eq!(cache.previews.lock().order.len(), STORED_MAX);
    }
}
