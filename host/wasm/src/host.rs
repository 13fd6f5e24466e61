//! What all components of a process share: the engine, the linker, the cache, the workspace.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use mimir_net::Resolver;
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::cache::{Cache, CacheState, CodeCounts};
use crate::compile::{CompileEvent, CompileLimits, CompileQueue, Compiler, InProcess};
use crate::engine::{self, Allocation};
use crate::error::HostError;
use crate::guest::Guest;
use crate::linker;

/// Hears what is compiled, to show it to a person.
pub type OnCompile = Arc<dyn Fn(CompileEvent) + Send + Sync>;

/// How a host is set up. What is not said stays closed.
#[derive(Clone)]
pub struct HostOptions {
    /// The folder that tools work in.
    pub workspace: PathBuf,
    /// Where compiled code is kept; `None` keeps nothing.
    pub cache_dir: Option<PathBuf>,
    /// Whether memory comes from a pool.
    pub pooling: bool,
    /// Hears what is compiled.
    pub on_compile: Option<OnCompile>,
    /// Compiles components; `None` is [`InProcess`], which bounds no memory.
    pub compiler: Option<Arc<dyn Compiler>>,
    /// The bounds of compiling language engines, and components that describe themselves. A call has its own, in its
    /// [`Limits`](mimir_core::Limits).
    pub compile_limits: CompileLimits,
    /// Answers which addresses a name has that a tool sends a request to; `None` is the system.
    pub resolver: Option<Arc<dyn Resolver>>,
}

impl HostOptions {
    /// A host for `workspace` that keeps nothing and tells nobody.
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

/// The cache folder, unless tools could write to it: code from there is run without a sandbox.
fn outside(options: &HostOptions) -> Option<PathBuf> {
    let cache = options.cache_dir.clone()?;
    // A folder that is not there yet lies where its nearest ancestor does; unless the way there climbs,
    // through what is not there yet either.
    let real = |path: &Path| {
        let there = path.ancestors().find(|above| above.exists())?;
        let rest = path.strip_prefix(there).ok()?;
        let climbs = rest.components().any(|part| part == Component::ParentDir);
        (!climbs).then(|| Some(there.canonicalize().ok()?.join(rest)))?
    };
    let below = match (real(&cache), real(&options.workspace)) {
        (Some(cache), Some(workspace)) => cache.starts_with(workspace),
        _ => true,
    };
    if below {
        tracing::warn!(cache = %cache.display(), "the cache lies below the workspace, where tools write, and is not used");
        return None;
    }
    Some(cache)
}

/// Runs components. The engine is made when the first one runs: listing tools makes none.
pub struct WasmHost {
    options: HostOptions,
    cache: Cache,
    compiles: CompileQueue,
    running: OnceLock<Result<Running, HostError>>,
}

/// What exists once something runs.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Guest>,
    allocation: Allocation,
}

impl Running {
    /// The strategy of memory allocation.
    pub(crate) fn allocation(&self) -> &Allocation {
        &self.allocation
    }
}

/// What `doctor` says about the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    /// How memory is had, or why nothing can run.
    pub allocation: Result<Allocation, String>,
    /// Where compiled code is kept.
    pub cache_dir: Option<PathBuf>,
    /// Its state.
    pub cache: CacheState,
}

impl WasmHost {
    /// A host that has done nothing yet.
    pub fn new(options: HostOptions) -> Arc<Self> {
        let compiler = options.compiler.clone();
        let compiler = compiler.unwrap_or_else(|| Arc::new(InProcess::default()));
        Arc::new(Self {
            cache: Cache::new(outside(&options)),
            options,
            compiles: CompileQueue::new(compiler),
            running: OnceLock::new(),
        })
    }

    /// Who answers for names, if not the system.
    pub(crate) fn resolver(&self) -> Option<Arc<dyn Resolver>> {
        self.options.resolver.clone()
    }

    /// The folder that tools work in.
    pub fn workspace(&self) -> &Path {
        &self.options.workspace
    }

    /// Facts for `doctor`. Makes the engine, and runs something on it.
    pub fn facts(&self) -> EngineFacts {
        EngineFacts {
            allocation: self
                .running()
                .map_err(|error| error.to_string())
                .and_then(|running| match engine::sample(&running.engine) {
                    Ok(()) => Ok(running.allocation.clone()),
                    Err(error) => Err(format!("nothing can be started: {error:#}")),
                }),
            cache_dir: self.cache.folder().map(Path::to_owned),
            cache: self.cache.state(),
        }
    }

    /// What the cache of compiled code has saved until now.
    pub fn code_counts(&self) -> CodeCounts {
        self.cache.counts().now()
    }

    /// The state and size of the cache. Looks at each of its files, and makes no engine.
    pub fn cache_state(&self) -> CacheState {
        self.cache.state()
    }

    /// The engine, for who measures it or links components of another kind. Made at the first use.
    pub fn engine(&self) -> Result<Engine, HostError> {
        Ok(self.running()?.engine.clone())
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The compilations under way.
    pub(crate) fn compile_queue(&self) -> &CompileQueue {
        &self.compiles
    }

    /// The bounds of compiling what is not compiled for a call.
    pub(crate) fn compile_limits(&self) -> CompileLimits {
        self.options.compile_limits
    }

    /// The engine and the linker, made at the first use.
    pub(crate) fn running(&self) -> Result<&Running, HostError> {
        let made = self.running.get_or_init(|| {
            let (engine, allocation) = engine::engine(self.options.pooling)?;
            if let Allocation::OnDemand { why } = &allocation {
                tracing::debug!(why, "no memory pool");
            }
            let linker =
                linker::linker(&engine).map_err(|error| HostError::Engine(format!("{error:#}")))?;
            Ok(Running {
                engine,
                linker,
                allocation,
            })
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Tells whoever wants to hear it.
    pub(crate) fn tell(&self, event: CompileEvent) {
        if let Some(hear) = &self.options.on_compile {
            hear(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_where_tools_write_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let used = |workspace: &str, cache: &str| {
            let mut options = HostOptions::new(dir.path().join(workspace));
            options.cache_dir = Some(dir.path().join(cache));
            outside(&options).is_some()
        };
        // Whether the workspace is there or not yet.
        for _ in 0..2 {
            assert!(used("work", "cache"));
            assert!(used("work", "deep/cache"));
            assert!(!used("work", "work"));
            assert!(!used("work", "work/deep/cache"));
            assert!(!used("work", "missing/../work/cache"));
            std::fs::create_dir_all(dir.path().join("work")).unwrap();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("work", dir.path().join("link")).unwrap();
            assert!(!used("work", "link/cache"));
        }
    }
}
