//! Content that appears whole or not at all: written under another name in the same folder, then
//! renamed. A full disk or an end in the middle leaves the old file as it was.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use mimir_sdk::Result;

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

/// A file of a name that nobody else has, beside `place`: a hidden one, unless a rule is against those.
fn create(place: &Place) -> Result<(Place, File)> {
    let refused = match create_named(place, ".") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        created => return created.map_err(|error| place.failed(&error)),
    };
    // It is opened and left as it is, to hear whether it is the file itself that is refused. The host tells the
    // person what it refused last, and that should be what was asked for.
    match File::options().write(true).open(place.path()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(place.failed(&refused))
        }
        _ => create_named(place, "").map_err(|error| place.failed(&error)),
    }
}

fn create_named(place: &Place, mark: &str) -> io::Result<(Place, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Each call is an instance of its own and would count from the same number.
    let start = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos());
    let mut tries = 0;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = place
            .parent()
            .join(&format!("{mark}unfinished-{start:x}-{number}"));
        match File::create_new(unfinished.path()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {
                tries += 1;
            }
            created => return created.map(|file| (unfinished, file)),
        }
    }
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
