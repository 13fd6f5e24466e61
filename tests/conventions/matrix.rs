//! The dependency matrix: each heavy dependency is wrapped by one crate, and no other may use it.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use super::root;

/// Crates of this workspace and their allowed dependencies. Only the binary connects the backends.
const OURS: &[(&str, &[&str])] = &[
    ("mimir-redact", &[]),
    ("mimir-commands", &[]),
    ("mimir-patch", &[]),
    ("mimir-embeddings", &[]),
    ("mimir-platform", &[]),
    (
        "mimir-core",
        &[
            "mimir-commands",
            "mimir-patch",
            "mimir-platform",
            "mimir-redact",
        ],
    ),
    ("mimir-audit", &["mimir-core"]),
    ("mimir-net", &["mimir-core"]),
    ("mimir-wasm", &["mimir-core", "mimir-net"]),
    (
        "mimir-process",
        &["mimir-commands", "mimir-core", "mimir-net"],
    ),
    ("mimir-registry", &["mimir-core", "mimir-net"]),
    ("mimir-script", &["mimir-core", "mimir-wasm"]),
    ("mimir-browser", &["mimir-core", "mimir-net"]),
    ("mimir-code-search", &["mimir-core", "mimir-embeddings"]),
    ("mimir-mcp", &["mimir-core", "mimir-net"]),
    ("mimir-cluster", &["mimir-audit", "mimir-core"]),
    ("mimir-telemetry", &["mimir-core"]),
    ("mimir-console", &["mimir-core"]),
    ("mimir-tokens", &[]),
    ("mimir-agent", &["mimir-core", "mimir-net"]),
    ("mimir-builtins", &["mimir-wasm"]),
    (
        "mimir",
        &[
            "mimir-core",
            "mimir-audit",
            "mimir-net",
            "mimir-wasm",
            "mimir-process",
            "mimir-registry",
            "mimir-script",
            "mimir-mcp",
            "mimir-agent",
            "mimir-browser",
            "mimir-code-search",
            "mimir-builtins",
            "mimir-cluster",
            "mimir-telemetry",
        ],
    ),
    (
        "mimir-cli",
        &[
            "mimir",
            "mimir-core",
            "mimir-audit",
            "mimir-net",
            "mimir-wasm",
            "mimir-process",
            "mimir-registry",
            "mimir-script",
            "mimir-mcp",
            "mimir-tokens",
            "mimir-agent",
            "mimir-builtins",
            "mimir-cluster",
            "mimir-telemetry",
            "mimir-console",
        ],
    ),
    ("mimir-sdk", &[]),
    (
        "mimir-testkit",
        &["mimir-core", "mimir-process", "mimir-wasm"],
    ),
    ("mimir-guests", &[]),
    (
        "mimir-tests",
        &[
            "mimir-core",
            "mimir-audit",
            "mimir-commands",
            "mimir-wasm",
            "mimir-builtins",
            "mimir-script",
            "mimir-testkit",
        ],
    ),
];

/// Allowed dependencies of a plugin.
const PLUGIN: &[&str] = &["mimir-embeddings", "mimir-patch", "mimir-sdk"];

/// Heavy crates, by name prefix, and the only crates that may depend on them.
const HEAVY: &[(&str, &[&str])] = &[
    ("wasmtime", &["mimir-wasm"]),
    ("cap-", &["mimir-wasm", "mimir-code-search"]),
    ("wasmparser", &["mimir-wasm"]),
    ("wasm-encoder", &["mimir-wasm"]),
    ("wast", &["mimir-wasm"]),
    // Also in the build script that links the engines of scripts.
    ("wit-component", &["mimir-wasm", "mimir-builtins"]),
    ("wit-parser", &["mimir-wasm", "mimir-builtins"]),
    ("wit-dylib", &["mimir-wasm", "mimir-builtins"]),
    (
        "wit-bindgen",
        &["mimir-sdk", "mimir-guests", "mimir-plugin-bash"],
    ),
    (
        "wasip2",
        &[
            "mimir-guests",
            "mimir-plugin-bash",
            "mimir-plugin-memory",
            "mimir-plugin-search",
            "mimir-plugin-web",
        ],
    ),
    ("aho-corasick", &["mimir-redact"]),
    ("bm25", &["mimir-plugin-memory"]),
    ("bashkit", &["mimir-plugin-bash"]),
    ("lzma", &["mimir-wasm", "mimir-builtins"]),
    ("htmd", &["mimir-plugin-web"]),
    ("markup5ever", &["mimir-plugin-web"]),
    ("encoding_rs", &["mimir-plugin-web"]),
    ("calamine", &["mimir-plugin-documents"]),
    ("pdf-extract", &["mimir-plugin-documents"]),
    ("quick-xml", &["mimir-plugin-documents"]),
    // Also for MCP bundles.
    ("zip", &["mimir-plugin-documents", "mimir-cli"]),
    // The program's listener limits connections, which axum's own does not.
    ("hyper", &["mimir-net", "mimir", "mimir-cli"]),
    ("reqwest", &["mimir-net"]),
    // Certificates of keyless signatures, and keys that are encrypted as cosign does it.
    ("rustls-webpki", &["mimir-registry"]),
    ("rustls-pki-types", &["mimir-registry"]),
    ("scrypt", &["mimir-registry"]),
    ("crypto_secretbox", &["mimir-registry"]),
    ("rustls", &["mimir-net"]),
    ("tokio-rustls", &["mimir-net"]),
    // Tokens of an identity provider, and signatures of artifacts.
    ("ring", &["mimir-mcp", "mimir-registry", "mimir-wasm"]),
    ("jsonwebtoken", &["mimir-mcp"]),
    (
        "flate2",
        &[
            "mimir",
            "mimir-builtins",
            "mimir-net",
            "mimir-plugin-web",
            "mimir-wasm",
        ],
    ),
    ("tar", &["mimir"]),
    ("brotli", &["mimir-net"]),
    ("ruzstd", &["mimir-net"]),
    ("bollard", &["mimir-process"]),
    ("landlock", &["mimir-process"]),
    ("seccomp", &["mimir-process"]),
    ("brush-parser", &["mimir-commands"]),
    ("oxc", &["mimir-script"]),
    ("rmcp", &["mimir-mcp"]),
    ("async-nats", &["mimir-cluster"]),
    ("nkeys", &["mimir-cluster"]),
    ("rcgen", &["mimir-cluster"]),
    ("tiktoken", &["mimir-tokens"]),
    ("sse-stream", &["mimir-mcp", "mimir-agent"]),
    ("clap", &["mimir-cli"]),
    ("axum", &["mimir-cli", "mimir-console"]),
    ("qrcodegen", &["mimir-console"]),
    ("comfy-table", &["mimir-cli"]),
    ("indicatif", &["mimir-cli"]),
    ("crossterm", &["mimir-cli"]),
    ("ratatui", &["mimir-cli"]),
    // Config files of agents.
    ("jsonc-parser", &["mimir"]),
    ("toml_edit", &["mimir"]),
    ("rustyline", &["mimir-cli"]),
    // Chosen by the program and the benches.
    ("mimalloc", &["mimir-cli"]),
    // In a build script, whose errors are only printed.
    ("anyhow", &["mimir-builtins"]),
];

/// Allowed dependencies of core: data structures, no devices.
const CORE: &[&str] = &[
    "base64",
    "globset",
    "jiff",
    "jsonschema",
    "mimir-commands",
    "mimir-patch",
    "mimir-platform",
    "mimir-redact",
    "parking_lot",
    "percent-encoding",
    "regex",
    "regex-syntax",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "strsim",
    "thiserror",
    "tokio",
    "tracing",
    "unicode-normalization",
    "url",
];

/// Forbidden dependencies of core, even transitive ones.
const NEVER_IN_CORE: &[&str] = &[
    "wasmtime",
    "hyper",
    "reqwest",
    "rustls",
    "clap",
    "crossterm",
    "cap-std",
];

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command
        .manifest_path(root().join("Cargo.toml"))
        .other_options(
            [
                "--locked",
                "--offline",
                "--filter-platform",
                env!("PLATFORM"),
            ]
            .map(String::from)
            .to_vec(),
        );
    command.exec().unwrap()
}

/// The dependencies of a package, for its code or its build script. Tests may use others.
fn named(package: &Package) -> BTreeSet<&str> {
    let real = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind != DependencyKind::Development);
    real.map(|dependency| dependency.name.as_str()).collect()
}

#[test]
fn crate_dependencies_follow_the_matrix() {
    let metadata = metadata();
    let members = metadata.workspace_packages();
    let ours: BTreeSet<&str> = members
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let allowed: BTreeMap<_, _> = OURS.iter().copied().collect();
    let mut faults = vec![];
    for package in &members {
        let name = package.name.as_str();
        let may: &[&str] = match allowed.get(name) {
            Some(may) => may,
            None if name.starts_with("mimir-plugin-") => PLUGIN,
            None => {
                faults.push(format!("{name} has no line in this matrix"));
                continue;
            }
        };
        for other in named(package) {
            if ours.contains(other) && !may.contains(&other) {
                faults.push(format!("{name} may not name {other}"));
            }
            let heavy = HEAVY.iter().find(|(start, _)| other.starts_with(start));
            if let Some((_, owners)) = heavy
                && !owners.contains(&name)
            {
                faults.push(format!(
                    "{name} may not name {other}: that is for {owners:?}"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn core_depends_only_on_data_crates() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let core = packages
        .iter()
        .find(|package| package.name.as_str() == "mimir-core")
        .unwrap();
    let extra: Vec<_> = named(core)
        .into_iter()
        .filter(|name| !CORE.contains(name))
        .collect();
    assert!(extra.is_empty(), "core may not name {extra:?}");
}

#[test]
fn core_dependency_tree_has_no_device_access() {
    // Checked with core's own features: in the workspace they are unified with those of other crates.
    let output = std::process::Command::new(env!("CARGO"))
        .current_dir(root())
        .args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "mimir-core",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8(output.stdout).unwrap();
    let reached: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(reached.contains("serde_json"), "{tree}");
    let bad: Vec<_> = NEVER_IN_CORE
        .iter()
        .filter(|name| reached.contains(*name))
        .collect();
    assert!(bad.is_empty(), "core reaches {bad:?}");
}

#[test]
fn plugin_crates_share_the_mimir_plugin_prefix() {
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().unwrap();
        let plugin = folder
            .parent()
            .is_some_and(|parent| parent.ends_with("plugins"));
        assert_eq!(
            plugin,
            package.name.starts_with("mimir-plugin-"),
            "{}",
            package.name
        );
    }
}
