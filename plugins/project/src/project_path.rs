//! Paths of a call and of program output, as paths relative to the workspace root.

use std::path::{Path, PathBuf};

use mimir_sdk::{Context, Error, Result, text};

/// Resolves a path as written by a caller to a path relative to the workspace root, with `/`; empty for the root. The
/// path must exist.
pub fn resolve_path(cx: &Context, written: &str) -> Result<String> {
    let quoted = text::brief(written);
    let is_absolute = written.starts_with(['/', '\\']) || written.as_bytes().get(1) == Some(&b':');
    if written.is_empty() || is_absolute || written.contains('\0') {
        return Err(Error::invalid_path(format_args!(
            "`{quoted}` is not a path in the workspace: expected a path relative to the workspace root, such as `src`"
        )));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err(Error::invalid_path(format_args!(
                    "`{quoted}` leads out of the workspace"
                )));
            }
            ".." => {}
            name => parts.push(name),
        }
    }
    let path = parts.join("/");
    match std::fs::metadata(cx.workspace().join(&path)) {
        Ok(_) => Ok(path),
        Err(error) => Err(Error::io(&error, written)),
    }
}

/// Joins two relative paths, either of which may be empty.
pub fn join_path(folder: &str, name: &str) -> String {
    match (folder.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => folder.to_owned(),
        _ => format!("{folder}/{name}"),
    }
}

/// Returns the parent of a relative path; empty for a path of one component, and `None` for the root.
pub fn parent_path(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    Some(path.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// Returns the folder and its parents up to the workspace root.
pub fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folder), |path| parent_path(path))
}

/// Converts paths in the output of a program to paths relative to the workspace root. Programs print paths of the
/// machine, which a component does not know, and paths relative to one of several folders.
#[derive(Debug, Clone)]
pub struct PathMapper {
    workspace: PathBuf,
    /// Folders that a relative path may begin from, most likely first.
    folders: Vec<String>,
}

impl PathMapper {
    /// Creates a mapper for the output of a program that ran in `folder`.
    pub fn new(workspace: &Path, folder: &str) -> Self {
        Self {
            workspace: workspace.to_owned(),
            folders: ancestors(folder).map(str::to_owned).collect(),
        }
    }

    fn is_file(&self, path: &str) -> bool {
        self.workspace.join(path).is_file()
    }

    /// Returns the workspace path of a file, or `None` for a file outside of the workspace or of a dependency.
    pub fn map(&self, printed: &str) -> Option<String> {
        let path = printed.strip_prefix("file://").unwrap_or(printed);
        let path = path.replace('\\', "/");
        if ["node_modules/", "site-packages/", "/rustc/"]
            .iter()
            .any(|folder| path.contains(folder))
        {
            return None;
        }
        let path = path.strip_prefix("./").unwrap_or(&path);
        if !path.starts_with('/') && path.as_bytes().get(1) != Some(&b':') {
            let mut candidates = self.folders.iter().map(|folder| join_path(folder, path));
            return candidates.find(|candidate| !path.contains("..") && self.is_file(candidate));
        }
        // The longest ending that is a file of the workspace.
        let mut rest = path.trim_start_matches('/');
        loop {
            if self.is_file(rest) {
                return Some(rest.to_owned());
            }
            rest = rest.split_once('/')?.1;
        }
    }
}

/// Splits `path:line` or `path:line:column` at the end of a text.
pub fn split_location(text: &str) -> Option<(&str, u32)> {
    let (rest, last) = text.rsplit_once(':')?;
    let last = last.parse().ok()?;
    match rest.rsplit_once(':') {
        Some((path, line)) if !path.is_empty() && line.parse::<u32>().is_ok() => {
            Some((path, line.parse().ok()?))
        }
        _ => Some((rest, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_path_of_a_call_stays_in_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let cx = Context::at(dir.path());
        assert_eq!(resolve_path(&cx, "./a/../a/b/").unwrap(), "a/b");
        assert_eq!(resolve_path(&cx, ".").unwrap(), "");
        for bad in ["..", "a/../..", "/etc", "C:/x", "", "a\0"] {
            let error = resolve_path(&cx, bad).unwrap_err();
            assert_eq!(*error.code(), mimir_sdk::Code::InvalidPath, "{bad}");
        }
        let error = resolve_path(&cx, "missing").unwrap_err();
        assert_eq!(*error.code(), mimir_sdk::Code::FileNotFound);
        assert_eq!(ancestors("a/b").collect::<Vec<_>>(), ["a/b", "a", ""]);
    }

    #[test]
    fn project_path_of_output_is_relative_to_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("pkg/src")).unwrap();
        std::fs::write(dir.path().join("pkg/src/a.js"), "").unwrap();
        let mapper = PathMapper::new(dir.path(), "pkg");
        for (printed, expected) in [
            ("/home/me/work/pkg/src/a.js", Some("pkg/src/a.js")),
            ("file:///home/me/work/pkg/src/a.js", Some("pkg/src/a.js")),
            ("src/a.js", Some("pkg/src/a.js")),
            ("./pkg/src/a.js", Some("pkg/src/a.js")),
            ("/usr/lib/x.js", None),
            ("/w/node_modules/pkg/src/a.js", None),
            ("../src/a.js", None),
        ] {
            assert_eq!(mapper.map(printed).as_deref(), expected, "{printed}");
        }
        assert_eq!(split_location("a/b.js:3:9"), Some(("a/b.js", 3)));
        assert_eq!(split_location("C:/b.js:3"), Some(("C:/b.js", 3)));
        assert_eq!(split_location("b.go:14"), Some(("b.go", 14)));
        assert_eq!(split_location("b.go"), None);
    }
}
