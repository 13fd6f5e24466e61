//! Builds `plugins/*` for `wasm32-wasip2` with a separate cargo, links the script engines, and writes the files that
//! the crate includes.

mod bash;
mod javascript;
mod library;
mod pin;
mod python;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use lzma_rust2::{XzOptions, XzWriter};
use sha2::{Digest, Sha256};

const TARGET: &str = "wasm32-wasip2";

/// Folder names of the plugins.
const PLUGINS: [&str; 8] = [
    "documents",
    "exec",
    "files",
    "git",
    "memory",
    "project",
    "search",
    "web",
];

/// Folder name of the bash engine, which is built like a plugin.
const BASH: &str = "bash";

/// Enables SIMD, with which text scanners process sixteen bytes at a time. Every engine of the last years supports it.
const RUSTFLAGS: &str = "-Ctarget-feature=+simd128";

fn main() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR")?);
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR")?);
    let root = here
        .parent()
        .and_then(Path::parent)
        .context("the workspace root")?;

    for input in [
        "Cargo.lock",
        "Cargo.toml",
        "host/patch",
        "plugins",
        "sdk/rust",
        "wit",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    for input in ["bash", "build", "code", "javascript", "python"] {
        println!("cargo::rerun-if-changed={}", here.join(input).display());
    }

    ensure_target()?;
    let shared = shared_folder(&out);
    let bashkit = bash::copy_and_edit(root, &here, &shared, TARGET)?;
    build(root, &shared, &bashkit)?;

    let mut source = String::new();
    for plugin in PLUGINS.into_iter().chain([BASH]) {
        let component = compiled_component(&shared, plugin)?;
        source += &pack(&out, plugin, &component)?;
        source += &digest(plugin, &component);
    }
    let engine = javascript::link(root, &here)?;
    source += &pack(&out, "javascript", &engine)?;
    source += &digest("javascript", &engine);
    let parts = javascript::parts(&here)?;
    source += &pack(&out, "javascript_runtime", &parts.runtime)?;
    let file = out.join("javascript-loader.wasm");
    fs::write(&file, parts.loader)?;
    source += &format!("pub const JAVASCRIPT_LOADER: &[u8] = include_bytes!({file:?});\n");
    source += &python(&here, &out)?;
    fs::write(out.join("built.rs"), source)?;
    Ok(())
}

/// Returns the folder in which the components are compiled. It is in cargo's target folder rather than in `OUT_DIR`,
/// because a component is the same for each profile and target of the host, and takes minutes to compile.
fn shared_folder(out: &Path) -> PathBuf {
    // `OUT_DIR` is `TARGET_FOLDER/[TRIPLE/]PROFILE/build/PACKAGE/out`.
    let above_profile = out.ancestors().nth(4).unwrap_or(out);
    let is_triple = env::var_os("TARGET").is_some_and(|triple| above_profile.ends_with(triple));
    let target = above_profile.parent().filter(|_| is_triple);
    target.unwrap_or(above_profile).join("components")
}

fn compiled_component(shared: &Path, plugin: &str) -> Result<Vec<u8>> {
    let name = format!("mimir_plugin_{plugin}.wasm");
    let file = shared.join(TARGET).join("plugin").join(name);
    fs::read(&file).with_context(|| format!("reading {}", file.display()))
}

/// Compresses a component into `OUT_DIR`, and returns the code that includes it.
fn pack(out: &Path, name: &str, component: &[u8]) -> Result<String> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(9))?;
    writer.write_all(component)?;
    let file = out.join(format!("{name}.wasm.xz"));
    fs::write(&file, writer.finish()?).with_context(|| format!("writing {}", file.display()))?;
    let name = name.to_uppercase();
    Ok(format!(
        "pub const {name}: PackedComponent = PackedComponent::Whole(include_bytes!({file:?}));\n"
    ))
}

/// Returns the code of a constant with the digest of a component.
fn digest(name: &str, component: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(component).into();
    let name = name.to_uppercase();
    format!("pub const {name}_SHA256: [u8; 32] = {digest:?};\n")
}

/// Writes the parts of the Python engine, and returns the code that includes them.
fn python(here: &Path, out: &Path) -> Result<String> {
    let linked = python::link(here)?;
    let more = library::build_zip(here)?;
    let mut source = String::new();
    for (name, bytes) in [
        ("BEFORE", &linked.before),
        ("MODULE", &linked.module),
        ("AFTER", &linked.after),
        ("LIBRARY", &linked.library),
        ("MORE", &more),
    ] {
        let file = out.join(format!("python-{}", name.to_lowercase()));
        fs::write(&file, bytes)?;
        source += &format!("pub const PYTHON_{name}: &[u8] = include_bytes!({file:?});\n");
    }
    let file = out.join("python-licences.md");
    fs::write(&file, &linked.licences)?;
    source += &format!("pub const PYTHON_LICENCES: &str = include_str!({file:?});\n");
    let digest = linked.sha256;
    source += &format!("pub const PYTHON_SHA256: [u8; 32] = {digest:?};\n");
    Ok(source)
}

/// Adds the target with rustup, or explains how to add it if that fails.
fn ensure_target() -> Result<()> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let libraries = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&libraries.stdout).trim());
    let there = libraries.status.success() && folder.is_dir();
    if there {
        return Ok(());
    }
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .status();
    if !added.is_ok_and(|status| status.success()) {
        bail!("the Rust target {TARGET} is missing; add it with: rustup target add {TARGET}");
    }
    Ok(())
}

fn build(root: &Path, folder: &Path, bashkit: &Path) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // The lock file names the published package, and stays unchanged. A JSON string is also a TOML string.
    let bashkit = serde_json::to_string(bashkit)?;
    command.arg("--config").arg(format!("paths=[{bashkit}]"));
    command
        .current_dir(root)
        .args([
            "build",
            "--locked",
            "--profile",
            "plugin",
            "--target",
            TARGET,
        ])
        .env("CARGO_TARGET_DIR", folder);
    for plugin in PLUGINS.into_iter().chain([BASH]) {
        command.args(["--package", &format!("mimir-plugin-{plugin}")]);
    }
    // Removes variables of the outer build, which are meant for the host's target or for clippy.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let outer = name.starts_with("CARGO_FEATURE_")
            || name.starts_with("CARGO_CFG_")
            || name.starts_with("CARGO_PROFILE_")
            || name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_TARGET_") && name != "CARGO_TARGET_DIR"
            || [
                "RUSTFLAGS",
                "CARGO_ENCODED_RUSTFLAGS",
                "RUSTC_WRAPPER",
                "RUSTC_WORKSPACE_WRAPPER",
                "CLIPPY_ARGS",
            ]
            .contains(&name.as_str())
            || [
                "TARGET",
                "HOST",
                "PROFILE",
                "OPT_LEVEL",
                "DEBUG",
                "CARGO_BUILD_TARGET",
            ]
            .contains(&name.as_str());
        if outer {
            command.env_remove(&name);
        }
    }
    command.env("RUSTFLAGS", RUSTFLAGS);
    let status = command.status().context("running cargo")?;
    if !status.success() {
        bail!("building the plugins for {TARGET} failed");
    }
    Ok(())
}
