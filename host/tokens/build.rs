//! Packs the table of the tokenizer, which `tiktoken-rs` contains as 3.6 MB of text: the tokens in the order of their
//! ranks, each after a byte with its length.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const PACKAGE: &str = "tiktoken-rs";
const TABLE: &str = "assets/o200k_base.tiktoken";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let table = package_folder()?.join(TABLE);
    let text = fs::read_to_string(&table)
        .map_err(|error| format!("reading {}: {error}", table.display()))?;
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    fs::write(Path::new(&out).join("o200k"), pack(&text)?)?;
    Ok(())
}

/// Packs lines of a token in base64 and its rank.
fn pack(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut packed = Vec::new();
    for (expected, line) in text.lines().enumerate() {
        let (token, rank) = line.split_once(' ').ok_or("a line without a rank")?;
        if rank.parse() != Ok(expected) {
            return Err(format!("expected the rank {expected}, found {rank}").into());
        }
        let token = STANDARD.decode(token)?;
        packed.push(u8::try_from(token.len())?);
        packed.extend(token);
    }
    Ok(packed)
}

/// Returns the folder with the source of the package that this workspace uses.
fn package_folder() -> Result<PathBuf, Box<dyn Error>> {
    // Try offline first. A build from nothing has not fetched the packages that only tests use, and cargo wants all.
    let metadata = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut manifests = packages
        .filter(|package| package["name"] == PACKAGE)
        .filter_map(|package| package["manifest_path"].as_str());
    let manifest = manifests.next().map(Path::new);
    let folder = manifest.and_then(Path::parent);
    Ok(folder
        .ok_or_else(|| format!("{PACKAGE} is not a dependency"))?
        .to_owned())
}

fn metadata(arguments: &[&str]) -> Result<serde_json::Value, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(["--filter-platform", &env::var("TARGET")?])
        .args(arguments)
        .output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata: {errors}").into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
