//! The bash that is built: bashkit as it is published, whose streams share what they hold.
//!
//! As published, each command in a loop that reads a file copies the rest of the file, and each `read` decodes it
//! anew: 20,000 lines take eight seconds. The package is copied beside what is built, the types of two fields are
//! replaced there by those of `../bash/shared.rs`, and cargo builds that one in place of the other. What is replaced
//! is written out below, and has to be there as often as it says, or the build stops. It goes when a published
//! version does the same.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::pin;

/// Where the package is copied to.
const FOLDER: &str = "bashkit";

/// What of the package is compiled, or looked for by cargo.
const PARTS: [&str; 6] = ["Cargo.toml", "src", "docs", "benches", "examples", "tests"];

/// A file; what stands there; how often; what stands there instead.
type Edit = (&'static str, &'static str, usize, &'static str);

const EDITS: [Edit; 11] = [
    ("src/lib.rs", "\nmod stream;", 1, "\nmod shared;\nmod stream;"),
    (
        "src/stream.rs",
        "    bytes: Vec<u8>,\n    text: String,\n",
        1,
        "    bytes: crate::shared::Shared<Vec<u8>>,\n    text: crate::shared::Shared<String>,\n",
    ),
    (
        "src/stream.rs",
        "Self { bytes, text }",
        5,
        "Self { bytes: bytes.into(), text: text.into() }",
    ),
    ("src/stream.rs", "bytes: Vec::new(),", 1, "bytes: crate::shared::Shared::new(),"),
    ("src/stream.rs", "text: String::new(),", 1, "text: crate::shared::Shared::new(),"),
    ("src/stream.rs", "        self.bytes\n", 1, "        self.bytes.into_whole()\n"),
    (
        "src/stream.rs",
        "self.text = String::from_utf8_lossy(&self.bytes).into_owned();",
        1,
        "self.text = String::from_utf8_lossy(&self.bytes).into_owned().into();",
    ),
    (
        "src/stream.rs",
        "bytes: text.as_bytes().to_vec(),\n            text,",
        1,
        "bytes: text.as_bytes().to_vec().into(),\n            text: text.into(),",
    ),
    ("src/stream.rs", "value.text.clone()", 1, "value.text.to_string()"),
    // Bytes that are no text are replaced, by three for each run: where the text has the length of the bytes, each run had
    // three, and what is not inside of one starts where its bytes do.
    (
        "src/stream.rs",
        "Self::from(self.bytes[self.bytes.len().min(start)..].to_vec())",
        1,
        "let start = self.bytes.len().min(start);
        if self.text.len() == self.bytes.len() && self.text.is_char_boundary(start) {
            return Self { bytes: self.bytes.without_first(start), text: self.text.without_first(start) };
        }
        Self::from(self.bytes[start..].to_vec())",
    ),
    (
        "src/interpreter/mod.rs",
        "self.pipeline_stdin = Some(bytes[used..].into());",
        1,
        "self.pipeline_stdin = Some(data.suffix_from(used));",
    ),
];

/// Copies the package to a folder in `out` and edits the copy. Gives the folder.
pub fn edited(root: &Path, here: &Path, out: &Path, target: &str) -> Result<PathBuf> {
    let package = pin::package_for(root, "bashkit", target)?;
    let folder = out.join(FOLDER);
    for part in PARTS {
        copy(&package.path(part), &folder.join(part))?;
    }
    let shared = fs::read(here.join("bash/shared.rs")).context("bash/shared.rs")?;
    write(&folder.join("src/shared.rs"), &shared)?;
    for file in ["src/lib.rs", "src/stream.rs", "src/interpreter/mod.rs"] {
        let mut text = String::from_utf8(package.read(file)?).context(file)?;
        for (_, before, times, after) in EDITS.iter().filter(|edit| edit.0 == file) {
            if text.matches(before).count() != *times {
                bail!("{file} of bashkit has `{before}` not {times} times");
            }
            text = text.replace(before, after);
        }
        write(&folder.join(file), text.as_bytes())?;
    }
    Ok(folder)
}

/// Copies a file, or a folder with all that is in it. Edited files are written afterwards.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        let edited = EDITS.iter().any(|edit| from.ends_with(edit.0));
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

/// Writes a file, if it is not there as it should be: what is newer is compiled again, for minutes.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))
}
