//! Signs of agents on this machine: programs on the PATH and config folders.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::agent_kind::AgentKind;

/// Name of our program.
const PROGRAM: &str = "mimir";

/// Folders of the user and the PATH, from the environment.
#[derive(Debug, Clone, Default)]
pub struct AgentEnvironment {
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Base folder of config files, such as `~/.config`.
    pub config: Option<PathBuf>,
    /// Folder of Codex.
    pub codex_home: Option<PathBuf>,
    /// Folder of roaming settings on Windows.
    pub app_data: Option<PathBuf>,
    /// Folders of the PATH.
    pub search_path: Vec<PathBuf>,
}

/// Sign of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvidence {
    /// A program on the PATH.
    Program(PathBuf),
    /// A folder with its settings.
    Folder(PathBuf),
}

impl AgentEvidence {
    /// The path that was found.
    pub fn path(&self) -> &Path {
        match self {
            Self::Program(path) | Self::Folder(path) => path,
        }
    }
}

impl AgentEnvironment {
    /// Reads the environment of this process.
    pub fn find() -> Self {
        Self::from(|name| std::env::var_os(name))
    }

    fn from(var: impl Fn(&str) -> Option<OsString>) -> Self {
        let dir = |name: &str| {
            var(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home = dir("HOME").or_else(|| dir("USERPROFILE"));
        let below = |rest: &str| home.as_ref().map(|home| home.join(rest));
        // Relative folders would depend on the current folder, which may be an untrusted project.
        let search_path = var("PATH").map_or_else(Vec::new, |path| {
            std::env::split_paths(&path)
                .filter(|folder| folder.is_absolute())
                .collect()
        });
        Self {
            config: dir("XDG_CONFIG_HOME").or_else(|| below(".config")),
            codex_home: dir("CODEX_HOME").or_else(|| below(".codex")),
            app_data: dir("APPDATA"),
            search_path,
            home,
        }
    }

    /// Folder of Goose's settings.
    pub(crate) fn goose_config(&self) -> Option<PathBuf> {
        if cfg!(windows) {
            let app_data = self.app_data.as_ref()?;
            return Some(app_data.join("Block").join("goose").join("config"));
        }
        Some(self.config.as_ref()?.join("goose"))
    }

    /// Looks for an agent; `None` if the machine shows no sign of it.
    pub fn find_agent(&self, agent: AgentKind) -> Option<AgentEvidence> {
        let mut programs = agent.programs().iter();
        if let Some(program) = programs.find_map(|name| self.find_program(name)) {
            return Some(AgentEvidence::Program(program));
        }
        let mut folders = agent.folders(self).into_iter();
        folders
            .find(|folder| folder.is_dir())
            .map(AgentEvidence::Folder)
    }

    /// The first program with this name on the PATH.
    fn find_program(&self, name: &str) -> Option<PathBuf> {
        let endings: &[&str] = if cfg!(windows) {
            &[".exe", ".cmd", ".bat"]
        } else {
            &[""]
        };
        let names: Vec<String> = endings
            .iter()
            .map(|ending| format!("{name}{ending}"))
            .collect();
        let folders = self.search_path.iter();
        folders
            .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
            .find(|path| is_program(path))
    }

    /// The program that agents start: `mimir` if that name on the PATH is the program at `current`, else its path.
    pub fn program_name(&self, current: &Path) -> String {
        let found = self.find_program(PROGRAM);
        let is_current = found.is_some_and(|found| {
            let real = |path: &Path| path.canonicalize().ok();
            real(&found).is_some_and(|found| Some(found) == real(current))
        });
        if is_current {
            PROGRAM.to_owned()
        } else {
            current.display().to_string()
        }
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    fn make_program(path: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn agents_are_found_by_program_and_by_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (home, bin) = (dir.path().join("home"), dir.path().join("bin"));
        let environment = AgentEnvironment::from(|name| match name {
            "HOME" => Some(home.clone().into()),
            "PATH" => Some(format!("relative:{}", bin.display()).into()),
            _ => None,
        });
        for agent in AgentKind::ALL {
            assert_eq!(environment.find_agent(agent), None, "{agent:?}");
        }
        make_program(&bin.join("claude"));
        std::fs::write(bin.join("codex"), "not executable").unwrap();
        make_program(&bin.join("goose"));
        std::fs::create_dir_all(home.join(".config/zed")).unwrap();
        assert_eq!(
            environment.find_agent(AgentKind::Claude),
            Some(AgentEvidence::Program(bin.join("claude")))
        );
        assert_eq!(
            environment.find_agent(AgentKind::Zed),
            Some(AgentEvidence::Folder(home.join(".config/zed")))
        );
        for agent in [AgentKind::Codex, AgentKind::Goose] {
            assert_eq!(environment.find_agent(agent), None, "{agent:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn agent_program_is_a_name_only_if_the_path_has_this_program() {
        let dir = tempfile::tempdir().unwrap();
        let current = dir.path().join("real/mimir");
        make_program(&current);
        let bin = dir.path().join("bin");
        let environment = AgentEnvironment {
            search_path: vec![bin.clone()],
            ..AgentEnvironment::default()
        };
        let absolute = current.display().to_string();
        assert_eq!(environment.program_name(&current), absolute);
        make_program(&bin.join("mimir"));
        assert_eq!(environment.program_name(&current), absolute, "another one");
        std::fs::remove_file(bin.join("mimir")).unwrap();
        std::os::unix::fs::symlink(&current, bin.join("mimir")).unwrap();
        assert_eq!(environment.program_name(&current), "mimir");
    }
}
