//! Components for tests: real ones, built from WIT and a core module that returns its input.
//!
//! An `echo` needs no knowledge of its types: with enough parameters that they are passed in memory, the core function
//! receives one pointer and returns one pointer, and a result with the layout of the parameters can use the same
//! address.

use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::{LiftError, LiftedOutput, LiftedTool, LiftedTools};
use crate::family::{self, ComponentFamily};

/// Enough parameters to pass all of them in memory, as WIT and as the JSON for them.
pub const PAD: &str =
    "tuple<u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64>";

/// The value of [`PAD`].
pub fn pad() -> serde_json::Value {
    serde_json::json!([
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        u64::MAX
    ])
}

/// Returns the component of the only world in `wit`, with the code of `core`, the inside of a core module.
pub fn build(wit: &str, core: &str) -> Vec<u8> {
    build_world(wit, None, core)
}

/// Returns the component of one of the worlds in `wit`.
pub fn build_world(wit: &str, world: Option<&str>, core: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], world).unwrap();
    let mut module = wat::parse_str(format!("(module {core})")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module).unwrap();
    encoder.encode().unwrap()
}

/// Returns a core module with memory, an allocator that never frees, and functions that return their only parameter.
pub fn echoes<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut core = String::from(
        r#"
        (memory (export "memory") 64)
        (global $next (mut i32) (i32.const 1024))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and
                (i32.add (global.get $next) (i32.sub (local.get 2) (i32.const 1)))
                (i32.xor (i32.sub (local.get 2) (i32.const 1)) (i32.const -1))))
            (global.set $next (i32.add (local.get $at) (local.get 3)))
            (local.get $at))
        "#,
    );
    for name in names {
        core.push_str(&format!(
            "(func (export \"{name}\") (param i32) (result i32) (local.get 0))\n"
        ));
    }
    core
}

/// Returns the tools of a component that must be a lifted one.
pub fn lifted(bytes: &[u8]) -> LiftedTools {
    match family::detect(bytes).unwrap().family {
        ComponentFamily::Lifted(tools) => tools,
        other => panic!("not lifted: {other:?}"),
    }
}

/// A component without imports, compiled.
pub struct CompiledFixture {
    pub engine: Engine,
    component: Component,
    pub tools: LiftedTools,
}

impl CompiledFixture {
    pub fn new(bytes: &[u8]) -> Self {
        let mut config = Config::new();
        config
            .wasm_component_model_fixed_length_lists(true)
            .wasm_component_model_map(true);
        let engine = Engine::new(&config).unwrap();
        Self {
            component: Component::new(&engine, bytes).unwrap(),
            tools: lifted(bytes),
            engine,
        }
    }

    pub fn tool(&self, name: &str) -> &LiftedTool {
        let tool = self
            .tools
            .tools
            .iter()
            .find(|tool| tool.name.as_str() == name);
        tool.unwrap_or_else(|| panic!("no tool {name} in {:?}", self.tools))
    }

    /// Calls `f` on a fresh instance.
    pub async fn call(
        &self,
        name: &str,
        arguments: &serde_json::Value,
    ) -> Result<LiftedOutput, LiftError> {
        let fuel = Store::new(&self.engine, ()).hostcall_fuel();
        self.call_with_fuel(name, arguments, fuel).await
    }

    /// Like [`Self::call`], with a limit in bytes for the data handed over at once.
    pub async fn call_with_fuel(
        &self,
        name: &str,
        arguments: &serde_json::Value,
        fuel: usize,
    ) -> Result<LiftedOutput, LiftError> {
        let mut store = Store::new(&self.engine, ());
        store.set_hostcall_fuel(fuel);
        let linker = Linker::new(&self.engine);
        let instance = linker
            .instantiate_async(&mut store, &self.component)
            .await
            .unwrap();
        let tool = self.tool(name);
        let index = tool.resolve(&self.component).unwrap();
        super::call(&mut store, &instance, tool, &index, arguments, usize::MAX).await
    }

    /// Like [`Self::call`], with every byte as a separate value.
    pub async fn call_by_values(
        &self,
        name: &str,
        arguments: &serde_json::Value,
    ) -> Result<LiftedOutput, LiftError> {
        let mut store = Store::new(&self.engine, ());
        let linker = Linker::new(&self.engine);
        let instance = linker.instantiate_async(&mut store, &self.component).await;
        let index = self.tool(name).export.resolve(&self.component).unwrap();
        let function = instance.unwrap().get_func(&mut store, index).unwrap();
        let ty = function.ty(&store);
        let params: Vec<(&str, wasmtime::component::Type)> = ty.params().collect();
        let arguments = super::value::lower_arguments(arguments, &params)?;
        let types: Vec<_> = ty.results().collect();
        let called = super::call::call_by_values(store, function, &types, arguments, usize::MAX);
        Ok(called.await?.unwrap())
    }

    /// Returns the shape of a function over bytes.
    pub async fn shape(&self, name: &str) -> Option<String> {
        let mut store = Store::new(&self.engine, ());
        let linker = Linker::new(&self.engine);
        let instance = linker.instantiate_async(&mut store, &self.component).await;
        let index = self.tool(name).export.resolve(&self.component).unwrap();
        let ty = instance
            .unwrap()
            .get_func(&mut store, index)
            .unwrap()
            .ty(&store);
        let params: Vec<_> = ty.params().map(|(_, ty)| ty).collect();
        super::typed_call::function_shape(params.iter(), ty.results().next().as_ref())
    }

    /// Returns the wasmtime types of a function's parameters.
    pub async fn params(&self, name: &str) -> Vec<(String, wasmtime::component::Type)> {
        let mut store = Store::new(&self.engine, ());
        let linker = Linker::new(&self.engine);
        let instance = linker
            .instantiate_async(&mut store, &self.component)
            .await
            .unwrap();
        let index = self.tool(name).export.resolve(&self.component).unwrap();
        let ty = instance.get_func(&mut store, index).unwrap().ty(&store);
        ty.params()
            .map(|(name, ty)| (name.to_owned(), ty))
            .collect()
    }
}
