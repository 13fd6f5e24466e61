#![cfg(unix)]

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Enough iterations to separate a check from its use thousands of times if that were possible.
const TRIES: usize = 4_000;

/// Runs `attack` repeatedly while another thread exchanges two names.
fn while_swapping(
    workspace: &mut TestWorkspace,
    one: &str,
    other: &str,
    mut attack: impl FnMut(&mut TestWorkspace),
) {
    let stop = Arc::new(AtomicBool::new(false));
    let (one, other) = (workspace.host(one), workspace.host(other));
    let swapper = {
        let stop = Arc::clone(&stop);
        let aside = workspace.home.path().join("swap");
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&one, &aside).expect("away");
                fs::rename(&other, &one).expect("over");
                fs::rename(&aside, &other).expect("back");
            }
        })
    };
    for _ in 0..TRIES {
        attack(workspace);
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().expect("the swapper");
}

fn never_the_secret(read: OperationResult<String>) -> bool {
    match read {
        Ok(text) => {
            assert_ne!(text, SECRET);
            true
        }
        Err(_) => false,
    }
}

#[test]
fn race_of_file_and_link_reveals_nothing() {
    let mut workspace = TestWorkspace::new();
    std::os::unix::fs::symlink("../outside/secret.txt", workspace.host("evil")).unwrap();
    let mut reads = 0;
    while_swapping(&mut workspace, "src/main.rs", "evil", |workspace| {
        reads += usize::from(never_the_secret(workspace.read("src/main.rs")));
        reads += usize::from(never_the_secret(workspace.read("src/../src/main.rs")));
    });
    assert!(
        reads > 0,
        "the race was never won by the file, so nothing was tested"
    );
}

#[test]
fn race_of_directory_and_link_reveals_nothing() {
    let mut workspace = TestWorkspace::new();
    fs::write(workspace.host("src/key"), "harmless").unwrap();
    std::os::unix::fs::symlink("a/secrets", workspace.host("evil")).unwrap();
    let mut reads = 0;
    while_swapping(&mut workspace, "src", "evil", |workspace| {
        reads += usize::from(never_the_secret(workspace.read("src/key")));
        reads += usize::from(never_the_secret(workspace.read("src/../src/key")));
        workspace.write("src/written", "x").ok();
        workspace.rename("src/written", "src/renamed").ok();
    });
    assert!(
        reads > 0,
        "the race was never won by the directory, so nothing was tested"
    );
    let inside: Vec<_> = fs::read_dir(workspace.host("a/secrets"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(inside, ["key"], "nothing was written through the link");
}

#[test]
fn race_of_two_links_is_checked_by_target() {
    let mut workspace = TestWorkspace::new();
    std::os::unix::fs::symlink("src/main.rs", workspace.host("good")).unwrap();
    std::os::unix::fs::symlink(".env", workspace.host("evil")).unwrap();
    let mut reads = 0;
    while_swapping(&mut workspace, "good", "evil", |workspace| {
        reads += usize::from(never_the_secret(workspace.read("good")));
        workspace.touch("good").ok();
        workspace
            .open("good", OpenFlags::TRUNCATE, DescriptorFlags::WRITE)
            .map(|fd| workspace.close(fd))
            .ok();
    });
    assert!(
        reads > 0,
        "the race was never won by the good link, so nothing was tested"
    );
    assert_eq!(fs::read_to_string(workspace.host(".env")).unwrap(), SECRET);
}
