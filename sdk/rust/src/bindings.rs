//! Generated bindings of the contract in `wit/`. Only the rest of this crate and the expansion of
//! [`export!`](crate::export!) use them.
//!
//! The generator makes up two thirds of the code that a plugin's first build compiles, so its output is checked in next
//! to this file. After a change of `wit/`, `.ci/bindings` regenerates the output, with the feature `generate`, from the
//! two invocations below.

/// The WIT world that every plugin implements.
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

/// The checked-in output of the generator.
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

/// The additional exports of a plugin with an assessor. They are a separate WIT world, so that plugins without an
/// assessor do not export one; the linker merges both worlds into one component.
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

/// The checked-in output of the generator.
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
