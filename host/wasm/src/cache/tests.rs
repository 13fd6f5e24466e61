use super::*;

fn cache(folder: &Path) -> Cache {
    Cache::new(Some(folder.join("cache")))
}

fn entry(folder: &Path) -> PathBuf {
    folder.join("cache").join("compiled").join("key")
}

#[test]
fn what_was_kept_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    assert_eq!(cache.get(Kind::Compiled, "key"), None);
    assert_eq!(cache.state(), CacheState::Absent);
    cache.put(Kind::Compiled, "key", b"content");
    assert_eq!(
        cache.get(Kind::Compiled, "key").as_deref(),
        Some(&b"content"[..])
    );
    assert_eq!(cache.get(Kind::Description, "key"), None, "kinds are apart");
    assert!(matches!(cache.state(), CacheState::Good { entries: 1, .. }));
    let left: Vec<_> = fs::read_dir(dir.path().join("cache/compiled"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    cache.put(Kind::Compiled, "key", b"content");
    let good = fs::read(entry(dir.path())).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(entry(dir.path()), &bad).unwrap();
        assert_eq!(cache.get(Kind::Compiled, "key"), None, "byte {at}");
        fs::write(entry(dir.path()), &good[..at]).unwrap();
        assert_eq!(cache.get(Kind::Compiled, "key"), None, "cut at {at}");
    }
    fs::write(entry(dir.path()), &good).unwrap();
    assert!(cache.get(Kind::Compiled, "key").is_some());
}

#[cfg(unix)]
#[test]
fn what_others_could_have_written_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    cache.put(Kind::Compiled, "key", b"content");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
    };
    let top = dir.path().join("cache");
    assert_eq!(
        fs::metadata(&top).unwrap().permissions().mode() & 0o777,
        0o700
    );

    mode(&entry(dir.path()), 0o622);
    assert_eq!(
        cache.get(Kind::Compiled, "key"),
        None,
        "a file that others can write"
    );
    mode(&entry(dir.path()), 0o600);
    mode(&top, 0o755);
    assert_eq!(
        cache.get(Kind::Compiled, "key"),
        None,
        "a folder that others can open"
    );
    assert!(matches!(cache.state(), CacheState::Bad { .. }));
    cache.put(Kind::Compiled, "other", b"content");
    mode(&top, 0o700);
    assert_eq!(
        cache.get(Kind::Compiled, "other"),
        None,
        "nothing was written there either"
    );

    let target = dir.path().join("target");
    fs::rename(entry(dir.path()), &target).unwrap();
    std::os::unix::fs::symlink(&target, entry(dir.path())).unwrap();
    assert_eq!(cache.get(Kind::Compiled, "key"), None, "a link");
}

#[cfg(unix)]
#[test]
fn a_folder_inside_that_is_open_to_others_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    cache.put(Kind::Compiled, "key", b"content");
    let compiled = dir.path().join("cache/compiled");
    fs::set_permissions(&compiled, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(cache.get(Kind::Compiled, "key"), None);
    let CacheState::Bad { why } = cache.state() else {
        panic!("nothing of it is used");
    };
    assert!(
        why.contains("compiled") && why.contains("chmod 700"),
        "{why}"
    );
}
