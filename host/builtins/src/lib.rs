//! The tools that ship with mimir, as bytes: `plugins/*`, built for `wasm32-wasip2` by this crate's build script, and
//! the engines for scripts and programs.
//!
//! Out of scope: running the tools. `mimir-wasm` does that.
//!
//! The descriptions of the plugins are checked in next to this file, because only a WebAssembly engine can query them,
//! which a build script does not have. A test compares each description with the component's own answer.

use mimir_wasm::componentize::REACTOR_ADAPTER;
use mimir_wasm::program::ProgramParts;
use mimir_wasm::script::{EngineParts, JsPluginParts};
use mimir_wasm::{BundledComponent, PackedComponent};

/// The engine that runs JavaScript: QuickJS-ng, as `componentize-qjs` ships it.
pub const JAVASCRIPT: EngineParts = EngineParts {
    name: "the JavaScript engine",
    component: built::JAVASCRIPT,
    sha256: built::JAVASCRIPT_SHA256,
    // One module in several files, because the engine loads a single module.
    prelude: concat!(
        include_str!("../javascript/prelude/promise.js"),
        include_str!("../javascript/prelude/generators.js"),
        include_str!("../javascript/prelude/turns.js"),
        include_str!("../javascript/prelude/context.js"),
        include_str!("../javascript/prelude/others.js"),
        include_str!("../javascript/prelude/abort.js"),
        include_str!("../javascript/prelude/url.js"),
        include_str!("../javascript/prelude/crypto.js"),
        include_str!("../javascript/prelude/intl.js"),
        include_str!("../javascript/prelude/dynamic.js"),
        include_str!("../javascript/node/modules.js"),
        include_str!("../javascript/node/path.js"),
        include_str!("../javascript/node/inspect.js"),
        include_str!("../javascript/node/process.js"),
        include_str!("../javascript/node/buffer.js"),
        include_str!("../javascript/node/files.js"),
        include_str!("../javascript/node/fs.js"),
        include_str!("../javascript/node/events.js"),
        include_str!("../javascript/node/crypto.js"),
        include_str!("../javascript/node/util.js"),
        include_str!("../javascript/node/assert.js"),
        include_str!("../javascript/node/small.js"),
        include_str!("../javascript/node/stream.js"),
        include_str!("../javascript/node/require.js"),
        include_str!("../javascript/prelude/globals.js"),
    ),
};

/// The parts of plugins in JavaScript: the runtime as a library, and the code around a plugin's own code.
pub const PLUGIN: JsPluginParts = JsPluginParts {
    runtime: built::JAVASCRIPT_RUNTIME,
    adapters: &[
        ("wasi_snapshot_preview1", REACTOR_ADAPTER),
        ("local:init/module-loader", built::JAVASCRIPT_LOADER),
    ],
    contract: include_str!("../../../wit/tool.wit"),
    prelude: concat!(
        include_str!("../javascript/prelude/promise.js"),
        include_str!("../javascript/prelude/generators.js"),
        include_str!("../javascript/plugin/hands.js"),
        include_str!("../javascript/prelude/context.js"),
        include_str!("../javascript/prelude/others.js"),
        include_str!("../javascript/prelude/abort.js"),
        include_str!("../javascript/prelude/url.js"),
        include_str!("../javascript/prelude/crypto.js"),
        include_str!("../javascript/prelude/intl.js"),
        include_str!("../javascript/prelude/dynamic.js"),
        include_str!("../javascript/node/modules.js"),
        include_str!("../javascript/node/buffer.js"),
        include_str!("../javascript/prelude/globals.js"),
    ),
    files: include_str!("../javascript/plugin/files.js"),
    changes: include_str!("../javascript/plugin/changes.js"),
    requests: include_str!("../javascript/plugin/requests.js"),
    commands: include_str!("../javascript/plugin/commands.js"),
    tools: include_str!("../javascript/plugin/tools.js"),
    model: include_str!("../javascript/plugin/model.js"),
    storage: include_str!("../javascript/plugin/storage.js"),
    environment: include_str!("../javascript/plugin/environment.js"),
    toolset: include_str!("../javascript/plugin/toolset.js"),
};

/// The engine that runs Python: CPython 3.14 with its library, as `bashkit-cpython-wasm` ships it.
pub const PYTHON: ProgramParts = ProgramParts {
    name: "the Python engine",
    component: PackedComponent::Around {
        before: built::PYTHON_BEFORE,
        module: built::PYTHON_MODULE,
        after: built::PYTHON_AFTER,
    },
    sha256: built::PYTHON_SHA256,
    files: &[
        ("usr/local/lib/python314.zip", built::PYTHON_LIBRARY),
        ("usr/local/lib/mimir.zip", built::PYTHON_MORE),
        (
            "usr/local/lib/mimir/_pbkdf2.py",
            include_bytes!("../python/_pbkdf2.py"),
        ),
        (
            "usr/local/lib/mimir/_threads.py",
            include_bytes!("../python/_threads.py"),
        ),
        (
            "usr/local/lib/mimir/bz2.py",
            include_bytes!("../python/bz2.py"),
        ),
        (
            "usr/local/lib/mimir/cProfile.py",
            include_bytes!("../python/cProfile.py"),
        ),
        (
            "usr/local/lib/mimir/ctypes.py",
            include_bytes!("../python/ctypes.py"),
        ),
        (
            "usr/local/lib/mimir/mimir.py",
            include_bytes!("../python/mimir.py"),
        ),
    ],
    main: "main.py",
    // The arguments of the program follow, as after `python3 -c`.
    argv: &["python3", "-c", include_str!("../python/boot.py")],
    imports: &["--imports"],
    records: true,
};

/// The licence of a third-party part of the engines.
#[derive(Debug, Clone, Copy)]
pub struct Licence {
    /// The licensed part.
    pub of: &'static str,
    /// The text of the licence.
    pub text: &'static str,
}

/// The licences of the engines, which must be distributed with the executable.
pub const LICENCES: [Licence; 3] = [
    Licence {
        of: "CPython 3.14, which runs Python, and its bundled libraries",
        text: built::PYTHON_LICENCES,
    },
    Licence {
        of: "QuickJS-ng, which runs JavaScript and TypeScript, as componentize-qjs (Apache-2.0) ships it",
        text: include_str!("../licences/quickjs-ng.txt"),
    },
    Licence {
        of: "bashkit, which runs bash",
        text: include_str!("../licences/bashkit.txt"),
    },
];

/// The engine that runs bash: `plugins/bash`.
pub const BASH: ProgramParts = ProgramParts {
    name: "the bash engine",
    component: built::BASH,
    sha256: built::BASH_SHA256,
    files: &[],
    main: "main.sh",
    argv: &["bash"],
    imports: &[],
    records: false,
};

/// All built-in plugins, in order of precedence.
pub const ALL: &[BundledComponent] = &[
    BundledComponent {
        name: "files",
        component: built::FILES,
        sha256: built::FILES_SHA256,
        requires_undo: true,
        keeps_memory: false,
        aliases: &[
            ("read_file", "read"),
            ("read_file", "file_read"),
            ("write_file", "write"),
            ("write_file", "file_write"),
            ("edit_file", "edit"),
            ("list_directory", "list_files"),
            ("file_info", "file_exists"),
            ("file_info", "exists"),
        ],
        description: Some(include_str!("descriptions/files.json")),
    },
    BundledComponent {
        name: "documents",
        component: built::DOCUMENTS,
        sha256: built::DOCUMENTS_SHA256,
        requires_undo: false,
        keeps_memory: false,
        aliases: &[],
        description: Some(include_str!("descriptions/documents.json")),
    },
    BundledComponent {
        name: "search",
        component: built::SEARCH,
        sha256: built::SEARCH_SHA256,
        requires_undo: false,
        keeps_memory: false,
        aliases: &[],
        description: Some(include_str!("descriptions/search.json")),
    },
    BundledComponent {
        name: "exec",
        component: built::EXEC,
        sha256: built::EXEC_SHA256,
        requires_undo: false,
        keeps_memory: false,
        aliases: &[
            ("exec", "bash"),
            ("exec", "bash_execution"),
            ("exec", "shell"),
        ],
        description: Some(include_str!("descriptions/exec.json")),
    },
    BundledComponent {
        name: "memory",
        component: built::MEMORY,
        sha256: built::MEMORY_SHA256,
        requires_undo: false,
        keeps_memory: true,
        aliases: &[],
        description: Some(include_str!("descriptions/memory.json")),
    },
    BundledComponent {
        name: "git",
        component: built::GIT,
        sha256: built::GIT_SHA256,
        requires_undo: false,
        keeps_memory: false,
        aliases: &[],
        description: Some(include_str!("descriptions/git.json")),
    },
    BundledComponent {
        name: "project",
        component: built::PROJECT,
        sha256: built::PROJECT_SHA256,
        requires_undo: true,
        keeps_memory: false,
        aliases: &[],
        description: Some(include_str!("descriptions/project.json")),
    },
    BundledComponent {
        name: "web",
        component: built::WEB,
        sha256: built::WEB_SHA256,
        requires_undo: false,
        keeps_memory: false,
        aliases: &[("web_fetch", "http_fetch")],
        description: Some(include_str!("descriptions/web.json")),
    },
];

mod built {
    use mimir_wasm::PackedComponent;

    include!(concat!(env!("OUT_DIR"), "/built.rs"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum size of a plugin in bytes. A larger plugin probably has an unnecessary dependency, and would slow down
    /// the first use.
    const SIZE_MAX: usize = 4 << 20;

    /// The imports of a prelude become variables around the prelude, so a second declaration would silently shadow the
    /// import.
    #[test]
    fn prelude_declares_each_name_once() {
        for prelude in [JAVASCRIPT.prelude, PLUGIN.prelude] {
            let mut names = std::collections::BTreeSet::new();
            // Indented lines are inside a function.
            for line in prelude.lines().filter(|line| !line.starts_with(' ')) {
                let words: Vec<&str> = line.split([' ', '(', ';', '=', '*', ':']).collect();
                let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
                let name = match *words {
                    ["const" | "let" | "function" | "class", name, ..] => name,
                    ["import", "as", name, ..] => name,
                    _ => continue,
                };
                let is_plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
                assert!(
                    !is_plain || names.insert(name),
                    "`{name}` is declared twice: {line}"
                );
            }
        }
    }

    fn decoded(builtin: &BundledComponent) -> (wit_parser::Resolve, wit_parser::WorldId) {
        match wit_component::decode(&builtin.component.unpack().unwrap()).unwrap() {
            wit_component::DecodedWasm::Component(resolve, world) => (resolve, world),
            wit_component::DecodedWasm::WitPackage(..) => {
                panic!("{} is not a component", builtin.name)
            }
        }
    }

    #[test]
    fn plugins_are_toolsets_of_limited_size() {
        for builtin in ALL {
            let (name, size) = (builtin.name, builtin.component.unpack().unwrap().len());
            assert!(size < SIZE_MAX, "{name}: {size} bytes");
            let (resolve, world) = decoded(builtin);
            let exports = resolve.worlds[world].exports.keys();
            let exports: Vec<_> = exports.map(|key| resolve.name_world_key(key)).collect();
            assert!(
                exports.contains(&"mimir:tool/toolset@1.0.0".to_owned()),
                "{name}: {exports:?}"
            );
        }
    }

    #[test]
    fn plugins_import_only_what_they_need() {
        for builtin in ALL {
            let (resolve, world) = decoded(builtin);
            for key in resolve.worlds[world].imports.keys() {
                let import = resolve.name_world_key(key);
                let own = match builtin.name {
                    "web" => "wasi:http/",
                    // Rust's standard library always imports the file system.
                    _ => "wasi:filesystem/",
                };
                let fine = ["wasi:io/", "wasi:cli/", "wasi:clocks/", own]
                    .iter()
                    .chain(&["wasi:random/insecure-seed", "mimir:tool/types"])
                    .chain(match builtin.name {
                        "exec" | "git" => &["mimir:tool/commands"][..],
                        "project" => &["mimir:tool/commands", "mimir:tool/progress"],
                        "memory" => &["mimir:tool/storage", "wasi:http/"],
                        // The library for PDF could also encrypt.
                        "documents" => &["wasi:random/random"],
                        _ => &[],
                    })
                    .any(|prefix| import.starts_with(prefix));
                assert!(fine, "{} imports {import}", builtin.name);
            }
        }
    }

    #[test]
    fn search_plugin_cannot_change_files() {
        let search = ALL.iter().find(|builtin| builtin.name == "search").unwrap();
        let (resolve, world) = decoded(search);
        let files = resolve.worlds[world]
            .imports
            .iter()
            .find_map(|(key, item)| match item {
                wit_parser::WorldItem::Interface { id, .. }
                    if resolve
                        .name_world_key(key)
                        .starts_with("wasi:filesystem/types") =>
                {
                    Some(&resolve.interfaces[*id])
                }
                _ => None,
            });
        let functions: Vec<_> = files.unwrap().functions.keys().collect();
        let changing = [
            "write", "append", "create", "remove", "rename", "unlink", "link-at", "set-",
        ];
        for function in &functions {
            assert!(
                !changing.iter().any(|word| function.contains(word)),
                "{functions:?}"
            );
        }
    }
}
