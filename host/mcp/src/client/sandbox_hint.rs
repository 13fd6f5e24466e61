//! Hints for a server whose sandbox hides a file that the server needs.
//!
//! Out of scope: the sandbox's rules. The hint is derived from the server's output and from the files on this machine.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::config::SandboxMode;
use mimir_core::launch::LaunchSpec;
use mimir_core::text::visible;

use super::close_reason::CloseReason;

/// Phrases with which programs report something as not found.
const NOT_FOUND_PHRASES: [&str; 7] = [
    "cannot find",
    "can't find",
    "can't open",
    "cannot open",
    "no such file",
    "enoent",
    "does not exist",
];

/// Folders that every sandbox shows.
const VISIBLE_FOLDERS: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/proc",
];

/// Returns true if a line reports something as not found.
pub(super) fn is_not_found_line(line: &str) -> bool {
    let line = line.to_lowercase();
    line.contains('/') && NOT_FOUND_PHRASES.iter().any(|phrase| line.contains(phrase))
}

/// Adds a hint to the error of a failed start if the server did not find a file that exists.
pub(super) fn add_sandbox_hint(
    mut error: ToolError,
    launch: &LaunchSpec,
    root: &Path,
    close_reason: &CloseReason,
) -> ToolError {
    if launch.sandbox.mode == Some(SandboxMode::None) {
        return error;
    }
    let Some(path) = find_hidden_path(launch, root, &close_reason.not_found_lines()) else {
        return error;
    };
    // The files next to a program usually belong to it.
    let folder = match path.parent() {
        Some(folder) if !path.is_dir() && folder.parent().is_some() => folder,
        _ => &path,
    };
    let server = visible(&close_reason.server);
    let [path, folder] = [&path, folder].map(|path| visible(&path.display().to_string()));
    error.message.push_str(&format!(
        "; it did not find `{path}`, which exists: the sandbox hides your home and other folders"
    ));
    let remedies = [
        format!("set `bindMounts: [{folder}]` in mcp.servers.{server} to let it read that folder"),
        format!(
            "set `sandbox: none` in mcp.servers.{server} to run it with all of your permissions"
        ),
    ];
    let earlier = error.remedies.to_vec();
    error.with_remedies(earlier.into_iter().chain(remedies))
}

/// Adds a hint to the error of a failed start if the program itself is in a folder that the sandbox hides.
pub(super) fn add_program_hint(
    mut error: ToolError,
    launch: &LaunchSpec,
    root: &Path,
) -> ToolError {
    let program = launch.args.first().map(Path::new);
    let hidden = program.filter(|program| {
        launch.package.is_none()
            && launch.sandbox.mode != Some(SandboxMode::None)
            && program.is_absolute()
            && !is_shown(program, launch, root)
            && program.exists()
    });
    let Some(program) = hidden else {
        return error;
    };
    // The program of a virtual environment needs the folder above `bin`, too.
    let folder = match program.parent() {
        Some(folder) if folder.ends_with("bin") => folder.parent().unwrap_or(folder),
        Some(folder) => folder,
        None => program,
    };
    let [program, folder] = [program, folder].map(|path| visible(&path.display().to_string()));
    error.message.push_str(&format!(
        "; `{program}` exists, but the sandbox hides your home and other folders"
    ));
    let server = visible(&launch.name);
    let remedies = [
        "use a program in the workspace, such as one in a virtual environment there".to_owned(),
        format!(
            "add the server with `--no-start`, then `mimir config set mcp.servers.{server}.bindMounts '[{folder}]'` lets it read that folder"
        ),
    ];
    let earlier = error.remedies.to_vec();
    error.with_remedies(remedies.into_iter().chain(earlier))
}

/// Returns true if the sandbox of a server shows this path.
fn is_shown(path: &Path, launch: &LaunchSpec, root: &Path) -> bool {
    let mounts = &launch.sandbox.bind_mounts;
    path.starts_with(root)
        || VISIBLE_FOLDERS.iter().any(|shown| path.starts_with(shown))
        || mounts.iter().any(|mount| path.starts_with(&mount.from))
}

/// Returns the path in the command line that the server did not find although it exists.
fn find_hidden_path(
    launch: &LaunchSpec,
    root: &Path,
    not_found_lines: &[String],
) -> Option<PathBuf> {
    let values = launch.environment.iter().map(|(_, value)| value);
    let arguments = launch.args.iter().chain(values);
    // An option such as `--config=/x` names a file, too.
    let paths = arguments.map(|word| match word.split_once('=') {
        Some((_, path)) if word.starts_with('-') => path,
        _ => word.as_str(),
    });
    let is_reported = |path: &str| not_found_lines.iter().any(|line| line.contains(path));
    let mut paths = paths.filter(|path| path.len() > 1 && is_reported(path));
    paths.find_map(|path| {
        let path = Path::new(path);
        (path.is_absolute() && !is_shown(path, launch, root) && path.exists())
            .then(|| path.to_owned())
    })
}
