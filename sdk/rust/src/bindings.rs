//! The generated side of the contract in `wit/`. Nothing but the rest of this crate and
//! the expansion of [`export!`](crate::export!) looks in here.

/// The world that every plugin has.
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

/// What a plugin with an assessor has besides. A world of its own, so that the components of
/// all other plugins don't export an assessor; the two are merged when a component is made.
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

pub use assessing::exports::mimir::tool::assessor;
pub use tool::exports::mimir::tool::toolset;
pub use tool::mimir;
pub use {assessing::export_assessor, tool::export_toolset};
