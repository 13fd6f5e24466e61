//! A snapshot of a folder, for detecting changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Everything below a folder: the path of each entry, and its type or content. `.mimir/tools` is left out.
pub fn picture(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    look(folder, "", &mut found);
    found
}

fn look(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            found.insert(name, format!("-> {}", target.display()));
        } else if kind.is_dir() {
            if name == ".mimir/tools" {
                continue;
            }
            found.insert(name.clone(), "folder".to_owned());
            // The host's records for `mimir undo`.
            if name.ends_with("state/backups") {
                continue;
            }
            look(&entry.path(), &format!("{name}/"), found);
        } else if kind.is_file() {
            let content = fs::read(entry.path()).unwrap();
            found.insert(name, String::from_utf8_lossy(&content).into_owned());
        } else {
            found.insert(name, "special".to_owned());
        }
    }
}
