//! The reference for calls: wasmtime alone, with the settings of mimir's engine.

use std::path::Path;

use mimir_wasm::{HostOptions, WasmHost};
use wasmtime::component::{Component, HasSelf, InstancePre, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "tool",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

use generated::exports::mimir::tool::toolset::GuestIndices;
use generated::mimir::tool::types;

/// Fuel of a call, the same as in mimir.
const FUEL: u64 = 20_000_000_000;

/// Store data for WASI.
struct State {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl types::Host for State {}

/// A component, ready to be instantiated.
pub struct Bare {
    pre: InstancePre<State>,
    toolset: GuestIndices,
}

/// An engine like mimir's, but a separate one: pools keep warm slots for modules they have run before.
pub fn engine() -> Engine {
    WasmHost::new(HostOptions::new(".")).engine().unwrap()
}

impl Bare {
    pub fn new(path: impl AsRef<Path>) -> Self {
        let engine = engine();
        let component = Component::from_file(&engine, path).unwrap();
        let mut linker = Linker::<State>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        types::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).unwrap();
        let pre = linker.instantiate_pre(&component).unwrap();
        let toolset = GuestIndices::new(&pre).unwrap();
        Self { pre, toolset }
    }

    /// Calls in a new store and instance; returns the length of the result's text.
    pub async fn call(&self, tool: &str, arguments: &str) -> usize {
        let state = State {
            wasi: WasiCtx::builder().build(),
            table: ResourceTable::new(),
        };
        let mut store = Store::new(self.pre.engine(), state);
        store.set_fuel(FUEL).unwrap();
        let instance = self.pre.instantiate_async(&mut store).await.unwrap();
        let guest = self.toolset.load(&mut store, &instance).unwrap();
        let context = types::CallContext {
            request_id: "1".to_owned(),
            session_id: "1".to_owned(),
            conversation_id: None,
            user: None,
            workspace: "/".to_owned(),
        };
        let output = guest
            .call_call(&mut store, tool, &arguments.to_owned(), &context)
            .await
            .unwrap()
            .unwrap();
        match &output.content[..] {
            [types::Content::Text(text)] => text.len(),
            other => panic!("{other:?}"),
        }
    }
}
