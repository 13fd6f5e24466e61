use mimir_sdk::Code;

use super::*;
use crate::kit::Workspace;

fn list(
    workspace: &Workspace,
    path: &str,
    recursive: bool,
    include_hidden: bool,
) -> Worded<Listing> {
    ListDirectory {
        path: path.into(),
        recursive,
        include_hidden,
    }
    .run(&workspace.cx())
    .unwrap()
}

fn names(listing: &Worded<Listing>) -> Vec<&str> {
    listing
        .value
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect()
}

#[test]
fn list_sorts_names_and_omits_hidden_ones() {
    let workspace = Workspace::with(&[("b.txt", "12"), ("a/c.txt", ""), (".hidden", "")]);
    let listing = list(&workspace, ".", false, false);
    assert_eq!(names(&listing), ["a", "b.txt"]);
    assert_eq!((listing.value.entries[1].size, listing.value.total), (2, 2));
    assert!(
        listing.text.starts_with("a/\nb.txt  2 bytes  "),
        "{}",
        listing.text
    );
    assert_eq!(
        names(&list(&workspace, ".", false, true)),
        [".hidden", "a", "b.txt"]
    );
    assert_eq!(
        names(&list(&workspace, ".", true, false)),
        ["a", "a/c.txt", "b.txt"]
    );
    assert_eq!(names(&list(&workspace, "a", false, false)), ["c.txt"]);
}

#[test]
fn list_of_a_large_directory_is_truncated_and_counted() {
    let workspace = Workspace::new();
    for number in 0..MAX_SHOWN + 5 {
        workspace.put(&format!("many/{number:05}"), b"");
    }
    for recursive in [false, true] {
        let listing = list(&workspace, "many", recursive, false);
        assert_eq!(
            (listing.value.entries.len(), listing.value.total),
            (MAX_SHOWN, MAX_SHOWN as u64 + 5)
        );
        assert!(listing.value.truncated && listing.text.contains("1000 of 1,005 entries"));
    }
}

#[test]
fn list_of_a_non_directory_has_an_error_code() {
    let workspace = Workspace::with(&[("a.txt", "")]);
    for (path, code) in [
        ("a.txt", Code::InvalidInput),
        ("b", Code::FileNotFound),
        ("..", Code::InvalidPath),
    ] {
        let tool = ListDirectory {
            path: path.into(),
            ..ListDirectory::default()
        };
        assert_eq!(
            *tool.run(&workspace.cx()).unwrap_err().code(),
            code,
            "{path}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn list_quotes_forged_names_and_marks_non_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let forged = "a\nsecret.txt  9 bytes  2026-01-01T00:00:00.000Z";
    let workspace = Workspace::with(&[(forged, "1")]);
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    std::fs::write(workspace.root().join(odd), "12").unwrap();
    let listing = list(&workspace, ".", true, false);
    assert_eq!(names(&listing), [forged, "caf\u{fffd}.txt"]);
    assert_eq!(listing.value.entries[1].kind, Kind::Unreadable);
    let lines: Vec<&str> = listing.text.lines().collect();
    assert_eq!(lines.len(), 3, "{}", listing.text);
    assert!(lines[0].starts_with(r#""a\nsecret.txt  9"#), "{}", lines[0]);
    assert!(lines[1].contains("not UTF-8"), "{}", lines[1]);
}

#[cfg(unix)]
#[test]
fn list_shows_links_without_following_them() {
    let workspace = Workspace::with(&[("a/b", "")]);
    std::os::unix::fs::symlink("..", workspace.root().join("a/up")).unwrap();
    let listing = list(&workspace, ".", true, false);
    assert_eq!(names(&listing), ["a", "a/b", "a/up"]);
    assert_eq!(listing.value.entries[2].kind, Kind::Symlink);
}

#[cfg(unix)]
#[test]
fn list_marks_unreadable_directories() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::with(&[("closed/file", ""), ("open/file", "")]);
    let closed = workspace.root().join("closed");
    let mode = |mode| std::fs::set_permissions(&closed, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o000);
    // Root can read every folder.
    let is_denied = std::fs::read_dir(&closed).is_err();
    let listing = list(&workspace, ".", true, false);
    mode(0o755);
    let flags: Vec<_> = listing
        .value
        .entries
        .iter()
        .map(|entry| entry.closed)
        .collect();
    if is_denied {
        assert_eq!(flags, [true, false, false]);
        assert!(
            listing.text.starts_with("closed/  (cannot be opened)\n"),
            "{}",
            listing.text
        );
    } else {
        assert_eq!(flags, [false; 4]);
    }
}
