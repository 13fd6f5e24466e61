//! Atomic writes: content is written to a temporary file in the same folder, which is then renamed. If the disk is full
//! or the process ends midway, the old file is unchanged.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use mimir_sdk::Result;

use crate::workspace_path::WorkspacePath;

/// Maximum number of names to try. Concurrent calls use different names, so even a second try is rare.
const MAX_ATTEMPTS: u32 = 100;

/// Writes `content` to `location`, with the permissions of the replaced file if the system allows it.
pub fn write(location: &WorkspacePath, content: &[u8], replaced: Option<&Metadata>) -> Result<()> {
    StagedFile::write(location, content, replaced)?.replace_target()
}

/// New content of a file in a temporary file next to it. The temporary file is removed if it does not replace the file.
pub struct StagedFile {
    target: WorkspacePath,
    unfinished: Option<WorkspacePath>,
}

impl StagedFile {
    /// Writes the content to a temporary file, with the permissions of the replaced file if the system allows it.
    pub fn write(
        target: &WorkspacePath,
        content: &[u8],
        replaced: Option<&Metadata>,
    ) -> Result<Self> {
        let (unfinished, mut file) = create(target)?;
        let staged = Self {
            target: target.clone(),
            unfinished: Some(unfinished.clone()),
        };
        file.write_all(content)
            .and_then(|()| file.flush())
            .map_err(|error| target.io_error(&error))?;
        drop(file);
        if let Some(old) = replaced {
            // This has an effect in native builds only: WASI has no permissions.
            let _ = fs::set_permissions(unfinished.absolute(), old.permissions());
        }
        Ok(staged)
    }

    /// Renames the temporary file to the file.
    pub fn replace_target(mut self) -> Result<()> {
        if let Some(unfinished) = &self.unfinished {
            fs::rename(unfinished.absolute(), self.target.absolute())
                .map_err(|error| self.target.io_error(&error))?;
        }
        self.unfinished = None;
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            let _ = fs::remove_file(unfinished.absolute());
        }
    }
}

/// Creates a file with a unique name next to `location`. The file is hidden, unless a policy rule forbids hidden files.
fn create(location: &WorkspacePath) -> Result<(WorkspacePath, File)> {
    let hidden_refused = match create_named(location, ".") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        created => return created.map_err(|error| location.io_error(&error)),
    };
    // Open the target without changing it, to find out if access to it is denied as well. The host shows the last
    // denial to the person, so the last denial should be about the requested path.
    match File::options().write(true).open(location.absolute()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(location.io_error(&hidden_refused))
        }
        _ => create_named(location, "").map_err(|error| location.io_error(&error)),
    }
}

fn create_named(location: &WorkspacePath, prefix: &str) -> io::Result<(WorkspacePath, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Each call runs in a new instance, so a counter alone would always start at the same number.
    let start = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos());
    let mut tries = 0;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = location
            .parent()
            .join(&format!("{prefix}unfinished-{start:x}-{number}"));
        match File::create_new(unfinished.absolute()) {
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
        let location = WorkspacePath::new(&cx, "a/old.txt").unwrap();
        write(&location, b"new", None).unwrap();
        assert_eq!(workspace.text("a/old.txt"), "new");
        // Replacing a folder with a file fails, which tests the cleanup as well as a full disk would.
        assert!(write(&WorkspacePath::new(&cx, "a/folder").unwrap(), b"new", None).is_err());
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
            &WorkspacePath::new(&workspace.cx(), "run.sh").unwrap(),
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
