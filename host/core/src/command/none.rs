//! For where no native program runs.

use std::sync::Arc;

use crate::backend::BoxFuture;
use crate::call::Observer;
use crate::error::{Code, ToolError};
use crate::pipeline::Permitted;

use super::{Finished, Job, JobId, Owner, Piece, Program, Runner, Script};

/// Runs nothing, and says so.
pub struct NoRunner;

fn unavailable() -> ToolError {
    ToolError::new(Code::Unavailable, "no native programs can be run here")
}

impl Runner for NoRunner {
    fn read(&self, _: &Program) -> Result<Script, ToolError> {
        Err(unavailable())
    }

    fn root(&self) -> Option<&str> {
        None
    }

    fn run(
        &self,
        _: Permitted,
        _: Arc<dyn Observer>,
    ) -> BoxFuture<'_, Result<Finished, ToolError>> {
        Box::pin(std::future::ready(Err(unavailable())))
    }

    fn start(&self, _: Permitted) -> BoxFuture<'_, Result<JobId, ToolError>> {
        Box::pin(std::future::ready(Err(unavailable())))
    }

    fn jobs(&self, _: &Owner) -> Vec<Job> {
        Vec::new()
    }

    fn output(&self, _: &Owner, _: JobId, _: u64) -> Result<Piece, ToolError> {
        Err(unavailable())
    }

    fn stop<'a>(&'a self, _: &'a Owner, _: JobId) -> BoxFuture<'a, Result<Job, ToolError>> {
        Box::pin(std::future::ready(Err(unavailable())))
    }

    fn end_session(&self, _: &str) {}
}
