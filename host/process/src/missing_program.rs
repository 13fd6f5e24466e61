//! Explains why a shell could not run a program, with the code, message and similar names that a program without a
//! shell gets.
//!
//! Out of scope: scripts in which all programs were found.

use mimir_core::command::{
    CapturedOutput, CommandOutput, CommandProgram, ParsedCommand, ParsedProgram, ShellWord,
};

use crate::sandbox::{CommandSpec, Sandbox, SandboxError};

/// Exit codes of a shell for a program that cannot be run or does not exist.
const SHELL_EXIT_CODES: [i32; 2] = [126, 127];

/// Messages of bash and `sh`, after the name of the program.
const NOT_FOUND_MESSAGES: [&str; 3] = [
    ": command not found",
    ": not found",
    ": No such file or directory",
];
const PERMISSION_DENIED: &str = ": Permission denied";

/// Explains the failure of a script in which the shell could not run a program. Returns an error if the script is only
/// that one command. Otherwise appends a note to the output, since the rest of the script has run.
pub(crate) fn explain_missing_program(
    sandbox: &dyn Sandbox,
    (spec, script): (&CommandSpec, &ParsedProgram),
    mut finished: CommandOutput,
) -> Result<CommandOutput, SandboxError> {
    let CommandProgram::Script(_) = &spec.program else {
        return Ok(finished);
    };
    if !SHELL_EXIT_CODES.contains(&finished.exit_code) {
        return Ok(finished);
    }
    let stderr = String::from_utf8_lossy(&finished.stderr.bytes).into_owned();
    let mut errors = script
        .commands
        .iter()
        .filter_map(program_name)
        .filter_map(|name| {
            let complaint = stderr.lines().find_map(|line| find_complaint(name, line))?;
            Some(program_error(sandbox, spec, name, complaint))
        });
    let Some(error) = errors.next() else {
        return Ok(finished);
    };
    let is_single_command = script.commands.len() == 1 && script.unknown.is_empty();
    if is_single_command && finished.stdout.bytes.is_empty() {
        return Err(error);
    }
    for captured in [&mut finished.stderr, &mut finished.combined] {
        append_note(captured, &error);
    }
    Ok(finished)
}

/// Returns the program of a command, if it is known.
fn program_name(command: &ParsedCommand) -> Option<&str> {
    match command.words.first()? {
        ShellWord::Known(name) => Some(name),
        _ => None,
    }
}

/// Reason of a shell for not running a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellComplaint {
    NotFound,
    PermissionDenied,
}

/// Returns the shell's reason if this line of its output is about the program.
fn find_complaint(name: &str, line: &str) -> Option<ShellComplaint> {
    let not_found = NOT_FOUND_MESSAGES
        .iter()
        .map(|message| (message, ShellComplaint::NotFound));
    let (before, complaint) = not_found
        .chain([(&PERMISSION_DENIED, ShellComplaint::PermissionDenied)])
        .find_map(|(message, complaint)| Some((line.strip_suffix(message)?, complaint)))?;
    // The shell's name and a line number may precede the program.
    let prefix = before.strip_suffix(name)?;
    (prefix.is_empty() || prefix.ends_with(' ')).then_some(complaint)
}

/// Returns the sandbox's error for this program. If the sandbox cannot check programs, as in a container, the error
/// repeats the shell's reason.
fn program_error(
    sandbox: &dyn Sandbox,
    spec: &CommandSpec,
    name: &str,
    complaint: ShellComplaint,
) -> SandboxError {
    match (sandbox.check_program(name, &spec.directory), complaint) {
        (Err(fault), _) => fault,
        (Ok(()), ShellComplaint::NotFound) => SandboxError::not_found(name, []),
        (Ok(()), ShellComplaint::PermissionDenied) => SandboxError::NotExecutable {
            program: name.to_owned(),
            why: "the system refuses to run it",
        },
    }
}

fn append_note(captured: &mut CapturedOutput, fault: &SandboxError) {
    if !captured.bytes.is_empty() && !captured.bytes.ends_with(b"\n") {
        captured.bytes.push(b'\n');
    }
    captured
        .bytes
        .extend_from_slice(format!("[{fault}]\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_recognized_in_shell_messages() {
        for (line, name, expected) in [
            (
                "bash: line 1: carg: command not found",
                "carg",
                Some(ShellComplaint::NotFound),
            ),
            (
                "sh: 1: carg: not found",
                "carg",
                Some(ShellComplaint::NotFound),
            ),
            (
                "sh: carg: not found",
                "carg",
                Some(ShellComplaint::NotFound),
            ),
            (
                "bash: line 1: ./x: Permission denied",
                "./x",
                Some(ShellComplaint::PermissionDenied),
            ),
            (
                "bash: line 1: ./y: No such file or directory",
                "./y",
                Some(ShellComplaint::NotFound),
            ),
            ("bash: line 1: xcarg: command not found", "carg", None),
            ("cat: carg: No such file or directory", "cat", None),
            ("carg: it failed", "carg", None),
        ] {
            assert_eq!(find_complaint(name, line), expected, "{line}");
        }
    }
}
