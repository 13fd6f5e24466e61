//! Attempts to change read-only mounts.

use crate::kit::World;

#[tokio::test]
async fn mounts_cannot_be_changed() {
    let world = World::new().with(".env", "SECRET").with(".mimir/x", "old");
    let said = world
        .sh("mount -o remount,rw /usr; mount -o remount,rw,bind .mimir; umount .env; umount -l .mimir; umount /proc; mount --bind /tmp /usr
             echo new > .mimir/x; cat .env")
        .await;
    assert_eq!(said.out, "", "{said:?}");
    assert_eq!(world.read(".mimir/x").as_deref(), Some("old"));
}

#[tokio::test]
async fn set_id_files_and_devices_are_not_usable() {
    let world = World::new();
    let said = world
        .sh("cp /bin/sh ./sh; chmod 6755 ./sh 2>/dev/null; ./sh -pc 'id -u'; mknod disk b 254 0; cat disk; ls /dev/vda /dev/sda /dev/mem /dev/kmsg /dev/fuse /dev/kvm")
        .await;
    assert_eq!(
        said.out.lines().filter(|line| *line == "0").count(),
        0,
        "{said:?}"
    );
    assert!(!said.out.contains("/dev/"), "{said:?}");
    // A set-user-ID file adds no rights.
    let said = world.sh("find / -xdev -perm -4000 -newer /proc/self 2>/dev/null; grep -q nosuid /proc/self/mountinfo && grep -E ' /(newroot)? / ' /proc/self/mountinfo").await;
    assert!(said.out.contains(" ro,"), "{said:?}");
}
