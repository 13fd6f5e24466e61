//! Programs outside of a call: those started by another program, and those that the host itself runs on an engine.
//!
//! They have no access to the host. A program inside another one sees that one's files; a program of the host sees
//! none.

use std::time::Instant;

use mimir_core::command::Finished;
use mimir_core::{Limits, ToolError};

use super::{Program, ProgramEngine, Sink, asks, bounded, files, stopped};
use crate::faults::fault;
use crate::fs::GuardedFs;

impl ProgramEngine {
    /// Runs a program outside of any call, within `limits`: it sees only the files that come with it.
    pub async fn alone(&self, program: Program, limits: Limits) -> Result<Finished, ToolError> {
        // Preparing the engine takes longer than the program may.
        self.ready().await?;
        let run = self.go(GuardedFs::none(), program, limits);
        match bounded(Some(limits.wall), run).await {
            Some(ended) => ended?.0,
            None => Err(stopped(&limits, None)),
        }
    }

    /// Runs a program in the middle of one of another engine, with that one's files and the rest of its fuel. Also
    /// returns the fuel that it used.
    pub(crate) async fn nested(
        &self,
        inner: &asks::Inner,
        program: Program,
        fuel: u64,
    ) -> (Result<Finished, ToolError>, u64) {
        let limits = Limits {
            fuel,
            ..inner.limits
        };
        let run = async {
            let tmp = (inner.tmp.0.as_path(), &inner.tmp.1);
            let (host, watch) = (&self.host, &inner.watch);
            let fs = files(host, &inner.rights, &inner.paths, &limits, tmp, watch)?;
            self.go(fs, program, limits).await
        };
        run.await.unwrap_or_else(|error: ToolError| (Err(error), 0))
    }

    async fn go(
        &self,
        fs: GuardedFs,
        program: Program,
        limits: Limits,
    ) -> Result<(Result<Finished, ToolError>, u64), ToolError> {
        let ready = self.ready().await?;
        let sink = Sink::unwatched(&limits);
        let start = Instant::now();
        let mut store = ready.store(self.begin(fs, limits, program, sink.clone()))?;
        let ended = ready.go(&mut store).await;
        let used = store
            .get_fuel()
            .map_or(limits.fuel, |left| limits.fuel.saturating_sub(left));
        let finished = match ended {
            Ok(code) => Ok(sink.finish(code, start.elapsed())),
            Err(error) => Err(fault(&error, store.data())),
        };
        Ok((finished, used))
    }
}
