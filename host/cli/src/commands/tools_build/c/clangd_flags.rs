//! `compile_flags.txt` in the folder of a plugin: the options with which clangd reads its sources. The file is valid on this
//! machine only.

use std::path::Path;

use mimir_core::ToolError;

use super::super::marked_file::write_marked_file;
use super::wasm_compiler::WasmCompiler;

/// First line of a file that mimir has written. The format has no comments, so it is an option without effect.
const MARK: &str = "-DWRITTEN_BY_MIMIR_FOR_THIS_MACHINE_ONLY";

/// Writes the file. A file that mimir did not write is left unchanged; returns false in this case.
pub fn write(root: &Path, compiler: &WasmCompiler) -> Result<bool, ToolError> {
    write_flags(root, &flags(compiler))
}

/// Returns the options, one a line.
fn flags(compiler: &WasmCompiler) -> String {
    let mut lines = vec![MARK.to_owned()];
    if compiler.is_zig() {
        // clangd is clang, whose options for the target differ from those of zig.
        lines.push("--target=wasm32-wasi".to_owned());
        for folder in compiler.zig_headers() {
            lines.extend(["-isystem".to_owned(), folder]);
        }
    }
    let mut options = compiler.language_options().into_iter();
    while let Some(option) = options.next() {
        if option == "-target" {
            options.next();
        } else {
            lines.push(option);
        }
    }
    lines.join("\n") + "\n"
}

fn write_flags(root: &Path, flags: &str) -> Result<bool, ToolError> {
    write_marked_file(&root.join("compile_flags.txt"), MARK, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clangd_flags_do_not_replace_those_of_the_author() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("compile_flags.txt");
        let read = || std::fs::read_to_string(&path).unwrap();
        assert!(write_flags(folder.path(), &format!("{MARK}\n-I/a\n")).unwrap());
        assert!(write_flags(folder.path(), &format!("{MARK}\n-I/b\n")).unwrap());
        assert!(read().contains("-I/b"));
        std::fs::write(&path, "-Wextra\n").unwrap();
        assert!(!write_flags(folder.path(), &format!("{MARK}\n-I/c\n")).unwrap());
        assert_eq!(read(), "-Wextra\n");
    }

    #[cfg(unix)]
    #[test]
    fn clangd_flags_are_not_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        std::fs::write(&outside, MARK).unwrap();
        let plugin = folder.path().join("plugin");
        std::fs::create_dir(&plugin).unwrap();
        std::os::unix::fs::symlink(&outside, plugin.join("compile_flags.txt")).unwrap();
        assert!(!write_flags(&plugin, &format!("{MARK}\n-I/b\n")).unwrap());
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), MARK);
    }
}
