//! Files of the host and the user, accessed by path and through links in the workspace.

use crate::kit::{World, exists};

#[tokio::test]
async fn home_and_outside_files_are_invisible() {
    let world = World::new();
    std::fs::write(world.outside().join("secret"), "x").unwrap();
    let outside = world.outside().display().to_string();
    let said = world
        .sh(&format!(
            "cat {outside}/secret; ls -A ~/.ssh ~/.aws ~/.gnupg ~/.bash_history ~/.cargo/credentials.toml /etc/shadow /root/.ssh; ls -A {outside}"
        ))
        .await;
    assert_eq!(said.out, "work\n", "{said:?}");
}

#[tokio::test]
async fn symlink_out_of_the_workspace_is_not_followed() {
    let world = World::new().with("x", "");
    std::fs::write(world.outside().join("secret"), "SECRET").unwrap();
    let outside = world.outside().join("secret");
    std::os::unix::fs::symlink(&outside, world.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/", world.path().join("root")).unwrap();
    let said = world
        .sh(&format!("cat link root{0}; echo changed > link; echo made > root/etc/made; echo > root/usr/made; cat {0}", outside.display()))
        .await;
    // The command wrote to its private folders with these names.
    assert!(!said.out.contains("SECRET"), "{said:?}");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "SECRET");
    assert!(!exists("/etc/made".as_ref()) && !exists("/usr/made".as_ref()));
}

#[tokio::test]
async fn writes_outside_the_workspace_are_discarded() {
    let world = World::new();
    let name = format!("mimir-{}", std::process::id());
    let said = world
        .sh(&format!("echo x > /tmp/{name}; echo x > ~/{name}; mkdir -p ~/.config/autostart; touch ~/.bashrc; cat /tmp/{name}"))
        .await;
    assert_eq!((said.code, said.out.as_str()), (0, "x\n"), "{said:?}");
    let home = std::env::home_dir().unwrap();
    assert!(!exists(&std::path::Path::new("/tmp").join(&name)) && !exists(&home.join(&name)));
    let said = world.sh(&format!("ls /tmp ~/{name}")).await;
    assert!(!said.out.contains(&name), "{said:?}");
}

#[tokio::test]
async fn system_and_toolchain_folders_are_read_only() {
    let world = World::new();
    let said = world
        .sh("for d in / /usr /usr/bin /bin /etc /opt ~/.cargo/bin ~/.rustup /dev/pts /proc /sys/devices/system/cpu; do
               [ -d $d ] || continue
               : 2>/dev/null > $d/mimir-made && echo made $d
               mkdir $d/mimir-dir 2>/dev/null && echo dir $d
             done; echo x 2>/dev/null > /proc/sys/kernel/core_pattern && echo core; echo end")
        .await;
    assert_eq!(said.out, "end\n", "{said:?}");
}
