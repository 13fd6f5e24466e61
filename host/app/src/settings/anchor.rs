//! Files that settings name: by their paths from the settings that name them.
//!
//! What stands in a person's own file, or in a team's, counts from the folder of that file. From the workspace it
//! would be a checkout that says which certificates they trust. What stands in the workspace's file counts from the
//! workspace.

use std::path::Path;

use serde_yaml::Value;

/// Makes the files in these settings count from `folder`. Says whether there was one.
pub fn anchor(settings: &mut Value, folder: &Path) -> bool {
    let mut found = network(settings.get_mut("network"), folder);
    if let Some(Value::Mapping(tools)) = settings.get_mut("tools") {
        for (_, tool) in tools.iter_mut() {
            found |= network(tool.get_mut("network"), folder);
        }
    }
    found
}

fn network(block: Option<&mut Value>, folder: &Path) -> bool {
    let roots = block.and_then(|block| block.get_mut("extraRoots"));
    let Some(Value::Sequence(roots)) = roots else {
        return false;
    };
    let mut found = false;
    for root in roots {
        // A path that is no text could not be written back.
        let whole = root.as_str().map(|root| folder.join(root));
        if let Some(whole) = whole.as_deref().and_then(Path::to_str) {
            *root = whole.into();
            found = true;
        }
    }
    found
}
