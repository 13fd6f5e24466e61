//! What a shell could not find or run: the same code, sentence and nearest names that a program without a shell gets.
//!
//! Never here: anything about a text whose shell has found all that it names.

use mimir_core::command::{Captured, Finished, Program, Simple, Word};

use crate::sandbox::{Fault, Sandbox, Spec};
use crate::shell;

/// What shells end with if a program cannot be run, or is not there.
const ENDS: [i32; 2] = [126, 127];

/// How shells say it, behind the name: bash, and those that are named sh.
const WORDS: [&str; 3] = [
    ": command not found",
    ": not found",
    ": No such file or directory",
];
const MAY_NOT: &str = ": Permission denied";

/// Says more of a shell text that ended because of a program. If the text is nothing but that one command, it is an
/// error; else a note at the end of what was written, since the rest of it has run.
pub(crate) fn told(
    sandbox: &dyn Sandbox,
    spec: &Spec,
    mut finished: Finished,
) -> Result<Finished, Fault> {
    let Program::Script(_) = &spec.program else {
        return Ok(finished);
    };
    if !ENDS.contains(&finished.exit_code) {
        return Ok(finished);
    }
    let Ok(script) = shell::read(&spec.program) else {
        return Ok(finished);
    };
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
fn name(command: &Simple) -> Option<&str> {
    match command.words.first()? {
        Word::Known(name) => Some(name),
        _ => None,
    }
}

/// What a shell says of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blamed {
    Absent,
    MayNot,
}

/// What a line of a shell says of this program.
fn blamed(name: &str, line: &str) -> Option<Blamed> {
    let absent = WORDS.iter().map(|words| (words, Blamed::Absent));
    let (before, blamed) = absent
        .chain([(&MAY_NOT, Blamed::MayNot)])
        .find_map(|(words, blamed)| Some((line.strip_suffix(words)?, blamed)))?;
    // In front of it the shell says its own name and a line.
    let is_it = before.strip_suffix(name)?;
    (is_it.is_empty() || is_it.ends_with(' ')).then_some(blamed)
}

/// What the sandbox knows of it; a container knows no more than the shell in it.
fn fault(sandbox: &dyn Sandbox, spec: &Spec, name: &str, blamed: Blamed) -> Fault {
    match (sandbox.has(name, &spec.directory), blamed) {
        (Err(fault), _) => fault,
        (Ok(()), Blamed::Absent) => Fault::not_found(name, []),
        (Ok(()), Blamed::MayNot) => Fault::NotExecutable {
            program: name.to_owned(),
            why: "the system refuses to run it",
        },
    }
}

fn note(captured: &mut Captured, fault: &Fault) {
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
    fn shells_are_understood() {
        for (line, name, wanted) in [
            (
                "bash: line 1: carg: command not found",
                "carg",
                Some(Blamed::Absent),
            ),
            ("sh: 1: carg: not found", "carg", Some(Blamed::Absent)),
            ("sh: carg: not found", "carg", Some(Blamed::Absent)),
            (
                "bash: line 1: ./x: Permission denied",
                "./x",
                Some(Blamed::MayNot),
            ),
            (
                "bash: line 1: ./y: No such file or directory",
                "./y",
                Some(Blamed::Absent),
            ),
            ("bash: line 1: xcarg: command not found", "carg", None),
            ("cat: carg: No such file or directory", "cat", None),
            ("carg: it failed", "carg", None),
        ] {
            assert_eq!(blamed(name, line), wanted, "{line}");
        }
    }
}
