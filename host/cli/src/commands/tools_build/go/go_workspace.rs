//! `go.work` in the folder of a plugin, with which Go and editors find the SDK. The file is valid on this machine only.

use std::path::Path;

use mimir_core::{ToolError, ToolErrorCode};
use serde_json::Value;

use super::super::PluginFolder;
use super::super::marked_file::write_marked_file;
use super::go_module::GoModule;
use mimir::file_error::{file_error, write_atomically};

/// First line of a file that mimir has written.
const MARK: &str = "// Written by mimir, for this machine only.";

/// Line for the version of the SDK that `go.mod` requires. Go looks this version up as soon as the plugin requires another
/// module, although the workspace has the SDK. The path is the same on all machines, because `go work vendor` writes it
/// into a file that is committed.
pub const REPLACE_LINE: &str = "replace mimir.local/sdk v0.0.0 => ./.mimir-build/sdk-module";

/// Content of the folder in this line. Go reads nothing else of it.
const SDK_MODULE: &str = "module mimir.local/sdk\n\ngo 1.25\n";

/// Writes the module that stands for the required version of the SDK.
pub fn write_sdk_module(folder: &PluginFolder) -> Result<(), ToolError> {
    let module = folder.build_folder()?.join("sdk-module");
    folder.create_folder(&module)?;
    let file = module.join("go.mod");
    write_atomically(&file, SDK_MODULE.as_bytes()).map_err(|e| file_error("write", &file, &e))
}

/// Writes the file. A file that mimir did not write is left unchanged; returns false in this case.
pub fn write(root: &Path, module: &GoModule, sdk: &Path) -> Result<bool, ToolError> {
    let Some(sdk) = sdk.to_str() else {
        let message = "the cache folder's path is not Unicode, which Go cannot read; set MIMIR_CACHE_DIR to another one";
        return Err(ToolError::new(ToolErrorCode::InvalidPath, message));
    };
    // A JSON string is also a string of Go.
    let sdk = Value::from(sdk);
    let go_version = module.workspace_go_version();
    let text = format!("{MARK}\ngo {go_version}\n\nuse .\n\nuse {sdk}\n\n{REPLACE_LINE}\n");
    write_marked_file(&root.join("go.work"), MARK, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_workspace_of_the_author_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("go.work");
        let read = || std::fs::read_to_string(&path).unwrap();
        let write = |sdk: &str| write(folder.path(), &GoModule::default(), Path::new(sdk)).unwrap();
        assert!(write("/a b"));
        assert!(read().contains("use \"/a b\""), "{}", read());
        assert!(write("/c"));
        assert!(
            read().contains("use \"/c\"") && !read().contains("/a b"),
            "{}",
            read()
        );
        std::fs::write(&path, "go 1.26\n").unwrap();
        assert!(!write("/d"));
        assert_eq!(read(), "go 1.26\n");
    }
}
