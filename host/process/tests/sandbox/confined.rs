//! Commands in a place that allows no namespaces, such as an unprivileged container: what holds there, and what is lost.

use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mimir_core::config::SandboxSettings;
use mimir_core::platform::Enforcement;
use mimir_process::sandbox::{
    CommandNetwork, CommandSpec, HostMount, ProcessSandbox, ResourceBound, Sandbox, SandboxError,
    WorkspacePart, choose_sandbox,
};

use crate::kit::{Said, World, confined, exists, gone, marker, run_in};

/// Returns a sandbox that uses no namespaces, wherever the test runs. Returns `None` and prints the reason where the
/// kernel cannot provide one.
fn sandbox() -> Option<Arc<dyn Sandbox>> {
    static SANDBOX: OnceLock<Arc<ProcessSandbox>> = OnceLock::new();
    let sandbox = SANDBOX.get_or_init(|| Arc::new(ProcessSandbox::without_namespaces()));
    match sandbox.available() {
        Ok(_) => Some(sandbox.clone()),
        Err(fault) => {
            eprintln!("skipped: {fault}");
            None
        }
    }
}

async fn run(sandbox: &dyn Sandbox, spec: &CommandSpec) -> Said {
    Said::of(
        run_in(sandbox, spec)
            .await
            .unwrap_or_else(|fault| panic!("{fault}")),
    )
}

#[tokio::test]
async fn confined_command_changes_the_workspace_and_nothing_else() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new()
        .with("src/a", "1\n")
        .with(".mimir/config.yml", "x\n");
    let outside = world.outside().join("outside");
    std::fs::write(&outside, "secret").unwrap();
    let said = run(&*sandbox, &world.script(&format!(
        "cat src/a && echo 2 > src/a && mkdir src/d && mv src/a src/d/a && echo 3 > $HOME/f && cat $TMPDIR/../home/f
         cat {0}; echo x > {0}; : > {0}; rm {0}; mv {0} src/; ln {0} src/x; ls {1}; cat /etc/shadow /proc/1/environ
         echo y > .mimir/config.yml; mv .mimir src/; rm -r .mimir; chmod 600 {0}; cat .mimir/config.yml",
        outside.display(),
        world.outside().display(),
    )))
    .await;
    assert_eq!(said.out, "1\n3\nx\n", "{said:?}");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "secret");
    assert_eq!(world.read("src/d/a").as_deref(), Some("2\n"));
    assert_eq!(world.read(".mimir/config.yml").as_deref(), Some("x\n"));
    assert!(!exists(&world.path().join("src/x")));
}

#[tokio::test]
async fn confined_command_keeps_modes_and_owners_of_files_outside() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let Some(sandbox) = sandbox() else { return };
    let world = World::new()
        .with("src/a", "1")
        .with(".mimir/config.yml", "x");
    let outside = world.outside().join("outside");
    std::fs::write(&outside, "secret").unwrap();
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = outside.metadata().unwrap();
    std::os::unix::fs::symlink(&outside, world.path().join("src/link")).unwrap();
    let said = run(&*sandbox, &world.script(&format!(
        "for mode in 700 777 755 644 666 600 000 4700 2700 710 701 500 300 u-w +x; do
           for file in {0} {1} src/link ../outside src/../../outside .mimir/config.yml /proc/self/cwd/a /proc/self/fd/9; do
             chmod $mode $file 9<{2} && echo changed $file
           done
         done
         chown 1:1 {0} && echo changed
         python3 - {2} {1} <<'END'
import os, sys
with open(sys.argv[1]) as file:
    for change in (lambda: os.fchmod(file.fileno(), 0o700), lambda: os.chmod('outside', 0o777, dir_fd=os.open(sys.argv[2], os.O_PATH))):
        try: change(); print('changed')
        except OSError as e: print(e.errno)
END",
        outside.display(),
        world.outside().display(),
        "/usr/bin/env",
    )))
    .await;
    assert_eq!(said.out, "1\n1\n", "{said:?}");
    let after = outside.metadata().unwrap();
    assert_eq!((after.mode(), after.uid()), (before.mode(), before.uid()));
}

#[tokio::test]
async fn confined_command_changes_modes_in_the_workspace() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(sandbox) = sandbox() else { return };
    let world = World::new().with("src/a", "1");
    let said = run(
        &*sandbox,
        &world.script(
            "printf '#!/bin/sh\necho ran\n' > src/run && chmod +x src/run && src/run && cp src/run src/copy && src/copy
             umask 022; echo k > src/private; chmod 600 src/private; echo k > src/key
             cd src; ln -s key link; chmod 640 ./link; mkdir d; chmod 751 ../src/d; chmod 4755 run; chmod 644 missing/x; chmod 644 key/x
             tar -cf t.tar run && mkdir e && tar --no-same-owner -xf t.tar -C e && e/run; cat < key; chmod 0 key; umask
             python3 - <<'END'
import os
folder = os.open('.', os.O_RDONLY)
os.chmod('a', 0o604, dir_fd=folder)
file = os.open('f', os.O_CREAT | os.O_WRONLY)
os.fchmod(file, 0o642)
os.unlink('t.tar')
for change in (lambda: os.fchmod(99, 0o600), lambda: os.chmod('', 0o600), lambda: os.chmod('a' * 5000, 0o600)):
    try: change(); print('changed')
    except OSError as e: print(e.errno)
END",
        ),
    )
    .await;
    assert_eq!(said.out, "ran\nran\nran\nk\n0022\n9\n2\n36\n", "{said:?}");
    assert!(
        said.err.contains("missing/x': No such file")
            && said.err.contains("key/x': Not a directory"),
        "{said:?}"
    );
    let mode = |name: &str| {
        let meta = world.path().join("src").join(name).metadata().unwrap();
        meta.permissions().mode() & 0o7777
    };
    let found = ["private", "key", "d", "a", "f"].map(mode);
    assert_eq!(found, [0o600, 0o000, 0o751, 0o604, 0o642]);
    assert_eq!(mode("run") & 0o6100, 0o100);
}

#[tokio::test]
async fn confined_command_cannot_read_extended_attributes() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new().with("src/a", "1");
    let script = "cp --preserve=mode,timestamps src/a src/b && ls -l src/b > /dev/null && python3 - <<'END'
import os, shutil
shutil.copy2('src/a', 'src/c')
for call in (lambda: os.getxattr('/usr', 'user.x'), lambda: os.listxattr('/usr'), lambda: os.listxattr('src/a', follow_symlinks=False),
             lambda: os.setxattr('src/a', 'user.x', b'1')):
    try: print(call())
    except OSError as e: print(e.errno)
END";
    let said = run(&*sandbox, &world.script(script)).await;
    assert_eq!(said.out, "95\n95\n95\n95\n", "{said:?}");
    assert_eq!(world.read("src/c").as_deref(), Some("1"));
}

#[tokio::test]
async fn confined_read_only_paths_in_writable_folders_are_not_changed() {
    let Some(sandbox) = sandbox() else { return };
    // A linked worktree: its repository is writable, but not the folders of submodules and other worktrees.
    let world = World::new().with("a/fixed/f", "old").with("a/free", "old");
    let common = world.outside().join("main.git");
    for file in [
        "modules/a/hooks/old",
        "worktrees/work/old",
        "worktrees/other/old",
        "objects/old",
    ] {
        std::fs::create_dir_all(common.join(file).parent().unwrap()).unwrap();
        std::fs::write(common.join(file), "old").unwrap();
    }
    let mut spec = world.script(&format!(
        "cd {}; echo x > modules/a/hooks/h; echo x > modules/a/hooks/old; rm -rf modules/a; mv modules m
         mkdir modules/b; echo x > worktrees/other/old; rm -rf worktrees/other; chmod 700 modules/a/hooks
         echo x > worktrees/work/old; echo x > objects/old
         cd {}; echo x > a/fixed/f; mv a/fixed a/g; mv a b; echo x > a/free; cat a/fixed/f",
        common.display(),
        world.path().display()
    ));
    let mount = |path: &str, writable| HostMount {
        writable,
        ..HostMount::read_only(common.join(path))
    };
    spec.mounts = vec![
        HostMount {
            writable: true,
            ..HostMount::read_only(&common)
        },
        mount("modules", false),
        mount("worktrees", false),
        mount("worktrees/work", true),
    ];
    spec.visible_parts = vec![
        WorkspacePart::whole_workspace(),
        WorkspacePart {
            below: "a/fixed".into(),
            writable: false,
        },
    ];
    let said = run(&*sandbox, &spec).await;
    assert_eq!(said.out, "old", "{said:?}");
    let read = |path: &str| std::fs::read_to_string(common.join(path)).unwrap_or_default();
    assert!(
        !exists(&common.join("modules/a/hooks/h")) && !exists(&common.join("modules/b")),
        "{said:?}"
    );
    assert_eq!(read("modules/a/hooks/old"), "old");
    assert_eq!(read("worktrees/other/old"), "old");
    assert_eq!(
        (read("worktrees/work/old"), read("objects/old")),
        ("x\n".into(), "x\n".into()),
        "{said:?}"
    );
    assert_eq!(world.read("a/fixed/f").as_deref(), Some("old"));
    assert_eq!(world.read("a/free").as_deref(), Some("x\n"));
    // The same path with both modes is an error.
    spec.mounts.push(mount("worktrees/work", false));
    let fault = run_in(&*sandbox, &spec).await.unwrap_err();
    assert!(
        fault.to_string().contains("both read-only and writable"),
        "{fault}"
    );
}

#[tokio::test]
async fn confined_timeout_program_ends_only_its_own_group() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    let number = marker(72);
    let script = format!("echo before; timeout 1 sleep {number}; echo after $?");
    let said = run(&*sandbox, &world.script(&script)).await;
    assert_eq!(said.out, "before\nafter 124\n", "{said:?}");
    gone(&number).await;
}

#[tokio::test]
async fn confined_command_has_no_socket_and_no_capability() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new().with("src/a", "1");
    let probe = r#"
import ctypes, os, socket
def tried(what, call):
    try: call(); print(what, "works")
    except OSError as e: print(what, "fails")
for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
    tried(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_DGRAM))
tried("pair", lambda: socket.socketpair())
tried("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
tried("setsid", os.setsid)
tried("all signals", lambda: os.kill(-1, 0))
tried("limit of another", lambda: __import__("resource").prlimit(os.getppid(), 0))
tried("signal", lambda: os.kill(os.getppid(), 0))
libc = ctypes.CDLL(None, use_errno=True)
clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
# CLONE_PARENT | SIGCHLD
print("sibling", libc.syscall(clone, 0x8000 | 17, 0, 0, 0, 0))
def number(call): ctypes.set_errno(0); call(); return ctypes.get_errno()
folder = os.open(".", os.O_RDONLY)
print("mounts", number(lambda: libc.syscall(457, 0, 0, 0, 0)), number(lambda: libc.syscall(458, 0, 0, 0, 0)))
print("snapshot", number(lambda: libc.ioctl(folder, ctypes.c_ulong(0x50009417), None)))
print("unshare", libc.unshare(0x10000000), "shm", libc.shmget(0, 4096, 0o1600))
"#;
    let mut spec = world.script("exec python3 -");
    spec.stdin = mimir_process::sandbox::CommandStdin::bytes(probe.into());
    let said = run(&*sandbox, &spec).await;
    assert_eq!(
        said.out,
        "AF_INET fails\nAF_INET6 fails\nAF_UNIX fails\nAF_NETLINK fails\nAF_PACKET fails\nAF_VSOCK fails\npair works\n\
         datagram pair fails\nsetsid fails\nall signals fails\nlimit of another fails\nsignal fails\nsibling -1\nmounts 1 1\nsnapshot 1\nunshare -1 shm -1\n",
        "{said:?}"
    );
}

#[tokio::test]
async fn confined_processes_end_with_the_command() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    let number = marker(71);
    let script = format!(
        "env -i sleep {number} & (setsid sleep {number} &) 2>/dev/null; (trap '' TERM HUP; sleep {number}) &
         python3 -c \"import os; os.setpgid(0, 0); open(os.environ['TMPDIR'] + '/ready', 'w'); os.execve('/bin/sleep', ['sleep', '{number}'], {{}})\" &
         until [ -e $TMPDIR/ready ]; do sleep 0.1; done; echo end"
    );
    let said = run(&*sandbox, &world.script(&script)).await;
    assert_eq!(said.out, "end\n");
    gone(&number).await;
    let mut spec = world.script(&format!(
        "trap '' TERM; env -i sleep {number} & while :; do :; done"
    ));
    spec.timeout = Some(Duration::from_millis(400));
    let fault = run_in(&*sandbox, &spec).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Timeout(_)), "{fault}");
    gone(&number).await;
}

#[tokio::test]
async fn confined_sandbox_refuses_what_it_cannot_enforce() {
    let Some(sandbox) = sandbox() else { return };
    let world = World::new();
    let spec = world.script("true");
    let mut asked = vec![spec.clone(), spec.clone(), spec.clone(), spec.clone(), spec];
    asked[0].bounds.memory = ResourceBound::Requested(1 << 30);
    asked[1].bounds.processes = ResourceBound::Requested(10);
    asked[2].bounds.cpu = Some(50);
    asked[3].network = CommandNetwork::Proxy;
    asked[4].mounts = vec![HostMount {
        from: world.outside(),
        at: "/elsewhere".into(),
        writable: false,
    }];
    for spec in asked {
        let fault = run_in(&*sandbox, &spec).await.unwrap_err();
        assert!(matches!(fault, SandboxError::Unsupported { .. }), "{fault}");
    }
    let guarantees = sandbox.guarantees(&Default::default()).unwrap();
    for lost in ["loopback and granted hosts", "processor time"] {
        let found = guarantees.iter().find(|it| it.name == lost).unwrap();
        assert!(
            matches!(found.enforcement, Enforcement::Refused { .. }),
            "{found}"
        );
    }
}

/// Runs tests of this program in a process that cannot create namespaces and has no capability.
#[expect(
    unsafe_code,
    reason = "`pre_exec` is the only way to restrict the process"
)]
fn run_without_namespaces(arguments: &[&str]) -> (bool, String) {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
    use seccompiler::{SeccompAction, SeccompFilter, SeccompRule};

    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = |calls: &[i64], errno: i32| -> seccompiler::BpfProgram {
        let calls = calls
            .iter()
            .map(|call| (*call, Vec::<SeccompRule>::new()))
            .collect();
        let action = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, arch).unwrap();
        filter.try_into().unwrap()
    };
    let namespace_flags = 0x7e02_0000;
    let with_namespaces = (0..32)
        .map(|bit| 1u64 << bit)
        .filter(|bit| namespace_flags & bit != 0);
    let clone = with_namespaces.map(|flag| {
        let condition = seccompiler::SeccompCondition::new(
            0,
            seccompiler::SeccompCmpArgLen::Dword,
            seccompiler::SeccompCmpOp::MaskedEq(flag),
            flag,
        );
        SeccompRule::new(vec![condition.unwrap()]).unwrap()
    });
    let clone = [(libc::SYS_clone, clone.collect())].into_iter().collect();
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let clone = SeccompFilter::new(clone, SeccompAction::Allow, refuse, arch).unwrap();
    let filters: [seccompiler::BpfProgram; 3] = [
        filter(
            &[libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount],
            libc::EPERM,
        ),
        filter(&[libc::SYS_clone3], libc::ENOSYS),
        clone.try_into().unwrap(),
    ];
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(arguments)
        .env("MIMIR_TEST_CONFINED", "1")
        // Bubblewrap needs namespaces.
        .env_remove("MIMIR_TEST_BUBBLEWRAP");
    let restrict = move || {
        for capability in 0..41 {
            // SAFETY: a system call on numbers.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        set_no_new_privs(true)?;
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none)?;
        for filter in &filters {
            seccompiler::apply_filter(filter).map_err(|_| std::io::ErrorKind::Other)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes only system calls on memory allocated before.
    unsafe { command.pre_exec(restrict) };
    // Bounded, and in a file: a process that hangs would not end the test, and its output could fill a pipe.
    let mut output = tempfile::tempfile().unwrap();
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(output.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let mut status = None;
    for _ in 0..6_000 {
        status = child.try_wait().unwrap();
        if status.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    (status.is_some_and(|status| status.success()), text)
}

/// Tests of the sandbox that hold without namespaces, too.
const HOLDS: &[&str] = &[
    "confined::auto_finds_the_sandbox_without_namespaces",
    "escape::beside::mounted_bare_repository_is_protected",
    "escape::beside::mounted_folder_secrets_are_unreadable",
    "escape::descriptors::file_descriptors_are_not_inherited",
    "escape::files::symlink_out_of_the_workspace_is_not_followed",
    "escape::files::system_and_toolchain_folders_are_read_only",
    "escape::kernel::processes_of_the_host_are_invisible",
    "escape::kernel::syscalls_that_leave_the_sandbox_are_blocked",
    "escape::kernel::user_namespace_cannot_be_nested",
    "escape::lingering::background_processes_end_with_the_command",
    "escape::lingering::dropped_command_is_killed",
    "escape::lingering::orphan_processes_are_reaped",
    "escape::lingering::timeout_kills_programs_that_ignore_signals",
    "escape::lingering::timeout_sends_sigterm_first",
    "escape::mounts::mounts_cannot_be_changed",
    "escape::output::output_of_ten_gigabytes_uses_bounded_memory",
    "escape::output::output_with_invalid_utf8_is_unchanged",
    "escape::protected::masked_file_replaced_during_a_command_ends_it",
    "escape::protected::protected_files_are_not_changed",
    "escape::protected::secret_files_are_unreadable",
    "escape::protected::workspace_in_a_system_folder_is_rejected",
    "escape::renamed::denied_files_below_build_folders_are_hidden",
    "escape::sockets::abstract_socket_of_the_host_is_unreachable",
    "escape::sockets::network_modes_without_a_proxy_are_rejected",
    "escape::sockets::unix_socket_of_the_host_in_workspace_is_unreachable",
    "escape::sockets::unix_sockets_of_the_host_are_invisible",
];

/// The inner process does not start another one: it runs only the tests of the list, and this test is not among them.
#[test]
fn escape_tests_hold_in_a_place_without_namespaces() {
    if confined() || sandbox().is_none() {
        return;
    }
    let mut arguments = vec!["--exact", "--test-threads=2"];
    arguments.extend(HOLDS);
    let (passed, output) = run_without_namespaces(&arguments);
    assert!(passed, "{output}");
    let count = format!("test result: ok. {} passed", HOLDS.len());
    assert!(output.contains(&count), "{output}");
}

#[tokio::test]
async fn auto_finds_the_sandbox_without_namespaces() {
    if !confined() {
        return;
    }
    let chosen = choose_sandbox(&SandboxSettings::default()).unwrap();
    assert_eq!(chosen.sandbox.name(), "process");
    assert!(chosen.sandbox.is_last_resort());
    let world = World::new().with("src/a", "1");
    let said = Said::of(
        run_in(&*chosen.sandbox, &world.script("cat src/a"))
            .await
            .unwrap(),
    );
    assert_eq!(said.out, "1");
}
