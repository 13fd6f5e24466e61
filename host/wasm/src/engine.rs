//! The wasmtime engine: compiler settings and memory allocation.

use wasmtime::{
    Config, Enabled, Engine, Instance, InstanceAllocationStrategy, Module, PoolingAllocationConfig,
    Store,
};

use mimir_core::Limits;
use serde::{Deserialize, Serialize};

use crate::error::WasmHostError;

/// The version of wasmtime that runs the components.
pub const WASMTIME_VERSION: &str = env!("MIMIR_WASMTIME_VERSION");

/// Stack size of a guest in bytes: enough for deep but legitimate recursion, such as that of a parser. Only addresses
/// are reserved; a call uses memory as needed. CPython and QuickJS (see `bridge.wat`) have lower depth limits of their
/// own, and raise an error that a program can catch.
const GUEST_STACK: usize = 64 << 20;

/// Stack size of a call's fiber in bytes: the guest's stack, and space for the host functions that the guest calls.
const FIBER_STACK: usize = GUEST_STACK + (1 << 20);

/// Maximum number of frames in a guest's backtrace.
pub(crate) const BACKTRACE_FRAMES: usize = 20;

/// Size in bytes up to which initial memory is mapped as shared pages even if most of it is zeros: the size of the
/// CPython snapshot. Larger initial memory is copied for each instance.
const DENSE_IMAGE: u64 = 64 << 20;

/// Number of concurrent calls in the pool: every slot of the pipeline, as many assessments, and space for nested calls.
const POOL_INSTANCES: u32 = 4 * Limits::CONCURRENT_TOTAL as u32;

/// Limits for the memories and tables of one component: more than legitimate components need. Adapters and fused
/// modules need up to a dozen.
const MEMORIES_PER_COMPONENT: u32 = 8;
const TABLES_PER_COMPONENT: u32 = 32;

/// Bytes that stay mapped in a slot between calls: as many as the smallest Python program changes. Without them, every
/// call ends in a `madvise` that interrupts the other cores, and two workers get less done than one.
const MEMORY_RESIDENT: usize = 4 << 20;
const TABLE_RESIDENT: usize = 1 << 20;
const STACK_RESIDENT: usize = 1 << 20;

/// Memory allocation strategy for calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryAllocation {
    /// Memory comes from a pool of slots that was reserved once.
    Pooled,
    /// Memory is requested from the system for each call.
    OnDemand {
        /// Reason why there is no pool.
        why: String,
    },
}

/// The addressing mode of compiled code. Code for one mode does not run on an engine with the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAddressing {
    /// Each memory reserves its whole address range, so accesses need no individual checks.
    Reserved,
    /// Each access is checked, because address space is scarce.
    Checked,
}

impl MemoryAddressing {
    /// Returns the mode's name in the arguments of the compiler process.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            MemoryAddressing::Reserved => "reserved",
            MemoryAddressing::Checked => "checked",
        }
    }

    /// Parses a name returned by [`as_str`](Self::as_str).
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let modes = [MemoryAddressing::Reserved, MemoryAddressing::Checked];
        modes.into_iter().find(|mode| mode.as_str() == word)
    }
}

impl MemoryAllocation {
    /// Returns the addressing mode of code compiled for this strategy.
    pub(crate) const fn addressing(&self) -> MemoryAddressing {
        match self {
            MemoryAllocation::Pooled => MemoryAddressing::Reserved,
            MemoryAllocation::OnDemand { .. } => MemoryAddressing::Checked,
        }
    }
}

/// The way in which an engine runs components. Code for one mode does not run on an engine with the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineMode {
    /// One function runs at a time. Calls are faster, so every component that can runs in this mode.
    #[default]
    Sequential,
    /// Functions, streams and futures run concurrently within a call (the component model's `async`).
    Concurrent,
}

impl EngineMode {
    /// Every mode.
    pub(crate) const ALL: [EngineMode; 2] = [EngineMode::Sequential, EngineMode::Concurrent];

    /// Returns the mode's name in the arguments of the compiler process.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            EngineMode::Sequential => "sequential",
            EngineMode::Concurrent => "concurrent",
        }
    }

    /// Returns true for the default mode.
    pub(crate) fn is_sequential(&self) -> bool {
        *self == EngineMode::Sequential
    }

    /// Parses a name returned by [`as_str`](Self::as_str).
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// Creates an engine that only compiles. It reserves no pool, because the pool does not affect the code.
pub(crate) fn compiling_engine(
    mode: EngineMode,
    addressing: MemoryAddressing,
) -> Result<Engine, WasmHostError> {
    let mut config = config(mode);
    if addressing == MemoryAddressing::Checked {
        configure_without_pool(&mut config);
    }
    Engine::new(&config).map_err(|error| WasmHostError::Engine(format!("{error:#}")))
}

/// Creates the engine, with a pool if `pooling` is true and enough address space is available.
pub(crate) fn new_engine(
    mode: EngineMode,
    pooling: bool,
) -> Result<(Engine, MemoryAllocation), WasmHostError> {
    let why = if pooling {
        let mut config = config(mode);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
        match Engine::new(&config) {
            Ok(engine) => return Ok((engine, MemoryAllocation::Pooled)),
            Err(error) => format!("the pool cannot be reserved: {error:#}"),
        }
    } else {
        "switched off".to_owned()
    };
    let mut config = config(mode);
    configure_without_pool(&mut config);
    let engine =
        Engine::new(&config).map_err(|error| WasmHostError::Engine(format!("{error:#}")))?;
    Ok((engine, MemoryAllocation::OnDemand { why }))
}

fn config(mode: EngineMode) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .wasm_component_model_fixed_length_lists(true)
        .wasm_component_model_map(true)
        // The component model's `async` needs it, and it makes every call slower. Its unfinished parts stay off; a
        // stackful function could keep a stack of the pool for each call that it gets.
        .concurrency_support(mode == EngineMode::Concurrent)
        .consume_fuel(true)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(DENSE_IMAGE)
        // Backtraces cost little, and the author of a guest needs them.
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES));
    if cfg!(not(windows)) {
        // Only external profilers need these tables. The unwinder of the musl build takes time that is quadratic in the
        // number of functions to remove them when a component is unloaded.
        config.native_unwind_info(false);
    }
    config
}

/// Extra address space reserved by a memory when addresses are scarce, so that it can grow without being moved.
const GROWTH_RESERVATION: u64 = 4 << 20;

/// Configures the engine for scarce address space: where a pool cannot be reserved, the usual 4 GiB per memory and the
/// guard regions are too much as well. The code then checks each access, which is slower.
fn configure_without_pool(config: &mut Config) {
    config
        .memory_reservation(0)
        .memory_guard_size(0)
        .guard_before_linear_memory(false)
        .memory_reservation_for_growth(GROWTH_RESERVATION);
}

/// A binary module with one memory of one page.
const SAMPLE_MODULE: &[u8] = b"\0asm\x01\0\0\0\x05\x03\x01\0\x01";

/// Instantiates a sample module: creating an engine does not prove that a guest fits in memory.
pub(crate) fn run_sample(engine: &Engine) -> wasmtime::Result<()> {
    let module = Module::new(engine, SAMPLE_MODULE)?;
    let mut store = Store::new(engine, ());
    Instance::new(&mut store, &module, &[])?;
    Ok(())
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(POOL_INSTANCES)
        .total_core_instances(POOL_INSTANCES * 4)
        .total_memories(POOL_INSTANCES * 2)
        .total_tables(POOL_INSTANCES * 4)
        .total_stacks(POOL_INSTANCES)
        .max_core_instances_per_component(Limits::INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_PER_COMPONENT)
        .max_tables_per_component(TABLES_PER_COMPONENT)
        // A component with a single module may have all of them in that module.
        .max_memories_per_module(MEMORIES_PER_COMPONENT)
        .max_tables_per_module(TABLES_PER_COMPONENT)
        // The limiter enforces a call's memory limit; this only reserves addresses.
        .max_memory_size(Limits::MEMORY_MAX as usize)
        .table_elements(Limits::TABLE_ELEMENTS_MAX as usize)
        .linear_memory_keep_resident(MEMORY_RESIDENT)
        .table_keep_resident(TABLE_RESIDENT)
        .async_stack_keep_resident(STACK_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_runs_in_both_modes_and_shares_no_code() {
        let mut keys = Vec::new();
        let key = |engine: &Engine| {
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut hasher = DefaultHasher::new();
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        for mode in EngineMode::ALL {
            assert_eq!(EngineMode::parse(mode.as_str()), Some(mode));
            for pooling in [true, false] {
                let (engine, allocation) = new_engine(mode, pooling).unwrap();
                run_sample(&engine).unwrap();
                assert!(pooling || allocation != MemoryAllocation::Pooled);
                let compiling = compiling_engine(mode, allocation.addressing()).unwrap();
                assert_eq!(key(&engine), key(&compiling), "{mode:?} {allocation:?}");
                keys.push((mode, allocation.addressing(), key(&engine)));
            }
        }
        for (at, (mode, addressing, key)) in keys.iter().enumerate() {
            for (other, other_addressing, other_key) in &keys[..at] {
                assert_eq!(
                    (mode, addressing) == (other, other_addressing),
                    key == other_key,
                    "the cache key does not tell engines apart"
                );
            }
        }
    }
}
