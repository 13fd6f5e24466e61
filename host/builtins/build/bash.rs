//! The bash engine: the published package `bashkit`, with edits where its behaviour is wrong.
//!
//! The package is copied to the build folder. In the copy, the texts listed in the modules below are replaced, and the
//! modules of `../bash` are added; cargo builds the copy in place of the original. The build fails unless each replaced
//! text occurs exactly as often as stated. Remove an edit when a published version includes the fix.

mod arithmetic;
mod bounds;
mod conditions;
mod operands;
mod parser;
mod streams;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::pin;

/// Target folder for the copy of the package.
const FOLDER: &str = "bashkit";

/// The parts of the package that are compiled, or that cargo looks for.
const PARTS: [&str; 6] = ["Cargo.toml", "src", "docs", "benches", "examples", "tests"];

/// A file, the text before, its number of occurrences, the text after.
type SourceEdit = (&'static str, &'static str, usize, &'static str);

/// Returns all edits, in the order in which they are applied.
fn edits() -> impl Iterator<Item = &'static SourceEdit> {
    [
        ADDED_MODULES,
        streams::EDITS,
        arithmetic::EDITS,
        operands::EDITS,
        conditions::EDITS,
        parser::EDITS,
        bounds::EDITS,
    ]
    .into_iter()
    .flatten()
}

/// Modules of `../bash`, and their paths in the package.
const MODULES: [(&str, &str); 5] = [
    ("bash/shared.rs", "src/shared.rs"),
    ("bash/bound.rs", "src/bound.rs"),
    ("bash/operands.rs", "src/interpreter/operands.rs"),
    ("bash/spans.rs", "src/spans.rs"),
    (
        "bash/arithmetic_text.rs",
        "src/interpreter/arithmetic_text.rs",
    ),
];

/// Declares the modules that are added at the root.
const ADDED_MODULES: &[SourceEdit] = &[(
    "src/lib.rs",
    "\nmod stream;",
    1,
    "\nmod bound;\nmod shared;\nmod spans;\nmod stream;",
)];

/// Copies the package to a folder in `out`, edits the copy, and returns the folder.
pub fn copy_and_edit(root: &Path, here: &Path, out: &Path, target: &str) -> Result<PathBuf> {
    let package = pin::package_for(root, "bashkit", target)?;
    let folder = out.join(FOLDER);
    for part in PARTS {
        copy(&package.path(part), &folder.join(part))?;
    }
    for (module, file) in MODULES {
        let text = fs::read(here.join(module)).context(module)?;
        write(&folder.join(file), &text)?;
    }
    let files: BTreeSet<&str> = edits().map(|edit| edit.0).collect();
    for file in files {
        let mut text = String::from_utf8(package.read(file)?).context(file)?;
        for (_, before, times, after) in edits().filter(|edit| edit.0 == file) {
            if text.matches(before).count() != *times {
                bail!("{file} of bashkit does not contain `{before}` exactly {times} times");
            }
            text = text.replace(before, after);
        }
        write(&folder.join(file), text.as_bytes())?;
    }
    Ok(folder)
}

/// Copies a file, or a folder recursively. Edited files are written afterwards.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        let edited = edits().any(|edit| from.ends_with(edit.0));
        if !edited {
            write(
                to,
                &fs::read(from).with_context(|| format!("reading {}", from.display()))?,
            )?;
        }
        return Ok(());
    }
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Writes a file unless it is up to date: a newer file is compiled again, which takes minutes.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))
}
