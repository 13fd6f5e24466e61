//! Content that appears whole or not at all: written under another name in the same folder, then
//! renamed. A full disk or an end in the middle leaves the old file as it was.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use mimir_sdk::{Error, Result};

use crate::place::Place;

/// So many names are tried; other calls use other names, so a second try is already rare.
const TRIES: u32 = 100;

/// Puts `content` where `place` is, with the permissions of the file that it replaces as far as
/// the system lets a component set them.
pub fn write(place: &Place, content: &[u8], replaced: Option<&Metadata>) -> Result<()> {
    let (unfinished, mut file) = create(place)?;
    let done = file
        .write_all(content)
        .and_then(|()| file.flush())
        .and_then(|()| {
            drop(file);
            if let Some(old) = replaced {
                // WASI has no permissions: where this is no native build it does nothing.
                let _ = fs::set_permissions(unfinished.path(), old.permissions());
            }
            fs::rename(unfinished.path(), place.path())
        })
        .map_err(|error| place.failed(&error));
    if done.is_err() {
        let _ = fs::remove_file(unfinished.path());
    }
    done
}

/// A file of a name that nobody else has, beside `place`.
fn create(place: &Place) -> Result<(Place, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Each call is an instance of its own and would count from the same number.
    let start = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos());
    for _ in 0..TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = place
            .parent()
            .join(&format!(".unfinished-{start:x}-{number}"));
        match File::create_new(unfinished.path()) {
            Ok(file) => return Ok((unfinished, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    // The host tells what it refused last: that should be the file that was asked for,
                    // not this one. It is opened and left as it is.
                    let _ = File::options().write(true).open(place.path());
                }
                return Err(place.failed(&error));
            }
        }
    }
    Err(Error::already_exists(format_args!(
        "{place}: no free name for a temporary file beside it"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Workspace;

    #[test]
    fn nothing_unfinished_stays() {
        let workspace = Workspace::with(&[("a/old.txt", "old"), ("a/folder/x", "")]);
        let cx = workspace.cx();
        let place = Place::new(&cx, "a/old.txt").unwrap();
        write(&place, b"new", None).unwrap();
        assert_eq!(workspace.text("a/old.txt"), "new");
        // A folder can't be replaced by a file, which is as good a failure as a full disk.
        assert!(write(&Place::new(&cx, "a/folder").unwrap(), b"new", None).is_err());
        assert_eq!(fs::read_dir(workspace.root().join("a")).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_kept() {
        use std::os::unix::fs::PermissionsExt;
        let workspace = Workspace::with(&[("run.sh", "old")]);
        let path = workspace.root().join("run.sh");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let old = fs::metadata(&path).unwrap();
        write(
            &Place::new(&workspace.cx(), "run.sh").unwrap(),
            b"new",
            Some(&old),
        )
        .unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o755
        );
    }
}
