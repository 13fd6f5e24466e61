//! The generated side of the contract in `wit/`. Nothing but the rest of this crate and
//! the expansion of [`export!`](crate::export!) looks in here.
//!
//! The generator is two thirds of what a plugin's first build compiles, so what it writes is kept
//! beside this file. After a change of `wit/`, `.ci/bindings` writes it anew, with the feature
//! `generate`, from the two invocations below.

/// The world that every plugin has.
#[cfg(feature = "generate")]
pub mod tool {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "tool",
        pub_export_macro: true,
        export_macro_name: "export_toolset",
        default_bindings_module: "mimir_sdk::bindings",
        generate_all,
    });
}

/// The same as it was written last.
#[cfg(not(feature = "generate"))]
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "written by a generator"
)]
pub mod tool {
    include!("bindings/tool.rs.in");
}

/// What a plugin with an assessor has besides. A world of its own, so that the components of
/// all other plugins don't export an assessor; the two are merged when a component is made.
#[cfg(feature = "generate")]
pub mod assessing {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package mimir:sdk; world assessing { export mimir:tool/assessor@1.0.0; }",
        world: "mimir:sdk/assessing",
        with: { "mimir:tool/types@1.0.0": crate::bindings::mimir::tool::types },
        pub_export_macro: true,
        export_macro_name: "export_assessor",
        default_bindings_module: "mimir_sdk::bindings",
    });
}

/// The same as it was written last.
#[cfg(not(feature = "generate"))]
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "written by a generator"
)]
pub mod assessing {
    include!("bindings/assessing.rs.in");
}

pub use assessing::exports::mimir::tool::assessor;
pub use tool::exports::mimir::tool::toolset;
pub use tool::mimir;
pub use {assessing::export_assessor, tool::export_toolset};
