use super::*;
use wasmtime_wasi::p2::{InputStream, OutputStream, StreamError};

fn opened(
    workspace: &mut TestWorkspace,
    path: &str,
    how: OpenFlags,
    flags: DescriptorFlags,
) -> node::FsNode {
    let fd = workspace.open(path, how, flags).expect("a file");
    let entry = workspace
        .table
        .get(&Resource::<overlay::FsEntry>::new_borrow(fd.rep()));
    match entry.expect("ours") {
        overlay::FsEntry::Real(node) => node.clone(),
        overlay::FsEntry::Overlay(front) => panic!("{front:?}"),
    }
}

#[test]
fn stream_reads_to_the_end_and_skips() {
    let mut workspace = TestWorkspace::new();
    let content: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    fs::write(workspace.host("big"), &content).unwrap();
    let node = opened(
        &mut workspace,
        "big",
        OpenFlags::empty(),
        DescriptorFlags::READ,
    );
    let mut reader = stream::FileReader::new(node.clone(), 0).unwrap();
    let mut read = Vec::new();
    workspace.runtime.block_on(async {
        loop {
            match reader.blocking_read(usize::MAX).await {
                Ok(bytes) => {
                    assert!(bytes.len() <= stream::MAX_READ);
                    read.extend_from_slice(&bytes);
                }
                Err(StreamError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(read == content);
    let mut reader = stream::FileReader::new(node, 999_990).unwrap();
    assert_eq!(reader.skip(4).unwrap(), 4);
    assert_eq!(reader.read(100).unwrap(), content[999_994..]);
    assert!(matches!(reader.read(1), Err(StreamError::Closed)));
    assert!(matches!(reader.skip(1), Err(StreamError::Closed)));
    assert_eq!(reader.read(0).unwrap().len(), 0);
}

#[test]
fn stream_writes_in_place_and_at_the_end() {
    let mut workspace = TestWorkspace::new();
    let node = opened(
        &mut workspace,
        "out",
        OpenFlags::CREATE,
        DescriptorFlags::WRITE,
    );
    let mut writer = stream::FileWriter::new(node.clone(), Some(2), DiskStatus::default()).unwrap();
    workspace
        .runtime
        .block_on(writer.blocking_write_and_flush(b"cd".as_slice().into()))
        .unwrap();
    assert!(writer.check_write().unwrap() >= 4096);
    writer.write(b"ef".as_slice().into()).unwrap();
    writer.flush().unwrap();
    let mut end = stream::FileWriter::new(node.clone(), None, DiskStatus::default()).unwrap();
    end.write(b"gh".as_slice().into()).unwrap();
    stream::FileWriter::new(node.clone(), Some(0), DiskStatus::default())
        .unwrap()
        .write(b"ab".as_slice().into())
        .unwrap();
    assert_eq!(
        fs::read_to_string(workspace.host("out")).unwrap(),
        "abcdefgh"
    );
    assert!(
        stream::FileReader::new(node, 0).is_err(),
        "it was opened for writing only"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn stream_reports_a_failed_write_once_and_closes() {
    let mut workspace = TestWorkspace::new();
    let node = opened(
        &mut workspace,
        "out",
        OpenFlags::CREATE,
        DescriptorFlags::WRITE,
    );
    let mut writer = stream::FileWriter::new(node, Some(u64::MAX), DiskStatus::default()).unwrap();
    writer.write(b"x".as_slice().into()).unwrap();
    assert!(matches!(
        writer.flush(),
        Err(StreamError::LastOperationFailed(_))
    ));
    assert!(matches!(writer.check_write(), Err(StreamError::Closed)));
    assert!(matches!(
        writer.write(b"x".as_slice().into()),
        Err(StreamError::Trap(_))
    ));
}

#[test]
fn descriptor_reports_its_kind() {
    let mut workspace = TestWorkspace::new();
    let file = workspace
        .open("src/main.rs", OpenFlags::empty(), DescriptorFlags::READ)
        .unwrap();
    let dir = workspace
        .open("src", OpenFlags::DIRECTORY, DescriptorFlags::READ)
        .unwrap();
    let again = workspace
        .open(
            "src/../src/main.rs",
            OpenFlags::empty(),
            DescriptorFlags::READ,
        )
        .unwrap();
    let handle = |fd: &Resource<Descriptor>| Resource::new_borrow(fd.rep());
    let (one, two, three) = (handle(&file), handle(&dir), handle(&again));
    let (same, other) = workspace
        .run(async |mut view, _| {
            let same = view.is_same_object(handle(&one), three).await.unwrap();
            Ok((same, view.is_same_object(one, two).await.unwrap()))
        })
        .unwrap();
    assert!(same && !other);
    let (one, two) = (handle(&file), handle(&dir));
    let stats = workspace
        .run(async |mut view, _| Ok((view.stat(one).await?, view.stat(two).await?)))
        .unwrap();
    assert_eq!(stats.0.type_, types::DescriptorType::RegularFile);
    assert_eq!(stats.0.size, 12);
    assert!(
        stats
            .0
            .data_modification_timestamp
            .is_some_and(|time| time.seconds > 1_700_000_000)
    );
    assert_eq!(stats.1.type_, types::DescriptorType::Directory);
    let (one, two) = (handle(&file), handle(&dir));
    let flags = workspace
        .run(async |mut view, _| Ok((view.get_flags(one).await?, view.get_flags(two).await?)))
        .unwrap();
    assert_eq!(flags.0, DescriptorFlags::READ);
    assert_eq!(
        flags.1,
        DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY
    );
    let two = handle(&dir);
    let read = workspace.run(async |mut view, _| view.read(two, 1, 0).await);
    assert_eq!(read.err(), Some(ErrorCode::IsDirectory));
    for fd in [&file, &dir] {
        let (one, two) = (handle(fd), handle(fd));
        workspace
            .run(async |mut view, _| {
                view.sync(one).await?;
                view.sync_data(two).await
            })
            .unwrap();
    }
}
