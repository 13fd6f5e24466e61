//! The table of components of other projects: which file, from which project, built with which tool, and one call.
//!
//! `build.sh` beside this file builds them from packages of npm and of the crate registry, and those of wassette from a
//! checkout of it. The folder with the results is named by the variable [`FOLDER`]. `.ci/foreign-components` does both.

use std::path::Path;

use mimir_testkit::{Testkit, Value, json};

/// The environment variable with the folder of the components.
const FOLDER: &str = "MIMIR_FOREIGN_COMPONENTS";

/// Prefix of the components that need a checkout of wassette. All others must exist.
const OPTIONAL: &str = "wassette_";

/// A component of another project.
struct ForeignComponent {
    /// The file, named after the project.
    file: &'static str,
    tool: &'static str,
    arguments: fn() -> Value,
    expected: ExpectedOutcome,
}

/// The outcome of a call.
enum ExpectedOutcome {
    /// Success, with this part of the result's text.
    Text(&'static str),
    /// A failure, with this part of its message.
    Failure(&'static str),
}

use ExpectedOutcome::{Failure, Text};

fn nothing() -> Value {
    json!({})
}

/// The components that `build.sh` builds. The sources of `toolset.js` and `p3_http` are ours; the worlds and the tools
/// that build them are not. All other sources are unchanged.
const TABLE: &[ForeignComponent] = &[
    // componentize-qjs 0.4.5 (Bytecode Alliance): its runtime cancels tasks, even for synchronous functions.
    ForeignComponent {
        file: "qjs_toolset.wasm",
        tool: "hello_js",
        arguments: || json!({ "name": "Ada" }),
        expected: Text("Hello, Ada!"),
    },
    // wassette (Microsoft), `examples/time-server-js`, by componentize-js 0.23.0 (StarlingMonkey).
    ForeignComponent {
        file: "wassette_time.wasm",
        tool: "get_current_time",
        arguments: nothing,
        expected: Text("Z"),
    },
    // wassette, `examples/get-weather-js`: `wasi:config` and `wasi:http`. No key is set, and no host is granted.
    ForeignComponent {
        file: "wassette_weather.wasm",
        tool: "get_weather",
        arguments: || json!({ "city": "Oslo" }),
        expected: Failure("OPENWEATHER_API_KEY is not set"),
    },
    // wassette, `examples/eval-py`, by componentize-py 0.17.2.
    ForeignComponent {
        file: "wassette_eval.wasm",
        tool: "eval",
        arguments: || json!({ "expression": "sum(range(101))" }),
        expected: Text("5050"),
    },
    // wassette, `examples/filesystem-rs`: without a grant it sees no file.
    ForeignComponent {
        file: "wassette_filesystem.wasm",
        tool: "read_file",
        arguments: || json!({ "path": "/etc/passwd" }),
        expected: Failure("was granted no files"),
    },
    // The examples of the crate wasip2 (Bytecode Alliance).
    ForeignComponent {
        file: "wasip2_hello_world.wasm",
        tool: "wasip2_hello_world",
        arguments: nothing,
        expected: Text("Hello, world!"),
    },
    ForeignComponent {
        file: "wasip2_cli_command.wasm",
        tool: "wasip2_cli_command",
        arguments: nothing,
        expected: Text("Hello, WASI!"),
    },
    ForeignComponent {
        file: "wasip2_http_proxy.wasm",
        tool: "request",
        arguments: || json!({ "path": "/" }),
        expected: Text("Hello, WASI!"),
    },
    // `wasi:http` 0.3: a streamed body; a request that nothing was granted for; a body without end.
    ForeignComponent {
        file: "p3_http.wasm",
        tool: "request",
        arguments: || json!({ "path": "/hello" }),
        expected: Text("/hello 4"),
    },
    ForeignComponent {
        file: "p3_http.wasm",
        tool: "request",
        arguments: || json!({ "path": "/fetch" }),
        expected: Failure("was not granted `127.0.0.1`"),
    },
    ForeignComponent {
        file: "p3_http.wasm",
        tool: "request",
        arguments: || json!({ "path": "/endless" }),
        expected: Failure("limits.outputBytes"),
    },
];

#[test]
#[ignore = "needs MIMIR_FOREIGN_COMPONENTS, made by host/wasm/tests/foreign/build.sh"]
fn foreign_components_of_the_table_run() {
    let folder = std::env::var_os(FOLDER)
        .unwrap_or_else(|| panic!("{FOLDER} is not set: expected the folder that build.sh made"));
    for component in TABLE {
        let file = component.file;
        if file.starts_with(OPTIONAL) && !Path::new(&folder).join(file).exists() {
            eprintln!("{file}: not built, so not tested");
            continue;
        }
        let kit = Testkit::new(Path::new(&folder).join(file));
        let kit = kit.unwrap_or_else(|error| panic!("{file}: {error}"));
        let limits = json!({ "limits": { "timeMs": 30_000 } });
        let kit = kit.settings(limits).unwrap();
        let outcome = kit.call(component.tool, (component.arguments)());
        let text = outcome.text();
        let (is_expected, part) = match component.expected {
            Text(part) => (outcome.is_ok(), part),
            Failure(part) => (!outcome.is_ok(), part),
        };
        assert!(is_expected && text.contains(part), "{file}: {text}");
        eprintln!("{file}: {text:.100}");
    }
}
