//! Expansion of the text of an arithmetic expression, as bash expands it before evaluation: as if between double
//! quotes.
//!
//! It is compiled as a module of bashkit's interpreter (`../build/bash.rs`). As published, only a few forms of `${…}`
//! are expanded in arithmetic, the others silently become the empty text. Here every form is expanded as a word.

use std::future::Future;
use std::pin::Pin;

use super::*;

impl Interpreter {
    /// Returns true if a text has expansions other than plain `$name` and `${name}`, which the evaluator expands
    /// itself. Under `set -u` those are expanded as a word, too, which reports unset names.
    pub(super) fn has_substitutions(&self, text: &str) -> bool {
        let is_plain = |rest: &str| {
            let end = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            end.len() < rest.len() && end.starts_with('}')
        };
        text.contains("$(")
            || text.contains('`')
            || text.split("${").skip(1).any(|rest| !is_plain(rest))
            || self.is_nounset() && text.contains('$')
    }

    /// Expands the text of an arithmetic expression. Boxed: it is awaited from words, whose stack frames must stay
    /// small.
    pub(super) fn expand_arithmetic_text<'a>(
        &'a mut self,
        text: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<String>> + Send + 'a>> {
        Box::pin(async move {
            let mut word = Parser::parse_arithmetic_text(
                text,
                self.limits.max_ast_depth,
                self.limits.max_parser_operations,
                self.execution_budget.clone(),
            )?;
            for part in &mut word.parts {
                // `"$x" + 1`: quotes of the expression itself are dropped.
                if let WordPart::Literal(literal) = part {
                    literal.retain(|c| c != '"');
                }
            }
            word.quoted = true;
            self.expand_word(&word).await
        })
    }

    /// Expands the text of an arithmetic command. An unset name ends the shell, as it does in a word.
    pub(super) async fn expand_arithmetic_command_text(&mut self, text: &str) -> Result<String> {
        let expanded = self.expand_arithmetic_text(text).await?;
        let Some(message) = self.nounset_error.take() else {
            return Ok(expanded);
        };
        if let Ok(mut unbound) = self.arith_unbound.lock() {
            unbound.get_or_insert_with(|| message.clone());
        }
        Err(crate::error::Error::LineAbort(message))
    }

    /// Expands the offset or the length of `${name:offset:length}`.
    pub(super) fn expand_offset<'a>(
        &'a mut self,
        text: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<String>> + Send + 'a>> {
        Box::pin(async move {
            match self.has_substitutions(text) {
                true => self.expand_arithmetic_text(text).await,
                false => Ok(text.to_owned()),
            }
        })
    }
}
