//! More output than anybody reads.

use std::time::Duration;

use mimir_process::sandbox::Fault;

use crate::kit::{World, run_in, sandbox};

/// Bytes of memory that this program has in use.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test]
async fn ten_gigabytes_cost_bounded_memory() {
    let world = World::new();
    let mut spec = world.script("echo begin; head -c 10G /dev/zero; echo; echo end");
    spec.timeout = Some(Duration::from_secs(5));
    let before = memory();
    let (code, captured) = match run_in(&*sandbox(), &spec).await {
        Ok(finished) => (finished.exit_code, finished.stdout),
        Err(Fault::Timeout(stopped)) => (0, stopped.finished.stdout),
        Err(fault) => panic!("{fault}"),
    };
    assert_eq!(code, 0);
    assert!(captured.bytes.starts_with(b"begin\n"));
    assert!(
        captured.bytes.len() < (1 << 20) + 100 && captured.missing > 1 << 26,
        "{}",
        captured.missing
    );
    // Other tests of this program use some meanwhile.
    assert!(memory() < before + (256 << 20));
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept() {
    let world = World::new();
    let finished = run_in(&*sandbox(), &world.script("printf '\\377\\000\\376'"))
        .await
        .unwrap();
    assert_eq!(finished.stdout.bytes, [0xff, 0, 0xfe]);
}
