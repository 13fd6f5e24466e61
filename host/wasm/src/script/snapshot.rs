//! Snapshots of script engines: the state in which every call starts, after the runtime is initialized and the prelude
//! has run. A snapshot is made once per machine and version; a call only copies pages.
//!
//! Snapshots are made at run time rather than in a build script, because they need wasmtime: a second wasmtime would
//! cost every build minutes, while compiling the engine twice costs seconds, once.

use std::sync::Arc;

use mimir_core::{Limits, ToolError};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Lift, Linker, TypedFunc, WasmList};
use wasmtime_wizer::Wizer;

use super::EngineParts;
use super::script_effects::EffectResult;
use crate::call;
use crate::compile::{self, CompileLane, CompileRequest};
use crate::digest::Sha256Digest;
use crate::engine::EngineMode;
use crate::error::WasmHostError;
use crate::fs::GuardedFs;
use crate::host::WasmHost;
use crate::store_state::{StoreOptions, StoreState};

/// Code that the runtime requires before any script: the object for stream types, which are not used.
const RUNTIME_SHIM: &str = "globalThis.wit = {};";

/// Version of the snapshot and part of its cache key: increase it when the creation of snapshots changes.
const FORMAT_VERSION: u32 = 1;

/// Fuel for making a snapshot.
const FUEL: u64 = 20_000_000_000;
const MAX_SNAPSHOT_BYTES: usize = 256 << 20;

/// An engine that can be instantiated in its initial state.
pub(super) struct WarmEngine {
    pre: InstancePre<StoreState>,
}

/// An instance of an engine for one call.
pub(super) struct ScriptInstance {
    instance: Instance,
    resume: Option<ResumeFunction>,
}

type ResumeFunction = TypedFunc<(u32, bool, String, Vec<u8>), (String,)>;

/// Returns the engine with its snapshot: from the cache, or else made now.
pub(super) async fn load_or_snapshot(
    host: &Arc<WasmHost>,
    parts: &EngineParts,
) -> Result<WarmEngine, WasmHostError> {
    let running = host.running(EngineMode::Sequential)?;
    let (digest, limits) = (digest(parts), host.compile_limits());
    let component = match compile::cached_component(&running.engine, host.cache(), &digest) {
        Some(component) => component,
        None => {
            let linked = parts.component.unpack()?;
            let warm = snapshot(host, &linked, parts.prelude.to_owned(), parts.name).await?;
            let request = CompileRequest {
                digest,
                name: parts.name.to_owned(),
                lane: CompileLane::BuiltIn,
                mode: EngineMode::Sequential,
                limits,
            };
            host.component(request, move || Ok(warm)).await?
        }
    };
    let linker = linker(&running.linker).map_err(engine_error)?;
    let pre = linker.instantiate_pre(&component).map_err(engine_error)?;
    Ok(WarmEngine { pre })
}

fn digest(parts: &EngineParts) -> Sha256Digest {
    let component = Sha256Digest(parts.sha256);
    let prelude = Sha256Digest::of_bytes(parts.prelude.as_bytes());
    Sha256Digest::of_bytes(
        format!("{FORMAT_VERSION} {component} {prelude} {RUNTIME_SHIM}").as_bytes(),
    )
}

pub(super) fn engine_error(error: wasmtime::Error) -> WasmHostError {
    WasmHostError::Engine(format!("the engine for scripts is broken: {error:#}"))
}

/// Returns the linker of all components, with the runtime's import for loading modules, which always fails.
fn linker(base: &Linker<StoreState>) -> wasmtime::Result<Linker<StoreState>> {
    type ResumeReply = (Result<String, String>,);
    let refuse = || Ok((Err("scripts cannot import modules".to_owned()),));
    let mut linker = base.clone();
    let mut loader = linker.instance("local:init/module-loader")?;
    loader.func_wrap(
        "resolve",
        move |_, _: (String, String)| -> wasmtime::Result<ResumeReply> { refuse() },
    )?;
    loader.func_wrap(
        "load",
        move |_, _: (String,)| -> wasmtime::Result<ResumeReply> { refuse() },
    )?;
    super::sync_requests::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Returns a linked component in the state of its runtime after the module `prelude` has run. `name` is shown during
/// compilation.
pub(super) async fn snapshot(
    host: &Arc<WasmHost>,
    linked: &[u8],
    prelude: String,
    name: &str,
) -> Result<Vec<u8>, WasmHostError> {
    let wizer = Wizer::new();
    let (context, instrumented) = wizer.instrument_component(linked).map_err(engine_error)?;
    let request = CompileRequest {
        digest: Sha256Digest::of_bytes(&instrumented),
        name: name.to_owned(),
        lane: CompileLane::BuiltIn,
        mode: EngineMode::Sequential,
        limits: host.compile_limits(),
    };
    let component = host.component(request, move || Ok(instrumented)).await?;
    let running = host.running(EngineMode::Sequential)?;
    let linker = linker(&running.linker).map_err(engine_error)?;
    let pre = linker.instantiate_pre(&component).map_err(engine_error)?;
    let limits = Limits {
        fuel: FUEL,
        ..Limits::default()
    };
    let options = StoreOptions::isolated(GuardedFs::empty(), limits);
    let mut store =
        call::store(pre.engine(), options, MAX_SNAPSHOT_BYTES, "").map_err(engine_error)?;
    let instance = pre
        .instantiate_async(&mut store)
        .await
        .map_err(engine_error)?;
    type InitArguments = (String, String, Option<String>, bool);
    let init = instance
        .get_typed_func::<InitArguments, (Result<(), String>,)>(&mut store, "init")
        .map_err(engine_error)?;
    let arguments = (RUNTIME_SHIM.to_owned(), prelude, None, false);
    let (result,) = init
        .call_async(&mut store, arguments)
        .await
        .map_err(engine_error)?;
    result.map_err(|error| {
        WasmHostError::Engine(format!("the prelude of scripts failed: {error}"))
    })?;
    let mut state = SnapshotState {
        store: &mut store,
        instance,
        fault: None,
    };
    let warm = wizer.snapshot_component(&context, &mut state).await;
    match state.fault {
        Some(fault) => Err(engine_error(fault)),
        None => warm.map_err(engine_error),
    }
}

/// Source of an instance's state: functions added by `instrument_component`.
struct SnapshotState<'a> {
    store: &'a mut Store<StoreState>,
    instance: Instance,
    /// The first error, because the trait's methods cannot return errors.
    fault: Option<wasmtime::Error>,
}

impl SnapshotState<'_> {
    async fn read<R: Lift + Send + Sync + 'static>(
        &mut self,
        instance: &str,
        function: &str,
    ) -> Option<R> {
        let result = self.call(instance, function).await;
        result.map_err(|error| self.fault.get_or_insert(error)).ok()
    }

    async fn call<R: Lift + Send + Sync + 'static>(
        &mut self,
        instance: &str,
        function: &str,
    ) -> wasmtime::Result<R> {
        let missing = || wasmtime::Error::msg(format!("no {instance}#{function}"));
        let inside = self
            .instance
            .get_export_index(&mut *self.store, None, instance)
            .ok_or_else(missing)?;
        let index = self
            .instance
            .get_export_index(&mut *self.store, Some(&inside), function)
            .ok_or_else(missing)?;
        let function = self
            .instance
            .get_typed_func::<(), (R,)>(&mut *self.store, index)?;
        Ok(function.call_async(&mut *self.store, ()).await?.0)
    }
}

impl wasmtime_wizer::ComponentInstanceState for SnapshotState<'_> {
    async fn call_func_ret_list_u8(
        &mut self,
        instance: &str,
        function: &str,
        contents: impl FnOnce(&[u8]) + Send,
    ) {
        match self.read::<WasmList<u8>>(instance, function).await {
            Some(list) => contents(list.as_le_slice(&*self.store)),
            None => contents(&[]),
        }
    }

    async fn call_func_ret_s32(&mut self, instance: &str, function: &str) -> i32 {
        self.read(instance, function).await.unwrap_or_default()
    }

    async fn call_func_ret_s64(&mut self, instance: &str, function: &str) -> i64 {
        self.read(instance, function).await.unwrap_or_default()
    }

    async fn call_func_ret_f32(&mut self, instance: &str, function: &str) -> u32 {
        let number: f32 = self.read(instance, function).await.unwrap_or_default();
        number.to_bits()
    }

    async fn call_func_ret_f64(&mut self, instance: &str, function: &str) -> u64 {
        let number: f64 = self.read(instance, function).await.unwrap_or_default();
        number.to_bits()
    }
}

impl WarmEngine {
    /// Creates a store with the limits of one call.
    pub(super) fn store(&self, options: StoreOptions) -> Result<Store<StoreState>, ToolError> {
        call::engine_store(self.pre.engine(), options)
    }

    pub(super) async fn instantiate(
        &self,
        store: &mut Store<StoreState>,
    ) -> wasmtime::Result<ScriptInstance> {
        Ok(ScriptInstance {
            instance: self.pre.instantiate_async(store).await?,
            resume: None,
        })
    }
}

impl ScriptInstance {
    /// Runs the first turn.
    pub(super) async fn start(
        &self,
        store: &mut Store<StoreState>,
        code: &str,
        input: &str,
    ) -> wasmtime::Result<String> {
        let start = self
            .instance
            .get_typed_func::<(&str, &str), (String,)>(&mut *store, "start")?;
        Ok(start.call_async(&mut *store, (code, input)).await?.0)
    }

    /// Runs the next turn.
    pub(super) async fn resume(
        &mut self,
        store: &mut Store<StoreState>,
        id: u32,
        reply: EffectResult,
    ) -> wasmtime::Result<String> {
        let resume = match self.resume {
            Some(resume) => resume,
            None => *self
                .resume
                .insert(self.instance.get_typed_func(&mut *store, "resume")?),
        };
        let (failed, text, bytes) = super::script_effects::encode_result(reply);
        let turn = resume.call_async(&mut *store, (id, failed, text, bytes));
        Ok(turn.await?.0)
    }
}
