//! Resolution of file paths in settings.
//!
//! Paths in the file of a user or a team are relative to the folder of that file: if they were relative to the
//! workspace, a checkout could choose the certificates that the user trusts. Paths in the workspace's file are relative
//! to the workspace.

use std::path::Path;

use serde_yaml::Value;

/// Resolves the relative paths in these settings against `folder`. Returns true if there were paths.
pub fn anchor_file_paths(settings: &mut Value, folder: &Path) -> bool {
    let mut found = anchor_extra_roots(settings.get_mut("network"), folder);
    if let Some(Value::Mapping(tools)) = settings.get_mut("tools") {
        for (_, tool) in tools.iter_mut() {
            found |= anchor_extra_roots(tool.get_mut("network"), folder);
        }
    }
    found
}

fn anchor_extra_roots(block: Option<&mut Value>, folder: &Path) -> bool {
    let roots = block.and_then(|block| block.get_mut("extraRoots"));
    let Some(Value::Sequence(roots)) = roots else {
        return false;
    };
    let mut found = false;
    for root in roots {
        // A path that is not valid Unicode could not be written back.
        let anchored = root.as_str().map(|root| folder.join(root));
        if let Some(anchored) = anchored.as_deref().and_then(Path::to_str) {
            *root = anchored.into();
            found = true;
        }
    }
    found
}
