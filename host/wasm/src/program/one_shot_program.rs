//! Programs without a call of their own: nested programs, started by another program, and isolated programs, run by the
//! host itself.
//!
//! These programs have no access to the host. A nested program sees the files of the outer program; an isolated program
//! sees no files of the workspace.

use std::time::Instant;

use mimir_core::command::CommandOutput;
use mimir_core::{Limits, ToolError};

use super::{ProgramEngine, ProgramOutput, ProgramRequest, program_host, timeout_error};
use crate::backend;
use crate::fs::GuardedFs;
use crate::trap_errors::trap_error;

impl ProgramEngine {
    /// Runs a program outside of any call, within `limits`. It sees only the files in the request and those of the
    /// engine.
    pub async fn run_isolated(
        &self,
        program: ProgramRequest,
        limits: Limits,
    ) -> Result<CommandOutput, ToolError> {
        // Preparing the engine may take longer than the time limit, so it does not count.
        self.ready().await?;
        let run = self.run_with_files(GuardedFs::empty(), program, limits);
        match tokio::time::timeout(limits.wall, run).await {
            Ok(result) => result?.0,
            Err(_) => Err(timeout_error(&limits, None)),
        }
    }

    /// Runs a nested program with the files of the outer program and at most `fuel`. Also returns the used fuel.
    pub(crate) async fn run_nested(
        &self,
        outer: &program_host::NestedRights,
        program: ProgramRequest,
        fuel: u64,
    ) -> (Result<CommandOutput, ToolError>, u64) {
        let limits = Limits {
            fuel,
            ..outer.limits
        };
        let run = async {
            let tmp = (outer.tmp.0.as_path(), &outer.tmp.1);
            let (host, tracking) = (&self.host, &outer.tracking);
            let (rights, paths) = (&outer.rights, &outer.paths);
            let fs = backend::program_files(host, rights, paths, &limits, tmp, tracking)?;
            self.run_with_files(fs, program, limits).await
        };
        run.await.unwrap_or_else(|error: ToolError| (Err(error), 0))
    }

    async fn run_with_files(
        &self,
        fs: GuardedFs,
        program: ProgramRequest,
        limits: Limits,
    ) -> Result<(Result<CommandOutput, ToolError>, u64), ToolError> {
        let ready = self.ready().await?;
        let sink = ProgramOutput::without_observer(&limits);
        let start = Instant::now();
        let mut store = ready.store(self.store_options(fs, limits, program, sink.clone()))?;
        let exit = ready.run_to_end(&mut store).await;
        let used_fuel = store
            .get_fuel()
            .map_or(limits.fuel, |left| limits.fuel.saturating_sub(left));
        let finished = match exit {
            Ok(code) => Ok(sink.finish(code, start.elapsed())),
            Err(error) => Err(trap_error(&error, store.data())),
        };
        Ok((finished, used_fuel))
    }
}
