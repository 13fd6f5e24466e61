//! Empty start folder for a program, and a check for references to the workspace in a launch.
//!
//! A model may write new files in the workspace. Python, Node, npx and other programs load modules from their working
//! directory or from configured folders, and would run such files.
//!
//! Out of scope: the decision which programs need this protection.

use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use mimir_core::launch::LaunchSpec;
use mimir_core::platform::{FileAccessRule, OwnerOnly, create_private_folder};

use crate::sandbox::SandboxError;

/// An empty folder accessible to this user only. Removed on drop.
#[derive(Debug)]
pub(crate) struct EmptyFolder(PathBuf);

/// Counter for folder names.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Maximum number of names to try: an earlier process with the same id may have left folders behind.
const MAX_ATTEMPTS: usize = 1_000;

impl EmptyFolder {
    /// Creates a folder below `base`. Fails if `base` is in the workspace or other users can change it.
    pub(crate) fn create_in(base: &Path, workspace: &Path) -> Result<Self, SandboxError> {
        let fault = || SandboxError::io_error("cannot create the empty start folder of a program");
        create_private_folder(base, true).map_err(fault())?;
        let base = base.canonicalize().map_err(fault())?;
        check_ownership(&base).map_err(fault())?;
        if base.starts_with(workspace) {
            let kind = std::io::ErrorKind::InvalidInput;
            let error = std::io::Error::new(kind, "the folder must not be in the workspace");
            return Err(fault()(error));
        }
        for _ in 0..MAX_ATTEMPTS {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{}-{number}", std::process::id()));
            match create_private_folder(&path, false) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fault()(error)),
            }
        }
        Err(fault()(std::io::ErrorKind::AlreadyExists.into()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for EmptyFolder {
    fn drop(&mut self) {
        // Nothing can be done about a failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Fails unless the folder belongs to this user and no other user can change it.
fn check_ownership(folder: &Path) -> std::io::Result<()> {
    match FileAccessRule::of_user(OwnerOnly::Writing).check_path(folder)? {
        None => Ok(()),
        Some(_) => {
            let error = format!("other users can change `{}`", folder.display());
            Err(std::io::Error::other(error))
        }
    }
}

/// Returns the `PATH` without folders of the workspace, or `None` if it has no such folder. Child processes of the
/// program are looked up in it too.
pub(crate) fn path_outside(workspace: &Path) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    path_without_workspace(&path, workspace)
}

fn path_without_workspace(path: &std::ffi::OsStr, workspace: &Path) -> Option<String> {
    let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    let is_inside = |folder: &PathBuf| {
        let real = folder.canonicalize();
        normalize_path(folder).starts_with(workspace)
            || real.is_ok_and(|real| real.starts_with(workspace))
    };
    let outside: Vec<&PathBuf> = folders.iter().filter(|folder| !is_inside(folder)).collect();
    if outside.len() == folders.len() {
        return None;
    }
    std::env::join_paths(outside).ok()?.into_string().ok()
}

/// Describes the first part of a launch that refers to the workspace: the start folder, the program, an argument, or a
/// variable such as `PYTHONPATH`. Returns `None` without such a reference.
pub(crate) fn describe_workspace_reference(
    workspace: &Path,
    directory: &Path,
    launch: &LaunchSpec,
) -> Option<String> {
    let inside = |path: &Path| {
        // The path may be created before the program uses it.
        let path = normalize_path(&directory.join(path));
        let real = path.canonicalize();
        path.starts_with(workspace) || real.is_ok_and(|real| real.starts_with(workspace))
    };
    let display = |text: &str| mimir_core::text::visible(mimir_core::text::prefix(text, 200));
    if let Some(named) = &launch.directory {
        return Some(format!("its `cwd`, `{}`,", display(named)));
    }
    let (program, arguments) = launch.args.split_first()?;
    if candidate_files(program).iter().any(|file| inside(file)) {
        return Some(format!("its program, `{}`,", display(program)));
    }
    // A folder that a person passed as data is not code.
    let data_folders: Vec<PathBuf> = launch
        .folders
        .iter()
        .flatten()
        .map(|folder| normalize_path(&workspace.join(&folder.path)))
        .collect();
    let is_data_folder = |path: &PathBuf| data_folders.contains(&normalize_path(path));
    if let Some(argument) = arguments.iter().find(|argument| {
        let mut paths = possible_paths(argument).into_iter();
        paths.any(|path| inside(&path) && !is_data_folder(&path))
    }) {
        return Some(format!("its argument `{}`", display(argument)));
    }
    let mut variables = launch.environment.iter();
    let (name, _) =
        variables.find(|(_, value)| possible_paths(value).iter().any(|path| inside(path)))?;
    Some(format!("its variable `{}`", display(name)))
}

/// Returns the files that a program name may refer to: the given path, or the first match in the `PATH`.
fn candidate_files(program: &str) -> Vec<PathBuf> {
    if program.contains(std::path::is_separator) {
        return vec![program.into()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file()).into_iter().collect()
}

/// Returns the paths that may be part of a word: `--config=a/b`, `file:///a/b`, `/a:/b`, `-I/a`, words of a script.
fn possible_paths(word: &str) -> Vec<PathBuf> {
    let is_separator =
        |c: char| matches!(c, '=' | ':' | ';' | ',' | '"' | '\'') || c.is_whitespace();
    let mut paths = Vec::new();
    for part in word
        .split(is_separator)
        .chain([word])
        .filter(|it| !it.is_empty())
    {
        paths.push(PathBuf::from(part));
        if let Some((_, rest)) = part.split_once('/') {
            paths.push(Path::new("/").join(rest.trim_start_matches('/')));
        }
    }
    paths
}

/// Removes `.` and `..` from a path without accessing the file system.
pub(crate) fn normalize_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn launch_path_excludes_workspace_folders() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let bin = workspace.join("node_modules/.bin");
        let path = std::env::join_paths([Path::new("/usr/bin"), &bin, Path::new("/bin")]).unwrap();
        let left = path_without_workspace(&path, &workspace);
        assert_eq!(left.as_deref(), Some("/usr/bin:/bin"));
        let plain = std::env::join_paths(["/usr/bin", "/bin"]).unwrap();
        assert_eq!(path_without_workspace(&plain, &workspace), None);
    }

    #[cfg(unix)]
    #[test]
    fn empty_folder_is_not_created_where_others_can_write() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let workspace = Path::new("/nowhere");
        let empty = EmptyFolder::create_in(&folder.path().join("a/b"), workspace).unwrap();
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(EmptyFolder::create_in(&open, workspace).is_err());
        let real = folder.path().canonicalize().unwrap();
        assert!(EmptyFolder::create_in(&real.join("in"), &real).is_err());
    }
}
