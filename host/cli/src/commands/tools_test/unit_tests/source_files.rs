//! Search for unit tests in the sources of a plugin.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};

use crate::commands::tools_build::PluginFolder;
use mimir::file_error::file_error;

/// Maximum number of files and folders to look at.
const MAX_ENTRIES: usize = 5_000;

/// Maximum size of a file to search, in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Returns true if the plugin has a file whose name matches.
pub fn has_file(folder: &PluginFolder, is_match: impl Fn(&str) -> bool) -> Result<bool, ToolError> {
    Ok(!files_named(&folder.root, is_match)?.is_empty())
}

/// Returns true if a file whose name matches has the text.
pub fn has_text(
    folder: &PluginFolder,
    is_match: impl Fn(&str) -> bool,
    text: &str,
) -> Result<bool, ToolError> {
    has_content(folder, is_match, |content| content.contains(text))
}

/// Returns true if a file whose name matches has a content that matches. Links are not followed, and large files count as
/// empty.
pub fn has_content(
    folder: &PluginFolder,
    is_match: impl Fn(&str) -> bool,
    is_content: impl Fn(&str) -> bool,
) -> Result<bool, ToolError> {
    let files = files_named(&folder.root, is_match)?;
    Ok(files.iter().any(|file| {
        // A file that cannot be read is reported by the compiler.
        let content = read_text(file, LinkPolicy::Refuse, MAX_FILE_SIZE);
        content.is_ok_and(|content| is_content(&content))
    }))
}

/// Returns the files whose names match, without those that builds write and those of other people.
pub fn files_named(
    root: &Path,
    is_match: impl Fn(&str) -> bool,
) -> Result<Vec<PathBuf>, ToolError> {
    let (mut files, mut folders, mut count) = (Vec::new(), vec![root.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| file_error("read", &folder, &e))?;
        for entry in entries {
            let entry = entry.map_err(|e| file_error("read", &folder, &e))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_foreign = matches!(&*name, "target" | "node_modules" | "vendor" | "__pycache__");
            if is_folder && !is_foreign && !name.starts_with('.') {
                folders.push(entry.path());
            } else if !is_folder && is_match(&name) && entry.path().is_file() {
                files.push(entry.path());
            }
            count += 1;
            if count > MAX_ENTRIES {
                let shown = mimir_core::text::visible(&root.display().to_string());
                return Err(ToolError::limit_exceeded(format!(
                    "{shown} has more than {MAX_ENTRIES} files and folders: expected the sources of one plugin"
                )));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(files: &[(&str, &str)]) -> (tempfile::TempDir, PluginFolder) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let folder = PluginFolder::find(dir.path(), None).unwrap();
        (dir, folder)
    }

    #[test]
    fn unit_tests_are_found_by_file_names_in_the_sources() {
        let is_test = |name: &str| name.ends_with("_test.go");
        let (_dir, folder) = plugin(&[
            ("go.mod", ""),
            ("vendor/a/a_test.go", ""),
            (".mimir-build/b_test.go", ""),
        ]);
        assert!(!has_file(&folder, is_test).unwrap());
        let (_dir, folder) = plugin(&[("go.mod", ""), ("words/words_test.go", "")]);
        assert!(has_file(&folder, is_test).unwrap());
    }

    #[test]
    fn unit_tests_are_found_by_their_text() {
        let is_zig = |name: &str| name.ends_with(".zig");
        let (_dir, folder) = plugin(&[
            ("tool.zig", "const a = \"test \";\n"),
            ("notes.md", "\ntest \"a\" {}"),
        ]);
        assert!(!has_text(&folder, is_zig, "\ntest ").unwrap());
        let (_dir, folder) = plugin(&[("tool.zig", "const a = 1;\n\ntest \"a\" {}\n")]);
        assert!(has_text(&folder, is_zig, "\ntest ").unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn unit_tests_are_not_looked_for_in_large_files_and_links() {
        let is_zig = |name: &str| name.ends_with(".zig");
        let large = "\ntest \"a\" {}".repeat(1 << 17);
        let (dir, folder) = plugin(&[("tool.zig", ""), ("large.zig", &large)]);
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("a.zig"), "\ntest \"a\" {}").unwrap();
        std::os::unix::fs::symlink(outside.path().join("a.zig"), dir.path().join("a.zig")).unwrap();
        assert!(!has_text(&folder, is_zig, "\ntest ").unwrap());
    }

    #[test]
    fn unit_tests_are_not_looked_for_in_huge_folders() {
        let (dir, folder) = plugin(&[("tool.zig", "")]);
        for number in 0..MAX_ENTRIES {
            std::fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        let error = has_file(&folder, |_| true).unwrap_err();
        assert!(error.message.contains("more than 5000 files"), "{error}");
    }
}
