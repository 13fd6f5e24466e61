//! Snapshots of a folder, for detecting changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns everything below a folder: the relative path of each entry with its content, link target or type. Leaves out
/// `.mimir/tools` and the content of backups.
pub fn picture(folder: &Path) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    add_entries(folder, "", &mut entries);
    entries
}

fn add_entries(folder: &Path, prefix: &str, entries: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            entries.insert(name, format!("-> {}", target.display()));
        } else if kind.is_dir() {
            if name == ".mimir/tools" {
                continue;
            }
            entries.insert(name.clone(), "folder".to_owned());
            // Written by the host, for `mimir undo`.
            if name.ends_with("state/backups") {
                continue;
            }
            add_entries(&entry.path(), &format!("{name}/"), entries);
        } else if kind.is_file() {
            let content = fs::read(entry.path()).unwrap();
            entries.insert(name, String::from_utf8_lossy(&content).into_owned());
        } else {
            entries.insert(name, "special".to_owned());
        }
    }
}
