//! More output than is stored.

use crate::kit::{World, outpours, run_in, sandbox};

#[tokio::test]
async fn ten_gigabytes_cost_bounded_memory() {
    let world = World::new();
    let spec = world.script("echo begin; head -c 10G /dev/zero; echo; echo end");
    outpours(&*sandbox(), spec).await;
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept() {
    let world = World::new();
    let finished = run_in(&*sandbox(), &world.script("printf '\\377\\000\\376'"))
        .await
        .unwrap();
    assert_eq!(finished.stdout.bytes, [0xff, 0, 0xfe]);
}
