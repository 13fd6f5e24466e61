//! The compiler interface, and a compiler that runs in this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mimir_core::backend::BoxFuture;
use tokio::sync::{Semaphore, oneshot};
use wasmtime::Engine;

use super::CompileLimits;
use crate::engine::{self, EngineMode, MemoryAddressing};

/// Compiles components to machine code within limits.
///
/// A host compiles at most two components at a time, one of them built in. Dropping the future cancels the compilation;
/// an implementation that cannot stop a compilation has to limit the number of those that continue.
pub trait ComponentCompiler: Send + Sync {
    /// Compiles a component. The result is what [`wasmtime::Engine::precompile_component`] returns.
    fn compile(&self, job: CompileJob) -> BoxFuture<'static, Result<Vec<u8>, CompileError>>;
}

/// A component to compile.
#[derive(Debug, Clone)]
pub struct CompileJob {
    /// The component, whose code size is already checked.
    pub bytes: Bytes,
    /// The mode of the engine that will run the code.
    pub mode: EngineMode,
    /// The addressing mode of the code.
    pub addressing: MemoryAddressing,
    /// The limits.
    pub limits: CompileLimits,
}

/// Reason why a component was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The component is not valid. Contains the engine's message.
    #[error("it cannot be compiled: {0}")]
    Invalid(String),
    /// Compiling took too long.
    #[error("it was not compiled within {} ms (limits.compileTimeMs)", .0.as_millis())]
    Time(Duration),
    /// Compiling took too much memory.
    #[error("compiling it takes more than {} MB of memory (limits.compileMemoryMb)", .0 >> 20)]
    Memory(u64),
    /// The compiler cannot be started, or failed.
    #[error("the compiler failed: {0}")]
    Failed(String),
}

/// A compiler that runs on threads of this process.
///
/// For embedders and tests. At the time limit it gives up, but the compilation continues in the background; at most two
/// compilations run at a time. It does not enforce the memory limit. [`ChildCompiler`](super::ChildCompiler) enforces
/// both limits.
#[derive(Debug)]
pub struct InProcessCompiler(Arc<Semaphore>);

/// Maximum number of running compilations, including abandoned ones.
const MAX_RUNNING: usize = 2;

impl Default for InProcessCompiler {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_RUNNING)))
    }
}

impl ComponentCompiler for InProcessCompiler {
    fn compile(&self, job: CompileJob) -> BoxFuture<'static, Result<Vec<u8>, CompileError>> {
        let permits = Arc::clone(&self.0);
        Box::pin(async move {
            let time = job.limits.time;
            let failed = |reason: String| CompileError::Failed(reason);
            let work = async {
                let permit = permits.acquire_owned().await;
                let permit = permit.map_err(|error| failed(error.to_string()))?;
                let (sender, receiver) = oneshot::channel();
                let thread = std::thread::Builder::new().name("compile".to_owned());
                let started = thread.spawn(move || {
                    let _permit = permit;
                    // The requester may be gone.
                    let _ = sender.send(compile(job.mode, job.addressing, &job.bytes));
                });
                started.map_err(|error| failed(error.to_string()))?;
                // A compiler that panics drops its sender.
                receiver
                    .await
                    .unwrap_or_else(|_| Err(failed("the thread ended without a result".to_owned())))
            };
            let result = tokio::time::timeout(time, work).await;
            result.unwrap_or(Err(CompileError::Time(time)))
        })
    }
}

/// Compiles on this thread and on wasmtime's thread pool.
pub(super) fn compile(
    mode: EngineMode,
    addressing: MemoryAddressing,
    bytes: &[u8],
) -> Result<Vec<u8>, CompileError> {
    let engine: Engine = engine::compiling_engine(mode, addressing)
        .map_err(|error| CompileError::Failed(error.to_string()))?;
    engine
        .precompile_component(bytes)
        .map_err(|error| CompileError::Invalid(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(bytes: impl Into<Bytes>, time: Duration) -> CompileJob {
        CompileJob {
            bytes: bytes.into(),
            mode: EngineMode::Sequential,
            addressing: MemoryAddressing::Reserved,
            limits: CompileLimits {
                time,
                ..CompileLimits::default()
            },
        }
    }

    #[tokio::test]
    async fn compiler_in_process_compiles_and_rejects() {
        let compiler = InProcessCompiler::default();
        let good = wat::parse_str("(component)").unwrap();
        let long = Duration::from_secs(60);
        let code = compiler.compile(job(good.clone(), long)).await.unwrap();
        assert!(Engine::detect_precompiled(&code).is_some());
        let error = compiler.compile(job("no component", long)).await;
        assert!(matches!(error, Err(CompileError::Invalid(_))), "{error:?}");
        // Other compilations hold all permits and do not release them in time.
        let permits = Arc::clone(&compiler.0).acquire_many_owned(MAX_RUNNING as u32);
        let _permits = permits.await.unwrap();
        let short = Duration::from_millis(1);
        let error = compiler.compile(job(good, short)).await.unwrap_err();
        assert_eq!(error, CompileError::Time(short));
    }
}
