//! Restart of the program with the same arguments, for processes of a cluster whose settings come from another folder now.

use mimir_core::ToolError;

use crate::exit::CommandFailure;

/// Replaces this process by a new run of the program. Returns only if that is not possible.
pub fn restart() -> CommandFailure {
    let text = match start_again() {
        Some(error) => format!("the program cannot start itself again ({error}): restart it"),
        None => "this platform cannot replace a running program: restart it".to_owned(),
    };
    ToolError::unavailable(text).into()
}

#[cfg(unix)]
fn start_again() -> Option<std::io::Error> {
    use std::os::unix::process::CommandExt as _;
    let mut args = std::env::args_os();
    let name = args.next();
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Some(error),
    };
    let mut command = std::process::Command::new(program);
    if let Some(name) = name {
        command.arg0(name);
    }
    Some(command.args(args).exec())
}

#[cfg(not(unix))]
fn start_again() -> Option<std::io::Error> {
    None
}
