//! Safe access to mimir's own files.
//!
//! A checkout may contain a link, a pipe or a device at the path of such a file. A link could lead anywhere, and
//! reading a pipe could block forever. So everything below `.mimir` is accessed through this module, or relative to an
//! open folder of the workspace.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read as _, Write as _};
use std::path::Path;

use crate::platform::{self, PlatformFileId};

/// The state folder of a workspace: audit log, backups, values stored by plugins.
const STATE: &str = ".mimir/state";

/// The treatment of a link at the path of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPolicy {
    /// A link is an error.
    Refuse,
    /// A link is followed, for files that people store or build elsewhere.
    Follow,
}

/// Opens a regular file for reading.
pub fn open(path: &Path, links: LinkPolicy) -> io::Result<File> {
    open_with(path, links, OpenOptions::new().read(true))
}

/// Opens a regular file, or creates it if `options` say so. Never opens anything else, such as a pipe. A policy that
/// refuses links replaces the custom flags of `options`.
pub fn open_with(path: &Path, links: LinkPolicy, options: &mut OpenOptions) -> io::Result<File> {
    if links == LinkPolicy::Refuse {
        // Something else may take the place of the file between the check and the opening.
        platform::refuse_links_and_waiting(options);
    }
    let checked = match checked_id(path, links) {
        Ok(id) => id,
        // Another process may put something at the path before the file is created.
        Err(error) if error.kind() == ErrorKind::NotFound => return create(path, options),
        Err(error) => return Err(error),
    };
    let file = options.open(path)?;
    // The file may have been replaced since the check.
    if checked == PlatformFileId::of_file(&file)? {
        Ok(file)
    } else {
        Err(replaced_error(path))
    }
}

/// Opens a file, or creates it so that only its owner can access it. Refuses links.
pub fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    /// Maximum number of attempts: another process may rename the file as soon as it exists.
    const ATTEMPTS: usize = 10;
    let mut result = Err(ErrorKind::NotFound.into());
    for _ in 0..ATTEMPTS {
        match platform::create_private_file(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => result = open_with(path, LinkPolicy::Refuse, options),
        }
        if !matches!(&result, Err(error) if error.kind() == ErrorKind::NotFound) {
            break;
        }
    }
    result
}

/// Reads a regular file. Fails if it is longer than `max` bytes.
pub fn read(path: &Path, links: LinkPolicy, max: u64) -> io::Result<Vec<u8>> {
    read_open(&open(path, links)?, max)
}

/// Reads an open file from its current position. Fails if more than `max` bytes follow.
pub fn read_open(file: &File, max: u64) -> io::Result<Vec<u8>> {
    // Allocated at once: a buffer that grows by doubling would take up to three times the size of a large file.
    let length = file.metadata()?.len().min(max) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        let max = crate::text::bytes(max);
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            format!("it is longer than {max}"),
        ));
    }
    Ok(bytes)
}

/// Reads a UTF-8 text file. Fails if it is longer than `max` bytes.
pub fn read_text(path: &Path, links: LinkPolicy, max: u64) -> io::Result<String> {
    text(read(path, links, max)?)
}

/// Converts UTF-8 bytes to text.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not valid UTF-8"))
}

/// Fails if `path`, or a folder between `root` and `path`, is a link. `root` itself may be a link.
pub fn reject_links(root: &Path, path: &Path) -> io::Result<()> {
    let below_root = path.ancestors().take_while(|folder| *folder != root);
    match below_root.filter(|path| path.is_symlink()).last() {
        Some(link) => Err(path_error(link, "is a link; remove it")),
        None => Ok(()),
    }
}

/// Reads a regular file below `root`, in a folder to which another program can write: no link is followed, whatever that
/// program does meanwhile. `path` is relative. Fails if the file is longer than `max` bytes.
pub fn read_below(root: &Path, path: &[&str], max: u64) -> io::Result<Vec<u8>> {
    let (name, folders) = parts_below(path)?;
    let file = platform::open_below(root, folders, name)?;
    if !file.metadata()?.is_file() {
        return Err(path_error(Path::new(name), "is not a regular file"));
    }
    read_open(&file, max)
}

/// Writes a file below `root` with the folders on the way, in a folder to which another program can write. An existing
/// file is replaced; no link is followed.
pub fn write_below(root: &Path, path: &[&str], bytes: &[u8]) -> io::Result<()> {
    let (name, folders) = parts_below(path)?;
    platform::create_below(root, folders, name)?.write_all(bytes)
}

/// Splits a relative path into its name and its folders. Fails if a part is not a plain name.
fn parts_below<'a>(path: &'a [&'a str]) -> io::Result<(&'a str, &'a [&'a str])> {
    let is_plain =
        |part: &&str| !matches!(*part, "" | "." | "..") && !part.contains(['/', '\\', '\0']);
    match path.split_last() {
        Some((name, folders)) if path.iter().all(is_plain) => Ok((name, folders)),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            "the path has a part that is not a plain name",
        )),
    }
}

/// Creates the state folder of a workspace and excludes it from git.
pub fn make_state(workspace: &Path) -> io::Result<()> {
    let folder = workspace.join(STATE);
    reject_links(workspace, &folder)?;
    std::fs::create_dir_all(&folder)?;
    if let Some(parent) = folder.parent() {
        // On failure, git merely lists one more path.
        let _ = write_new(&parent.join(".gitignore"), OWN_IGNORE);
    }
    ignore(&folder)
}

/// The `.gitignore` next to the state folder, for workspaces without a mimir setup. Without it, git would warn in each
/// command that it cannot read the state folder. The file ignores itself, because it is not part of the project.
pub const OWN_IGNORE: &str = "/state/\n/.gitignore\n";

/// Excludes a folder from git.
pub fn ignore(folder: &Path) -> io::Result<()> {
    write_new(&folder.join(".gitignore"), "*\n").map(drop)
}

/// Creates a file with this text. Returns false if it exists already.
pub fn write_new(path: &Path, text: &str) -> io::Result<bool> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Identifies a regular file. Fails for anything else, and for links that the policy refuses.
fn checked_id(path: &Path, links: LinkPolicy) -> io::Result<PlatformFileId> {
    let meta = match links {
        LinkPolicy::Refuse => std::fs::symlink_metadata(path)?,
        LinkPolicy::Follow => std::fs::metadata(path)?,
    };
    if meta.is_symlink() {
        return Err(path_error(path, "is a link; remove it"));
    }
    if !meta.is_file() {
        return Err(path_error(path, "is not a regular file; remove it"));
    }
    match links {
        LinkPolicy::Refuse => PlatformFileId::at_path_without_link(path),
        LinkPolicy::Follow => PlatformFileId::at_path(path),
    }
}

/// Creates a file with `options`. Checks the opened file again, because another process may have created it meanwhile.
fn create(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.open(path)?;
    if checked_id(path, LinkPolicy::Refuse)? == PlatformFileId::of_file(&file)? {
        Ok(file)
    } else {
        Err(replaced_error(path))
    }
}

/// Creates the [`ErrorKind::Interrupted`] error for a file that another process has replaced meanwhile.
fn replaced_error(path: &Path) -> Error {
    let why = path_error(path, "was replaced just now; try again").to_string();
    Error::new(ErrorKind::Interrupted, why)
}

/// Creates an error about a path.
fn path_error(path: &Path, why: &str) -> Error {
    let path = crate::text::visible(&path.display().to_string());
    Error::new(ErrorKind::InvalidInput, format!("{path} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_read_stops_at_the_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path, LinkPolicy::Refuse, 4).unwrap(), "text");
        let long = read(&path, LinkPolicy::Refuse, 3).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::FileTooLarge);
        let missing = open(&folder.path().join("none"), LinkPolicy::Refuse).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(read(folder.path(), LinkPolicy::Follow, 4).is_err());
    }

    #[test]
    fn file_read_allocates_no_more_than_the_file_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let bytes = read(&path, LinkPolicy::Refuse, 1 << 20).unwrap();
        assert_eq!(bytes.len(), 100_000);
        assert!(bytes.capacity() <= 100_001, "{}", bytes.capacity());
    }

    #[test]
    #[cfg(unix)]
    fn file_open_refuses_or_follows_links_by_policy() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        std::os::unix::fs::symlink(at("made"), at("dangling")).unwrap();
        assert!(open(&at("link"), LinkPolicy::Follow).is_ok());
        let mut create = OpenOptions::new();
        create.write(true).create(true);
        for bad in ["link", "device", "dangling"] {
            let refused = open_with(&at(bad), LinkPolicy::Refuse, &mut create).unwrap_err();
            assert!(refused.to_string().ends_with("is a link; remove it"));
        }
        let device = read(&at("device"), LinkPolicy::Follow, 4).unwrap_err();
        assert!(
            device.to_string().contains("not a regular file"),
            "{device}"
        );
        assert!(!at("made").exists(), "a file was created through a link");
        assert!(open_with(&at("new"), LinkPolicy::Refuse, &mut create).is_ok());
    }

    #[test]
    #[cfg(unix)]
    fn file_access_below_a_folder_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let outside = folder.path().join("outside");
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("file"), "secret").unwrap();
        let link = |target: &Path, at: &str| {
            std::os::unix::fs::symlink(target, root.join(at)).unwrap();
        };
        link(&outside, "out");
        link(&outside.join("file"), "in/link");
        for path in [
            &["out", "file"][..],
            &["in", "link"],
            &["in", ".."],
            &["in"],
        ] {
            assert!(read_below(&root, path, 100).is_err(), "{path:?}");
        }
        write_below(&root, &["in", "new", "a"], b"text").unwrap();
        write_below(&root, &["in", "new", "a"], b"te").unwrap();
        assert_eq!(read_below(&root, &["in", "new", "a"], 2).unwrap(), b"te");
        assert!(read_below(&root, &["in", "new", "a"], 1).is_err());
        assert!(write_below(&root, &["out", "new"], b"").is_err());
        // A link at the end is replaced.
        write_below(&root, &["in", "link"], b"own").unwrap();
        assert_eq!(read_below(&root, &["in", "link"], 100).unwrap(), b"own");
        assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"secret");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn reject_links_names_the_outermost_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        assert!(reject_links(&root, &root.join("real/inner/none")).is_ok());
        let refused = reject_links(&root, &root.join("link/inner")).unwrap_err();
        assert!(refused.to_string().contains("/root/link is a link"));
        let linked = folder.path().join("root-link");
        std::os::unix::fs::symlink(&root, &linked).unwrap();
        assert!(reject_links(&linked, &linked.join("real")).is_ok());
    }
}
