//! Links the JavaScript runtime to the world of a plugin. The world has only those imports of the contract and of WASI
//! that the plugin's tools need, so the imports show the plugin's capabilities, as for any other plugin.

use std::collections::BTreeSet;
use std::fmt;

use mimir_core::DirectoryAccess;
use wit_component::{Linker, StringEncoding, embed_component_metadata, metadata};
use wit_parser::{Resolve, WorldId};

use super::js_plugin::{JsPluginParts, PluginImports};

/// The WASI functions that the code of `builtins/javascript/plugin` calls. The runtime itself needs a few more.
const BASE_FUNCTIONS: &[(&str, &[&str])] = &[
    ("wasi:io/poll", &["poll"]),
    ("wasi:clocks/monotonic-clock", &["subscribe-duration"]),
    ("wasi:random/insecure-seed", &["insecure-seed"]),
    ("wasi:random/random", &["get-random-bytes"]),
];

const FILE_FUNCTIONS: &[(&str, &[&str])] = &[
    ("wasi:filesystem/preopens", &["get-directories"]),
    (
        "wasi:filesystem/types",
        &[
            "[method]descriptor.open-at",
            "[method]descriptor.read",
            "[method]descriptor.read-directory",
            "[method]descriptor.stat-at",
            "[method]directory-entry-stream.read-directory-entry",
        ],
    ),
];

const CHANGE_FUNCTIONS: &[(&str, &[&str])] = &[(
    "wasi:filesystem/types",
    &[
        "[method]descriptor.write",
        "[method]descriptor.create-directory-at",
        "[method]descriptor.remove-directory-at",
        "[method]descriptor.unlink-file-at",
    ],
)];

const ENVIRONMENT_FUNCTIONS: &[(&str, &[&str])] = &[("wasi:cli/environment", &["get-environment"])];

const NETWORK_FUNCTIONS: &[(&str, &[&str])] = &[
    ("wasi:http/outgoing-handler", &["handle"]),
    (
        "wasi:http/types",
        &[
            "[static]fields.from-list",
            "[method]fields.entries",
            "[constructor]outgoing-request",
            "[method]outgoing-request.body",
            "[method]outgoing-request.set-method",
            "[method]outgoing-request.set-path-with-query",
            "[method]outgoing-request.set-scheme",
            "[method]outgoing-request.set-authority",
            "[method]outgoing-body.write",
            "[static]outgoing-body.finish",
            "[method]future-incoming-response.subscribe",
            "[method]future-incoming-response.get",
            "[method]incoming-response.status",
            "[method]incoming-response.headers",
            "[method]incoming-response.consume",
            "[method]incoming-body.stream",
        ],
    ),
    (
        "wasi:io/streams",
        &[
            "[method]input-stream.read",
            "[method]input-stream.subscribe",
            "[method]output-stream.blocking-write-and-flush",
        ],
    ),
];

/// The version of WASI that the runtime was built with, and that the code imports.
const WASI_VERSION: &str = "0.2.9";

/// The version of the contract.
const CONTRACT_VERSION: &str = "1.0.0";

/// Size in bytes of the runtime's stack in its memory, as in the script engine. 256 KiB before the end, the runtime
/// throws an error that a tool can catch.
const STACK: u32 = 4 << 20;

/// Returns the linked component, not yet initialized.
pub(super) fn link_runtime(
    parts: &JsPluginParts,
    imports: PluginImports,
) -> wasmtime::Result<Vec<u8>> {
    let runtime = parts.runtime.unpack().map_err(link_error)?;
    let (_, decoded) = metadata::decode(&runtime).map_err(link_error)?;
    let mut resolve = decoded.resolve;
    resolve
        .push_str("tool.wit", parts.contract)
        .map_err(link_error)?;
    let text = world(imports);
    let package = resolve.push_str("plugin.wit", &text).map_err(link_error)?;
    let world = resolve
        .select_world(&[package], Some("plugin"))
        .map_err(link_error)?;
    let mut glue = glue_module(&resolve, world, imports);
    embed_component_metadata(&mut glue, &resolve, world, StringEncoding::UTF8)
        .map_err(link_error)?;
    let mut linker = Linker::default();
    linker.stack_size(STACK);
    linker.encoder().validate(true);
    linker
        .library("runtime.wasm", &runtime, false)
        .map_err(link_error)?;
    linker
        .library("glue.wasm", &glue, false)
        .map_err(link_error)?;
    for (name, module) in parts.adapters {
        linker.encoder().adapter(name, module).map_err(link_error)?;
    }
    linker.encode().map_err(link_error)
}

fn link_error(error: impl fmt::Display) -> wasmtime::Error {
    wasmtime::Error::msg(format!("{error:#}"))
}

/// Returns the module that connects the runtime and the world. WASI functions that are never called are left out, so
/// that they are not imported.
fn glue_module(resolve: &Resolve, world: WorldId, imports: PluginImports) -> Vec<u8> {
    let called = called_functions(imports);
    let mut resolve = resolve.clone();
    let names: Vec<_> = resolve
        .interfaces
        .iter()
        .map(|(id, _)| (id, resolve.id_of(id).unwrap_or_default()))
        .collect();
    for (id, name) in names {
        if let Some(interface) = name.strip_prefix("wasi:") {
            let interface = interface.split('@').next().unwrap_or_default();
            let functions = &mut resolve.interfaces[id].functions;
            functions.retain(|name, _| called.contains(&(interface, name.as_str())));
        }
    }
    wit_dylib::create(&resolve, world, None)
}

fn function_tables(
    imports: PluginImports,
) -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    let tables = [
        (true, BASE_FUNCTIONS),
        (imports.files.is_some(), FILE_FUNCTIONS),
        (
            imports.files == Some(DirectoryAccess::ReadWrite),
            CHANGE_FUNCTIONS,
        ),
        (imports.network, NETWORK_FUNCTIONS),
        (imports.environment, ENVIRONMENT_FUNCTIONS),
    ];
    tables
        .into_iter()
        .filter(|(is_given, _)| *is_given)
        .flat_map(|(_, table)| table)
}

/// Returns WASI interfaces, without the package name, and their functions.
fn called_functions(imports: PluginImports) -> BTreeSet<(&'static str, &'static str)> {
    let calls = function_tables(imports).flat_map(|(interface, functions)| {
        let interface = interface.trim_start_matches("wasi:");
        functions.iter().map(move |function| (interface, *function))
    });
    calls.collect()
}

/// Returns the world, in WIT.
fn world(imports: PluginImports) -> String {
    let mut text = "package mimir:built;\nworld plugin {\n".to_owned();
    let interfaces: BTreeSet<_> = function_tables(imports)
        .map(|(interface, _)| interface)
        .collect();
    for interface in interfaces {
        text += &format!("  import {interface}@{WASI_VERSION};\n");
    }
    let own = [
        (true, "log"),
        (true, "progress"),
        (imports.commands, "commands"),
        (imports.tools, "tools"),
        (imports.model, "model"),
        (imports.storage, "storage"),
    ];
    for (_, interface) in own.into_iter().filter(|(is_given, _)| *is_given) {
        text += &format!("  import mimir:tool/{interface}@{CONTRACT_VERSION};\n");
    }
    text += &format!("  export mimir:tool/toolset@{CONTRACT_VERSION};\n");
    if imports.assesses {
        text += &format!("  export mimir:tool/assessor@{CONTRACT_VERSION};\n");
    }
    text + "}\n"
}
