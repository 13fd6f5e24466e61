//! Resolution of workspace paths to their real targets, for policy rules about paths.
//!
//! Out of scope: guarding file access. [`super::resolve`] does that, and checks each object that it opens.

use std::io;
use std::path::Path;

use mimir_core::backend::RealPath;

use super::resolve::{GuestPath, MAX_LINKS};
use super::sys;

/// Maximum number of components in one resolution: more than real paths have, and a millisecond of work.
const MAX_STEPS: usize = 1000;

/// Returns the path below `root` to which `path` leads, following links. From the first missing component on, the path
/// stays as written.
pub fn real_path(root: &Path, path: &str) -> RealPath {
    let Ok(written) = GuestPath::parse(path) else {
        return RealPath::AsWritten;
    };
    let mut pending: Vec<String> = reversed_parts(&written);
    let mut real: Vec<String> = Vec::new();
    let mut host_path = root.to_owned();
    let (mut links, mut steps) = (0, 0);
    let mut missing = false;
    while let Some(name) = pending.pop() {
        steps += 1;
        if steps > MAX_STEPS {
            return RealPath::Outside;
        }
        if name == ".." {
            if real.pop().is_none() {
                return RealPath::Outside;
            }
            host_path.pop();
            continue;
        }
        host_path.push(&name);
        if !missing {
            match std::fs::symlink_metadata(&host_path) {
                Ok(meta) if meta.is_symlink() => {
                    links += 1;
                    // A path with a loop, an unreadable link or a link that leads out counts as outside.
                    let target = (links <= MAX_LINKS).then(|| std::fs::read_link(&host_path));
                    let Some(Ok(target)) = target else {
                        return RealPath::Outside;
                    };
                    let target = target.to_str().map(sys::with_slashes);
                    let parsed = target.as_deref().map(GuestPath::parse);
                    let Some(Ok(parsed)) = parsed else {
                        return RealPath::Outside;
                    };
                    pending.extend(reversed_parts(&parsed));
                    host_path.pop();
                    continue;
                }
                Ok(_) => {}
                Err(error) => missing = is_missing(&error),
            }
        }
        real.push(name);
    }
    match links {
        0 => RealPath::AsWritten,
        _ => RealPath::Other(real.join("/")),
    }
}

fn reversed_parts(written: &GuestPath<'_>) -> Vec<String> {
    let parts = written.parts.iter().rev();
    parts.map(|part| (*part).to_owned()).collect()
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn real_path_follows_links_up_to_a_missing_component() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("src/deep")).unwrap();
        std::fs::create_dir(root.join("gen")).unwrap();
        std::fs::write(root.join("src/main.rs"), "").unwrap();
        for (target, link) in [
            ("../src", "gen/s"),
            ("s/deep", "gen/chain"),
            ("loop", "loop"),
            ("/etc", "abs"),
            ("../..", "gen/out"),
            ("src/new", "dangling"),
            ("src", "gen/beside"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let other = |path: &str| RealPath::Other(path.to_owned());
        for (path, real) in [
            ("src/main.rs", RealPath::AsWritten),
            ("missing/x", RealPath::AsWritten),
            ("gen/s/main.rs", other("src/main.rs")),
            ("gen/s/new/file", other("src/new/file")),
            ("gen/chain/x", other("src/deep/x")),
            ("gen/s/../gen/s", other("src")),
            ("gen/s", other("src")),
            ("./gen//s/", other("src")),
            ("dangling", other("src/new")),
            ("gen/beside/x", other("gen/src/x")),
            ("loop", RealPath::Outside),
            ("loop/x", RealPath::Outside),
            ("abs/passwd", RealPath::Outside),
            ("gen/out/x", RealPath::Outside),
            ("gen/s/../../x", RealPath::Outside),
            ("not a path at all", RealPath::AsWritten),
        ] {
            assert_eq!(real_path(root, path), real, "{path}");
        }
    }
}
