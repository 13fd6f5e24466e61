//! State shared by all components of a process: the engine, the linker, the cache, the workspace.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use mimir_net::Resolver;
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::cache::{CacheState, CodeCounts, ComponentCache};
use crate::compile::{
    CompileEvent, CompileLimits, CompileQueue, ComponentCompiler, InProcessCompiler,
};
use crate::engine::{self, EngineMode, MemoryAllocation};
use crate::error::WasmHostError;
use crate::linker;
use crate::store_state::StoreState;

/// Callback for the start and end of each compilation, for display.
pub type CompileObserver = Arc<dyn Fn(CompileEvent) + Send + Sync>;

/// Options of a host. Unset options give no access.
#[derive(Clone)]
pub struct HostOptions {
    /// The folder that tools work in.
    pub workspace: PathBuf,
    /// Folder for compiled code; `None` disables the cache.
    pub cache_dir: Option<PathBuf>,
    /// True if memory comes from a pool.
    pub pooling: bool,
    /// Callback for each compilation.
    pub on_compile: Option<CompileObserver>,
    /// Compiles components; `None` is [`InProcessCompiler`], which does not limit memory.
    pub compiler: Option<Arc<dyn ComponentCompiler>>,
    /// Limits for compiling outside of a call: language engines, and components to describe. A call has its own limits
    /// in [`Limits`](mimir_core::Limits).
    pub compile_limits: CompileLimits,
    /// DNS resolver for the requests of tools; `None` is the system's resolver.
    pub resolver: Option<Arc<dyn Resolver>>,
}

impl HostOptions {
    /// Returns the options of a host for `workspace` without a cache or callbacks.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            cache_dir: None,
            pooling: true,
            on_compile: None,
            compiler: None,
            compile_limits: CompileLimits::default(),
            resolver: None,
        }
    }
}

/// Returns the cache folder, unless tools could write to it: code from there runs without a sandbox.
fn safe_cache_folder(options: &HostOptions) -> Option<PathBuf> {
    let cache = options.cache_dir.clone()?;
    // A missing folder is located from its nearest existing ancestor, unless the missing part contains `..`.
    let real = |path: &Path| {
        let existing = path.ancestors().find(|above| above.exists())?;
        let rest = path.strip_prefix(existing).ok()?;
        let climbs = rest.components().any(|part| part == Component::ParentDir);
        (!climbs).then(|| Some(existing.canonicalize().ok()?.join(rest)))?
    };
    let is_below = match (real(&cache), real(&options.workspace)) {
        (Some(cache), Some(workspace)) => cache.starts_with(workspace),
        _ => true,
    };
    if is_below {
        tracing::warn!(cache = %cache.display(), "the cache is disabled: its folder is below the workspace, where tools can write");
        return None;
    }
    Some(cache)
}

/// Host of all components of a process. An engine is created at the first run, because listing tools needs none.
pub struct WasmHost {
    options: HostOptions,
    cache: ComponentCache,
    compiles: CompileQueue,
    sequential: OnceLock<Result<RunningEngine, WasmHostError>>,
    concurrent: OnceLock<Result<RunningEngine, WasmHostError>>,
}

/// The state that exists once a component runs.
pub(crate) struct RunningEngine {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<StoreState>,
    allocation: MemoryAllocation,
}

impl RunningEngine {
    /// Returns the memory allocation strategy.
    pub(crate) fn allocation(&self) -> &MemoryAllocation {
        &self.allocation
    }
}

/// Facts about the engine, for `doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    /// The memory allocation strategy, or the reason why no component can run.
    pub allocation: Result<MemoryAllocation, String>,
    /// Folder for compiled code.
    pub cache_dir: Option<PathBuf>,
    /// State of that folder.
    pub cache: CacheState,
}

impl WasmHost {
    /// Creates a host; nothing is initialized yet.
    pub fn new(options: HostOptions) -> Arc<Self> {
        let compiler = options.compiler.clone();
        let compiler = compiler.unwrap_or_else(|| Arc::new(InProcessCompiler::default()));
        Arc::new(Self {
            cache: ComponentCache::new(safe_cache_folder(&options)),
            options,
            compiles: CompileQueue::new(compiler),
            sequential: OnceLock::new(),
            concurrent: OnceLock::new(),
        })
    }

    /// Returns the resolver, if it is not the system's.
    pub(crate) fn resolver(&self) -> Option<Arc<dyn Resolver>> {
        self.options.resolver.clone()
    }

    /// Returns the folder that tools work in.
    pub fn workspace(&self) -> &Path {
        &self.options.workspace
    }

    /// Returns facts for `doctor`. Creates the engine and instantiates a sample module.
    pub fn facts(&self) -> EngineFacts {
        EngineFacts {
            allocation: self
                .running(EngineMode::Sequential)
                .map_err(|error| error.to_string())
                .and_then(|running| match engine::run_sample(&running.engine) {
                    Ok(()) => Ok(running.allocation.clone()),
                    Err(error) => Err(format!("no component can be started: {error:#}")),
                }),
            cache_dir: self.cache.folder().map(Path::to_owned),
            cache: self.cache.state(),
        }
    }

    /// Returns the hits and misses of the cache for compiled code so far.
    pub fn code_counts(&self) -> CodeCounts {
        self.cache.counts().snapshot()
    }

    /// Returns the state and size of the cache. Reads the metadata of each cached file, and creates no engine.
    pub fn cache_state(&self) -> CacheState {
        self.cache.state()
    }

    /// Returns the engine, for measurements or for linking components of another kind. The first use creates it.
    pub fn engine(&self) -> Result<Engine, WasmHostError> {
        Ok(self.running(EngineMode::Sequential)?.engine.clone())
    }

    pub(crate) fn cache(&self) -> &ComponentCache {
        &self.cache
    }

    /// Returns the queue of compilations.
    pub(crate) fn compile_queue(&self) -> &CompileQueue {
        &self.compiles
    }

    /// Returns the limits for compiling components outside of a call.
    pub(crate) fn compile_limits(&self) -> CompileLimits {
        self.options.compile_limits
    }

    /// Returns the engine and the linker for components of this mode. The first use creates both.
    pub(crate) fn running(&self, mode: EngineMode) -> Result<&RunningEngine, WasmHostError> {
        let running = match mode {
            EngineMode::Sequential => &self.sequential,
            EngineMode::Concurrent => &self.concurrent,
        };
        let running = running.get_or_init(|| {
            let (engine, allocation) = engine::new_engine(mode, self.options.pooling)?;
            if let MemoryAllocation::OnDemand { why } = &allocation {
                tracing::debug!(why, "no memory pool");
            }
            let linker = linker::linker(&engine, mode)
                .map_err(|error| WasmHostError::Engine(format!("{error:#}")))?;
            Ok(RunningEngine {
                engine,
                linker,
                allocation,
            })
        });
        running.as_ref().map_err(Clone::clone)
    }

    /// Reports an event to the callback, if there is one.
    pub(crate) fn notify(&self, event: CompileEvent) {
        if let Some(observer) = &self.options.on_compile {
            observer(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_below_the_workspace_is_disabled() {
        let dir = tempfile::tempdir().unwrap();
        let is_used = |workspace: &str, cache: &str| {
            let mut options = HostOptions::new(dir.path().join(workspace));
            options.cache_dir = Some(dir.path().join(cache));
            safe_cache_folder(&options).is_some()
        };
        // Both for a workspace that exists already and for one that does not.
        for _ in 0..2 {
            assert!(is_used("work", "cache"));
            assert!(is_used("work", "deep/cache"));
            assert!(!is_used("work", "work"));
            assert!(!is_used("work", "work/deep/cache"));
            assert!(!is_used("work", "missing/../work/cache"));
            std::fs::create_dir_all(dir.path().join("work")).unwrap();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("work", dir.path().join("link")).unwrap();
            assert!(!is_used("work", "link/cache"));
        }
    }
}
