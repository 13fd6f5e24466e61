//! Search for programs in the `PATH`, and questions to them.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use mimir_core::text::visible;

use super::python_packages::PythonPackages;
use crate::output::note;

/// Time limit of a question to a program. Compilers answer in less than a second.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Interval at which a program is checked that has closed its output, but has not ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of bytes of an answer.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Variables that let an interpreter or a wrapper run files that they name. They may name the folder of a plugin.
const CODE_VARIABLES: [&str; 6] = [
    "NODE_OPTIONS",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
];

/// Searches for compilers. The Python packages are read once for all languages.
#[derive(Debug, Default)]
pub struct ProgramSearch {
    folders: Vec<PathBuf>,
    /// Folders in the `PATH` that are not searched, because they are in the folder of the plugin.
    excluded: Vec<PathBuf>,
    python: OnceLock<Option<PythonPackages>>,
    componentize_py: OnceLock<Option<PythonPackages>>,
}

impl ProgramSearch {
    /// Creates a search in the `PATH`, without relative folders and without those in `excluded`: the plugin, whose files
    /// must not run outside of the sandbox.
    pub fn outside(excluded: Option<&Path>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::outside_in(excluded, std::env::split_paths(&path))
    }

    /// Creates a search in those of these folders that are absolute and not in `excluded`.
    pub fn outside_in(excluded: Option<&Path>, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let is_excluded = |folder: &Path| {
            let real = folder.canonicalize();
            let real = real.as_deref().unwrap_or(folder);
            excluded
                .is_some_and(|excluded| real.starts_with(excluded) || folder.starts_with(excluded))
        };
        let folders = folders.into_iter().filter(|folder| folder.is_absolute());
        let (excluded, folders): (Vec<_>, Vec<_>) = folders.partition(|folder| is_excluded(folder));
        Self {
            excluded,
            ..Self::in_folders(folders)
        }
    }

    /// Creates a search in these folders.
    pub fn in_folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            folders: folders.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns the first folder that has one of these programs and is not searched, because it is in the folder of the
    /// plugin.
    pub fn excluded_folder(&self, programs: &[&str]) -> Option<&Path> {
        let mut folders = self.excluded.iter();
        let has_program = |folder: &&PathBuf| {
            let mut files = programs.iter().map(|name| folder.join(file_name(name)));
            files.any(|file| file.is_file())
        };
        folders.find(has_program).map(PathBuf::as_path)
    }

    /// Finds a program.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let name = file_name(name);
        let mut files = self.folders.iter().map(|folder| folder.join(&name));
        files.find(|file| file.is_file())
    }

    /// Creates a command outside of the sandbox, which must run no file of a plugin: it starts in a folder without files
    /// of a workspace, where a file could select another program, and finds programs and rustc in the same folders as
    /// this search.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env(
                "PATH",
                std::env::join_paths(&self.folders).unwrap_or_default(),
            )
            .env("GOTOOLCHAIN", "local")
            .stdin(Stdio::null());
        for name in CODE_VARIABLES {
            command.env_remove(name);
        }
        match self.program("rustc") {
            Some(rustc) => command.env("RUSTC", rustc),
            None => command.env_remove("RUSTC"),
        };
        if let Some(folder) = neutral_folder() {
            command.current_dir(folder);
        }
        command
    }

    /// Returns the standard output of a program that succeeds (see [`Self::command`]).
    pub fn output(&self, program: &[String], args: &[&str]) -> Option<String> {
        self.output_within(TIMEOUT, program, args)
    }

    fn output_within(&self, limit: Duration, program: &[String], args: &[&str]) -> Option<String> {
        let (program, first_args) = program.split_first()?;
        let mut child = self
            .command(Path::new(program))
            .args(first_args)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let deadline = Instant::now() + limit;
        let answer = read_answer(&mut child, deadline);
        if answer.is_none() {
            // It may have ended in the meantime.
            let _ = child.kill();
            let _ = child.wait();
            let (program, seconds) = (visible(program), limit.as_secs());
            note(format_args!(
                "{program} did not answer within {seconds} s, and is not used"
            ));
        }
        answer?
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

/// Returns the output of a program, or `None` if it did not end before the deadline. The inner value is `None` if it
/// failed.
fn read_answer(child: &mut Child, deadline: Instant) -> Option<Option<String>> {
    let Some(stdout) = child.stdout.take() else {
        return Some(None);
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
        // The receiver is gone after the deadline.
        let _ = sender.send(read.map(|_| bytes));
    });
    let remaining = deadline.saturating_duration_since(Instant::now());
    let bytes = receiver.recv_timeout(remaining).ok()?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let bytes = bytes.ok().filter(|_| status.success());
                return Some(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
            }
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => return None,
            Err(_) => return Some(None),
        }
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
fn neutral_folder() -> Option<PathBuf> {
    if cfg!(windows) {
        let program = std::env::current_exe().ok()?;
        return Some(program.parent()?.to_owned());
    }
    Some(PathBuf::from("/"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(search: &ProgramSearch, limit: Duration, script: &str) -> Option<String> {
        search.output_within(limit, &["/bin/sh".to_owned()], &["-c", script])
    }

    #[test]
    fn program_search_stops_a_program_that_does_not_answer() {
        let search = ProgramSearch::in_folders([]);
        let start = Instant::now();
        let limit = Duration::from_millis(300);
        for script in ["/bin/sleep 60", "exec >&-; /bin/sleep 60"] {
            assert_eq!(shell(&search, limit, script), None);
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn program_search_starts_programs_with_its_own_folders() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rustc"), "").unwrap();
        let search = ProgramSearch::in_folders([folder.path().to_owned()]);
        let answer = shell(&search, TIMEOUT, "echo \"$PATH $RUSTC\"; pwd").unwrap();
        let shown = folder.path().display();
        assert_eq!(answer, format!("{shown} {shown}/rustc\n/\n"));
        assert_eq!(shell(&search, TIMEOUT, "echo x; exit 1"), None);
    }

    #[test]
    fn program_search_removes_variables_that_name_code() {
        let search = ProgramSearch::in_folders([]);
        let command = search.command(Path::new("/bin/sh"));
        for name in CODE_VARIABLES {
            let removed = command
                .get_envs()
                .any(|(key, value)| key == name && value.is_none());
            assert!(removed, "{name}");
        }
    }
}
