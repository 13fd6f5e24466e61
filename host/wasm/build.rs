//! Looks up the engine's version, which wasmtime itself does not export.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let lock = crate_folder.join("../../Cargo.lock");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!(
        "cargo::rustc-env=MIMIR_WASMTIME_VERSION={}",
        version_of("wasmtime", &fs::read_to_string(lock)?)
    );
    Ok(())
}

/// The version of a package in a lock file.
fn version_of<'a>(package: &str, lock: &'a str) -> &'a str {
    let entry = format!("name = \"{package}\"\nversion = \"");
    let version = lock
        .split_once(&entry)
        .and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("of unknown version", |(version, _)| version)
}
