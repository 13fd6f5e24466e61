//! Kernel interfaces that commands do not need, and other processes.

use crate::kit::{World, wrapped};

/// Makes a system call by its number on x86-64, and prints the result.
const PROBE: &str = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *arguments):
    ctypes.set_errno(0)
    done = libc.syscall(number, *arguments)
    print(name, 'done' if done >= 0 else os.strerror(ctypes.get_errno()))
";

#[tokio::test]
#[cfg(target_arch = "x86_64")]
async fn syscalls_that_leave_the_sandbox_are_blocked() {
    let world = World::new();
    let probe = format!(
        "{PROBE}
none = None
call('mount', 165, b'none', b'/tmp', b'tmpfs', 0, none)
call('umount', 166, b'/proc', 2)
call('unshare user', 272, 0x10000000)
call('unshare mounts', 272, 0x20000)
call('setns', 308, 0, 0)
call('chroot', 161, b'/tmp')
call('pivot_root', 155, b'/tmp', b'/tmp')
call('ptrace', 101, 16, 1, 0, 0)
call('process_vm_readv', 310, 1, 0, 0, 0, 0, 0)
call('keyctl', 250, 0, -3, 0)
call('add_key', 248, b'user', b'x', b'y', 1, -3)
call('bpf', 321, 0, 0, 0)
call('perf_event_open', 298, 0, 0, 0, -1, 0)
call('userfaultfd', 323, 0)
call('kexec_load', 246, 0, 0, 0, 0)
call('open_by_handle_at', 304, 0, 0, 0)
call('pidfd_getfd', 438, 0, 0, 0)
call('packet socket', 41, 17, 3, 0)
call('vsock socket', 41, 40, 1, 0)
call('netfilter socket', 41, 16, 3, 12)
call('TIOCSTI', 16, 0, 0x5412, b'x')
call('TIOCSTI, upper bits', 16, 0, 0x100005412, b'x')
call('open_tree', 428, -100, b'/', 1)
call('fsopen', 430, b'tmpfs', 0)
call('mount_setattr', 442, -100, b'/', 0, 0, 0)"
    );
    let said = world.sh(&format!("python3 -c \"{probe}\"")).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.out.lines().count(), 25, "{said:?}");
    let done: Vec<_> = said
        .out
        .lines()
        .filter(|line| !line.ends_with("Operation not permitted"))
        .collect();
    assert!(done.is_empty(), "{done:?}");
    // Calls from another number table, and a call that hides its flags from filters.
    let probe = format!(
        "{PROBE}\ncall('clone3', 435, 0, 0)\ncall('io_uring_setup', 425, 1, 0)\ncall('x32', 0x40000000 + 165, b'none', b'/tmp', b'tmpfs', 0, None)"
    );
    let said = world.sh(&format!("python3 -c \"{probe}\"")).await;
    assert!(
        said.out
            .lines()
            .all(|line| line.ends_with("Function not implemented")),
        "{said:?}"
    );
}

#[tokio::test]
async fn user_namespace_cannot_be_nested() {
    let world = World::new();
    let said = world
        .sh("unshare -Ur id; unshare -Urm sh -c 'mount -t tmpfs x /usr && echo mounted'")
        .await;
    assert_eq!(said.out, "", "{said:?}");
}

#[tokio::test]
async fn init_process_cannot_be_inspected() {
    let world = World::new();
    if wrapped() {
        // With bubblewrap, the first process is a shell like the commands, without resources of the process that
        // started it.
        let said = world
            .sh("grep -E '^(CapEff|CapPrm|NoNewPrivs|Seccomp):' /proc/1/status; ls /proc/1/fd")
            .await;
        let lines = said.out.replace('\t', " ");
        assert_eq!(
            lines,
            "CapPrm: 0000000000000000\nCapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n0\n1\n2\n",
            "{said:?}"
        );
        return;
    }
    // The first process has a copy of the memory of the process that started it.
    let said = world
        .sh("ls /proc/1/root/ /proc/1/cwd/; readlink /proc/1/fd/* /proc/1/ns/* /proc/1/exe; cat /proc/1/fd/*; cat /proc/1/environ /proc/1/maps /proc/1/mem
             cd /proc/1/root && ls; for p in /proc/[0-9]*; do readlink $p/root; done | sort -u")
        .await;
    assert_eq!(said.out, "/\n", "{said:?}");
    // Its arguments are unreadable, too.
    let said = world.sh("tr -d '\\0' </proc/1/cmdline | wc -c").await;
    assert_eq!(said.out.trim(), "0", "{said:?}");
    let said = world
        .sh("kill -9 1; kill -STOP 1; sleep 0.1; echo alive")
        .await;
    assert_eq!(said.out, "alive\n", "{said:?}");
}

#[tokio::test]
async fn set_id_bits_are_not_set_on_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new();
    let said = world
        .sh("cp /bin/sh sh; chmod u+s sh; chmod 4755 sh; chmod g+s sh; ln sh other; chmod 6755 other; chmod 755 sh
             install -m 4755 /bin/sh installed; cp --preserve=mode sh copied
             python3 -c \"
import os
def tried(change):
    try: change()
    except OSError: pass
f = os.open('made', os.O_CREAT | os.O_RDWR, 0o6755)
os.write(f, open('/bin/sh', 'rb').read())
tried(lambda: os.fchmod(f, 0o4755))
tried(lambda: os.chmod('sh', 0o4755))
tried(lambda: os.chmod('sh', 0o4755, follow_symlinks=False))
os.mknod('node', 0o106755)
open('node', 'ab').write(b'x')
\"; ls")
        .await;
    assert!(said.out.contains("sh"), "{said:?}");
    let mut looked = 0;
    for entry in world.path().read_dir().unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(
            mode & 0o6000,
            0,
            "{:?} {mode:o} {said:?}",
            entry.file_name()
        );
        looked += 1;
    }
    assert!(looked > 2, "{said:?}");
}

#[tokio::test]
async fn processes_of_the_host_are_invisible() {
    let world = World::new();
    let said = world
        .sh("ls /proc | grep -c '^[0-9]'; kill -9 -1; echo end")
        .await;
    let count: u32 = said.out.lines().next().unwrap().parse().unwrap();
    assert!(count <= 5, "{said:?}");
}

#[tokio::test]
async fn capabilities_are_empty_and_cannot_be_gained() {
    let world = World::new();
    let said = world
        .sh("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
        .await;
    let lines: Vec<(&str, &str)> = said
        .out
        .lines()
        .filter_map(|line| line.split_once(":\t"))
        .collect();
    assert_eq!(lines.len(), 7, "{said:?}");
    for (name, value) in lines {
        match name {
            "NoNewPrivs" => assert_eq!(value, "1"),
            "Seccomp" => assert_eq!(value, "2"),
            _ => assert_eq!(value, "0000000000000000", "{name}"),
        }
    }
}
