//! Workspace files that may decide which program a name runs. `rustup`, `mise`, `asdf` and `pyenv` read them when an
//! installed program starts, and such a file may name a program in the workspace.
//!
//! Out of scope: the decision to run such a program.

use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Programs that `rustup` wraps.
const RUST: &[&str] = &[
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "cargo-miri",
    "clippy-driver",
    "rust-analyzer",
    "rust-gdb",
    "rust-lldb",
    "rustc",
    "rustdoc",
    "rustfmt",
    "rustup",
];

/// Files of `rustup`, with a toolchain version or a `path`.
const RUST_FILES: &[&str] = &["rust-toolchain", "rust-toolchain.toml"];

/// Other programs that a version manager may replace, with the files that affect only them.
const OTHERS: &[(&str, &[&str])] = &[
    ("bun", &[".bun-version"]),
    ("deno", &[".deno-version"]),
    ("go", &[".go-version"]),
    ("java", &[".java-version", ".sdkmanrc"]),
    ("node", &[".node-version", ".nvmrc"]),
    ("npm", &[".node-version", ".nvmrc"]),
    ("npx", &[".node-version", ".nvmrc"]),
    ("perl", &[".perl-version"]),
    ("pip", &[".python-version"]),
    ("pip3", &[".python-version"]),
    ("python", &[".python-version"]),
    ("python3", &[".python-version"]),
    ("ruby", &[".ruby-version"]),
    ("tsc", &[".node-version", ".nvmrc"]),
    ("uv", &[]),
];

/// Files that affect all programs.
const COMMON_FILES: &[&str] = &[
    ".tool-versions",
    ".mise.toml",
    ".mise.local.toml",
    "mise.toml",
    "mise.local.toml",
    "mise/config.toml",
    ".mise/config.toml",
    ".config/mise.toml",
    ".config/mise/config.toml",
];

/// Maximum size in bytes of such a file, which usually has a few lines.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Returns the file that may decide which program this name runs in a folder of the workspace. Paths are relative to
/// the workspace.
pub(crate) fn selecting_file(workspace: &Path, program: &str, folder: &str) -> Option<String> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let (own_files, is_rust): (&[&str], bool) = if RUST.contains(&name) {
        (RUST_FILES, true)
    } else {
        (OTHERS.iter().find(|(other, _)| *other == name)?.1, false)
    };
    // If `folder` contains links, the program searches the real folder.
    let real = canonical_folder(workspace, folder);
    // From the folder up to the root. Files above the root belong to the user.
    let folders = Path::new(folder).ancestors();
    let folders = folders.chain(real.iter().flat_map(|real| real.ancestors()));
    let mut files = folders.flat_map(|folder| {
        own_files
            .iter()
            .chain(COMMON_FILES)
            .map(|file| folder.join(file))
    });
    let is_unusual = |file: &Path| {
        let name = file.file_name().unwrap_or_default();
        if is_rust && RUST_FILES.iter().any(|one| name == *one) {
            has_unusual_content(&workspace.join(file), names_path)
        } else {
            has_unusual_content(&workspace.join(file), may_name_program)
        }
    };
    let found = files.find(|file| is_unusual(file))?;
    Some(found.to_string_lossy().replace('\\', "/"))
}

fn canonical_folder(workspace: &Path, folder: &str) -> Option<PathBuf> {
    let real = workspace.join(folder).canonicalize().ok()?;
    let below = real.strip_prefix(workspace.canonicalize().ok()?).ok()?;
    Some(below.to_owned())
}

/// Returns true if the file exists, and has unusual content or cannot be read.
fn has_unusual_content(file: &Path, is_unusual: fn(&str) -> bool) -> bool {
    match file.metadata() {
        Err(error) => error.kind() != std::io::ErrorKind::NotFound && !is_below_a_file(&error),
        // Opening a pipe would block.
        Ok(meta) if !meta.is_file() => !meta.is_dir(),
        Ok(meta) if meta.len() > MAX_FILE_BYTES => true,
        Ok(_) => {
            let mut text = String::new();
            let read = std::fs::File::open(file)
                .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
            read.is_err() || is_unusual(&text)
        }
    }
}

/// Returns true if a parent of the path is not a folder, so the path cannot exist.
fn is_below_a_file(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotADirectory
}

/// Returns true if a `rustup` file has the key `path`, possibly escaped, or is a path in the old one-line form.
fn names_path(text: &str) -> bool {
    text.contains("path") || text.contains('\\') || !text.contains('[') && text.contains('/')
}

/// Returns true if the file of another version manager has a path, a hook, or a command that is run for its output.
fn may_name_program(text: &str) -> bool {
    let markers = ["path", "/", "\\", "..", "{{", "hooks", "_.", "exec", "ref:"];
    markers.iter().any(|marker| text.contains(marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchain_file_counts_only_if_it_names_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        std::fs::create_dir_all(workspace.join("a/b")).unwrap();
        let file_for = |program: &str, path: &str| selecting_file(workspace, program, path);
        assert_eq!(file_for("cargo", "a/b"), None);
        for (file, text, program, odd) in [
            (
                "rust-toolchain.toml",
                "[toolchain]\nchannel = \"1.95\"\n",
                "cargo",
                false,
            ),
            (
                "rust-toolchain.toml",
                "[toolchain]\npath = \"tc\"\n",
                "cargo",
                true,
            ),
            (
                "rust-toolchain.toml",
                "[toolchain]\npath = \"tc\"\n",
                "rustfmt",
                true,
            ),
            (
                "rust-toolchain.toml",
                "[toolchain]\n\"p\\u0061th\" = \"tc\"\n",
                "rustc",
                true,
            ),
            (
                "rust-toolchain.toml",
                "[toolchain]\npath = \"tc\"\n",
                "ls",
                false,
            ),
            ("rust-toolchain", "stable\n", "cargo", false),
            ("rust-toolchain", "./tc\n", "cargo", true),
            (".python-version", "3.12\n", "python3", false),
            (".python-version", "../../evil\n", "python3", true),
            (".python-version", "../../evil\n", "cargo", false),
            (".tool-versions", "nodejs 22.1.0\n", "node", false),
            (".tool-versions", "nodejs path:./evil\n", "node", true),
            ("mise.toml", "[tools]\nnode = \"22\"\n", "node", false),
            ("mise.toml", "[hooks]\nenter = \"x\"\n", "node", true),
        ] {
            let path = workspace.join("a").join(file);
            std::fs::write(&path, text).unwrap();
            let expected = odd.then(|| format!("a/{file}"));
            assert_eq!(file_for(program, "a/b"), expected, "{program}: {text}");
            assert_eq!(file_for(program, "a"), expected, "{program}: {text}");
            // Files in subfolders are not read.
            assert_eq!(file_for(program, ""), None, "{program}: {text}");
            std::fs::remove_file(path).unwrap();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("a/b", workspace.join("link")).unwrap();
            std::fs::write(workspace.join("a/rust-toolchain"), "/tc").unwrap();
            assert_eq!(
                file_for("cargo", "link").as_deref(),
                Some("a/rust-toolchain")
            );
            std::fs::remove_file(workspace.join("a/rust-toolchain")).unwrap();
        }
        std::fs::write(workspace.join("rust-toolchain"), [0xff]).unwrap();
        assert!(
            file_for("/usr/bin/cargo", "a/b").is_some(),
            "an unreadable file counts"
        );
    }
}
