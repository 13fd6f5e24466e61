//! The port to the language model for tools.
//!
//! Tools with a grant use it through [`crate::pipeline::EffectGate::complete`], which checks, limits and records each
//! prompt.
//!
//! Out of scope: the selection of the model and the connection to it.

use crate::backend::BoxFuture;
use crate::error::{ToolError, ToolErrorCode};

/// A language model.
pub trait LanguageModel: Send + Sync {
    /// Returns the name of the model, for the audit log and for display. Fails if no model is available.
    fn name(&self) -> Result<String, ToolError>;

    /// Returns the maximum number of tokens of one completion.
    fn max_tokens(&self) -> u32;

    /// Completes a text in at most `max_tokens` tokens. Dropping the future stops the request. `session` is for the
    /// audit log.
    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        max_tokens: u32,
        session: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>>;
}

/// A model for hosts without one: every request fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLanguageModel;

impl NoLanguageModel {
    fn error() -> ToolError {
        ToolError::new(
            ToolErrorCode::Unavailable,
            "a language model for tools is not available here",
        )
    }
}

impl LanguageModel for NoLanguageModel {
    fn name(&self) -> Result<String, ToolError> {
        Err(Self::error())
    }

    fn max_tokens(&self) -> u32 {
        0
    }

    fn complete<'a>(
        &'a self,
        _: &'a str,
        _: u32,
        _: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(std::future::ready(Err(Self::error())))
    }
}
