//! The tool `search_code` as the pipeline sees it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::config::EMBEDDINGS_VARIABLE;
use mimir_core::needs::{DirectoryAccess, FileNeed};
use mimir_core::outcome::ToolOutput;
use mimir_core::tool::{InvalidToolName, ToolOrigin, ToolSource, ToolTrust};
use mimir_core::{
    Approved, Content, Decision, Needs, RiskLevel, Schema, Tool, ToolDefinition, ToolError,
    ToolErrorCode, ToolGroup, ToolHints, ToolName,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::meaning::{EmbeddingTransport, EmbeddingsClient, MeaningPlan};
use crate::open_index::{OpenIndex, SharedIndex};
use crate::refresh::RefreshSummary;
use crate::search::{CodeHits, SearchMode, search};
use crate::search_task::{EMBED_PART, MAX_RESULTS, SEARCH_PART, SearchTask, check_query};

/// The name of the tool.
pub const SEARCH_CODE: &str = "search_code";

/// Name of the plugin, and of the last part of its location.
const PLUGIN: &str = "code-search";

/// Maximum size of the text of a result in bytes.
const MAX_TEXT: usize = 60_000;

/// Searches the code of one workspace. Clones of the `Arc` share the index.
pub struct CodeSearch {
    index: SharedIndex,
    transport: Arc<dyn EmbeddingTransport>,
}

/// Stops the work of a call when the call ends.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl CodeSearch {
    /// Creates the search of a workspace, without I/O. `key_file` is in a private folder of the user; only an index that
    /// was stored with its key is used. `transport` sends requests to the embeddings endpoint.
    pub fn new(
        workspace: &Path,
        key_file: Option<PathBuf>,
        transport: Arc<dyn EmbeddingTransport>,
    ) -> Arc<Self> {
        Arc::new(Self {
            index: SharedIndex::new(workspace, key_file),
            transport,
        })
    }

    /// Creates the tool. Models only see the mode `meaning` if an embeddings endpoint is configured.
    ///
    /// # Errors
    ///
    /// Does not fail in practice: the name is a constant.
    pub fn tool(self: &Arc<Self>, by_meaning: bool) -> Result<Tool, InvalidToolName> {
        let mut description = "Searches code by an index: `words` (default) finds passages about words, `symbols` definitions \
                               by name, `references` uses of a name"
            .to_owned();
        if by_meaning {
            description += ", `meaning` passages about a subject";
        }
        let definition = ToolDefinition {
            name: ToolName::new(SEARCH_CODE)?,
            title: Some("Search code".to_owned()),
            description,
            group: ToolGroup::Fs,
            input_schema: Schema::unchecked(input_schema(by_meaning).to_string()),
            output_schema: None,
            silent: false,
            approval: Decision::Allow,
            risk: RiskLevel::Low,
            hints: ToolHints {
                read_only: true,
                idempotent: true,
                ..ToolHints::default()
            },
            needs: Needs {
                files: vec![FileNeed {
                    path: ".".to_owned(),
                    access: DirectoryAccess::Read,
                    reason: "to search the code of the workspace".to_owned(),
                }],
                // The settings of the endpoint add its host and its key.
                variables: vec![EMBEDDINGS_VARIABLE.to_owned()],
                ..Needs::default()
            },
        };
        let identity = format!(
            "{} {} {}",
            env!("CARGO_PKG_VERSION"),
            definition.description,
            definition.input_schema.as_str()
        );
        let origin = ToolOrigin::compiled_in(PLUGIN, format!("{:x}", Sha256::digest(identity)));
        Ok(Tool::new(
            definition,
            ToolSource::BuiltIn,
            Arc::new(origin),
            ToolTrust::Trusted,
            Arc::new(CodeSearchBackend(Arc::clone(self))),
        ))
    }

    /// Updates the index and searches it. Blocks.
    fn run(&self, task: &SearchTask) -> Result<ToolOutput, ToolError> {
        let query = task.query()?;
        self.index.open(task, None, |open| {
            let limits = task.limits(SEARCH_PART);
            let (source, _) = open.source(&limits);
            let found = search(&source, &query);
            output(open, found, query.mode)
        })?
    }

    /// Searches by meaning. If the endpoint fails, searches by words.
    async fn run_by_meaning(
        self: &Arc<Self>,
        call: &Approved,
        task: &SearchTask,
    ) -> Result<ToolOutput, ToolError> {
        let endpoint = EmbeddingsClient::of_call(call)?;
        let identity: Arc<str> = endpoint.identity().into();
        let of_endpoint = Arc::clone(&identity);
        let plan = self.in_background(task, move |shared, task| {
            let query = task.query()?;
            shared.index.open(task, None, |open| {
                open.load_vectors(&of_endpoint);
                let limits = task.limits(EMBED_PART);
                let (source, vectors) = open.source(&limits);
                let plan = MeaningPlan::new(&source, &query, vectors);
                (plan, open.summary)
            })
        });
        let (mut plan, summary) = plan.await?;
        let limits = task.limits(EMBED_PART);
        let transport = &*self.transport;
        let text = check_query(&task.arguments.query)?;
        let computed = plan.compute(call, transport, &endpoint, text, limits.until);
        let computed = computed.await;
        let ranked = self.in_background(task, move |shared, task| {
            let query = task.query()?;
            shared.index.open(task, Some(summary), |open| {
                open.load_vectors(&identity);
                let limits = task.limits(SEARCH_PART);
                let (source, vectors) = open.source(&limits);
                let found = match computed {
                    Ok(computed) => plan.rank(&source, &query, vectors, computed),
                    Err(error) => CodeHits {
                        note: Some(format!(
                            "found by words alone, because the embeddings endpoint failed: {}",
                            error.message
                        )),
                        ..search(&source, &query)
                    },
                };
                open.save_vectors();
                output(open, found, query.mode)
            })?
        });
        ranked.await
    }

    /// Runs a part of a search on a thread that may block.
    async fn in_background<T: Send + 'static>(
        self: &Arc<Self>,
        task: &SearchTask,
        work: impl FnOnce(&Self, &SearchTask) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let (search, task) = (Arc::clone(self), task.clone());
        let work = tokio::task::spawn_blocking(move || work(&search, &task));
        work.await
            .unwrap_or_else(|error| Err(ToolError::internal(error.to_string())))
    }
}

/// The backend of the tool.
struct CodeSearchBackend(Arc<CodeSearch>);

impl Backend for CodeSearchBackend {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let arguments = serde_json::from_value(call.arguments().clone());
            let arguments = match arguments {
                Ok(arguments) => arguments,
                Err(error) => {
                    return RawResult::failed(ToolError::invalid_input(error.to_string()));
                }
            };
            let cancelled = Arc::new(AtomicBool::new(false));
            let _guard = CancelOnDrop(Arc::clone(&cancelled));
            let task = SearchTask {
                arguments: Arc::new(arguments),
                rules: call.paths().clone(),
                needs: call.rights().clone(),
                start: Instant::now(),
                wall: call.limits().wall,
                cancelled,
            };
            let result = match task.mode() {
                SearchMode::Meaning => {
                    let work = pin!(shared.run_by_meaning(&call, &task));
                    call.deadline().run_until(work).await.unwrap_or_else(|_| {
                        let message =
                            "the embeddings endpoint did not respond within the time limit of the call";
                        Err(ToolError::new(ToolErrorCode::Timeout, message))
                    })
                }
                _ => shared.in_background(&task, CodeSearch::run).await,
            };
            RawResult::from(result)
        })
    }
}

fn input_schema(by_meaning: bool) -> serde_json::Value {
    let mut modes = vec!["words", "symbols", "references"];
    if by_meaning {
        modes.push("meaning");
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "query": {"type": "string"},
            "mode": {"type": "string", "enum": modes},
            "kind": {"type": "string", "description": "function, type, constant, …"},
            "language": {"type": "string"},
            "path": {"type": "string", "description": "File, folder or glob"},
            "maxResults": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS},
        },
        "required": ["query"],
    })
}

/// Returns the output of the tool.
fn output(
    open: &OpenIndex<'_>,
    mut found: CodeHits,
    mode: SearchMode,
) -> Result<ToolOutput, ToolError> {
    let files = open.files();
    let text = format_hits(&mut found, mode, &open.summary, files);
    let structured =
        serde_json::to_value(&found).map_err(|error| ToolError::internal(error.to_string()))?;
    Ok(ToolOutput {
        content: vec![Content::text(text)],
        structured: Some(structured),
        exit_code: None,
    })
}

/// Formats the results for a model. Results beyond the maximum size are dropped.
fn format_hits(
    found: &mut CodeHits,
    mode: SearchMode,
    summary: &RefreshSummary,
    files: usize,
) -> String {
    let mut out = String::new();
    let mut fitting = 0;
    for hit in &found.hits {
        let path = mimir_core::text::visible(&hit.path);
        let definition = match (hit.kind, &hit.symbol) {
            (Some(kind), Some(symbol)) => format!("  [{kind} {symbol}]"),
            _ => String::new(),
        };
        let entry = match (mode, hit.end_line) {
            (SearchMode::Words | SearchMode::Meaning, Some(end)) => {
                format!("{path}:{}-{end}{definition}\n{}\n\n", hit.line, hit.text)
            }
            _ => format!("{path}:{}: {}{definition}\n", hit.line, hit.text),
        };
        if out.len() + entry.len() > MAX_TEXT {
            break;
        }
        out.push_str(&entry);
        fitting += 1;
    }
    found.truncated |= fitting < found.hits.len();
    found.hits.truncate(fitting);
    let noun = match (mode, fitting) {
        (SearchMode::Words | SearchMode::Meaning, 1) => "passage",
        (SearchMode::Words | SearchMode::Meaning, _) => "passages",
        (SearchMode::Symbols, 1) => "definition",
        (SearchMode::Symbols, _) => "definitions",
        (SearchMode::References, 1) => "line",
        (SearchMode::References, _) => "lines",
    };
    if fitting == 0 {
        let _ = write!(out, "Nothing found in {files} indexed files");
        if matches!(mode, SearchMode::Symbols | SearchMode::References) {
            out.push_str("; `file_search` finds any text");
        }
    } else {
        let _ = write!(out, "{fitting} {noun}");
    }
    if found.truncated {
        out.push_str(
            "; there are more: narrow the search with `path` or `kind`, or raise `maxResults`",
        );
    }
    if let Some(note) = &found.note {
        let _ = write!(out, "; {note}");
    }
    if summary.unreadable > 0 {
        let _ = write!(out, "; {} folders could not be read", summary.unreadable);
    }
    if !summary.is_complete {
        let _ = write!(
            out,
            "; the index is not complete yet ({files} files): search again to continue"
        );
    } else if summary.is_full {
        let _ = write!(
            out,
            "; the workspace is too large: only {files} files are indexed"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::meaning::{EmbeddingRequest, EmbeddingResponse};

    use super::*;

    struct NoTransport;

    impl EmbeddingTransport for NoTransport {
        fn post<'a>(
            &'a self,
            _: &'a Approved,
            _: EmbeddingRequest,
        ) -> BoxFuture<'a, Result<EmbeddingResponse, ToolError>> {
            unreachable!("definitions send nothing")
        }
    }

    #[test]
    fn code_search_definition_is_short() {
        let tool = CodeSearch::new(Path::new("."), None, Arc::new(NoTransport))
            .tool(true)
            .unwrap();
        assert!(Schema::parse(tool.definition.input_schema.as_str()).is_ok());
        let length =
            tool.definition.input_schema.as_str().len() + tool.definition.description.len();
        // About four characters per token, and at most 150 tokens.
        assert!(length < 580, "{length}");
    }
}
