//! The WIT contract of `wit/` as Rust. Generated code only.

mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "assessed-tool",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

pub(crate) use generated::exports::mimir::tool::{assessor, toolset};
pub(crate) use generated::mimir::tool::{commands, log, model, progress, storage, tools, types};
