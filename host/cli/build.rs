//! Lists the files of the SDKs and of the contract, so that `mimir tools new` and `mimir tools build` carry them in the
//! binary, and looks up the facts that `mimir --version` prints.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Folders with files that plugins are built from.
const FOLDERS: [&str; 7] = [
    "sdk/rust/src",
    "sdk/python",
    "sdk/go",
    "sdk/c",
    "sdk/zig",
    "sdk/wit",
    "wit",
];

/// Folders in these that no build needs.
const LEFT_OUT: [&str; 6] = [
    "__pycache__",
    "examples",
    "tests",
    "target",
    "zig-cache",
    "zig-out",
];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..");
    let mut files = vec![root.join("sdk/rust/Cargo.toml")];
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    for folder in ["sdk", "wit"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=BUILD_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=BUILD_PROFILE={}", variable("PROFILE"));
    // A debug build does not record the commit: each new commit would compile this crate and its tests again.
    if variable("PROFILE") != "debug"
        && let Some(commit) = commit(&root)
    {
        println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    }
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

/// The commit of the source tree. `None` without git, and in a source archive, even if a repository contains it.
fn commit(root: &Path) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(words).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    // The log of HEAD changes with each commit and checkout.
    let names = ["HEAD", "logs/HEAD", branch.as_deref().unwrap_or("HEAD")];
    for name in names {
        let path = git(&["rev-parse", "--git-path", name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // Caches of compilers and tests are not part of an SDK.
        if name.starts_with('.') || LEFT_OUT.contains(&&*name) || name.ends_with("_test.go") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
