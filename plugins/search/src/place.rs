//! Where a search begins, and how a path is told to the caller.

use std::path::{Component, Path, PathBuf};

use mimir_sdk::{Error, Result};

/// The path below the workspace root, or why there is none.
pub fn inside(root: &Path, path: Option<&str>) -> Result<PathBuf> {
    let Some(path) = path else {
        return Ok(root.to_owned());
    };
    let mut place = root.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => place.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::invalid_path(format!(
                    "`{path}` leaves the workspace; paths are relative to its root, such as `src`"
                )));
            }
        }
    }
    // Says at once what a walk would only skip.
    std::fs::metadata(&place).map_err(|error| Error::io(&error, path))?;
    Ok(place)
}

/// The path as the caller knows it: relative to the workspace root, with `/`.
pub fn shown(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
