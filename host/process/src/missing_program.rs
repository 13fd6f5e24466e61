//! Commands that a shell could not find or run: they get the same code, message and nearest names as a program without
//! a shell.
//!
//! Out of scope: texts whose shell found all programs that they name.

use mimir_core::command::{
    CapturedOutput, CommandOutput, CommandProgram, ParsedCommand, ParsedProgram, ShellWord,
};

use crate::sandbox::{CommandSpec, Sandbox, SandboxError};

/// Exit codes of a shell if a program cannot be run, or does not exist.
const ENDS: [i32; 2] = [126, 127];

/// Messages of bash and of the shells named sh, after the name of the program.
const WORDS: [&str; 3] = [
    ": command not found",
    ": not found",
    ": No such file or directory",
];
const MAY_NOT: &str = ": Permission denied";

/// Adds to the result of a shell text that ended because of a program. If the text is only that one command, it is an
/// error; else a note at the end of the output, since the rest of it has run.
pub(crate) fn explain_missing_program(
    sandbox: &dyn Sandbox,
    (spec, script): (&CommandSpec, &ParsedProgram),
    mut finished: CommandOutput,
) -> Result<CommandOutput, SandboxError> {
    let CommandProgram::Script(_) = &spec.program else {
        return Ok(finished);
    };
    if !ENDS.contains(&finished.exit_code) {
        return Ok(finished);
    }
    let said = String::from_utf8_lossy(&finished.stderr.bytes).into_owned();
    let mut faults = script.commands.iter().filter_map(name).filter_map(|name| {
        let blamed = said.lines().find_map(|line| blamed(name, line))?;
        Some(fault(sandbox, spec, name, blamed))
    });
    let Some(fault) = faults.next() else {
        return Ok(finished);
    };
    let alone = script.commands.len() == 1 && script.unknown.is_empty();
    if alone && finished.stdout.bytes.is_empty() {
        return Err(fault);
    }
    for captured in [&mut finished.stderr, &mut finished.combined] {
        note(captured, &fault);
    }
    Ok(finished)
}

/// The program of a command, if it is known.
fn name(command: &ParsedCommand) -> Option<&str> {
    match command.words.first()? {
        ShellWord::Known(name) => Some(name),
        _ => None,
    }
}

/// The reason that a shell gives for a program that it did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellComplaint {
    Absent,
    MayNot,
}

/// Returns the reason that this line of a shell's output gives for the program.
fn blamed(name: &str, line: &str) -> Option<ShellComplaint> {
    let absent = WORDS.iter().map(|words| (words, ShellComplaint::Absent));
    let (before, blamed) = absent
        .chain([(&MAY_NOT, ShellComplaint::MayNot)])
        .find_map(|(words, blamed)| Some((line.strip_suffix(words)?, blamed)))?;
    // The shell's own name and a line number come first.
    let is_it = before.strip_suffix(name)?;
    (is_it.is_empty() || is_it.ends_with(' ')).then_some(blamed)
}

/// Returns the error of the sandbox for this program; a container knows no more than the shell in it.
fn fault(
    sandbox: &dyn Sandbox,
    spec: &CommandSpec,
    name: &str,
    blamed: ShellComplaint,
) -> SandboxError {
    match (sandbox.check_program(name, &spec.directory), blamed) {
        (Err(fault), _) => fault,
        (Ok(()), ShellComplaint::Absent) => SandboxError::not_found(name, []),
        (Ok(()), ShellComplaint::MayNot) => SandboxError::NotExecutable {
            program: name.to_owned(),
            why: "the system refuses to run it",
        },
    }
}

fn note(captured: &mut CapturedOutput, fault: &SandboxError) {
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
        for (line, name, wanted) in [
            (
                "bash: line 1: carg: command not found",
                "carg",
                Some(ShellComplaint::Absent),
            ),
            (
                "sh: 1: carg: not found",
                "carg",
                Some(ShellComplaint::Absent),
            ),
            ("sh: carg: not found", "carg", Some(ShellComplaint::Absent)),
            (
                "bash: line 1: ./x: Permission denied",
                "./x",
                Some(ShellComplaint::MayNot),
            ),
            (
                "bash: line 1: ./y: No such file or directory",
                "./y",
                Some(ShellComplaint::Absent),
            ),
            ("bash: line 1: xcarg: command not found", "carg", None),
            ("cat: carg: No such file or directory", "cat", None),
            ("carg: it failed", "carg", None),
        ] {
            assert_eq!(blamed(name, line), wanted, "{line}");
        }
    }
}
