//! Programs that use up processes, memory or disk space.

use std::time::{Duration, Instant};

use mimir_core::command::CommandProgram;
use mimir_process::sandbox::{ProcessSandbox, ResourceBound, Sandbox, SandboxError};

use crate::kit::{Said, World, gone, marker, run_in, sandbox};

/// Returns true if this machine cannot enforce the limit, so that the command must be refused.
async fn refused(fault: &SandboxError) -> bool {
    matches!(fault, SandboxError::Unsupported { .. })
}

#[tokio::test]
async fn fork_bomb_is_killed() {
    let world = World::new();
    let number = marker(1);
    let mut spec = world.script(&format!("f() {{ sleep {number} & f | f & }}; f; wait"));
    spec.bounds.processes = ResourceBound::Requested(64);
    spec.timeout = Some(Duration::from_secs(3));
    let begun = Instant::now();
    match run_in(&*sandbox(), &spec).await {
        Err(fault) if refused(&fault).await => return,
        Ok(_) | Err(SandboxError::Timeout(_)) => {}
        Err(fault) => panic!("{fault}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    gone(&number).await;
}

/// The program itself counts as one of the processes.
#[tokio::test]
async fn process_limit_is_enforced() {
    let world = World::new();
    let program = "
import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0: time.sleep(60)
        count += 1
except OSError: pass
print(1 + count)";
    // A `python3` on the PATH may be a script that starts other processes before it executes Python.
    let python = std::process::Command::new("python3")
        .args(["-c", "import sys; print(sys.executable, end='')"])
        .output();
    let python = String::from_utf8(python.unwrap().stdout).unwrap();
    let words = [&*python, "-c", program].map(str::to_owned);
    for max in [1, 2, 32] {
        let mut spec = world.spec(CommandProgram::Vector(words.to_vec()));
        spec.bounds.processes = ResourceBound::Requested(max);
        match run_in(&*sandbox(), &spec).await {
            Err(fault) => assert!(refused(&fault).await, "{fault}"),
            Ok(finished) => {
                let said = Said::of(finished);
                assert_eq!(said.out, format!("{max}\n"), "{said:?}");
            }
        }
    }
}

#[tokio::test]
async fn memory_bomb_is_killed() {
    let world = World::new();
    for bomb in [
        "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'",
        "head -c 400m /dev/zero > /tmp/x",
    ] {
        let mut spec = world.script(bomb);
        spec.bounds.memory = ResourceBound::Requested(128 << 20);
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        assert!(
            matches!(fault, SandboxError::Memory(_)) || refused(&fault).await,
            "{bomb}: {fault}"
        );
    }
}

#[tokio::test]
async fn memory_limit_per_process_applies_without_cgroups() {
    let sandbox = ProcessSandbox::without_control_groups();
    let said = sandbox.available().unwrap().join("\n");
    assert!(said.contains("for each process (RLIMIT_DATA)"), "{said}");
    let world = World::new();
    let mut spec = world.script(
        "python3 -c '
import mmap
size = 64 << 20
reserved = mmap.mmap(-1, size * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)
try:
    bytearray(size * 2); print(\"too much\")
except MemoryError: print(\"no more\")
print(len(bytearray(size // 2)))'",
    );
    spec.bounds.memory = ResourceBound::Default(128 << 20);
    let said = Said::of(run_in(&sandbox, &spec).await.unwrap());
    assert_eq!(said.out, "no more\n33554432\n", "{said:?}");
    // A configured limit would apply to all processes together, so it is refused.
    spec.bounds.memory = ResourceBound::Requested(128 << 20);
    let fault = run_in(&sandbox, &spec).await.unwrap_err();
    assert!(refused(&fault).await, "{fault}");
}

#[tokio::test]
#[ignore = "needs node and go"]
async fn runtimes_start_without_control_groups() {
    let sandbox = ProcessSandbox::without_control_groups();
    let world = World::new();
    let path = std::env::var_os("PATH").unwrap();
    let has_java = std::env::split_paths(&path).any(|folder| folder.join("java").is_file());
    // A Java runtime is too large to install for this test alone.
    let java = has_java.then_some("java -version");
    for command in ["node -e 'console.log(1)'", "go version"]
        .into_iter()
        .chain(java)
    {
        let said = Said::of(run_in(&sandbox, &world.script(command)).await.unwrap());
        assert_eq!(said.code, 0, "{command}: {said:?}");
    }
}

#[tokio::test]
async fn cpu_limit_is_enforced() {
    let world = World::new();
    let mut spec = world.script(
        "python3 -c '
import time
end = time.monotonic() + 1
while time.monotonic() < end: pass
print(time.process_time())'",
    );
    spec.bounds.cpu = Some(20);
    match run_in(&*sandbox(), &spec).await {
        Err(fault) => assert!(refused(&fault).await, "{fault}"),
        Ok(finished) => {
            let used: f64 = String::from_utf8_lossy(&finished.stdout.bytes)
                .trim()
                .parse()
                .unwrap();
            assert!(used < 0.5, "{used}");
        }
    }
}

#[tokio::test]
async fn file_size_and_temporary_folder_are_limited() {
    let world = World::new();
    let mut spec = world
        .script("head -c 10m /dev/zero > big; ls -l big | cut -d' ' -f5; ulimit -c; ulimit -n");
    spec.bounds.file_size = 1 << 20;
    spec.bounds.open_files = 77;
    let finished = run_in(&*sandbox(), &spec).await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&finished.stdout.bytes),
        "1048576\n0\n77\n"
    );
    let said = world.sh("df --output=size -BG /tmp | tail -1").await;
    assert_eq!(said.out.trim(), "2G", "{said:?}");
}
