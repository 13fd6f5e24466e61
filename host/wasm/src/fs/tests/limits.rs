use super::*;

#[test]
fn open_files_are_limited_and_released() {
    let mut workspace =
        TestWorkspace::with(4, |ws| vec![mount(ws, "", DirectoryAccess::ReadWrite)]);
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(
            workspace
                .open("src/main.rs", OpenFlags::empty(), DescriptorFlags::READ)
                .unwrap(),
        );
    }
    assert!(!workspace.fs.limit_hit());
    let fifth = workspace.open("src/main.rs", OpenFlags::empty(), DescriptorFlags::READ);
    assert_eq!(fifth.err(), Some(ErrorCode::InsufficientMemory));
    assert!(workspace.fs.limit_hit());
    assert!(
        workspace.stat("src/main.rs").is_ok(),
        "operations without an open file still work"
    );
    workspace.close(handles.pop().unwrap());
    assert_eq!(
        workspace.list("src").err(),
        Some(ErrorCode::InsufficientMemory),
        "a listing takes one more handle"
    );
    // A stream holds its file open.
    let fd = handles.pop().unwrap();
    let stream = workspace
        .view()
        .read_via_stream(Resource::new_borrow(fd.rep()), 0)
        .unwrap();
    workspace.close(fd);
    handles.push(
        workspace
            .open("src", OpenFlags::empty(), DescriptorFlags::READ)
            .unwrap(),
    );
    assert_eq!(
        workspace.read("src/main.rs").err(),
        Some(ErrorCode::InsufficientMemory)
    );
    workspace.table.delete(stream).unwrap();
    assert_eq!(workspace.read("src/main.rs").unwrap(), "fn main() {}");
    assert!(GuardedFs::empty().roots.is_empty());
}

#[test]
fn open_files_do_not_count_failed_opens() {
    let mut workspace =
        TestWorkspace::with(1, |ws| vec![mount(ws, "", DirectoryAccess::ReadWrite)]);
    for _ in 0..10 {
        assert_eq!(workspace.read("missing").err(), Some(ErrorCode::NoEntry));
        assert_eq!(workspace.read(".env").err(), Some(ErrorCode::NotPermitted));
    }
    assert_eq!(workspace.read("src/main.rs").unwrap(), "fn main() {}");
}

#[test]
fn refusals_are_stored_up_to_a_limit() {
    let mut workspace = TestWorkspace::new();
    for n in 0..1000 {
        assert!(workspace.read(&format!("src/{n}.pem")).is_err());
    }
    assert_eq!(workspace.fs.refusals().len(), MAX_REFUSALS);
    assert_eq!(
        workspace.last_refusal(),
        "`src/999.pem` is hidden by the rule `*.pem`"
    );
}

#[cfg(unix)]
#[test]
fn open_of_a_special_file_fails_without_hanging() {
    let mut workspace = TestWorkspace::new();
    let fifo = workspace.host("src/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workspace.host("src/socket")).unwrap();
    assert_eq!(
        workspace.read("src/fifo").err(),
        Some(ErrorCode::NotPermitted)
    );
    for path in ["src/fifo", "src/socket"] {
        assert!(workspace.read(path).is_err(), "{path}");
        assert!(
            workspace
                .open(path, OpenFlags::empty(), DescriptorFlags::WRITE)
                .is_err(),
            "{path}"
        );
        assert_eq!(
            workspace.link(path, "src/again").err(),
            Some(ErrorCode::NotPermitted),
            "{path}"
        );
        assert!(workspace.stat(path).is_ok(), "{path}");
    }
    assert!(workspace.list("src").unwrap().contains(&"fifo".to_owned()));
}

#[test]
fn listing_100_000_entries_yields_to_others() {
    let mut workspace = TestWorkspace::new();
    fs::create_dir(workspace.host("many")).unwrap();
    for n in 0..100_000 {
        let end = if n % 10 == 0 { "pem" } else { "txt" };
        fs::write(workspace.host(&format!("many/{n}.{end}")), "").unwrap();
    }
    let ticks = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&ticks);
    workspace.runtime.spawn(async move {
        loop {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let started = std::time::Instant::now();
    let names = workspace.list("many").unwrap();
    let elapsed = started.elapsed();
    assert_eq!(names.len(), 90_000);
    // Yields at the beginning and after every time slice; the limit is loose because the machine may be busy.
    let ticks = u128::from(ticks.load(std::sync::atomic::Ordering::Relaxed));
    assert!(
        ticks >= elapsed.as_millis() / 100,
        "{ticks} turns for others in {elapsed:?}"
    );
}
