use super::*;

fn cache(folder: &Path) -> ComponentCache {
    ComponentCache::new(Some(folder.join("cache")))
}

fn entry(folder: &Path) -> PathBuf {
    folder.join("cache").join("compiled").join("key")
}

#[test]
fn cache_returns_stored_entries() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    assert_eq!(cache.get(CacheEntryKind::Compiled, "key"), None);
    assert_eq!(cache.state(), CacheState::Absent);
    cache.put(CacheEntryKind::Compiled, "key", b"content");
    assert_eq!(
        cache.get(CacheEntryKind::Compiled, "key").as_deref(),
        Some(&b"content"[..])
    );
    assert_eq!(
        cache.get(CacheEntryKind::Description, "key"),
        None,
        "kinds are apart"
    );
    assert!(matches!(cache.state(), CacheState::Good { entries: 1, .. }));
    let left: Vec<_> = fs::read_dir(dir.path().join("cache/compiled"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[test]
fn cache_detects_every_flipped_byte_and_every_cut() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    cache.put(CacheEntryKind::Compiled, "key", b"content");
    let good = fs::read(entry(dir.path())).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(entry(dir.path()), &bad).unwrap();
        assert_eq!(
            cache.get(CacheEntryKind::Compiled, "key"),
            None,
            "byte {at}"
        );
        fs::write(entry(dir.path()), &good[..at]).unwrap();
        assert_eq!(
            cache.get(CacheEntryKind::Compiled, "key"),
            None,
            "cut at {at}"
        );
    }
    fs::write(entry(dir.path()), &good).unwrap();
    assert!(cache.get(CacheEntryKind::Compiled, "key").is_some());
}

#[cfg(unix)]
#[test]
fn cache_ignores_files_that_others_can_write() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    cache.put(CacheEntryKind::Compiled, "key", b"content");
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
        cache.get(CacheEntryKind::Compiled, "key"),
        None,
        "a file that others can write"
    );
    mode(&entry(dir.path()), 0o600);
    mode(&top, 0o755);
    assert_eq!(
        cache.get(CacheEntryKind::Compiled, "key"),
        None,
        "a folder that others can open"
    );
    assert!(matches!(cache.state(), CacheState::Bad { .. }));
    cache.put(CacheEntryKind::Compiled, "other", b"content");
    mode(&top, 0o700);
    assert_eq!(
        cache.get(CacheEntryKind::Compiled, "other"),
        None,
        "no entry was written there either"
    );

    let target = dir.path().join("target");
    fs::rename(entry(dir.path()), &target).unwrap();
    std::os::unix::fs::symlink(&target, entry(dir.path())).unwrap();
    assert_eq!(cache.get(CacheEntryKind::Compiled, "key"), None, "a link");
}

#[cfg(unix)]
#[test]
fn cache_state_reports_a_subfolder_open_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    cache.put(CacheEntryKind::Compiled, "key", b"content");
    let compiled = dir.path().join("cache/compiled");
    fs::set_permissions(&compiled, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(cache.get(CacheEntryKind::Compiled, "key"), None);
    let CacheState::Bad { why } = cache.state() else {
        panic!("no entry of it is used");
    };
    assert!(
        why.contains("compiled") && why.contains("chmod 700"),
        "{why}"
    );
}

fn code(folder: &Path) -> (ComponentCache, PathBuf) {
    let cache = cache(folder);
    cache.store_code("key", b"machine code");
    (cache, entry(folder))
}

#[test]
fn code_is_read_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, path) = code(dir.path());
    assert_eq!(
        cache.read_code("key").as_deref(),
        Some(&b"machine code"[..])
    );
    assert_eq!(cache.read_code("other"), None);
    assert!(matches!(cache.state(), CacheState::Good { entries: 1, .. }));
    for bad in [&b"Machine code"[..], b"machine cod", b"machine code ", b""] {
        fs::write(&path, bad).unwrap();
        assert_eq!(cache.read_code("key"), None, "{bad:?}");
    }
    fs::write(&path, b"machine code").unwrap();
    assert!(cache.read_code("key").is_some());
    let other = path.with_file_name("other");
    fs::rename(&path, &other).unwrap();
    let seals = dir.path().join("cache/seals");
    fs::rename(seals.join("key"), seals.join("other")).unwrap();
    assert_eq!(
        cache.read_code("other"),
        None,
        "it was stored under another name"
    );
}

#[cfg(unix)]
#[test]
fn code_file_is_known_by_its_stamp_until_it_changes() {
    use std::time::Duration;

    let dir = tempfile::tempdir().unwrap();
    let (cache, path) = code(dir.path());
    // A change right after the other could have the same time.
    assert!(cache.read_code("key").is_some());
    assert_eq!(cache.verified_file("key"), None, "it is too new");
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(
        cache.verified_file("key"),
        None,
        "it was not verified since"
    );
    assert!(cache.read_code("key").is_some());
    assert_eq!(cache.verified_file("key").as_deref(), Some(&*path));

    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let change = |content: &[u8]| {
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(content).unwrap();
        file.set_modified(modified).unwrap();
    };
    change(b"Machine");
    assert_eq!(cache.verified_file("key"), None, "by whatever means");
    assert_eq!(cache.read_code("key"), None);
    change(b"machine");
    assert_eq!(cache.verified_file("key"), None);
    assert!(cache.read_code("key").is_some());
}

#[cfg(unix)]
#[test]
fn code_that_others_can_write_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let (cache, path) = code(dir.path());
    std::thread::sleep(std::time::Duration::from_millis(250));
    assert!(cache.read_code("key").is_some() && cache.verified_file("key").is_some());
    let top = dir.path().join("cache");
    for exposed in [&path, &top, &top.join("compiled"), &top.join("seals")] {
        let before = fs::metadata(exposed).unwrap().permissions();
        fs::set_permissions(exposed, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(cache.verified_file("key"), None, "{}", exposed.display());
        assert_eq!(cache.read_code("key"), None, "{}", exposed.display());
        fs::set_permissions(exposed, before).unwrap();
    }
    let aside = dir.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    assert_eq!(
        (cache.verified_file("key"), cache.read_code("key")),
        (None, None)
    );
}
