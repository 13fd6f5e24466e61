//! Whether a file is what the kernel runs, looked at before it is started: the shell that starts it here would run a
//! text as if it were a script of its own, or say of a missing interpreter that the file is not there.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::plan::Step;
use super::super::root::Root;
use super::super::start::{NO_PROGRAM, NOT_IN_THERE};
use crate::sandbox::Fault;
use crate::sandbox::find::Resolved;

/// How often an interpreter may have one in its turn (the kernel's own number).
const DEPTH: usize = 5;

/// Bytes that say what a file is: more than the kernel reads of a script, and what linkers put the name of a loader in.
const HEAD: u64 = 4096;

/// Refuses what the kernel would not run.
pub(super) fn check(found: &Resolved, directory: &Path, root: &Root) -> Result<(), Fault> {
    let mut file = directory.join(&found.file);
    for _ in 0..DEPTH {
        match look(&file, root) {
            Image::Program => return Ok(()),
            Image::By(interpreter) => file = directory.join(interpreter),
            Image::Not(why) => {
                return Err(Fault::NotExecutable {
                    program: found.arguments.first().cloned().unwrap_or_default(),
                    why,
                });
            }
        }
    }
    Ok(())
}

enum Image {
    /// It is run as it is, or it cannot be told.
    Program,
    /// Another program runs it, or loads it.
    By(PathBuf),
    Not(&'static str),
}

fn look(file: &Path, root: &Root) -> Image {
    let Ok(real) = file.canonicalize() else {
        return Image::Not(NOT_IN_THERE);
    };
    if !is_in(root, file) && !is_in(root, &real) {
        return Image::Not(NOT_IN_THERE);
    }
    let runs = real
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
    if !runs {
        return Image::Not("the system refuses to run it");
    }
    let mut head = Vec::new();
    let read = File::open(&real).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    if read.is_err() {
        // A program may be one that can be run and not read.
        return Image::Program;
    }
    if let Some(rest) = head.strip_prefix(b"#!") {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        return match words.next() {
            Some(word) => Image::By(std::ffi::OsStr::from_bytes(word).into()),
            None => Image::Not(NO_PROGRAM),
        };
    }
    if !head.starts_with(b"\x7fELF") || !machine(&head).is_some_and(is_ours) {
        return Image::Not(NO_PROGRAM);
    }
    loader(&head).map_or(Image::Program, Image::By)
}

/// Which processor an ELF file is for.
fn machine(head: &[u8]) -> Option<u16> {
    number(head, 18, 2).and_then(|machine| machine.try_into().ok())
}

/// Whether this machine runs programs for that processor, going by this program and the older one that its own may run.
fn is_ours(other: u16) -> bool {
    use libc::{EM_386, EM_AARCH64, EM_ARM, EM_X86_64};
    let own = File::open("/proc/self/exe").ok().and_then(|file| {
        let mut head = Vec::new();
        file.take(HEAD).read_to_end(&mut head).ok()?;
        machine(&head)
    });
    own.is_none_or(|own| own == other)
        || matches!(
            (own, other),
            (Some(EM_X86_64), EM_386) | (Some(EM_AARCH64), EM_ARM)
        )
}

/// The loader that an ELF file names, if it names one where it can be seen.
fn loader(head: &[u8]) -> Option<PathBuf> {
    // Where the table of its parts is said to be, how large an entry is and how many there are; and in an entry, where
    // its part is and how long.
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

/// A number of so many bytes, as this machine writes them.
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

/// Whether a place is among those that the command sees.
pub(super) fn is_in(root: &Root, place: &Path) -> bool {
    let below = place.strip_prefix("/").unwrap_or(place);
    root.steps.iter().any(|step| match step {
        Step::Bind { at, .. } => below.starts_with(std::ffi::OsStr::from_bytes(at.to_bytes())),
        // Made for what is below it.
        Step::Directory { at, .. } => below.as_os_str().as_bytes() == at.to_bytes(),
        _ => false,
    })
}
