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
    /// Its config file in the project.
    ProjectFile(PathBuf),
}

impl AgentEvidence {
    /// The path that was found.
    pub fn path(&self) -> &Path {
        match self {
            Self::Program(path) | Self::Folder(path) | Self::ProjectFile(path) => path,
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

    /// Looks for an agent; `None` if neither the machine nor the project shows a sign of it.
    pub fn find_agent(&self, agent: AgentKind, project: &Path) -> Option<AgentEvidence> {
        let mut programs = agent.programs().iter();
        if let Some(program) = programs.find_map(|name| self.find_program(name)) {
            return Some(AgentEvidence::Program(program));
        }
        let mut folders = agent.folders(self).into_iter();
        if let Some(folder) = folders.find(|folder| folder.is_dir()) {
            return Some(AgentEvidence::Folder(folder));
        }
        let files = agent.project_files().iter();
        files
            .map(|name| project.join(name))
            .find(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_file()))
            .map(AgentEvidence::ProjectFile)
    }

    /// The first program with this name on the PATH.
    fn find_program(&self, name: &str) -> Option<PathBuf> {
        self.find_program_in(name, |_| true)
    }

    /// Our program on the PATH that agents have, too. A folder of the project, or a `node_modules/.bin`, which npx puts
    /// on the PATH of this process alone, does not count.
    fn find_installed(&self, project: &Path) -> Option<PathBuf> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let project = real(project);
        self.find_program_in(PROGRAM, |folder| {
            !folder.ends_with("node_modules/.bin") && !real(folder).starts_with(&project)
        })
    }

    /// The first program with this name in the folders of the PATH that count.
    fn find_program_in(&self, name: &str, counts: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let endings: &[&str] = if cfg!(windows) {
            &[".exe", ".cmd", ".bat"]
        } else {
            &[""]
        };
        let names: Vec<String> = endings
            .iter()
            .map(|ending| format!("{name}{ending}"))
            .collect();
        let folders = self.search_path.iter().filter(|folder| counts(folder));
        folders
            .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
            .find(|path| is_program(path))
    }

    /// The program that agents start: `mimir` if that name on the PATH starts the program at `current`, else its path.
    pub fn program_name(&self, current: &Path, project: &Path) -> String {
        if self.starts_program(PROGRAM, current, project) {
            PROGRAM.to_owned()
        } else {
            current.display().to_string()
        }
    }

    /// Returns true if a command in a config file, the name `mimir` or an absolute path, starts the program at
    /// `current`: it is that program, or the script `mimir` that a package or a version manager has put on the PATH. A
    /// script elsewhere may be one of the project, and start anything.
    pub(crate) fn starts_program(&self, command: &str, current: &Path, project: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        let is_current = |path: &Path| real(path).is_some_and(|found| Some(found) == real(current));
        let path = Path::new(command);
        let installed = self.find_installed(project);
        match installed {
            Some(found) if command == PROGRAM || path == found => {
                is_current(&found) || is_script(&found)
            }
            _ => path.is_absolute() && is_program(path) && is_current(path),
        }
    }
}

/// Returns true for a script: a text with an interpreter, or a batch file.
fn is_script(path: &Path) -> bool {
    use std::io::Read as _;
    let ending = path.extension().and_then(|ending| ending.to_str());
    if cfg!(windows) && matches!(ending, Some("cmd" | "bat")) {
        return true;
    }
    let mut start = [0; 2];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"#!"
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
        let project = dir.path().join("project");
        let find_agent = |agent| environment.find_agent(agent, &project);
        for agent in AgentKind::ALL {
            assert_eq!(find_agent(agent), None, "{agent:?}");
        }
        make_program(&bin.join("claude"));
        std::fs::write(bin.join("codex"), "not executable").unwrap();
        make_program(&bin.join("goose"));
        std::fs::create_dir_all(home.join(".config/zed")).unwrap();
        assert_eq!(
            find_agent(AgentKind::Claude),
            Some(AgentEvidence::Program(bin.join("claude")))
        );
        assert_eq!(
            find_agent(AgentKind::Zed),
            Some(AgentEvidence::Folder(home.join(".config/zed")))
        );
        for agent in [AgentKind::Codex, AgentKind::Goose] {
            assert_eq!(find_agent(agent), None, "{agent:?}");
        }
        std::fs::create_dir_all(project.join(".cursor")).unwrap();
        assert_eq!(find_agent(AgentKind::Cursor), None, "only a folder");
        let file = project.join(".cursor/mcp.json");
        std::fs::write(&file, "{}").unwrap();
        let found = Some(AgentEvidence::ProjectFile(file));
        assert_eq!(find_agent(AgentKind::Cursor), found);
    }

    #[test]
    #[cfg(unix)]
    fn agent_program_is_a_name_only_if_the_path_has_this_program() {
        let dir = tempfile::tempdir().unwrap();
        let current = dir.path().join("real/mimir");
        make_program(&current);
        let bin = dir.path().join("bin");
        let project = dir.path().join("project");
        let environment = AgentEnvironment {
            search_path: vec![bin.clone()],
            ..AgentEnvironment::default()
        };
        let absolute = current.display().to_string();
        assert_eq!(environment.program_name(&current, &project), absolute);
        make_program(&bin.join("mimir"));
        assert_eq!(
            environment.program_name(&current, &project),
            absolute,
            "another one"
        );
        std::fs::remove_file(bin.join("mimir")).unwrap();
        std::os::unix::fs::symlink(&current, bin.join("mimir")).unwrap();
        assert_eq!(environment.program_name(&current, &project), "mimir");
    }

    #[test]
    #[cfg(unix)]
    fn agent_program_can_be_a_script_that_starts_mimir() {
        let dir = tempfile::tempdir().unwrap();
        let (current, bin) = (dir.path().join("lib/mimir"), dir.path().join("bin"));
        make_program(&current);
        let project = dir.path().join("project");
        let environment = AgentEnvironment {
            search_path: vec![bin.clone()],
            ..AgentEnvironment::default()
        };
        let starts = |command: &str| environment.starts_program(command, &current, &project);
        let script = bin.join("mimir").display().to_string();
        assert!(!starts("mimir") && !starts(&script), "missing");
        make_program(&bin.join("mimir"));
        std::fs::write(bin.join("mimir"), "\x7fELF of another program").unwrap();
        assert!(!starts("mimir") && !starts(&script), "another program");
        std::fs::write(bin.join("mimir"), "#!/usr/bin/env node\n").unwrap();
        assert!(starts("mimir") && starts(&script));
        assert_eq!(environment.program_name(&current, &project), "mimir");
        make_program(&bin.join("other"));
        std::fs::write(bin.join("other"), "#!/bin/sh\n").unwrap();
        assert!(!starts(&bin.join("other").display().to_string()));
        assert!(starts(&current.display().to_string()) && !starts("bin/mimir"));
    }

    #[test]
    #[cfg(unix)]
    fn agent_program_is_no_script_of_the_project_or_of_npx() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        let current = dir.path().join("lib/mimir");
        make_program(&current);
        let absolute = current.display().to_string();
        let in_project = project.join("tools");
        let npx = dir.path().join("cache/node_modules/.bin");
        let bin = dir.path().join("bin");
        for folder in [&in_project, &npx, &bin] {
            make_program(&folder.join("mimir"));
            std::fs::write(folder.join("mimir"), "#!/bin/sh\n").unwrap();
        }
        for (folder, is_launcher) in [(&in_project, false), (&npx, false), (&bin, true)] {
            let script = folder.join("mimir").display().to_string();
            let on_path = |folder: &Path| AgentEnvironment {
                search_path: vec![folder.to_owned()],
                ..AgentEnvironment::default()
            };
            let environment = on_path(folder);
            let starts = |command: &str| environment.starts_program(command, &current, &project);
            assert_eq!(starts("mimir"), is_launcher, "{folder:?}");
            assert_eq!(starts(&script), is_launcher, "{folder:?}");
            let name = if is_launcher {
                "mimir"
            } else {
                absolute.as_str()
            };
            assert_eq!(environment.program_name(&current, &project), name);
            // Another script that has the name is not the one on the PATH.
            let elsewhere = on_path(&dir.path().join("lib"));
            assert!(!elsewhere.starts_program(&script, &current, &project));
        }
    }
}
