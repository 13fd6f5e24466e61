//! Programs that use up all processes or memory, or that produce endless output.

use std::time::{Duration, Instant};

use mimir_process::sandbox::{ResourceBound, SandboxError};

use crate::kit::{World, comes, marker, outpours, run_in, sandbox};

#[tokio::test]
#[ignore = "needs a container engine"]
async fn memory_bomb_is_killed() {
    let world = World::new();
    for bomb in [
        "head -c 400m /dev/zero > /tmp/x",
        "a=xxxxxxxx; while :; do a=$a$a; done",
    ] {
        let mut spec = world.script(bomb);
        spec.bounds.memory = ResourceBound::Requested(64 << 20);
        let fault = run_in(&sandbox(), &spec).await.unwrap_err();
        assert!(matches!(fault, SandboxError::Memory(_)), "{bomb}: {fault}");
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn fork_bomb_is_killed() {
    let world = World::new();
    let number = marker(1);
    let mut spec = world.script(&format!("f() {{ sleep {number} & f | f & }}; f; wait"));
    spec.bounds.processes = ResourceBound::Requested(32);
    spec.timeout = Some(Duration::from_secs(3));
    let begun = Instant::now();
    match run_in(&sandbox(), &spec).await {
        Ok(_) | Err(SandboxError::Timeout(_)) => {}
        Err(fault) => panic!("{fault}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    comes(&number, false).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn limits_of_processes_and_files_are_enforced() {
    let world = World::new();
    let mut spec =
        world.script("n=0; while [ $n -lt 100 ]; do sleep 9 & n=$((n+1)); done; echo $n");
    spec.bounds.processes = ResourceBound::Requested(20);
    let finished = run_in(&sandbox(), &spec).await.unwrap();
    assert_ne!(finished.exit_code, 0, "all hundred processes were started");
    let mut spec = world
        .script("head -c 10m /dev/zero > big; ls -l big | awk '{print $5}'; ulimit -c; ulimit -n");
    spec.bounds.file_size = 1 << 20;
    spec.bounds.open_files = 77;
    let finished = run_in(&sandbox(), &spec).await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&finished.stdout.bytes),
        "1048576\n0\n77\n"
    );
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn cpu_limit_is_enforced() {
    let world = World::new();
    // With a tenth of a processor, the work takes ten times as long.
    let work =
        "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; awk '{print $14+$15}' /proc/$$/stat";
    let mut spec = world.script(work);
    spec.bounds.cpu = Some(10);
    let begun = Instant::now();
    let finished = run_in(&sandbox(), &spec).await.unwrap();
    let ticks: f64 = String::from_utf8_lossy(&finished.stdout.bytes)
        .trim()
        .parse()
        .unwrap();
    let used = ticks / 100.0;
    assert!(
        used < 0.3 * begun.elapsed().as_secs_f64(),
        "{used} s in {:?}",
        begun.elapsed()
    );
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn output_of_ten_gigabytes_uses_bounded_memory() {
    let world = World::new();
    let spec = world.script("echo begin; head -c 10240m /dev/zero; echo; echo end");
    outpours(&sandbox(), spec).await;
}
