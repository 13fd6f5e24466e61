//! The workspace: the folder that tools can access, and the paths of mimir's own files in it.

use std::io;
use std::path::{Path, PathBuf};

use mimir_core::files;
use mimir_core::platform::TrustedOwner;
use mimir_core::{ToolError, ToolErrorCode};

use crate::user_dirs::UserDirs;

/// Name of the folder with mimir's files in a workspace.
pub const MIMIR_DIR: &str = ".mimir";

/// The folder that tools can access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFolder {
    root: PathBuf,
    has_mimir_dir: bool,
    skipped: Option<PathBuf>,
    unusable: Option<PathBuf>,
    /// The folder whose `.mimir` has the settings and tools of a deployment, which replace those of the workspace.
    deployment: Option<PathBuf>,
}

/// Name of the folder in the user's settings folder that stands in for the workspace. See
/// [`WorkspaceFolder::or_user_folder`].
const USER_FOLDER: &str = "no-workspace";

impl WorkspaceFolder {
    /// Finds the workspace: the `named` folder, else the current folder or its nearest parent that has `.mimir`, else
    /// the current folder. The environment names the user's own folders, which must not be in a workspace.
    pub fn find(named: Option<&Path>) -> Result<Self, ToolError> {
        Self::find_beside(named, &UserDirs::find())
    }

    /// Finds the workspace, like [`Self::find`], with these own folders of the user.
    pub fn find_beside(named: Option<&Path>, user_dirs: &UserDirs) -> Result<Self, ToolError> {
        let invalid = |path: &Path, why: &str| {
            let shown = mimir_core::text::visible(&path.display().to_string());
            ToolError::new(
                ToolErrorCode::InvalidPath,
                format!("the workspace {shown} {why}"),
            )
        };
        let current_dir = std::env::current_dir().map_err(|e| {
            ToolError::new(
                ToolErrorCode::InvalidPath,
                format!("the current folder cannot be found: {e}"),
            )
        })?;
        let Some(named) = named else {
            return Ok(Self::above(&current_dir, user_dirs));
        };
        let root = current_dir.join(named);
        match std::fs::metadata(&root) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(invalid(named, "is not a folder")),
            Err(e) => return Err(invalid(named, &format!("cannot be opened: {e}"))),
        }
        let root =
            canonical_path(&root).map_err(|e| invalid(named, &format!("cannot be opened: {e}")))?;
        Ok(Self {
            has_mimir_dir: root.join(MIMIR_DIR).is_dir(),
            root,
            skipped: None,
            unusable: None,
            deployment: None,
        })
    }

    /// Finds `start` or its nearest parent that has `.mimir`. Skips a parent whose `.mimir` belongs to another user,
    /// because the config in it would apply to this user's calls, and a parent that cannot be a workspace, such as the
    /// home folder, because all folders below it would be unusable.
    fn above(start: &Path, user_dirs: &UserDirs) -> Self {
        let (mut skipped, mut unusable) = (None, None);
        for folder in start.ancestors() {
            let mimir_dir = folder.join(MIMIR_DIR);
            if !mimir_dir.is_dir() {
                continue;
            }
            if folder != start && !is_ours(&mimir_dir) {
                skipped.get_or_insert(mimir_dir);
            } else if folder != start && check_separation(folder, user_dirs).is_err() {
                unusable.get_or_insert(mimir_dir);
            } else {
                return Self {
                    root: folder.to_owned(),
                    has_mimir_dir: true,
                    skipped,
                    unusable,
                    deployment: None,
                };
            }
        }
        Self {
            root: start.to_owned(),
            has_mimir_dir: false,
            skipped,
            unusable,
            deployment: None,
        }
    }

    /// Returns an error if this folder cannot be a workspace, because it contains mimir's own files or is inside of
    /// them.
    pub fn check_separation(&self, user_dirs: &UserDirs) -> Result<(), ToolError> {
        check_separation(&self.root, user_dirs)
    }

    /// Returns this folder, or, if it cannot be a workspace, a folder in the user's settings folder that stands in for
    /// it. For commands that only change files of the user, which also work in the home folder: no tool is called, and
    /// the audit log of the stand-in records the changes.
    pub fn or_user_folder(self, user_dirs: &UserDirs) -> Result<Self, ToolError> {
        match (self.check_separation(user_dirs), &user_dirs.config) {
            (Ok(()), _) => Ok(self),
            (Err(_), Some(config)) => {
                let root = config.join(USER_FOLDER);
                Ok(Self {
                    has_mimir_dir: root.join(MIMIR_DIR).is_dir(),
                    root,
                    skipped: None,
                    unusable: None,
                    deployment: None,
                })
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns this workspace with the settings, tools and lock file in the `.mimir` of `root` instead of its own. Its
    /// state stays where it is.
    #[must_use]
    pub fn with_deployment(mut self, root: PathBuf) -> Self {
        self.deployment = Some(root);
        self
    }

    /// Returns the folder whose `.mimir` has the deployment in force, if the workspace has one.
    pub fn deployment(&self) -> Option<&Path> {
        self.deployment.as_deref()
    }

    /// Returns the folder whose `.mimir` has the settings and tools in force.
    pub fn settings_root(&self) -> &Path {
        self.deployment.as_deref().unwrap_or(&self.root)
    }

    /// Returns the absolute path of the workspace root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns true if the workspace had `.mimir` when it was found.
    pub fn has_mimir_dir(&self) -> bool {
        self.has_mimir_dir
    }

    /// Returns the nearest `.mimir` that was skipped because it belongs to another user.
    pub fn skipped(&self) -> Option<&Path> {
        self.skipped.as_deref()
    }

    /// Returns the nearest `.mimir` that was skipped because its folder cannot be a workspace.
    pub fn unusable(&self) -> Option<&Path> {
        self.unusable.as_deref()
    }

    /// Returns the root of the git repository that contains the workspace, if that is another folder. A repository of
    /// another user does not count.
    pub fn repository_root(&self) -> Option<&Path> {
        let git_dir = |folder: &Path| folder.join(".git");
        let mut folders = self.root.ancestors();
        let root = folders.find(|folder| git_dir(folder).symlink_metadata().is_ok())?;
        (root != self.root && is_ours(&git_dir(root))).then_some(root)
    }

    /// Returns the path of `.mimir`.
    pub fn mimir_dir(&self) -> PathBuf {
        self.root.join(MIMIR_DIR)
    }

    /// Returns the path of `.mimir/config.yml`.
    pub fn config(&self) -> PathBuf {
        self.settings_root().join(MIMIR_DIR).join("config.yml")
    }

    /// Returns the path of `.mimir/tools`.
    pub fn tools(&self) -> PathBuf {
        self.settings_root().join(MIMIR_DIR).join("tools")
    }

    /// Returns the path of `.mimir/tools.lock`.
    pub fn lock(&self) -> PathBuf {
        self.settings_root().join(MIMIR_DIR).join("tools.lock")
    }

    /// Returns the path of `.mimir/state`.
    pub fn state(&self) -> PathBuf {
        self.mimir_dir().join("state")
    }

    /// Returns the path of `.mimir/state/audit.jsonl`.
    pub fn audit(&self) -> PathBuf {
        self.state().join("audit.jsonl")
    }

    /// Returns an error if a folder of `path` below the root is a link, because a link in a checkout can point
    /// anywhere.
    pub fn check_no_links(&self, path: &Path) -> Result<(), ToolError> {
        let folder = path.parent().unwrap_or(&self.root);
        files::reject_links(&self.root, folder).map_err(|error| {
            ToolError::permission_denied(format!(
                "nothing is written to {}: {error}; mimir keeps its files in folders of the workspace itself",
                self.display_path(path)
            ))
        })
    }

    /// Creates `.mimir/state`, with a `.gitignore` that excludes it from commits.
    pub fn make_state(&self) -> io::Result<()> {
        files::make_state(&self.root)
    }

    /// Returns the path of the file `name` in `.mimir/state`. Creates the folder. Fails if a folder of the path is a
    /// link.
    pub fn state_path(&self, name: &str) -> Result<PathBuf, ToolError> {
        let path = self.state().join(name);
        self.check_no_links(&path)?;
        self.make_state()
            .map_err(|error| crate::file_error::file_error("create", &self.state(), &error))?;
        Ok(path)
    }

    /// Returns a path for messages: relative to the workspace if it is inside, and with control characters escaped.
    pub fn display_path(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        let relative = if relative.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative
        };
        mimir_core::text::visible(&relative.display().to_string())
    }
}

/// Refuses a workspace that contains the user's own settings or cache, such as the home folder, or is inside of them: a
/// tool with write access there could grant itself rights, or change the code that mimir runs.
fn check_separation(root: &Path, user_dirs: &UserDirs) -> Result<(), ToolError> {
    let Ok(root) = root.canonicalize() else {
        return Ok(());
    };
    let refusal = |relation: &str, path: &Path, remedy: &str| {
        let shown = |path: &Path| mimir_core::text::visible(&path.display().to_string());
        ToolError::new(
            ToolErrorCode::InvalidPath,
            format!(
                "{} cannot be a workspace: it {relation} {}, which tools must not reach; {remedy}",
                shown(&root),
                shown(path)
            ),
        )
    };
    let folders = [&user_dirs.config, &user_dirs.cache];
    let folders = folders.into_iter().flatten();
    let files = user_dirs.named_team.iter().chain(&user_dirs.team);
    for path in folders.clone().chain(files) {
        let existing = path.ancestors().find_map(|path| path.canonicalize().ok());
        if existing.is_some_and(|existing| existing.starts_with(&root)) {
            let remedy = "name a folder below it with -C";
            return Err(refusal("contains mimir's own files in", path, remedy));
        }
    }
    for folder in folders {
        if folder
            .canonicalize()
            .is_ok_and(|folder| root.starts_with(folder))
        {
            let remedy = "name a folder outside of it with -C";
            return Err(refusal("is inside mimir's own folder", folder, remedy));
        }
    }
    Ok(())
}

/// Returns the canonical path, or on Windows the absolute path, because many Windows programs do not understand
/// canonical paths.
fn canonical_path(path: &Path) -> io::Result<PathBuf> {
    if cfg!(windows) {
        std::path::absolute(path)
    } else {
        path.canonicalize()
    }
}

/// Returns true if a folder belongs to this user or to the administrator.
fn is_ours(folder: &Path) -> bool {
    TrustedOwner::UserOrAdministrator
        .owns(folder)
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(start: &Path) -> WorkspaceFolder {
        WorkspaceFolder::above(start, &UserDirs::default())
    }

    #[test]
    fn workspace_is_not_a_home_folder_above() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let project = home.join("project/deep");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir(home.join(MIMIR_DIR)).unwrap();
        let user_dirs = UserDirs {
            config: Some(home.join(".config/mimir")),
            ..UserDirs::default()
        };
        let find = |start: &Path| WorkspaceFolder::above(start, &user_dirs);
        let found = find(&project);
        assert_eq!(found.root(), project);
        assert!(!found.has_mimir_dir());
        assert_eq!(found.unusable(), Some(home.join(MIMIR_DIR).as_path()));
        assert_eq!(found.clone().or_user_folder(&user_dirs).unwrap(), found);
        // The home folder itself is refused, or replaced for commands that need no workspace.
        let in_home = find(&home);
        assert_eq!(in_home.root(), home);
        let error = in_home.check_separation(&user_dirs).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidPath);
        let replaced = in_home.clone().or_user_folder(&user_dirs).unwrap();
        assert_eq!(replaced.root(), home.join(".config/mimir/no-workspace"));
        // Without a folder for settings, nothing stands in for it.
        let only_cache = UserDirs {
            cache: Some(home.join(".cache/mimir")),
            ..UserDirs::default()
        };
        assert!(in_home.or_user_folder(&only_cache).is_err());
        // A `.mimir` of the project counts as before.
        std::fs::create_dir(home.join("project").join(MIMIR_DIR)).unwrap();
        assert_eq!(find(&project).root(), home.join("project"));
    }

    #[test]
    fn workspace_is_the_nearest_folder_above() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let deep = root.join("a/b ä");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(above(&deep).root(), deep);
        assert!(!above(&deep).has_mimir_dir());
        std::fs::create_dir(root.join(MIMIR_DIR)).unwrap();
        assert_eq!(above(&deep).root(), root);
        std::fs::create_dir(root.join("a").join(MIMIR_DIR)).unwrap();
        assert_eq!(above(&deep).root(), root.join("a"));
    }

    #[test]
    fn workspace_in_a_repository_knows_its_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let deep = root.join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(above(&deep).repository_root(), None);
        std::fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
        let below = above(&deep);
        assert_eq!(below.repository_root(), Some(root.as_path()));
        assert_eq!(above(&root).repository_root(), None);
    }

    #[cfg(unix)]
    #[test]
    fn workspace_skips_links_that_another_user_planted() {
        use std::os::unix::fs::{lchown, symlink};
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give a link to another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().canonicalize().unwrap();
        let project = shared.join("project");
        std::fs::create_dir(&project).unwrap();
        for name in [MIMIR_DIR, ".git"] {
            symlink(&shared, shared.join(name)).unwrap();
        }
        // A link of this user counts.
        assert_eq!(above(&project).root(), shared);
        for name in [MIMIR_DIR, ".git"] {
            lchown(shared.join(name), Some(65534), Some(65534)).unwrap();
        }
        let workspace = above(&project);
        assert_eq!(workspace.root(), project);
        assert_eq!(workspace.skipped(), Some(shared.join(MIMIR_DIR).as_path()));
        assert_eq!(workspace.repository_root(), None);
    }

    #[test]
    fn workspace_option_must_name_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for bad in [&file, &dir.path().join("missing")] {
            assert_eq!(
                WorkspaceFolder::find(Some(bad)).unwrap_err().code,
                ToolErrorCode::InvalidPath
            );
        }
        assert!(WorkspaceFolder::find(Some(dir.path())).is_ok());
    }

    #[test]
    fn workspace_state_is_ignored_by_git() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = WorkspaceFolder::find(Some(dir.path())).unwrap();
        workspace.make_state().unwrap();
        let ignore = std::fs::read_to_string(workspace.state().join(".gitignore")).unwrap();
        assert_eq!(ignore, "*\n");
        // The parent folder ignores it, too, because sandboxed commands cannot read the file in `state`.
        let above = std::fs::read_to_string(workspace.mimir_dir().join(".gitignore")).unwrap();
        assert_eq!(above, "/state/\n/.gitignore\n");
        assert_eq!(
            workspace.display_path(&workspace.audit()),
            ".mimir/state/audit.jsonl".replace('/', std::path::MAIN_SEPARATOR_STR)
        );
    }
}
