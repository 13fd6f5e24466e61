//! The changes that the calls of open questions would make. They are computed in the background, because this may take
//! seconds.

use std::collections::HashSet;
use std::sync::Arc;

use mimir::setup::HostSetup;
use mimir::shared_questions::SharedQuestion;
use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::console::previews::{PreviewCache, digest};
use crate::console::workspace::ConsoleWorkspace;

/// The previews of the open questions.
pub struct QuestionChanges {
    workspace: Arc<ConsoleWorkspace>,
    cache: Arc<PreviewCache>,
    /// The questions whose preview is computed or known.
    begun: HashSet<String>,
    sender: UnboundedSender<(String, Value)>,
    receiver: UnboundedReceiver<(String, Value)>,
}

impl QuestionChanges {
    /// Creates previews of calls in the workspace of a setup. Reads nothing.
    pub fn new(setup: &HostSetup) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            workspace: Arc::new(ConsoleWorkspace::new(setup)),
            cache: Arc::default(),
            begun: HashSet::new(),
            sender,
            receiver,
        }
    }

    /// Begins to compute the previews of new questions, and forgets those that have ended.
    pub fn begin(&mut self, questions: &[SharedQuestion]) {
        self.begun
            .retain(|id| questions.iter().any(|question| question.id == *id));
        for question in questions {
            if !self.begun.insert(question.id.clone()) {
                continue;
            }
            let (workspace, cache) = (Arc::clone(&self.workspace), Arc::clone(&self.cache));
            let (sender, question) = (self.sender.clone(), question.clone());
            tokio::spawn(async move {
                // Without the tools and rules, the question is shown without the change.
                let Ok(workspace) = workspace.load().await else {
                    return;
                };
                cache.fill(&workspace, &question).await;
                if let Some(Some(preview)) = cache.get(&question.id) {
                    // Fails only if the screen was closed.
                    let _ = sender.send((question.id, preview));
                }
            });
        }
    }

    /// Waits for the next preview. Returns the id of the question, and the preview.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        self.receiver.recv().await
    }

    /// Computes the preview of a question again. Returns the new one if the screen shows another one or none, because files
    /// have changed since, for example.
    pub async fn changed(
        &self,
        question: &SharedQuestion,
        shown: Option<&Value>,
    ) -> Result<Option<Value>, ToolError> {
        let shown = shown.and_then(digest);
        let workspace = self.workspace.load().await?;
        let is_current = self.cache.is_current(&workspace, question, shown);
        if is_current.await? {
            return Ok(None);
        }
        Ok(Some(
            self.cache.get(&question.id).flatten().unwrap_or_default(),
        ))
    }
}

/// Describes a preview in one line, such as `a.txt +1 −2 and 1 more`. `None` if it has no difference.
pub fn summary(preview: &Value) -> Option<String> {
    let diffs = preview["diff"].as_array()?;
    let first = diffs.first()?;
    let verb = match first["kind"].as_str() {
        Some("added") => "create ",
        Some("removed") => "delete ",
        _ => "",
    };
    let first = format!("{verb}{}", heading(first));
    Some(match diffs.len() - 1 {
        0 => first,
        more => format!("{first} and {more} more"),
    })
}

/// Returns the file and the number of added and removed lines.
pub fn heading(diff: &Value) -> String {
    let count = |name: &str| diff[name].as_u64().unwrap_or_default();
    format!(
        "{} +{} −{}",
        visible(diff["path"].as_str().unwrap_or_default()),
        count("added"),
        count("removed")
    )
}

/// Returns the lines of a difference, each with `+`, `-` or a space before it.
pub fn diff_lines(diff: &Value) -> Vec<String> {
    let lines = diff["lines"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = lines
        .map(|line| {
            let mark = match line["type"].as_str() {
                Some("add") => "+",
                Some("remove") => "-",
                Some("hunk") => "",
                _ => " ",
            };
            format!("{mark}{}", line["text"].as_str().unwrap_or_default())
        })
        .collect();
    if diff["truncated"] == true {
        lines.push("(more lines are not shown)".to_owned());
    }
    lines.extend(diff["unknown"].as_str().map(str::to_owned));
    lines
}
