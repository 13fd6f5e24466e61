//! Builds the hostile guests and writes a constant with the path of each.
//!
//! The constants are private to the test binary, in which an unused one is an error: a guest without a test does not
//! compile.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for input in ["guests", "../wit", "../Cargo.lock", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    // The test of the dependency matrix queries cargo about this platform only: packages of others may not be
    // installed.
    println!("cargo::rustc-env=PLATFORM={}", env::var("TARGET")?);
    let mut code = String::new();
    programs(&here.join("guests"), &out, &mut code)?;
    texts(&here.join("guests/wat"), &out, &mut code)?;
    fs::write(out.join("guests.rs"), code)?;
    Ok(())
}

/// Builds `examples/*.rs` with a separate cargo and target folder, because the outer cargo holds the lock of the usual
/// one.
fn programs(guests: &Path, out: &Path, code: &mut String) -> Result<()> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(guests)
        .args([
            "build",
            "--locked",
            "--release",
            "--examples",
            "--features",
            "build",
        ])
        .args(["--target", "wasm32-wasip2"])
        .env("CARGO_TARGET_DIR", out)
        // Small files that are quick to compile, twice: once by rustc and once by the engine.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_STRIP", "true");
    // Settings of the outer build may not suit the other target.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
    ] {
        cargo.env_remove(name);
    }
    if !cargo.status()?.success() {
        return Err(
            "the guests cannot be built; if the target is missing: rustup target add wasm32-wasip2"
                .into(),
        );
    }
    for name in stems(&guests.join("examples"), "rs")? {
        let built = out.join(format!("wasm32-wasip2/release/examples/{name}.wasm"));
        if !built.exists() {
            return Err(format!("{name}.rs is not declared in guests/Cargo.toml").into());
        }
        constant(code, &name, &built)?;
    }
    Ok(())
}

/// Translates `wat/*.wat`.
fn texts(folder: &Path, out: &Path, code: &mut String) -> Result<()> {
    for name in stems(folder, "wat")? {
        let built = out.join(format!("{name}.wasm"));
        fs::write(&built, wat::parse_file(folder.join(format!("{name}.wat")))?)?;
        constant(code, &name, &built)?;
    }
    Ok(())
}

fn stems(folder: &Path, extension: &str) -> Result<BTreeSet<String>> {
    let mut stems = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .ok_or("a name that is not UTF-8")?;
            stems.insert(stem.to_owned());
        }
    }
    Ok(stems)
}

fn constant(code: &mut String, name: &str, path: &Path) -> Result<()> {
    let upper = name.to_uppercase();
    writeln!(
        code,
        "pub const {upper}: mimir_kit::Guest = mimir_kit::Guest {{ name: {name:?}, path: {path:?} }};"
    )?;
    Ok(())
}
