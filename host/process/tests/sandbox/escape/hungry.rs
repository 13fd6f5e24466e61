//! Programs that want all processes, all memory or all of the disk.

use std::time::{Duration, Instant};

use mimir_process::sandbox::{Bound, Fault};

use crate::kit::{World, gone, marker, run_in, sandbox};

/// Whether this machine lets us hold it; else asking for it is refused, which is the claim then.
async fn refused(fault: &Fault) -> bool {
    matches!(fault, Fault::CannotHold { .. })
}

#[tokio::test]
async fn a_fork_bomb_ends() {
    let world = World::new();
    let number = marker(1);
    let mut spec = world.script(&format!("f() {{ sleep {number} & f | f & }}; f; wait"));
    spec.bounds.processes = Bound::Asked(64);
    spec.timeout = Some(Duration::from_secs(3));
    let begun = Instant::now();
    match run_in(&*sandbox(), &spec).await {
        Err(fault) if refused(&fault).await => return,
        Ok(_) | Err(Fault::Timeout(_)) => {}
        Err(fault) => panic!("{fault}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(15));
    gone(&number).await;
}

#[tokio::test]
async fn processes_are_bounded() {
    let world = World::new();
    let mut spec = world.script(
        "python3 -c '
import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0: time.sleep(60)
        count += 1
except OSError: pass
print(count)'",
    );
    spec.bounds.processes = Bound::Asked(32);
    match run_in(&*sandbox(), &spec).await {
        Err(fault) => assert!(refused(&fault).await, "{fault}"),
        Ok(finished) => {
            let count: u32 = String::from_utf8_lossy(&finished.stdout.bytes)
                .trim()
                .parse()
                .unwrap();
            assert!(count <= 32, "{count}");
        }
    }
}

#[tokio::test]
async fn a_memory_bomb_ends() {
    let world = World::new();
    for bomb in [
        "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'",
        "head -c 400m /dev/zero > /tmp/x",
    ] {
        let mut spec = world.script(bomb);
        spec.bounds.memory = Bound::Asked(128 << 20);
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        assert!(
            matches!(fault, Fault::Memory(_)) || refused(&fault).await,
            "{bomb}: {fault}"
        );
    }
}

#[tokio::test]
async fn processor_time_is_bounded() {
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
async fn a_file_and_the_temporary_folder_have_an_end() {
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
