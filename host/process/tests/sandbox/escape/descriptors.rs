//! Open file descriptors of the process that starts a command.

use std::os::fd::AsRawFd;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::kit::World;

#[tokio::test]
async fn file_descriptors_are_not_inherited() {
    let world = World::new();
    let secret = world.outside().join("secret");
    std::fs::write(&secret, "SECRET").unwrap();
    let file = std::fs::File::open(secret).unwrap();
    let folder = std::fs::File::open("/").unwrap();
    for open in [&file, &folder] {
        // Without `CLOEXEC`, as by a careless library.
        fcntl_setfd(open, FdFlags::empty()).unwrap();
    }
    let (a, b) = (file.as_raw_fd(), folder.as_raw_fd());
    let said = world
        .sh(&format!(
            "cat <&{a}; ls /proc/self/fd/{b}/; cat /proc/self/fd/{a}; sleep 5 & sleep 0.2; ls /proc/$!/fd"
        ))
        .await;
    assert!(!said.out.contains("SECRET"), "{said:?}");
    let open: Vec<_> = said
        .out
        .split_whitespace()
        .filter(|fd| !["0", "1", "2", "255"].contains(fd))
        .collect();
    assert!(open.is_empty(), "{said:?}");
}
