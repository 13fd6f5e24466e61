//! Search for programs in the `PATH`, and questions to them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::python_packages::PythonPackages;

/// Searches for compilers. The Python packages are read once for all languages.
#[derive(Debug, Default)]
pub struct ProgramSearch {
    folders: Vec<PathBuf>,
    python: OnceLock<Option<PythonPackages>>,
    componentize_py: OnceLock<Option<PythonPackages>>,
}

impl ProgramSearch {
    /// Creates a search in the `PATH`, without relative folders and without those in `excluded`: the plugin, whose files
    /// must not run outside of the sandbox.
    pub fn outside(excluded: Option<&Path>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_excluded = |folder: &Path| {
            let real = folder.canonicalize();
            let real = real.as_deref().unwrap_or(folder);
            excluded
                .is_some_and(|excluded| real.starts_with(excluded) || folder.starts_with(excluded))
        };
        let folders = std::env::split_paths(&path);
        Self::in_folders(folders.filter(|folder| folder.is_absolute() && !is_excluded(folder)))
    }

    /// Creates a search in these folders.
    pub fn in_folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            folders: folders.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Finds a program.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let name = file_name(name);
        let mut files = self.folders.iter().map(|folder| folder.join(&name));
        files.find(|file| file.is_file())
    }

    /// Returns the standard output of a program that succeeds. It runs in a folder without files of a workspace: there,
    /// a file could select another program.
    pub fn output(&self, program: &[String], args: &[&str]) -> Option<String> {
        let (program, first_args) = program.split_first()?;
        let output = Command::new(program)
            .args(first_args)
            .args(args)
            .current_dir(neutral_folder()?)
            .env("GOTOOLCHAIN", "local")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    /// Returns the facts about the packages of `python3`.
    pub fn python_packages(&self) -> Option<&PythonPackages> {
        let read = || {
            let python = self.program("python3").or_else(|| self.program("python"))?;
            PythonPackages::read(self, &python)
        };
        self.python.get_or_init(read).as_ref()
    }

    /// Returns the facts about the Python that has componentize-py: `python3`, or the one that runs the script
    /// `componentize-py`.
    pub fn componentize_py(&self) -> Option<&PythonPackages> {
        let has_package = |facts: &&PythonPackages| facts.componentize_py.is_some();
        if let Some(facts) = self.python_packages().filter(has_package) {
            return Some(facts);
        }
        let read = || {
            let script = self.program("componentize-py")?;
            PythonPackages::read(self, &interpreter(&script)?)
        };
        self.componentize_py.get_or_init(read).as_ref()
    }
}

/// Returns the name of a program's file on this platform.
pub fn file_name(program: &str) -> String {
    format!("{program}{}", std::env::consts::EXE_SUFFIX)
}

/// Returns the program in the first line of a script.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let text = std::fs::read(script).ok()?;
    let line = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("#!")?.trim();
    let program = PathBuf::from(line);
    (program.is_absolute() && program.is_file()).then_some(program)
}

/// Returns a folder without files of a workspace.
pub fn neutral_folder() -> Option<PathBuf> {
    if cfg!(windows) {
        let program = std::env::current_exe().ok()?;
        return Some(program.parent()?.to_owned());
    }
    Some(PathBuf::from("/"))
}
