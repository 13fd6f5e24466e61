//! Queue of compilations: each component is compiled once, however many calls wait for it. A compilation is cancelled
//! together with the last call that waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{Shared, WeakShared};
use mimir_core::ToolErrorCode;
use mimir_core::backend::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use wasmtime::component::Component;

use super::compiler::{CompileError, CompileJob, ComponentCompiler};
use super::{CompileEvent, CompileLimits, code_size};
use crate::backoff;
use crate::digest::Sha256Digest;
use crate::engine::EngineMode;
use crate::error::WasmHostError;
use crate::host::WasmHost;

/// The origin of a component. One component of each origin is compiled at a time, so that a slow custom component does
/// not delay built-in ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompileLane {
    /// Built into the program.
    BuiltIn,
    /// Provided by the user.
    Custom,
}

/// A request for a compiled component.
pub(crate) struct CompileRequest {
    /// Digest of the component, which identifies its code in the cache.
    pub digest: Sha256Digest,
    /// Display name of the component.
    pub name: String,
    pub lane: CompileLane,
    /// The mode of the engine that will run the component.
    pub mode: EngineMode,
    pub limits: CompileLimits,
}

type CompileResult = Result<Component, WasmHostError>;
type SharedCompilation = Shared<BoxFuture<'static, CompileResult>>;

/// The queue, with the running compilations.
pub(crate) struct CompileQueue {
    compiler: Arc<dyn ComponentCompiler>,
    built_in: Semaphore,
    custom: Semaphore,
    compilations: Mutex<RunningCompilations>,
}

/// Running compilations by digest. The number distinguishes a job from an earlier one for the same component.
#[derive(Default)]
struct RunningCompilations {
    jobs: HashMap<Sha256Digest, (u64, WeakShared<BoxFuture<'static, CompileResult>>)>,
    last: u64,
}

impl CompileQueue {
    pub(crate) fn new(compiler: Arc<dyn ComponentCompiler>) -> Self {
        Self {
            compiler,
            built_in: Semaphore::new(1),
            custom: Semaphore::new(1),
            compilations: Mutex::default(),
        }
    }

    fn compilations(&self) -> MutexGuard<'_, RunningCompilations> {
        self.compilations.lock()
    }

    /// Waits for a free compiler, which is released when the permit is dropped. Fails if that takes longer than the
    /// compile time limit.
    async fn acquire_lane(
        &self,
        request: &CompileRequest,
    ) -> Result<tokio::sync::SemaphorePermit<'_>, WasmHostError> {
        let lane = match request.lane {
            CompileLane::BuiltIn => &self.built_in,
            CompileLane::Custom => &self.custom,
        };
        match tokio::time::timeout(request.limits.time, lane.acquire()).await {
            Ok(permit) => permit.map_err(|error| WasmHostError::Engine(error.to_string())),
            Err(_) => Err(WasmHostError::Component(
                "it is not compiled yet: other components are being compiled; try again later"
                    .to_owned(),
                ToolErrorCode::Unavailable,
            )),
        }
    }
}

impl WasmHost {
    /// Returns the component: from the cache, or else compiled from these bytes.
    pub(crate) async fn component(
        self: &Arc<Self>,
        request: CompileRequest,
        bytes: impl FnOnce() -> Result<Vec<u8>, WasmHostError> + Send + 'static,
    ) -> CompileResult {
        let engine = &self.running(request.mode)?.engine;
        if let Some(component) = super::cached_component(engine, self.cache(), &request.digest) {
            return Ok(component);
        }
        let (digest, limits) = (request.digest, request.limits);
        if let Some((code, reason)) =
            backoff::active_failure(self.cache(), &digest, backoff::BackoffKind::Compile(limits))
        {
            return Err(WasmHostError::Compile(reason, code));
        }
        self.join(digest, || {
            Box::pin(Arc::clone(self).compile(request, bytes))
        })
        .await
    }

    /// Joins the running compilation of this component, or begins one.
    fn join(
        self: &Arc<Self>,
        digest: Sha256Digest,
        begin: impl FnOnce() -> BoxFuture<'static, CompileResult>,
    ) -> SharedCompilation {
        let mut compilations = self.compile_queue().compilations();
        let known = compilations.jobs.get(&digest);
        if let Some(job) = known.and_then(|(_, job)| job.upgrade()) {
            return job;
        }
        compilations.last += 1;
        let number = compilations.last;
        let cleanup = JobCleanup {
            host: Arc::clone(self),
            digest,
            number,
        };
        let work = begin();
        let work: BoxFuture<'static, CompileResult> = Box::pin(async move {
            let _cleanup = cleanup;
            work.await
        });
        let job = work.shared();
        if let Some(weak) = job.downgrade() {
            compilations.jobs.insert(digest, (number, weak));
        }
        job
    }

    async fn compile(
        self: Arc<Self>,
        request: CompileRequest,
        bytes: impl FnOnce() -> Result<Vec<u8>, WasmHostError> + Send + 'static,
    ) -> CompileResult {
        let _permit = self.compile_queue().acquire_lane(&request).await?;
        let bytes = run_blocking(move || {
            let bytes = bytes()?;
            match code_size::find_excess(&bytes) {
                Some(reason) => Err(WasmHostError::Component(
                    format!("it would take too long to compile: {reason}"),
                    ToolErrorCode::LimitExceeded,
                )),
                None => Ok(Bytes::from(bytes)),
            }
        })
        .await?;
        let running = self.running(request.mode)?;
        let job = CompileJob {
            mode: request.mode,
            addressing: running.allocation().addressing(),
            limits: request.limits,
            bytes,
        };
        let notifier = CompileNotifier::start(&self, &request.name, job.bytes.len());
        let code = self.compile_queue().compiler.compile(job).await;
        drop(notifier);
        let code = code.map_err(|error| self.compile_failure(&request, &error))?;
        let (host, engine) = (Arc::clone(&self), running.engine.clone());
        run_blocking(move || {
            super::load_and_store(&engine, host.cache(), &request.digest, &request.name, &code)
        })
        .await
    }

    fn compile_failure(&self, request: &CompileRequest, error: &CompileError) -> WasmHostError {
        let reason = error.to_string();
        let code = match error {
            CompileError::Invalid(_) => {
                return WasmHostError::Component(reason, ToolErrorCode::InvalidInput);
            }
            CompileError::Failed(_) => {
                return WasmHostError::Engine(format!("{}: {reason}", request.name));
            }
            CompileError::Time(_) => ToolErrorCode::Timeout,
            CompileError::Memory(_) => ToolErrorCode::LimitExceeded,
        };
        // Without a backoff, the next call would fail in the same way after the same wait.
        let kind = backoff::BackoffKind::Compile(request.limits);
        backoff::remember_failure(self.cache(), &request.digest, kind, code, &reason);
        let (code, reason) =
            backoff::active_failure(self.cache(), &request.digest, kind).unwrap_or((code, reason));
        WasmHostError::Compile(reason, code)
    }
}

/// Runs blocking work on a thread that runs no calls.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WasmHostError> + Send + 'static,
) -> Result<T, WasmHostError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|error| WasmHostError::Engine(error.to_string()))?
}

/// Removes a job from the list when the job has ended or no call waits for it any more.
struct JobCleanup {
    host: Arc<WasmHost>,
    digest: Sha256Digest,
    number: u64,
}

impl Drop for JobCleanup {
    fn drop(&mut self) {
        let mut compilations = self.host.compile_queue().compilations();
        let known = compilations.jobs.get(&self.digest);
        if known.is_some_and(|(number, _)| *number == self.number) {
            compilations.jobs.remove(&self.digest);
        }
    }
}

/// Reports the start of a compilation, and on drop the end, including failures and cancellation.
struct CompileNotifier<'a> {
    host: &'a WasmHost,
    name: &'a str,
    start: Instant,
}

impl<'a> CompileNotifier<'a> {
    fn start(host: &'a WasmHost, name: &'a str, bytes: usize) -> Self {
        host.notify(CompileEvent::Started {
            name: name.to_owned(),
            bytes: bytes as u64,
        });
        Self {
            host,
            name,
            start: Instant::now(),
        }
    }
}

impl Drop for CompileNotifier<'_> {
    fn drop(&mut self) {
        let elapsed = self.start.elapsed();
        self.host.cache().counts().count_compiled(elapsed);
        self.host.notify(CompileEvent::Finished {
            name: self.name.to_owned(),
            took: elapsed,
        });
    }
}

#[cfg(test)]
mod tests;
