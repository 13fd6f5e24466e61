//! Lists the files of the SDK and of the contract, so that `mimir tools new` carries them in the binary.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..");
    let mut files = vec![root.join("sdk/rust/Cargo.toml")];
    for folder in ["sdk/rust/src", "wit"] {
        collect(&root.join(folder), &mut files)?;
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!(
        "cargo::rerun-if-changed={}",
        root.join("sdk/rust/Cargo.toml").display()
    );
    println!("cargo::rerun-if-changed=build.rs");
    files.sort();
    let mut list = String::from(
        "/// Path below the root of the source tree, and content.\npub static FILES: &[(&str, &[u8])] = &[\n",
    );
    for file in files {
        let name = file
            .strip_prefix(&root)
            .unwrap_or(&file)
            .to_string_lossy()
            .replace('\\', "/");
        let _ = writeln!(
            list,
            "    ({name:?}, include_bytes!({:?})),",
            file.canonicalize()?
        );
    }
    list.push_str("];\n");
    fs::write(
        PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("sdk_files.rs"),
        list,
    )
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
