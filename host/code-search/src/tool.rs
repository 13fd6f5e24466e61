//! The tool `search_code` as the pipeline sees it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::needs::{DirectoryAccess, FileNeed};
use mimir_core::outcome::ToolOutput;
use mimir_core::paths::PathRules;
use mimir_core::tool::{InvalidToolName, ToolOrigin, ToolSource, ToolTrust};
use mimir_core::{
    Approved, Content, Decision, Needs, RiskLevel, Schema, Tool, ToolDefinition, ToolError,
    ToolErrorCode, ToolGroup, ToolHints, ToolName,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::definitions::{SYMBOL_KINDS, SymbolKind};
use crate::index::CodeIndex;
use crate::language::{LANGUAGES, SourceLanguage};
use crate::refresh::{RefreshLimits, RefreshSummary, refresh};
use crate::search::{CodeHits, CodeQuery, SearchFilter, SearchMode, SearchSource, search};
use crate::source_tree::SourceTree;
use crate::store::IndexStore;

/// The name of the tool.
pub const SEARCH_CODE: &str = "search_code";

/// Name of the plugin, and of the last part of its location.
const PLUGIN: &str = "code-search";

/// Maximum length of a query in bytes.
const MAX_QUERY: usize = 1_000;

/// Default and maximum number of results.
const DEFAULT_RESULTS: usize = 10;
const MAX_RESULTS: usize = 100;

/// Maximum size of the text of a result in bytes.
const MAX_TEXT: usize = 60_000;

/// Number of changed files, or time to read them, from which on the index is stored again. Otherwise, the next process
/// reads them again.
const SAVED_CHANGES: usize = 100;
const SAVED_TIME: Duration = Duration::from_millis(250);

/// Parts of the time limit of a call for updating the index, and for the update and the search together.
const REFRESH_PART: f64 = 0.7;
const SEARCH_PART: f64 = 0.9;

/// Interval at which a call that waits for the index notices that it was cancelled.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// Searches the code of one workspace. Clones of the `Arc` share the index.
pub struct CodeSearch {
    workspace: PathBuf,
    state: Mutex<CodeSearchState>,
}

/// The index, and what is remembered to update it.
#[derive(Default)]
struct CodeSearchState {
    index: Option<CodeIndex>,
    tree: SourceTree,
    refreshes: u64,
}

/// Arguments of a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SearchArguments {
    query: String,
    #[serde(default)]
    mode: Option<SearchMode>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    max_results: Option<usize>,
}

/// The parts of a call that its search needs.
struct SearchTask {
    arguments: SearchArguments,
    rules: PathRules,
    needs: Needs,
    wall: Duration,
    cancelled: Arc<AtomicBool>,
}

/// Stops the work of a call when the call ends.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl CodeSearch {
    /// Creates the search of a workspace, without I/O.
    pub fn new(workspace: &Path) -> Arc<Self> {
        Arc::new(Self {
            workspace: workspace.to_owned(),
            state: Mutex::default(),
        })
    }

    /// Creates the tool.
    ///
    /// # Errors
    ///
    /// Does not fail in practice: the name is a constant.
    pub fn tool(self: &Arc<Self>) -> Result<Tool, InvalidToolName> {
        let definition = ToolDefinition {
            name: ToolName::new(SEARCH_CODE)?,
            title: Some("Search code".to_owned()),
            description: "Searches code by an index: `words` (default) finds passages about words, `symbols` definitions by \
                          name, `references` uses of a name"
                .to_owned(),
            group: ToolGroup::Fs,
            input_schema: Schema::unchecked(input_schema().to_string()),
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
                ..Needs::default()
            },
        };
        let identity = format!(
            "{} {} {}",
            env!("CARGO_PKG_VERSION"),
            definition.description,
            definition.input_schema.as_str()
        );
        let origin = ToolOrigin {
            plugin: PLUGIN.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            location: format!("built-in/{PLUGIN}"),
            digest: format!("{:x}", Sha256::digest(identity)),
            declares_needs: true,
            ..ToolOrigin::default()
        };
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
        let start = Instant::now();
        let arguments = &task.arguments;
        let kind = arguments.kind.as_deref().map(parse_kind).transpose()?;
        let language = arguments
            .language
            .as_deref()
            .map(parse_language)
            .transpose()?;
        let granted: Vec<&str> = task
            .needs
            .files
            .iter()
            .map(|need| need.path.as_str())
            .collect();
        if granted.is_empty() {
            return Err(ToolError::permission_denied(
                "the search may not read any folder of the workspace",
            ));
        }
        let query = CodeQuery {
            query: check_query(&arguments.query)?,
            mode: arguments.mode.unwrap_or(SearchMode::Words),
            kind,
            filter: SearchFilter::new(&task.rules, granted, arguments.path.as_deref(), language)?,
            max_results: arguments
                .max_results
                .unwrap_or(DEFAULT_RESULTS)
                .clamp(1, MAX_RESULTS),
        };
        let root = Dir::open_ambient_dir(&self.workspace, cap_std::ambient_authority());
        let root = Arc::new(root.map_err(|error| {
            ToolError::new(
                ToolErrorCode::ExecutionError,
                format!("cannot open the workspace: {error}"),
            )
        })?);
        let limits = |part: f64| RefreshLimits {
            until: start + task.wall.mul_f64(part),
            cancelled: Arc::clone(&task.cancelled),
        };
        let mut state = loop {
            match self.state.try_lock_for(LOCK_INTERVAL) {
                Some(state) => break state,
                None if limits(SEARCH_PART).is_over() => {
                    return Err(ToolError::new(
                        ToolErrorCode::Timeout,
                        "another search is still building the index; try again",
                    ));
                }
                None => {}
            }
        };
        let store = IndexStore::new(&self.workspace);
        state.refreshes += 1;
        let CodeSearchState {
            index,
            tree,
            refreshes,
        } = &mut *state;
        let index = index.get_or_insert_with(|| store.load().unwrap_or_default());
        let before_refresh = Instant::now();
        let summary = refresh(
            index,
            tree,
            &root,
            &task.rules,
            &limits(REFRESH_PART),
            *refreshes,
        );
        let is_slow = summary.read > 0 && before_refresh.elapsed() >= SAVED_TIME;
        let is_worth = is_slow || index.unsaved >= SAVED_CHANGES;
        if is_worth && !task.cancelled.load(Ordering::Relaxed) {
            store.save(index);
        }
        let source = SearchSource {
            index,
            root: &root,
            limits: &limits(SEARCH_PART),
        };
        let mut found = search(&source, &query);
        let text = format_hits(&mut found, query.mode, &summary, index.len());
        let structured =
            serde_json::to_value(&found).map_err(|error| ToolError::internal(error.to_string()))?;
        Ok(ToolOutput {
            content: vec![Content::text(text)],
            structured: Some(structured),
            exit_code: None,
        })
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
                arguments,
                rules: call.paths().clone(),
                needs: call.rights().clone(),
                wall: call.limits().wall,
                cancelled,
            };
            let work = tokio::task::spawn_blocking(move || shared.run(&task));
            match work.await {
                Ok(result) => result.into(),
                Err(error) => RawResult::failed(ToolError::internal(error.to_string())),
            }
        })
    }
}

fn input_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "query": {"type": "string"},
            "mode": {"type": "string", "enum": ["words", "symbols", "references"]},
            "kind": {"type": "string", "description": "function, type, constant, …"},
            "language": {"type": "string"},
            "path": {"type": "string", "description": "File, folder or glob"},
            "maxResults": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS},
        },
        "required": ["query"],
    })
}

fn check_query(query: &str) -> Result<&str, ToolError> {
    let query = query.trim();
    if query.is_empty() {
        return Err(ToolError::invalid_input(
            "the query is empty: expected words or a name to search for",
        ));
    }
    if query.len() > MAX_QUERY {
        return Err(ToolError::invalid_input(format!(
            "the query has {} bytes: expected at most {MAX_QUERY}; use fewer words",
            query.len()
        )));
    }
    Ok(query)
}

fn parse_kind(name: &str) -> Result<SymbolKind, ToolError> {
    let wanted = name.trim().to_lowercase();
    let known = SYMBOL_KINDS.into_iter().find(|kind| kind.name() == wanted);
    known.ok_or_else(|| {
        let names = SYMBOL_KINDS.map(SymbolKind::name).join(", ");
        invalid("kind", name, &names)
    })
}

fn parse_language(name: &str) -> Result<SourceLanguage, ToolError> {
    SourceLanguage::find(name).ok_or_else(|| {
        let names = LANGUAGES.map(SourceLanguage::name).join(", ");
        invalid("language", name, &names)
    })
}

fn invalid(argument: &str, value: &str, expected: &str) -> ToolError {
    let shown = mimir_core::text::visible(mimir_core::text::prefix(value, 40));
    ToolError::invalid_input(format!(
        "{argument}: `{shown}` is not valid: expected one of {expected}"
    ))
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
            (SearchMode::Words, Some(end)) => {
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
        (SearchMode::Words, 1) => "passage",
        (SearchMode::Words, _) => "passages",
        (SearchMode::Symbols, 1) => "definition",
        (SearchMode::Symbols, _) => "definitions",
        (SearchMode::References, 1) => "line",
        (SearchMode::References, _) => "lines",
    };
    if fitting == 0 {
        let _ = write!(out, "Nothing found in {files} indexed files");
        if mode != SearchMode::Words {
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
    use super::*;

    #[test]
    fn code_search_definition_is_short() {
        let tool = CodeSearch::new(Path::new(".")).tool().unwrap();
        assert!(Schema::parse(tool.definition.input_schema.as_str()).is_ok());
        let length =
            tool.definition.input_schema.as_str().len() + tool.definition.description.len();
        // About four characters per token, and at most 150 tokens.
        assert!(length < 580, "{length}");
    }

    #[test]
    fn code_search_arguments_name_the_fault() {
        assert!(check_query("  ").unwrap_err().message.contains("is empty"));
        let kind = parse_kind("klass").unwrap_err();
        assert!(
            kind.message.contains("expected one of class, constant"),
            "{}",
            kind.message
        );
        assert!(
            parse_language("cobol")
                .unwrap_err()
                .message
                .contains("rust")
        );
        assert_eq!(parse_language(".tsx").unwrap(), SourceLanguage::TypeScript);
        assert_eq!(parse_kind("Function").unwrap(), SymbolKind::Function);
    }
}
