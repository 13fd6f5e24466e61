//! The port to the language model that tools may ask, if they were granted that.
//!
//! A tool asks by way of [`crate::pipeline::Effects::complete`], which judges, bounds and records each question first.
//!
//! Never here: which model that is, and how it is reached.

use crate::backend::BoxFuture;
use crate::error::{Code, ToolError};

/// A language model.
pub trait Completer: Send + Sync {
    /// What it is called, for the record and for people; or why there is none.
    fn name(&self) -> Result<String, ToolError>;

    /// The tokens that one answer may have.
    fn most(&self) -> u32;

    /// Completes a text in at most `most` tokens. Dropping the future stops it. `session` is for the record.
    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        most: u32,
        session: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>>;
}

/// There is no model.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModel;

impl NoModel {
    fn error() -> ToolError {
        ToolError::new(
            Code::Unavailable,
            "there is no language model for tools here",
        )
    }
}

impl Completer for NoModel {
    fn name(&self) -> Result<String, ToolError> {
        Err(Self::error())
    }

    fn most(&self) -> u32 {
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
