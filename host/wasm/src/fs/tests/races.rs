#![cfg(unix)]

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Enough iterations to separate a check from its use thousands of times if that were possible.
const TRIES: usize = 4_000;

/// Runs `attack` repeatedly while another thread exchanges two names.
fn while_swapping(world: &mut World, one: &str, other: &str, mut attack: impl FnMut(&mut World)) {
    let stop = Arc::new(AtomicBool::new(false));
    let (one, other) = (world.host(one), world.host(other));
    let swapper = {
        let stop = Arc::clone(&stop);
        let aside = world.home.path().join("swap");
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&one, &aside).expect("away");
                fs::rename(&other, &one).expect("over");
                fs::rename(&aside, &other).expect("back");
            }
        })
    };
    for _ in 0..TRIES {
        attack(world);
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().expect("the swapper");
}

fn never_the_secret(read: Done<String>) -> bool {
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
    let mut world = World::new();
    std::os::unix::fs::symlink("../outside/secret.txt", world.host("evil")).unwrap();
    let mut reads = 0;
    while_swapping(&mut world, "src/main.rs", "evil", |world| {
        reads += usize::from(never_the_secret(world.read("src/main.rs")));
        reads += usize::from(never_the_secret(world.read("src/../src/main.rs")));
    });
    assert!(
        reads > 0,
        "the race was never won by the file, so nothing was tested"
    );
}

#[test]
fn race_of_directory_and_link_reveals_nothing() {
    let mut world = World::new();
    fs::write(world.host("src/key"), "harmless").unwrap();
    std::os::unix::fs::symlink("a/secrets", world.host("evil")).unwrap();
    let mut reads = 0;
    while_swapping(&mut world, "src", "evil", |world| {
        reads += usize::from(never_the_secret(world.read("src/key")));
        reads += usize::from(never_the_secret(world.read("src/../src/key")));
        world.write("src/written", "x").ok();
        world.rename("src/written", "src/renamed").ok();
    });
    assert!(
        reads > 0,
        "the race was never won by the directory, so nothing was tested"
    );
    let inside: Vec<_> = fs::read_dir(world.host("a/secrets"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(inside, ["key"], "nothing was written through the link");
}

#[test]
fn race_of_two_links_is_checked_by_target() {
    let mut world = World::new();
    std::os::unix::fs::symlink("src/main.rs", world.host("good")).unwrap();
    std::os::unix::fs::symlink(".env", world.host("evil")).unwrap();
    let mut reads = 0;
    while_swapping(&mut world, "good", "evil", |world| {
        reads += usize::from(never_the_secret(world.read("good")));
        world.touch("good").ok();
        world
            .open("good", OpenFlags::TRUNCATE, DescriptorFlags::WRITE)
            .map(|fd| world.close(fd))
            .ok();
    });
    assert!(
        reads > 0,
        "the race was never won by the good link, so nothing was tested"
    );
    assert_eq!(fs::read_to_string(world.host(".env")).unwrap(), SECRET);
}
