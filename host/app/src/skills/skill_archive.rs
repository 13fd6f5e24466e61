//! Archives of skills: tar, with or without gzip. Only regular files are read, within the limits of a skill; nothing is
//! unpacked to disk.

use std::io::Read;

use flate2::read::GzDecoder;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use tar::{Archive, EntryType};

use super::skill_files::{MAX_TOTAL_SIZE, SkillFiles};

/// The first bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Maximum number of entries, folders included.
const MAX_ENTRIES: usize = 2_000;

/// Maximum number of uncompressed bytes that are read, with the headers of the archive.
const MAX_ARCHIVE_SIZE: u64 = MAX_TOTAL_SIZE + (4 << 20);

/// Reads the files of a skill from an archive.
///
/// # Errors
/// Fails for links and special files, paths that leave the folder, and beyond the limits of a skill.
pub fn read_skill_archive(bytes: &[u8]) -> Result<SkillFiles, ToolError> {
    let skill = if bytes.starts_with(&GZIP) {
        read_entries(GzDecoder::new(bytes))?
    } else {
        read_entries(bytes)?
    };
    if skill.is_empty() {
        return Err(damaged("it has no files"));
    }
    Ok(skill.without_top_folder())
}

fn read_entries(source: impl Read) -> Result<SkillFiles, ToolError> {
    // Compressed data can expand a thousandfold, so the limit is on what comes out.
    let mut archive = Archive::new(source.take(MAX_ARCHIVE_SIZE));
    let mut skill = SkillFiles::default();
    for (count, entry) in archive.entries().map_err(damaged)?.enumerate() {
        if count >= MAX_ENTRIES {
            return Err(ToolError::limit_exceeded(format!(
                "the archive has more than {MAX_ENTRIES} entries"
            )));
        }
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path_bytes().into_owned();
        let Ok(path) = std::str::from_utf8(&path) else {
            return Err(damaged("a file name is not valid UTF-8"));
        };
        let path = path.strip_prefix("./").unwrap_or(path).to_owned();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            kind => {
                return Err(ToolError::new(
                    ToolErrorCode::InvalidInput,
                    format!(
                        "`{}` in the archive is a link or a special file ({kind:?}): a skill consists of regular files only",
                        visible(&path)
                    ),
                ));
            }
        }
        let size = entry.size();
        skill.check_room(&path, size)?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(damaged)?;
        if content.len() as u64 != size {
            return Err(damaged("it ends inside a file, or is too large"));
        }
        // Fails for a field that is not a number, which says nothing about the file.
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        skill.insert_file(&path, content, is_executable)?;
    }
    Ok(skill)
}

fn damaged(why: impl std::fmt::Display) -> ToolError {
    ToolError::new(
        ToolErrorCode::InvalidInput,
        format!(
            "the archive cannot be read: {}; expected tar or tar.gz",
            visible(&why.to_string())
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;
    use crate::skills::skill_document::SKILL_FILE;

    /// Creates an archive with names that [`Builder`] itself would refuse.
    fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = Header::new_ustar();
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn skill_archive_is_read_with_and_without_its_folder() {
        let plain = archive(&[(SKILL_FILE, EntryType::Regular, b"x")]);
        let folder = archive(&[
            ("./a/", EntryType::Directory, b""),
            ("./a/SKILL.md", EntryType::Regular, b"x"),
        ]);
        for bytes in [&plain, &gzip(&plain), &folder, &gzip(&folder)] {
            let skill = read_skill_archive(bytes).unwrap();
            assert_eq!(skill.get(SKILL_FILE), Some(&b"x"[..]));
        }
    }

    #[test]
    fn skill_archive_keeps_the_executable_bit_of_scripts() {
        let mut builder = Builder::new(Vec::new());
        for (path, mode) in [("SKILL.md", 0o644), ("run.py", 0o755)] {
            let mut header = Header::new_ustar();
            header.set_size(1);
            header.set_mode(mode);
            builder.append_data(&mut header, path, &b"x"[..]).unwrap();
        }
        let skill = read_skill_archive(&builder.into_inner().unwrap()).unwrap();
        assert!(skill.is_executable("run.py") && !skill.is_executable(SKILL_FILE));
    }

    #[test]
    fn skill_archive_attacks_are_refused() {
        let file = EntryType::Regular;
        for (name, entries) in [
            ("parent", &[("../../.bashrc", file, &b"x"[..])][..]),
            ("absolute", &[("/etc/cron.d/x", file, b"x")]),
            ("inner parent", &[("a/../../x", file, b"x")]),
            ("backslash", &[("..\\x", file, b"x")]),
            ("drive", &[("C:x", file, b"x")]),
            ("symbolic link", &[("SKILL.md", EntryType::Symlink, b"")]),
            ("hard link", &[("SKILL.md", EntryType::Link, b"")]),
            ("device", &[("SKILL.md", EntryType::Char, b"")]),
            ("pipe", &[("SKILL.md", EntryType::Fifo, b"")]),
            ("twice", &[("a", file, b"x"), ("A", file, b"y")]),
            ("file as folder", &[("a", file, b"x"), ("a/b", file, b"y")]),
            ("empty", &[]),
        ] {
            let error = read_skill_archive(&archive(entries)).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::InvalidInput, "{name}: {error}");
        }
        assert!(read_skill_archive(b"no archive").is_err());
        assert!(read_skill_archive(&gzip(b"no archive")).is_err());
        let whole = archive(&[("SKILL.md", file, &[b'x'; 2_000])]);
        assert!(read_skill_archive(&whole[..1_000]).is_err());
    }

    #[test]
    fn skill_archive_size_and_count_are_bounded() {
        let zeros = vec![0_u8; (MAX_TOTAL_SIZE + 1) as usize];
        let bomb = gzip(&archive(&[("SKILL.md", EntryType::Regular, &zeros)]));
        assert!(bomb.len() < 100_000);
        let error = read_skill_archive(&bomb).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        // A header that promises more than the archive has.
        let mut lie = archive(&[("SKILL.md", EntryType::Regular, b"x")]);
        lie[124..136].copy_from_slice(b"77777777777\0");
        let mut header = Header::new_ustar();
        header.as_mut_bytes().copy_from_slice(&lie[..512]);
        header.set_cksum();
        lie[..512].copy_from_slice(header.as_bytes());
        let error = read_skill_archive(&lie).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        let names: Vec<String> = (0..600).map(|n| format!("f{n}")).collect();
        let many: Vec<_> = (names.iter())
            .map(|name| (name.as_str(), EntryType::Regular, &b""[..]))
            .collect();
        let error = read_skill_archive(&archive(&many)).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        let folders: Vec<_> = (0..MAX_ENTRIES + 1)
            .map(|_| ("a/", EntryType::Directory, &b""[..]))
            .collect();
        let error = read_skill_archive(&archive(&folders)).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
    }
}
