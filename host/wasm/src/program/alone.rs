//! Programs without a call of their own: those that another program starts, and what the host itself asks an engine.
//!
//! Neither has anything to ask for. A program in another one sees that one's files; what the host asks sees none.

use std::time::Instant;

use mimir_core::command::Finished;
use mimir_core::{Limits, ToolError};

use super::{Program, ProgramEngine, Sink, asks, bounded, files, stopped};
use crate::faults::fault;
use crate::fs::GuardedFs;

impl ProgramEngine {
    /// Runs a program outside of any call, in no more than `limits`: it sees the files that come with it and no others.
    pub async fn alone(&self, program: Program, limits: Limits) -> Result<Finished, ToolError> {
        // Making the engine ready takes longer than the program may.
        self.ready().await?;
        let run = self.go(GuardedFs::none(), program, limits);
        match bounded(Some(limits.wall), run).await {
            Some(ended) => ended?.0,
            None => Err(stopped(&limits, None)),
        }
    }

    /// Runs a program in the middle of one of another engine, with that one's files and what is left of its fuel. Gives
    /// the fuel that it took, too.
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
