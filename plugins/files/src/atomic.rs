//! Atomic writes: content is written under another name in the same folder, then renamed. If the disk is full or the
//! process ends midway, the old file is unchanged.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use mimir_sdk::Result;

use crate::place::Place;

/// Number of names to try. Concurrent calls use different names, so even a second try is rare.
const MAX_ATTEMPTS: u32 = 100;

/// Writes `content` to `place`, with the permissions of the replaced file as far as the system lets a component set
/// them.
pub fn write(place: &Place, content: &[u8], replaced: Option<&Metadata>) -> Result<()> {
    let (unfinished, mut file) = create(place)?;
    let done = file
        .write_all(content)
        .and_then(|()| file.flush())
        .and_then(|()| {
            drop(file);
            if let Some(old) = replaced {
                // WASI has no permissions: only native builds do something here.
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

/// Creates a file with a unique name next to `place`: a hidden one, unless a policy rule forbids hidden files.
fn create(place: &Place) -> Result<(Place, File)> {
    let refused = match create_named(place, ".") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        created => return created.map_err(|error| place.failed(&error)),
    };
    // Open the target itself without changing it, to find out if that file is denied. The host shows the person its
    // last denial, which should be about the path that was requested.
    match File::options().write(true).open(place.path()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(place.failed(&refused))
        }
        _ => create_named(place, "").map_err(|error| place.failed(&error)),
    }
}

fn create_named(place: &Place, mark: &str) -> io::Result<(Place, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Each call is a new instance, so a plain counter would always start at the same number.
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
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_ATTEMPTS => {
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
    fn atomic_write_leaves_no_temporary_files() {
        let workspace = Workspace::with(&[("a/old.txt", "old"), ("a/folder/x", "")]);
        let cx = workspace.cx();
        let place = Place::new(&cx, "a/old.txt").unwrap();
        write(&place, b"new", None).unwrap();
        assert_eq!(workspace.text("a/old.txt"), "new");
        // Replacing a folder with a file fails, which tests the cleanup as well as a full disk would.
        assert!(write(&Place::new(&cx, "a/folder").unwrap(), b"new", None).is_err());
        assert_eq!(fs::read_dir(workspace.root().join("a")).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn atomic_write_preserves_permissions() {
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
