//! Creates the state of an engine in which every call starts: its runtime initialized, its prelude run. This is done
//! once per machine and version; a call only copies pages.
//!
//! It is done here rather than in a build script, because it needs an engine that runs wasm: a second wasmtime in
//! every build costs minutes, two compilations of the engine here cost seconds, once.

use std::sync::Arc;

use mimir_core::{Code, Limits, ToolError};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Lift, Linker, TypedFunc, WasmList};
use wasmtime_wizer::Wizer;

use super::EngineParts;
use super::outside::Answer;
use crate::call;
use crate::compile::{self, Lane, Request};
use crate::digest::Hash;
use crate::error::HostError;
use crate::fs::GuardedFs;
use crate::guest::{Guest, Start};
use crate::host::WasmHost;

/// Code that the runtime requires before any script: the object for types of streams, which are not used.
const SHIM: &str = "globalThis.wit = {};";

/// Part of the cache key of the state: increase it when its creation changes.
const FORM: u32 = 1;

/// Fuel for creating the state.
const FUEL: u64 = 20_000_000_000;
const HANDED_OVER: usize = 256 << 20;

/// An engine that can be instantiated in its initial state.
pub(super) struct Ready {
    pre: InstancePre<Guest>,
}

/// One instance, for one call.
pub(super) struct Engine {
    instance: Instance,
    resume: Option<Resume>,
}

type Resume = TypedFunc<(u32, bool, String, Vec<u8>), (String,)>;

/// Returns the engine, from the cache or created now.
pub(super) async fn ready(host: &Arc<WasmHost>, parts: &EngineParts) -> Result<Ready, HostError> {
    let running = host.running()?;
    let (digest, limits) = (digest(parts), host.compile_limits());
    let component = match compile::cached(&running.engine, host.cache(), &digest) {
        Some(component) => component,
        None => {
            let warm =
                snapshot(host, parts.component, parts.prelude.to_owned(), parts.name).await?;
            let request = Request {
                digest,
                name: parts.name.to_owned(),
                lane: Lane::BuiltIn,
                limits,
            };
            host.component(request, move || Ok(warm.into())).await?
        }
    };
    let linker = linker(&running.linker).map_err(broken)?;
    let pre = linker.instantiate_pre(&component).map_err(broken)?;
    Ok(Ready { pre })
}

fn digest(parts: &EngineParts) -> Hash {
    let component = Hash::of(parts.component);
    let prelude = Hash::of(parts.prelude.as_bytes());
    Hash::of(format!("{FORM} {component} {prelude} {SHIM}").as_bytes())
}

pub(super) fn broken(error: wasmtime::Error) -> HostError {
    HostError::Engine(format!("the engine for scripts is broken: {error:#}"))
}

/// Returns the linker of all components, with the runtime's import for loading modules, which always fails.
fn linker(all: &Linker<Guest>) -> wasmtime::Result<Linker<Guest>> {
    type Answer = (Result<String, String>,);
    let none = || Ok((Err("scripts cannot import modules".to_owned()),));
    let mut linker = all.clone();
    let mut loader = linker.instance("local:init/module-loader")?;
    loader.func_wrap(
        "resolve",
        move |_, _: (String, String)| -> wasmtime::Result<Answer> { none() },
    )?;
    loader.func_wrap("load", move |_, _: (String,)| -> wasmtime::Result<Answer> {
        none()
    })?;
    super::perform::add(&mut linker)?;
    Ok(linker)
}

/// Returns a linked component in the state of its runtime after the module `prelude` has run. `name` is shown during
/// compilation.
pub(super) async fn snapshot(
    host: &Arc<WasmHost>,
    linked: &[u8],
    prelude: String,
    name: &str,
) -> Result<Vec<u8>, HostError> {
    let wizer = Wizer::new();
    let (context, instrumented) = wizer.instrument_component(linked).map_err(broken)?;
    let request = Request {
        digest: Hash::of(&instrumented),
        name: name.to_owned(),
        lane: Lane::BuiltIn,
        limits: host.compile_limits(),
    };
    let component = host
        .component(request, move || Ok(instrumented.into()))
        .await?;
    let running = host.running()?;
    let linker = linker(&running.linker).map_err(broken)?;
    let pre = linker.instantiate_pre(&component).map_err(broken)?;
    let limits = Limits {
        fuel: FUEL,
        ..Limits::default()
    };
    let start = Start::alone(GuardedFs::none(), limits);
    let mut store = call::store(pre.engine(), start, HANDED_OVER, "").map_err(broken)?;
    let instance = pre.instantiate_async(&mut store).await.map_err(broken)?;
    type Init = (String, String, Option<String>, bool);
    let init = instance
        .get_typed_func::<Init, (Result<(), String>,)>(&mut store, "init")
        .map_err(broken)?;
    let arguments = (SHIM.to_owned(), prelude, None, false);
    let (done,) = init
        .call_async(&mut store, arguments)
        .await
        .map_err(broken)?;
    done.map_err(|error| HostError::Engine(format!("the prelude of scripts failed: {error}")))?;
    let mut state = State {
        store: &mut store,
        instance,
        fault: None,
    };
    let warm = wizer.snapshot_component(&context, &mut state).await;
    match state.fault {
        Some(fault) => Err(broken(fault)),
        None => warm.map_err(broken),
    }
}

/// Source of an instance's state: functions added by `instrument_component`.
struct State<'a> {
    store: &'a mut Store<Guest>,
    instance: Instance,
    /// The first error; the trait cannot return one.
    fault: Option<wasmtime::Error>,
}

impl State<'_> {
    async fn read<R: Lift + Send + Sync + 'static>(
        &mut self,
        instance: &str,
        function: &str,
    ) -> Option<R> {
        let found = self.call(instance, function).await;
        found.map_err(|error| self.fault.get_or_insert(error)).ok()
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

impl wasmtime_wizer::ComponentInstanceState for State<'_> {
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

impl Ready {
    /// Creates a store with the limits of one call.
    pub(super) fn store(&self, start: Start) -> Result<Store<Guest>, ToolError> {
        let most = usize::try_from(start.limits.output_bytes).unwrap_or(usize::MAX);
        call::store(self.pre.engine(), start, most, call::OUTPUT_LIMIT)
            .map_err(|error| ToolError::new(Code::Internal, format!("{error:#}")))
    }

    pub(super) async fn instantiate(&self, store: &mut Store<Guest>) -> wasmtime::Result<Engine> {
        Ok(Engine {
            instance: self.pre.instantiate_async(store).await?,
            resume: None,
        })
    }
}

impl Engine {
    /// Runs the first turn.
    pub(super) async fn start(
        &self,
        store: &mut Store<Guest>,
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
        store: &mut Store<Guest>,
        id: u32,
        answer: Answer,
    ) -> wasmtime::Result<String> {
        let resume = match self.resume {
            Some(resume) => resume,
            None => *self
                .resume
                .insert(self.instance.get_typed_func(&mut *store, "resume")?),
        };
        let (failed, text, bytes) = super::outside::told(answer);
        let turn = resume.call_async(&mut *store, (id, failed, text, bytes));
        Ok(turn.await?.0)
    }
}
