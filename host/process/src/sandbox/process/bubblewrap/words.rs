//! A root as words for `bwrap`, with the descriptors that they name.
//!
//! What is mounted is handed over open, found by a path without a link, so that nobody puts something else in its
//! place in between.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use seccompiler::sock_filter;

use super::super::Gives;
use super::super::plan::{Attributes, Step};
use super::super::root::Root;
use crate::sandbox::seen::open_by_no_link;
use crate::sandbox::shield::Cover;

/// The words, and what they name by number.
#[derive(Default)]
pub(super) struct Words {
    pub(super) words: Vec<OsString>,
    pub(super) handed: Vec<OwnedFd>,
}

/// Bytes of shared memory: as many as a temporary folder has.
const SHARED: &CStr = c"2g";

/// What bubblewrap is handed open.
pub(super) struct Handed {
    /// All words but the command.
    pub(super) words: OwnedFd,
    /// What they name by number.
    named: Vec<OwnedFd>,
}

impl Handed {
    pub(super) fn all(self) -> Vec<OwnedFd> {
        let mut all = self.named;
        all.push(self.words);
        all
    }
}

/// How many descriptors these steps take.
pub(super) fn handed(steps: &[Step]) -> usize {
    let takes = |step: &&Step| {
        matches!(
            step,
            Step::Bind { .. } | Step::File { .. } | Step::Cover { .. }
        )
    };
    steps.iter().filter(takes).count()
}

impl Words {
    pub(super) fn word(&mut self, word: impl AsRef<OsStr>) {
        self.words.push(word.as_ref().to_owned());
    }

    pub(super) fn option(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.word(name);
        self.word(value);
    }

    /// An option whose value is a descriptor.
    pub(super) fn handing(&mut self, name: &str, descriptor: OwnedFd) {
        self.option(name, descriptor.as_raw_fd().to_string());
        self.handed.push(descriptor);
    }

    fn mode(&mut self, mode: u32) {
        self.option("--perms", format!("{mode:04o}"));
    }

    /// The words, in a file that nobody else can read.
    pub(super) fn kept(self) -> io::Result<Handed> {
        let mut bytes = Vec::new();
        for word in &self.words {
            bytes.extend(word.as_bytes());
            bytes.push(0);
        }
        Ok(Handed {
            words: file(&bytes)?,
            named: self.handed,
        })
    }

    /// The new root, made in the order of its steps and sealed.
    pub(super) fn root(&mut self, root: &Root, gives: Gives) -> io::Result<()> {
        // It makes a better one than a list of mounts: with the usual links, and a terminal of its own.
        self.option("--dev", "/dev");
        // It is memory that has no bound by itself.
        self.option("--perms", "1777");
        self.option("--size", bytes(SHARED));
        self.option("--tmpfs", "/dev/shm");
        for step in &root.steps {
            match step {
                Step::Cover { at, with, stand_in } => {
                    let outside = outside(&root.steps, at)?;
                    self.cover(at, &outside, *with, stand_in.as_deref())?;
                }
                step => self.step(step)?,
            }
        }
        self.option("--remount-ro", "/dev");
        if gives.proc {
            self.option("--proc", "/proc");
            // To root's number some of its files are writable, whatever name it has in here.
            self.option("--remount-ro", "/proc");
        }
        self.option("--remount-ro", "/");
        Ok(())
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Directory { at, .. } | Step::Link { at, .. } | Step::Fresh { at, .. }
                if is_device(at) || at.as_bytes() == b"proc" => {}
            Step::Bind { at, .. } if is_device(at) => {}
            Step::Directory { at, mode } => {
                self.mode(*mode);
                self.option("--dir", place(at));
            }
            // It makes what something is mounted on.
            Step::File { content, .. } if content.is_empty() => {}
            Step::File { at, content, mode } => {
                let content = file(content)?;
                self.mode(*mode);
                self.handing("--ro-bind-data", content);
                self.word(place(at));
            }
            Step::Link { at, to } => {
                self.option("--symlink", OsStr::from_bytes(to.as_bytes()));
                self.word(place(at));
            }
            Step::Bind {
                from,
                at,
                attributes,
            } => {
                let from = open(from)?;
                self.bind(from, at, attributes.0 & Attributes::READ_ONLY.0 != 0);
            }
            Step::Fresh { at, options, .. } => {
                for (name, value) in options {
                    match name.to_bytes() {
                        b"mode" => self.option("--perms", OsStr::from_bytes(value.to_bytes())),
                        b"size" => self.option("--size", bytes(value)),
                        _ => {}
                    }
                }
                self.option("--tmpfs", place(at));
            }
            // Attached mounts are of the other way to make a sandbox.
            Step::Attach { .. } | Step::Cover { .. } => {}
        }
        Ok(())
    }

    fn bind(&mut self, from: OwnedFd, at: &CStr, read_only: bool) {
        self.handing(
            if read_only {
                "--ro-bind-fd"
            } else {
                "--bind-fd"
            },
            from,
        );
        self.word(place(at));
    }

    /// Covers a place in the sandbox with what it is `outside`, or with its stand-in.
    fn cover(
        &mut self,
        at: &CStr,
        outside: &CStr,
        with: Cover,
        stand_in: Option<&CStr>,
    ) -> io::Result<()> {
        let there = place(at);
        let from = match open(outside) {
            // It has gone since it was found.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            from => from?,
        };
        match (with, stand_in) {
            (Cover::ReadOnly, _) => self.bind(from, at, true),
            (Cover::Pin, _) => self.bind(from, at, false),
            (Cover::Nothing { .. }, Some(path)) => self.bind(open(path)?, at, true),
            (Cover::Nothing { folder: true }, None) => {
                self.mode(0o555);
                self.option("--tmpfs", &there);
                self.option("--remount-ro", &there);
            }
            (Cover::Nothing { folder: false }, None) => {
                let nothing = file(&[])?;
                self.mode(0);
                self.handing("--ro-bind-data", nothing);
                self.word(there);
            }
        }
        Ok(())
    }
}

/// Where on this machine a place in the sandbox is: in the last of what was mounted there, or above.
fn outside(steps: &[Step], place: &CStr) -> io::Result<CString> {
    let place = Path::new(OsStr::from_bytes(place.to_bytes()));
    let mounts = steps.iter().rev().filter_map(|step| match step {
        Step::Bind { from, at, .. } => {
            let at = Path::new(OsStr::from_bytes(at.to_bytes()));
            let below = place.strip_prefix(at).ok()?;
            let from = Path::new(OsStr::from_bytes(from.to_bytes()));
            Some((at.components().count(), from.join(below)))
        }
        _ => None,
    });
    // Of two at one place the last one counts, which comes first here.
    let deepest = mounts.reduce(|one, other| if other.0 > one.0 { other } else { one });
    let outside = deepest.ok_or(io::ErrorKind::NotFound)?.1;
    Ok(CString::new(outside.into_os_string().into_vec())?)
}

fn is_device(at: &CStr) -> bool {
    at.to_bytes() == b"dev" || at.to_bytes().starts_with(b"dev/")
}

/// A place in the sandbox; steps name it below the root.
fn place(at: &CStr) -> OsString {
    let mut place = vec![b'/'];
    place.extend(at.to_bytes());
    OsString::from_vec(place)
}

/// A size as the kernel takes it, in bytes.
fn bytes(size: &CStr) -> String {
    let size = size.to_string_lossy();
    match size.strip_suffix('g').map(str::parse::<u64>) {
        Some(Ok(gigabytes)) => (gigabytes << 30).to_string(),
        _ => size.into_owned(),
    }
}

/// Something of this machine, by a path that has no link in it.
fn open(path: &CStr) -> io::Result<OwnedFd> {
    match open_by_no_link(path) {
        Err(Errno::LOOP) => Err(io::Error::other("there is a link in its path")),
        opened => Ok(opened?),
    }
}

/// A file in memory, to be read from its beginning.
pub(super) fn file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"mimir", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

/// An instruction of a filter, as the kernel has it in memory.
pub(super) fn instruction(one: &sock_filter) -> [u8; 8] {
    let [a, b] = one.code.to_ne_bytes();
    let [e, f, g, h] = one.k.to_ne_bytes();
    [a, b, one.jt, one.jf, e, f, g, h]
}
