//! A server that does not find what it is started with, for the sandbox hides it: what a person is told then.
//!
//! Never here: what the sandbox shows. It is told by the server's own words, and by what lies on this machine.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::config::SandboxMode;
use mimir_core::launch::Launch;
use mimir_core::text::visible;

use super::end::End;

/// How programs say that something is not there.
const ABSENT: [&str; 7] = [
    "cannot find",
    "can't find",
    "can't open",
    "cannot open",
    "no such file",
    "enoent",
    "does not exist",
];

/// Folders that every sandbox shows.
const SHOWN: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/proc",
];

/// Whether a line says that something is not there.
pub(super) fn is_absence(line: &str) -> bool {
    let line = line.to_lowercase();
    line.contains('/') && ABSENT.iter().any(|words| line.contains(words))
}

/// The error of a start that failed, with the way out where the server has not found what is there.
pub(super) fn told(mut error: ToolError, launch: &Launch, root: &Path, end: &End) -> ToolError {
    if launch.sandbox.mode == Some(SandboxMode::None) {
        return error;
    }
    let Some(path) = hidden(launch, root, &end.absences()) else {
        return error;
    };
    // What lies beside a program is a part of it, as a rule.
    let folder = match path.parent() {
        Some(folder) if !path.is_dir() && folder.parent().is_some() => folder,
        _ => &path,
    };
    let server = visible(&end.server);
    let [path, folder] = [&path, folder].map(|path| visible(&path.display().to_string()));
    error.message.push_str(&format!(
        "; it does not find `{path}`, which is there: its sandbox shows it neither your home nor what lies elsewhere"
    ));
    let ways = [
        format!(
            "`bindMounts: [{folder}]` in mcp.servers.{server} shows it that folder, to be read"
        ),
        format!("`sandbox: none` in mcp.servers.{server} starts it with all that you may do"),
    ];
    let before = error.way_out.to_vec();
    error.with_way_out(before.into_iter().chain(ways))
}

/// What it is started with, has not found, and is there.
fn hidden(launch: &Launch, root: &Path, absences: &[String]) -> Option<PathBuf> {
    let values = launch.environment.iter().map(|(_, value)| value);
    let words = launch.words.iter().chain(values);
    // `--config=/x` names a file, too.
    let paths = words.map(|word| match word.split_once('=') {
        Some((_, path)) if word.starts_with('-') => path,
        _ => word.as_str(),
    });
    let is_shown = |path: &Path| {
        let mounts = &launch.sandbox.bind_mounts;
        path.starts_with(root)
            || SHOWN.iter().any(|shown| path.starts_with(shown))
            || mounts.iter().any(|mount| path.starts_with(&mount.from))
    };
    let blamed = |path: &str| absences.iter().any(|line| line.contains(path));
    let mut paths = paths.filter(|path| path.len() > 1 && blamed(path));
    paths.find_map(|path| {
        let path = Path::new(path);
        (path.is_absolute() && !is_shown(path) && path.exists()).then(|| path.to_owned())
    })
}
