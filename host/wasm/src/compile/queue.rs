//! Queue of compilations: each component is compiled once, however many calls wait for it, and as long as one of them
//! does. Cancelling the last one cancels the compilation.

use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{Shared, WeakShared};
use mimir_core::Code;
use mimir_core::backend::BoxFuture;
use tokio::sync::Semaphore;
use wasmtime::component::Component;

use super::compiler::{CompileError, CompileJob, Compiler};
use super::{CompileEvent, CompileLimits, bounds};
use crate::digest::Hash;
use crate::error::HostError;
use crate::host::WasmHost;
use crate::rest;

/// The origin of a component. One of each kind is compiled at a time: a custom component that keeps the compiler busy
/// does not delay the built-in ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Built into the program.
    BuiltIn,
    /// Provided by the user.
    Custom,
}

/// A request for a compiled component.
pub(crate) struct Request {
    /// Identifies its code in the cache.
    pub digest: Hash,
    /// The display name.
    pub name: String,
    pub lane: Lane,
    pub limits: CompileLimits,
}

type Compiled = Result<Component, HostError>;
type Job = Shared<BoxFuture<'static, Compiled>>;

/// The compilations under way.
pub(crate) struct CompileQueue {
    compiler: Arc<dyn Compiler>,
    built_in: Semaphore,
    custom: Semaphore,
    under_way: Mutex<UnderWay>,
}

/// By digest; the number distinguishes a job from an earlier one for the same component.
#[derive(Default)]
struct UnderWay {
    jobs: HashMap<Hash, (u64, WeakShared<BoxFuture<'static, Compiled>>)>,
    last: u64,
}

impl CompileQueue {
    pub(crate) fn new(compiler: Arc<dyn Compiler>) -> Self {
        Self {
            compiler,
            built_in: Semaphore::new(1),
            custom: Semaphore::new(1),
            under_way: Mutex::default(),
        }
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock()
    }

    /// Waits for a free compiler, which is released when the result is dropped. A wait has an end: exceeding the
    /// compile time limit is an error.
    async fn place(
        &self,
        request: &Request,
    ) -> Result<tokio::sync::SemaphorePermit<'_>, HostError> {
        let lane = match request.lane {
            Lane::BuiltIn => &self.built_in,
            Lane::Custom => &self.custom,
        };
        match tokio::time::timeout(request.limits.time, lane.acquire()).await {
            Ok(place) => place.map_err(|error| HostError::Engine(error.to_string())),
            Err(_) => Err(HostError::Component(
                format!(
                    "{} is not compiled yet: other components are being compiled; try again later",
                    request.name
                ),
                Code::Unavailable,
            )),
        }
    }
}

impl WasmHost {
    /// Returns the component: from the cache, or compiled now from these bytes.
    pub(crate) async fn component(
        self: &Arc<Self>,
        request: Request,
        bytes: impl FnOnce() -> Result<Cow<'static, [u8]>, HostError> + Send + 'static,
    ) -> Compiled {
        let engine = &self.running()?.engine;
        if let Some(component) = super::cached(engine, self.cache(), &request.digest) {
            return Ok(component);
        }
        let (digest, limits) = (request.digest, request.limits);
        if let Some((code, reason)) =
            rest::reason(self.cache(), &digest, rest::Kind::Compile(limits))
        {
            return Err(HostError::Compile(reason, code));
        }
        self.join(digest, || {
            Box::pin(Arc::clone(self).compile(request, bytes))
        })
        .await
    }

    /// Joins the compilation of this component if there is one, or begins it.
    fn join(
        self: &Arc<Self>,
        digest: Hash,
        begin: impl FnOnce() -> BoxFuture<'static, Compiled>,
    ) -> Job {
        let mut under_way = self.compile_queue().under_way();
        let known = under_way.jobs.get(&digest);
        if let Some(job) = known.and_then(|(_, job)| job.upgrade()) {
            return job;
        }
        under_way.last += 1;
        let number = under_way.last;
        let ended = Ended {
            host: Arc::clone(self),
            digest,
            number,
        };
        let work = begin();
        let work: BoxFuture<'static, Compiled> = Box::pin(async move {
            let _ended = ended;
            work.await
        });
        let job = work.shared();
        if let Some(weak) = job.downgrade() {
            under_way.jobs.insert(digest, (number, weak));
        }
        job
    }

    async fn compile(
        self: Arc<Self>,
        request: Request,
        bytes: impl FnOnce() -> Result<Cow<'static, [u8]>, HostError> + Send + 'static,
    ) -> Compiled {
        let _place = self.compile_queue().place(&request).await?;
        let name = request.name.clone();
        let bytes = blocking(move || {
            let bytes = bytes()?;
            match bounds::too_much(&bytes) {
                Some(reason) => Err(HostError::Component(
                    format!("{name} would take too long to compile: {reason}"),
                    Code::LimitExceeded,
                )),
                None => Ok(match bytes {
                    Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                    Cow::Owned(bytes) => Bytes::from(bytes),
                }),
            }
        })
        .await?;
        let running = self.running()?;
        let job = CompileJob {
            addressing: running.allocation().addressing(),
            limits: request.limits,
            bytes,
        };
        let told = Told::begin(&self, &request.name, job.bytes.len());
        let code = self.compile_queue().compiler.compile(job).await;
        drop(told);
        let code = code.map_err(|error| self.not_compiled(&request, error))?;
        let (host, engine) = (Arc::clone(&self), running.engine.clone());
        blocking(move || super::fresh(&engine, host.cache(), &request.digest, &request.name, &code))
            .await
    }

    fn not_compiled(&self, request: &Request, error: CompileError) -> HostError {
        let name = &request.name;
        let limit = |reason: String, code: Code| {
            // The next call would fail in the same way, after as long a wait.
            let kind = rest::Kind::Compile(request.limits);
            rest::remember(self.cache(), &request.digest, kind, code, &reason);
            let (code, reason) =
                rest::reason(self.cache(), &request.digest, kind).unwrap_or((code, reason));
            HostError::Compile(reason, code)
        };
        match &error {
            CompileError::Invalid(reason) => HostError::Component(
                format!("{name} cannot be compiled: {reason}"),
                Code::InvalidInput,
            ),
            CompileError::Time(time) => limit(
                format!(
                    "{name} was not compiled within {} ms (limits.compileTimeMs)",
                    time.as_millis()
                ),
                Code::Timeout,
            ),
            CompileError::Memory(bytes) => limit(
                format!(
                    "compiling {name} takes more than {} MB of memory (limits.compileMemoryMb)",
                    bytes >> 20
                ),
                Code::LimitExceeded,
            ),
            CompileError::Failed(_) => HostError::Engine(format!("{name}: {error}")),
        }
    }
}

/// Runs blocking work on a thread separate from those of calls.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| HostError::Engine(error.to_string()))?
}

/// Removes a job from the list when it has ended or no request waits for it.
struct Ended {
    host: Arc<WasmHost>,
    digest: Hash,
    number: u64,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let mut under_way = self.host.compile_queue().under_way();
        let known = under_way.jobs.get(&self.digest);
        if known.is_some_and(|(number, _)| *number == self.number) {
            under_way.jobs.remove(&self.digest);
        }
    }
}

/// Reports the beginning of a compilation, and its end however it ends.
struct Told<'a> {
    host: &'a WasmHost,
    name: &'a str,
    start: Instant,
}

impl<'a> Told<'a> {
    fn begin(host: &'a WasmHost, name: &'a str, bytes: usize) -> Self {
        host.tell(CompileEvent::Started {
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

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let took = self.start.elapsed();
        self.host.cache().counts().compiled(took);
        self.host.tell(CompileEvent::Finished {
            name: self.name.to_owned(),
            took,
        });
    }
}

#[cfg(test)]
mod tests;
