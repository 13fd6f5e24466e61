//! MCP servers from npm and PyPI packages: downloaded once into mimir's cache, pinned, and started from there.
//!
//! A package is installed into a staging folder, which is renamed when it is complete, so that an interrupted download
//! is never used. The caches of npm and pip are not touched.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::config::{BindMount, McpPackage, PackageRegistry, SandboxMode};
use mimir_core::launch::{LaunchFolder, LaunchSpec, LaunchedProgram, ProcessLauncher};
use mimir_process::ProgramLauncher;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::approval_store;
use crate::private_files;
use crate::servers::server_logs;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

mod install;
mod npm;
mod package_tree;
mod pypi;
pub(crate) mod registry;

pub use install::{DownloadedPackage, PackageDownload, PackageInstaller};

/// The installed packages of this user.
#[derive(Debug, Clone)]
pub struct PackageStore {
    folder: Option<PathBuf>,
}

/// Record in the folder of an installed package. It is written last, and marks the installation as complete.
#[derive(Debug, Serialize, Deserialize)]
struct InstalledPackage {
    package: McpPackage,
    /// Command line of the package's program. A path that begins with `./` is relative to the folder.
    start: Vec<String>,
}

/// File name of the record.
const RECORD: &str = "mimir-package.json";

/// Number of digest digits in a folder name, which tell builds of one version apart.
const DIGEST_LENGTH: usize = 12;

impl PackageStore {
    /// Creates a handle to the store in the user's cache folder. Reads nothing.
    pub fn new(user_dirs: &UserDirs) -> Self {
        let cache = user_dirs.cache.as_ref();
        Self {
            folder: cache.map(|cache| cache.join("mcp").join("packages")),
        }
    }

    /// Returns the folder of all packages. Creates it if needed.
    fn root(&self) -> Result<&Path, ToolError> {
        let folder = self.folder.as_deref().ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for packages: set MIMIR_CACHE_DIR to an absolute path",
            )
        })?;
        private_files::private_folder(folder)
            .map_err(|error| crate::file_error::file_error("create", folder, &error))?;
        Ok(folder)
    }

    /// Returns the folder of a package, which need not be installed.
    fn folder_of(&self, package: &McpPackage) -> Option<PathBuf> {
        let text = serde_json::to_vec(package).unwrap_or_default();
        let digest = format!("{:x}", Sha256::digest(text));
        let sanitize = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') {
                c
            } else {
                '-'
            }
        };
        let name: String = package.name.chars().map(sanitize).collect();
        let (registry, version) = (package.registry.as_str(), &package.version);
        let version: String = version.chars().map(sanitize).collect();
        let name = format!(
            "{registry}-{}-{version}-{}",
            name.trim_matches('-'),
            &digest[..DIGEST_LENGTH]
        );
        Some(self.folder.as_ref()?.join(name))
    }

    /// Returns the folder and the command line of a package; `None` if it is not installed.
    pub fn find(&self, package: &McpPackage) -> Option<(PathBuf, Vec<String>)> {
        let folder = self.folder_of(package)?;
        let text =
            private_files::read(&folder.join(RECORD), private_files::OwnerOnly::Writing).ok()??;
        let installed: InstalledPackage = serde_json::from_str(&text).ok()?;
        if installed.package != *package {
            return None;
        }
        let command_line = installed
            .start
            .into_iter()
            .map(|word| match word.strip_prefix("./") {
                Some(relative) => folder.join(relative).display().to_string(),
                None => word,
            });
        let command_line = command_line.collect();
        Some((folder, command_line))
    }

    /// Moves a staging folder into the store. If another process has installed the package meanwhile, that
    /// installation stays.
    fn install_staged(
        &self,
        staging: &Path,
        package: &McpPackage,
        start: Vec<String>,
    ) -> Result<(), ToolError> {
        let fault = |error: &dyn std::fmt::Display| {
            ToolError::execution(format!("the package cannot be stored: {error}"))
        };
        let installed = InstalledPackage {
            package: package.clone(),
            start,
        };
        let text = serde_json::to_string_pretty(&installed).map_err(|error| fault(&error))?;
        private_files::replace(
            &staging.join(RECORD),
            text.as_bytes(),
            private_files::FileReaders::Owner,
        )
        .map_err(|error| fault(&error))?;
        let folder = self
            .folder_of(package)
            .ok_or_else(|| fault(&"this platform has no cache folder"))?;
        if self.find(package).is_some() {
            return Ok(());
        }
        // Incomplete: damaged, or left by another version of mimir.
        let _ = std::fs::remove_dir_all(&folder);
        match std::fs::rename(staging, &folder) {
            Err(_) if self.find(package).is_some() => Ok(()),
            renamed => renamed.map_err(|error| fault(&error)),
        }
    }
}

/// Launcher of servers: packages are started from the store, other servers as configured.
pub struct PackageServerLauncher {
    programs: ProgramLauncher,
    store: PackageStore,
    /// Parent of the home folders of package servers.
    homes: Option<PathBuf>,
    root: PathBuf,
}

impl PackageServerLauncher {
    /// Creates a launcher with the packages in `store`.
    pub fn new(
        programs: ProgramLauncher,
        store: PackageStore,
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
    ) -> Self {
        Self {
            programs,
            store,
            homes: approval_store::user_state_path(user_dirs, workspace, "homes"),
            root: workspace.root().to_owned(),
        }
    }

    /// Completes the launch of an installed package: with its program, read access to its folder, and its own home
    /// folder.
    fn prepare_launch(
        &self,
        mut launch: LaunchSpec,
        package: &McpPackage,
    ) -> Result<LaunchSpec, ToolError> {
        let server = launch.name.clone();
        let Some((folder, mut command_line)) = self.store.find(package) else {
            let message = format!(
                "the package {package} of the server `{server}` is not installed on this machine"
            );
            let remedy = format!("`mimir mcp install {server}` downloads it");
            return Err(ToolError::unavailable(message).with_remedies([remedy]));
        };
        let folders = launch.folders.clone().unwrap_or_default();
        command_line.extend(
            launch
                .args
                .iter()
                .map(|word| resolve_workspace_argument(word, &folders, &self.root)),
        );
        launch.args = command_line;
        let mode = launch.sandbox.mode.unwrap_or_default();
        if mode == SandboxMode::Container {
            let message =
                format!("the package {package} of the server `{server}` cannot run in a container");
            let remedy = format!(
                "`sandbox: process` in mcp.servers.{server} runs it in the sandbox of the operating system"
            );
            return Err(ToolError::unavailable(message).with_remedies([remedy]));
        }
        // Without a sandbox, the package has the home folder of the user.
        if mode == SandboxMode::None {
            return Ok(launch);
        }
        set_home(&mut launch, self.home(&server)?);
        let sandbox = &mut launch.sandbox;
        sandbox.mode = Some(SandboxMode::Process);
        (sandbox.image, sandbox.socket) = (None, None);
        sandbox.images.clear();
        let path = folder.display().to_string();
        sandbox.bind_mounts.push(BindMount {
            from: path.clone(),
            at: path,
            writable: false,
        });
        let network = sandbox.network_access == Some(true);
        let preload = folder.join(npm::PRELOAD_NAME);
        let is_set = launch
            .environment
            .iter()
            .any(|(name, _)| name == "NODE_OPTIONS");
        let needs_preload = network && package.registry == PackageRegistry::Npm && !is_set;
        if needs_preload && npm::update_preload(&preload)? {
            let path = preload
                .display()
                .to_string()
                .replace('\\', "\\\\")
                .replace('"', "\\\"");
            let option = format!("--require=\"{path}\"");
            launch.environment.push(("NODE_OPTIONS".to_owned(), option));
        }
        Ok(launch)
    }

    /// Returns the home folder of a server in this workspace, which persists across starts. Creates it if needed.
    fn home(&self, server: &str) -> Result<PathBuf, ToolError> {
        let homes = self.homes.as_ref().ok_or_else(|| {
            let message = "this platform has no folder for the homes of servers: set MIMIR_CONFIG_DIR to an absolute path";
            ToolError::unavailable(message)
        })?;
        // The server may write to its home, so a name such as `..` must not lead to another folder.
        let home = homes.join(server_logs::file_name(server));
        private_files::private_folder(&home)
            .map_err(|error| crate::file_error::file_error("create", &home, &error))?;
        Ok(home)
    }
}

impl ProcessLauncher for PackageServerLauncher {
    fn launch(&self, launch: LaunchSpec) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>> {
        Box::pin(async move {
            let launch = match launch.package.clone() {
                Some(package) => self.prepare_launch(launch, &package)?,
                None => launch,
            };
            self.programs.launch(launch).await
        })
    }
}

/// Gives a program its own home folder: replaces `~/` at the start of arguments and variables, and sets `HOME` unless the
/// settings set it.
fn set_home(launch: &mut LaunchSpec, home: PathBuf) {
    let values = launch.environment.iter_mut().map(|(_, value)| value);
    for value in values.chain(&mut launch.args) {
        if let Some(relative) = value.strip_prefix("~/") {
            *value = home.join(relative).display().to_string();
        }
    }
    if !launch.environment.iter().any(|(name, _)| name == "HOME") {
        let path = home.display().to_string();
        launch.environment.push(("HOME".to_owned(), path));
    }
    launch.private.push(home);
}

/// Resolves `.` or a leading `./` in an argument to a path in the workspace, if the server has access to that path.
fn resolve_workspace_argument(word: &str, folders: &[LaunchFolder], root: &Path) -> String {
    let (option, value) = match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => (Some(option), value),
        _ => (None, word),
    };
    let relative = match value {
        "." => Some(""),
        value => value.strip_prefix("./"),
    };
    let Some(relative) = relative.filter(|relative| !relative.split('/').any(|part| part == ".."))
    else {
        return word.to_owned();
    };
    let is_accessible = folders.iter().any(|folder| match folder.path.as_str() {
        "." => true,
        path => Path::new(relative).starts_with(path),
    });
    if !is_accessible {
        return word.to_owned();
    }
    let path = match relative {
        "" => root.to_owned(),
        relative => root.join(relative),
    };
    match option {
        Some(option) => format!("{option}={}", path.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_arguments_in_launch_folders_become_absolute() {
        let folder = |path: &str| LaunchFolder {
            path: path.to_owned(),
            writable: true,
        };
        let root = Path::new("/work");
        for (word, folders, given) in [
            (".", vec![folder(".")], "/work"),
            ("./a/b.db", vec![folder(".")], "/work/a/b.db"),
            ("--db=./a/b.db", vec![folder("a")], "--db=/work/a/b.db"),
            ("./b", vec![folder("a")], "./b"),
            ("./ab", vec![folder("a")], "./ab"),
            ("./a/../../x", vec![folder(".")], "./a/../../x"),
            (".", vec![], "."),
            ("a", vec![folder(".")], "a"),
            ("x=./a", vec![folder(".")], "x=./a"),
        ] {
            assert_eq!(
                resolve_workspace_argument(word, &folders, root),
                given,
                "{word}"
            );
        }
    }
}
