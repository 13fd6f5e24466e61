//! Check that the kernel can run a file, before it is started. The shell that starts it would otherwise run a text file
//! as a script, or report a missing interpreter as a missing file.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::child_plan::RootStep;
use super::super::root_plan::RootPlan;
use super::super::start::{NO_PROGRAM, NOT_IN_THERE};
use crate::sandbox::SandboxError;
use crate::sandbox::program_lookup::ResolvedProgram;

/// Maximum number of nested interpreters (the kernel's own limit).
const MAX_INTERPRETERS: usize = 5;

/// Number of bytes read to identify a file: more than the kernel reads of a script, and enough to contain the loader
/// name where linkers put it.
const HEAD_BYTES: u64 = 4096;

/// Fails for files that the kernel would not run.
pub(super) fn check_runnable(
    program: &ResolvedProgram,
    directory: &Path,
    root: &RootPlan,
) -> Result<(), SandboxError> {
    let mut file = directory.join(&program.file);
    for _ in 0..MAX_INTERPRETERS {
        match inspect_program(&file, root) {
            ProgramImage::Program => return Ok(()),
            ProgramImage::InterpretedBy(interpreter) => file = directory.join(interpreter),
            ProgramImage::NotRunnable(why) => {
                return Err(SandboxError::NotExecutable {
                    program: program.arguments.first().cloned().unwrap_or_default(),
                    why,
                });
            }
        }
    }
    Ok(())
}

enum ProgramImage {
    /// Can be run directly, or is of an unknown kind.
    Program,
    /// Is run or loaded by another program.
    InterpretedBy(PathBuf),
    NotRunnable(&'static str),
}

fn inspect_program(file: &Path, root: &RootPlan) -> ProgramImage {
    let Ok(real) = file.canonicalize() else {
        return ProgramImage::NotRunnable(NOT_IN_THERE);
    };
    if !is_visible_in(root, file) && !is_visible_in(root, &real) {
        return ProgramImage::NotRunnable(NOT_IN_THERE);
    }
    let runs = real
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
    if !runs {
        return ProgramImage::NotRunnable("the system refuses to run it");
    }
    let mut head = Vec::new();
    let read = File::open(&real).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    if read.is_err() {
        // A program may be executable but not readable.
        return ProgramImage::Program;
    }
    if let Some(rest) = head.strip_prefix(b"#!") {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        return match words.next() {
            Some(word) => ProgramImage::InterpretedBy(std::ffi::OsStr::from_bytes(word).into()),
            None => ProgramImage::NotRunnable(NO_PROGRAM),
        };
    }
    if !head.starts_with(b"\x7fELF") || !machine(&head).is_some_and(runs_on_this_machine) {
        return ProgramImage::NotRunnable(NO_PROGRAM);
    }
    loader(&head).map_or(ProgramImage::Program, ProgramImage::InterpretedBy)
}

/// Returns the processor type of an ELF file.
fn machine(head: &[u8]) -> Option<u16> {
    number(head, 18, 2).and_then(|machine| machine.try_into().ok())
}

/// Returns true if this machine runs programs for a processor type: that of this program, or its 32-bit variant.
fn runs_on_this_machine(other: u16) -> bool {
    use libc::{EM_386, EM_AARCH64, EM_ARM, EM_X86_64};
    let own = File::open("/proc/self/exe").ok().and_then(|file| {
        let mut head = Vec::new();
        file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
        machine(&head)
    });
    own.is_none_or(|own| own == other)
        || matches!(
            (own, other),
            (Some(EM_X86_64), EM_386) | (Some(EM_AARCH64), EM_ARM)
        )
}

/// Returns the loader named in an ELF file, if the name is within the bytes read.
fn loader(head: &[u8]) -> Option<PathBuf> {
    // Offsets in the ELF header: the position of the program header table, the size of an entry and the number of
    // entries; then, in an entry, the offset and the size of the segment.
    let (table, at, width) = match head.get(4)? {
        2 => ((32, 54, 56), (8, 32), 8),
        _ => ((28, 42, 44), (4, 16), 4),
    };
    let begin = number(head, table.0, width)?;
    let (size, count) = (number(head, table.1, 2)?, number(head, table.2, 2)?);
    (0..count).find_map(|entry| {
        let entry = head.get(begin.checked_add(entry.checked_mul(size)?)?..)?;
        if number(entry, 0, 4)? != libc::PT_INTERP as usize {
            return None;
        }
        let from = number(entry, at.0, width)?;
        let name = head.get(from..from.checked_add(number(entry, at.1, width)?)?)?;
        let name = name.strip_suffix(b"\0").unwrap_or(name);
        Some(std::ffi::OsStr::from_bytes(name).into())
    })
}

/// Reads a number of `width` bytes in native byte order.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    let mut whole = [0; 8];
    let end = if cfg!(target_endian = "little") {
        0
    } else {
        8 - width
    };
    whole.get_mut(end..end + width)?.copy_from_slice(bytes);
    usize::try_from(u64::from_ne_bytes(whole)).ok()
}

/// Returns true if the command can see this path.
pub(super) fn is_visible_in(root: &RootPlan, path: &Path) -> bool {
    let below = path.strip_prefix("/").unwrap_or(path);
    root.steps.iter().any(|step| match step {
        RootStep::Bind { at, .. } => below.starts_with(std::ffi::OsStr::from_bytes(at.to_bytes())),
        // Created only for the mounts below it.
        RootStep::Directory { at, .. } => below.as_os_str().as_bytes() == at.to_bytes(),
        _ => false,
    })
}
