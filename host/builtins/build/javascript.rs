//! Links the engine of JavaScript: its runtime, as `componentize-qjs` ships it compiled, to the world of `engine.wit`.
//!
//! With cargo alone: the pin manifest fetches the runtime, wit-dylib writes the glue, wit-component joins the two. What
//! is left is to bring it into the state that calls start in, which takes an engine that runs wasm; compiling one for
//! the build script would cost every build minutes, so `mimir-wasm` does it at the first use and keeps the result.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sha2::{Digest, Sha256};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
use wit_component_258::{Linker, StringEncoding, embed_component_metadata};
use wit_parser_258::Resolve;

/// The package that carries the runtime, and where in it. The kind without component-model async: nothing else that
/// mimir runs needs that, and an engine that has it switched on can be reached by more of every stranger's component.
const PACKAGE: &str = "componentize-qjs";
const RUNTIME: &str = "prebuilt/runtime-sync.wasm";

/// What was looked at is what is linked, whatever the registry hands out.
const RUNTIME_SHA256: &str = "25703f010b80efb806f9c35daf9ee6524ad60320c9781b0bae4e234264f8dac5";

/// The linked engine.
pub fn link(root: &Path, here: &Path) -> Result<Vec<u8>> {
    let runtime = runtime(here)?;
    let mut resolve = Resolve::default();
    resolve.push_path(root.join("wit"))?;
    let (package, _) = resolve.push_path(here.join("javascript/engine.wit"))?;
    let world = resolve.select_world(&[package], Some("engine"))?;
    let mut glue = wit_dylib::create(&resolve, world, None);
    embed_component_metadata(&mut glue, &resolve, world, StringEncoding::UTF8)?;
    let mut linker = Linker::default();
    linker.encoder().validate(true);
    linker.library("runtime.wasm", &runtime, false)?;
    linker.library("glue.wasm", &glue, false)?;
    linker.encoder().adapter(
        "wasi_snapshot_preview1",
        WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
    )?;
    linker.encode().context("linking the engine of JavaScript")
}

fn runtime(here: &Path) -> Result<Vec<u8>> {
    let manifest = here.join("javascript/pin/Cargo.toml");
    // What was fetched before needs no network.
    let packages = metadata(&manifest, true).or_else(|_| metadata(&manifest, false))?;
    let packages = packages["packages"].as_array();
    let mut packages = packages.context("packages")?.iter();
    let found = packages.find(|package| package["name"] == PACKAGE);
    let found = found.and_then(|package| package["manifest_path"].as_str());
    let folder = Path::new(found.context(PACKAGE)?).parent();
    let file = folder.context("its folder")?.join(RUNTIME);
    let runtime = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let digest = Sha256::digest(&runtime);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if digest != RUNTIME_SHA256 {
        bail!("{RUNTIME} of {PACKAGE} has the sha256 {digest}, and not {RUNTIME_SHA256}");
    }
    Ok(runtime)
}

fn metadata(manifest: &Path, offline: bool) -> Result<Value> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--format-version", "1"]);
    command.arg("--manifest-path").arg(manifest);
    // Packages for other platforms are not fetched: one is enough, and it is the same file for all.
    if let Ok(host) = env::var("HOST") {
        command.args(["--filter-platform", &host]);
    }
    if offline {
        command.arg("--offline");
    }
    let output = command.output().context("running cargo metadata")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("the engine of JavaScript cannot be fetched: {said}");
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
