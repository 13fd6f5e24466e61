//! The vendor folder of a plugin, which `go work vendor` makes.
//!
//! Its list of modules contains the folder of the SDK on the machine of the author. The build replaces it by the folder on
//! this machine.

use std::io;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};

use super::go_module::{SDK_MODULE, SDK_VERSION};
use mimir::file_error::file_error;

/// Path of the list of modules in the folder of the plugin.
pub const VENDOR_LIST: &str = "vendor/modules.txt";

/// Maximum size of the list in bytes.
const MAX_LIST_SIZE: u64 = 4 << 20;

/// Returns the list of modules with the SDK in the folder `sdk`, or `None` without a vendor folder.
pub fn list_for_sdk(root: &Path, sdk: &Path) -> Result<Option<String>, ToolError> {
    let file = root.join(VENDOR_LIST);
    match read_text(&file, LinkPolicy::Follow, MAX_LIST_SIZE) {
        Ok(list) => Ok(Some(with_sdk(&list, sdk))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error("read", &file, &error)),
    }
}

fn with_sdk(list: &str, sdk: &Path) -> String {
    let mut lines = Vec::new();
    let mut is_of_sdk = false;
    for line in list.lines() {
        if let Some(module) = line.strip_prefix("# ") {
            is_of_sdk = module.split_whitespace().next() == Some(SDK_MODULE);
        }
        if !is_of_sdk {
            lines.push(line.to_owned());
        }
    }
    lines.push(format!("# {SDK_MODULE} {SDK_VERSION} => {}", sdk.display()));
    lines.push("## explicit; go 1.25".to_owned());
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_vendor_list_names_the_sdk_of_this_machine() {
        let list = "## workspace\n# example.com/a v1.0.0\n## explicit; go 1.20\nexample.com/a\n\
            # mimir.local/sdk v0.0.0 => /elsewhere\n## explicit; go 1.25\n# example.com/b v1.0.0\nexample.com/b\n";
        let expected = "## workspace\n# example.com/a v1.0.0\n## explicit; go 1.20\nexample.com/a\n\
            # example.com/b v1.0.0\nexample.com/b\n# mimir.local/sdk v0.0.0 => /sdk/go\n## explicit; go 1.25\n";
        assert_eq!(with_sdk(list, Path::new("/sdk/go")), expected);
    }

    #[test]
    fn go_plugin_without_a_vendor_folder_has_no_list() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            list_for_sdk(folder.path(), Path::new("/sdk")).unwrap(),
            None
        );
    }
}
