//! The arguments of a call of `search_code`, and its limits.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use mimir_core::paths::PathRules;
use mimir_core::{Needs, ToolError};
use serde::Deserialize;

use crate::definitions::{SYMBOL_KINDS, SymbolKind};
use crate::language::{LANGUAGES, SourceLanguage};
use crate::refresh::RefreshLimits;
use crate::search::{CodeQuery, SearchFilter, SearchMode};

/// Maximum length of a query in bytes.
const MAX_QUERY: usize = 1_000;

/// Default and maximum number of results.
const DEFAULT_RESULTS: usize = 10;
pub(crate) const MAX_RESULTS: usize = 100;

/// Parts of the time limit of a call for updating the index, for the update and the embedding together, and for the
/// whole search.
pub(crate) const REFRESH_PART: f64 = 0.7;
pub(crate) const EMBED_PART: f64 = 0.8;
pub(crate) const SEARCH_PART: f64 = 0.9;

/// Arguments of a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SearchArguments {
    pub(crate) query: String,
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
#[derive(Clone)]
pub(crate) struct SearchTask {
    pub(crate) arguments: Arc<SearchArguments>,
    pub(crate) rules: PathRules,
    pub(crate) needs: Needs,
    pub(crate) start: Instant,
    pub(crate) wall: Duration,
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl SearchTask {
    /// Returns the limits of the work until a part of the time limit.
    pub(crate) fn limits(&self, part: f64) -> RefreshLimits {
        RefreshLimits {
            until: self.start + self.wall.mul_f64(part),
            cancelled: Arc::clone(&self.cancelled),
        }
    }

    pub(crate) fn mode(&self) -> SearchMode {
        self.arguments.mode.unwrap_or(SearchMode::Words)
    }

    /// Returns the checked query.
    pub(crate) fn query(&self) -> Result<CodeQuery<'_>, ToolError> {
        let arguments = &self.arguments;
        let kind = arguments.kind.as_deref().map(parse_kind).transpose()?;
        let language = arguments.language.as_deref();
        let language = language.map(parse_language).transpose()?;
        let granted = self.needs.files.iter();
        let granted: Vec<&str> = granted.map(|need| need.path.as_str()).collect();
        if granted.is_empty() {
            return Err(ToolError::permission_denied(
                "the search may not read any folder of the workspace",
            ));
        }
        Ok(CodeQuery {
            query: check_query(&arguments.query)?,
            mode: self.mode(),
            kind,
            filter: SearchFilter::new(&self.rules, granted, arguments.path.as_deref(), language)?,
            max_results: arguments
                .max_results
                .unwrap_or(DEFAULT_RESULTS)
                .clamp(1, MAX_RESULTS),
        })
    }
}

/// Checks a query, and returns it without surrounding spaces.
pub(crate) fn check_query(query: &str) -> Result<&str, ToolError> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
