//! What was there before code changed it: copies and records in `.mimir/state/backups`, as the file tools keep them, so
//! that `mimir undo` takes back what a call did. `plugins/files` says what a record is.
//!
//! Code does not say beforehand what it will change, so each file is kept when it is first opened to be written, removed
//! or moved, and the record is written when the call is over, however it ends. What is too large or too much to be kept is
//! not changed.
//!
//! Never here: whether something may be changed. That was judged before.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::node::Shared;
use super::refusal::{Cause, Fault};
use super::resolve::descend;
use super::sys::{self, Kind, Opened, Wanted};
use crate::backend::make_backups;

mod prune;

/// Most bytes that one call keeps, as of the file tools.
const BYTES_MAX: u64 = 100 << 20;

/// Most paths that one call keeps, as of the file tools.
const PATHS_MAX: usize = 10_000;

/// Bytes that are copied at once.
const PART: usize = 1 << 20;

/// Keeps what is changed in a mount. Clones share what they know.
#[derive(Debug, Clone, Default)]
pub struct Keeper(Arc<Mutex<Option<Making>>>);

/// A call in which everything is kept; when it is dropped the record is written.
#[derive(Debug)]
pub struct Keeping(Keeper);

/// Whose changes are kept, and where.
#[derive(Debug, Clone)]
pub struct Account {
    /// The root of the workspace.
    pub workspace: PathBuf,
    /// The folder of the backups in it. It need not be there yet.
    pub folder: PathBuf,
    /// The request id of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
}

/// A record in the making.
#[derive(Debug)]
struct Making {
    account: Account,
    time: String,
    changes: Vec<(Arc<Shared>, Change)>,
    known: HashSet<String>,
    copies: usize,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Record<'a> {
    id: &'a str,
    tool: &'a str,
    time: &'a str,
    changes: Vec<&'a Change>,
}

#[derive(Debug, Serialize)]
struct Change {
    path: String,
    before: State,
    after: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum State {
    Absent,
    Directory,
    File {
        sha256: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        backup: Option<String>,
    },
    Link {
        target: String,
    },
}

impl State {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { sha256: one, .. }, Self::File { sha256: other, .. }) => one == other,
            _ => self == other,
        }
    }
}

impl Keeper {
    /// Keeps what changes from now on, for this call.
    pub fn begin(&self, mut account: Account) -> Keeping {
        let wish = account.id.clone();
        let taken = |id: &str| {
            let name = account.folder.join(id);
            name.exists() || name.with_extension("json").exists()
        };
        let mut ids = (2..).map(|number| format!("{wish}-{number}"));
        if taken(&wish)
            && let Some(free) = ids.find(|id| !taken(id))
        {
            account.id = free;
        }
        *self.lock() = Some(Making {
            account,
            time: jiff::Timestamp::now().to_string(),
            changes: Vec::new(),
            known: HashSet::new(),
            copies: 0,
            bytes: 0,
        });
        Keeping(self.clone())
    }

    /// Keeps what is at a path of a mount, which is going to change.
    pub(super) fn before(&self, shared: &Arc<Shared>, path: &str) -> Result<(), Fault> {
        let mut making = self.lock();
        let Some(making) = &mut *making else {
            let why = "no call is under way that could be taken back";
            return Err(unkept(path, why));
        };
        if making.known.contains(path) {
            return Ok(());
        }
        let before = making.state(shared, path, true)?;
        if making.changes.len() >= PATHS_MAX {
            // What was not there costs nobody anything.
            return match before {
                State::Absent => Ok(()),
                _ => Err(unkept(
                    path,
                    &format!("{PATHS_MAX} files are kept of one call"),
                )),
            };
        }
        making.known.insert(path.to_owned());
        let change = Change {
            path: path.to_owned(),
            before,
            after: State::Absent,
        };
        making.changes.push((Arc::clone(shared), change));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Making>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if let Some(making) = self.0.lock().take() {
            making.finish();
        }
    }
}

impl Making {
    /// What is at a path; of a file that is kept, with its copy.
    fn state(&mut self, shared: &Shared, path: &str, keep: bool) -> Result<State, Fault> {
        let parts: Vec<&str> = path.split('/').skip(shared.depth).collect();
        let Some((name, above)) = parts.split_last() else {
            return Ok(State::Directory);
        };
        let found =
            descend(&shared.root, above).and_then(|dir| Ok((sys::stat_at(&dir, name)?.kind, dir)));
        let (kind, dir) = match found {
            Ok(found) => found,
            Err(_) => return Ok(State::Absent),
        };
        match kind {
            Kind::Directory => Ok(State::Directory),
            Kind::Link => match sys::read_link(&dir, name) {
                Ok(target) => Ok(State::Link { target }),
                Err(_) => Err(unkept(path, "what the link says is no text")),
            },
            Kind::File => {
                let wanted = Wanted {
                    read: true,
                    ..Wanted::default()
                };
                let Opened::File(mut file) = sys::open(&dir, name, wanted)? else {
                    return Err(unkept(path, "it is no regular file"));
                };
                match keep {
                    true => self.copy(&mut file, path),
                    false => hash(&mut file, &mut io::sink(), u64::MAX).map_err(Fault::from),
                }
            }
            _ => Err(unkept(path, "it is no regular file")),
        }
    }

    fn copy(&mut self, file: &mut fs::File, path: &str) -> Result<State, Fault> {
        let room = BYTES_MAX - self.bytes;
        let meta = file.metadata()?;
        if meta.len() > room {
            return Err(too_much(path));
        }
        let folder = self.copies_folder();
        let name = self.copies.to_string();
        let made = folder.and_then(|folder| {
            let copy = folder.join(&name);
            let mut to = fs::File::create_new(&copy)?;
            // Who may read the file may read its copy, and undo finds its permissions there.
            to.set_permissions(meta.permissions())?;
            let state = hash(file, &mut to, room);
            if state.is_err() {
                fs::remove_file(&copy).ok();
            }
            Ok((state, copy))
        });
        let (state, copy) = made.map_err(|error| {
            let why = format!("its copy in .mimir/state/backups cannot be made: {error}");
            unkept(path, &why)
        })?;
        let state = match state {
            Ok(state) => state,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(too_much(path));
            }
            Err(error) => {
                let why = format!("its copy in .mimir/state/backups cannot be made: {error}");
                return Err(unkept(path, &why));
            }
        };
        self.bytes += fs::metadata(&copy).map_or(0, |meta| meta.len());
        self.copies += 1;
        Ok(match state {
            State::File { sha256, .. } => State::File {
                sha256,
                backup: Some(format!("{}/{name}", self.account.id)),
            },
            other => other,
        })
    }

    fn copies_folder(&self) -> io::Result<PathBuf> {
        let folder = self.account.folder.join(&self.account.id);
        if self.copies == 0 {
            make_backups(&self.account.workspace, &self.account.folder)?;
            private(&folder)?;
        }
        Ok(folder)
    }

    /// Writes down what has changed, if anything.
    fn finish(mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.retain_mut(
            |(shared, change)| match self.state(shared, &change.path, false) {
                Ok(after) if after.is(&change.before) => false,
                Ok(after) => {
                    change.after = after;
                    true
                }
                // Whoever takes it back hears that it is not what it was.
                Err(_) => true,
            },
        );
        let copies = self.account.folder.join(&self.account.id);
        if changes.is_empty() {
            if self.copies > 0 {
                fs::remove_dir_all(copies).ok();
            }
            return;
        }
        let record = Record {
            id: &self.account.id,
            tool: &self.account.tool,
            time: &self.time,
            changes: changes.iter().map(|(_, change)| change).collect(),
        };
        if let Err(error) = self.write(&record) {
            tracing::warn!(%error, "what a call has changed cannot be taken back by `mimir undo`");
        }
        prune::prune(&self.account.folder, self.bytes);
    }

    fn write(&self, record: &Record<'_>) -> io::Result<()> {
        let folder = &self.account.folder;
        make_backups(&self.account.workspace, folder)?;
        let unfinished = folder.join(format!("{}.tmp", self.account.id));
        let finished = folder.join(format!("{}.json", self.account.id));
        let json = serde_json::to_vec(record)?;
        let written = fs::write(&unfinished, json).and_then(|()| fs::rename(&unfinished, finished));
        if written.is_err() {
            fs::remove_file(&unfinished).ok();
        }
        written
    }
}

/// The state of a file of this content, which goes into a copy; no more than so many bytes of it.
fn hash(file: &mut fs::File, to: &mut impl io::Write, most: u64) -> io::Result<State> {
    let mut hash = Sha256::new();
    let mut part = vec![0; PART];
    let mut total: u64 = 0;
    loop {
        let count = file.read(&mut part)?;
        if count == 0 {
            break;
        }
        total += count as u64;
        if total > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        hash.update(&part[..count]);
        to.write_all(&part[..count])?;
    }
    let digest = hash.finalize();
    Ok(State::File {
        sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        backup: None,
    })
}

fn private(folder: &Path) -> io::Result<()> {
    #[cfg_attr(
        not(unix),
        expect(unused_mut, reason = "only modes change it, which are not there")
    )]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn too_much(path: &str) -> Fault {
    let why = format!("{} MiB are kept of one call", BYTES_MAX >> 20);
    unkept(path, &why)
}

fn unkept(path: &str, why: &str) -> Fault {
    Fault::refused(path, Cause::Unkept(why.to_owned()))
}
