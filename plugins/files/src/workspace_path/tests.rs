use mimir_sdk::Code;

use super::*;

fn location(written: &str) -> Result<String> {
    WorkspacePath::new(&Context::at("/ws"), written).map(|location| location.exact().to_owned())
}

#[test]
fn paths_are_relative_and_stay_inside() {
    assert_eq!(location("a/./b//c/").unwrap(), "a/b/c");
    assert_eq!(location("a/../b").unwrap(), "b");
    assert_eq!(location(".").unwrap(), ".");
    assert_eq!(location("a b/ü.txt").unwrap(), "a b/ü.txt");
    for bad in [
        "",
        "/etc/passwd",
        "..",
        "a/../../b",
        "\\\\host\\x",
        "C:/x",
        "a\0b",
        &"x/".repeat(MAX_PATH),
    ] {
        assert_eq!(
            *location(bad).unwrap_err().code(),
            Code::InvalidPath,
            "{bad:?}"
        );
    }
}

#[test]
fn path_display_quotes_forged_names_and_shortens_long_ones() {
    let cx = Context::at("/ws");
    let forged = WorkspacePath::new(&cx, "a\nread_file: ok").unwrap();
    assert_eq!(forged.exact(), "a\nread_file: ok");
    assert_eq!(forged.escaped(), r#""a\nread_file: ok""#);
    let long = WorkspacePath::new(&cx, &"x".repeat(MAX_PATH)).unwrap();
    assert_eq!(long.escaped().len(), MAX_PATH);
    assert!(long.to_string().len() < 120, "{long}");
    let error = location(&format!("/{}", "x".repeat(1_000_000))).unwrap_err();
    assert!(error.message().len() < 300, "{error}");
}

#[test]
fn path_contains_itself_and_what_is_below() {
    let cx = Context::at("/ws");
    let at = |path| WorkspacePath::new(&cx, path).unwrap();
    assert!(
        at("a").contains_path(&at("a/b"))
            && at("a").contains_path(&at("a"))
            && at(".").contains_path(&at("x"))
    );
    assert!(!at("a").contains_path(&at("ab")) && !at("a/b").contains_path(&at("a")));
    assert_eq!(at("a/b").parent(), at("a"));
    assert_eq!(at("a").parent(), at("."));
}

#[cfg(unix)]
#[test]
fn links_are_followed_only_inside() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("real"), "x").unwrap();
    symlink("../real", dir.path().join("sub/good")).unwrap();
    symlink("../../out", dir.path().join("sub/bad")).unwrap();
    symlink("/etc/passwd", dir.path().join("sub/worse")).unwrap();
    symlink("round", dir.path().join("sub/round")).unwrap();
    let cx = Context::at(dir.path());
    let resolve_links = |path| WorkspacePath::new(&cx, path).unwrap().resolve_links();
    assert_eq!(resolve_links("sub/good").unwrap().exact(), "real");
    for bad in ["sub/bad", "sub/worse", "sub/round"] {
        assert_eq!(
            *resolve_links(bad).unwrap_err().code(),
            Code::InvalidPath,
            "{bad}"
        );
    }
}
