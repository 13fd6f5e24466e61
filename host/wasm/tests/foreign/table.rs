//! The table of components of other projects: which file, from which project, built with which tool, and one call.
//!
//! `build.sh` beside this file builds them from packages of npm and PyPI. The folder with the results is named by the
//! variable [`FOLDER`]; without it, only the components of `tests/guests` are tested, by the other modules.

use std::path::Path;

use mimir_testkit::{Testkit, Value, json};

/// The environment variable with the folder of the components.
const FOLDER: &str = "MIMIR_FOREIGN_COMPONENTS";

/// A component of another project.
struct ForeignComponent {
    file: &'static str,
    tool: &'static str,
    arguments: fn() -> Value,
    /// A part of the result as text.
    expected: &'static str,
}

/// The components that `build.sh` builds.
const TABLE: &[ForeignComponent] = &[
    // The world `mimir:tool`, with the asynchronous runtime of componentize-qjs, which cancels tasks.
    ForeignComponent {
        file: "qjs_toolset.wasm",
        tool: "hello_js",
        arguments: || json!({ "name": "Ada" }),
        expected: "Hello, Ada!",
    },
];

#[test]
fn foreign_components_of_the_table_run() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        eprintln!("{FOLDER} is not set: the components of other projects are not tested");
        return;
    };
    for component in TABLE {
        let kit = Testkit::new(Path::new(&folder).join(component.file));
        let kit = kit.unwrap_or_else(|error| panic!("{}: {error}", component.file));
        let outcome = kit.call(component.tool, (component.arguments)());
        let text = outcome.text();
        assert!(
            outcome.is_ok() && text.contains(component.expected),
            "{}: {text}",
            component.file
        );
    }
}
