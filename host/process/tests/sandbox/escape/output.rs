//! Output that exceeds the stored size.

use crate::kit::{World, outpours, run_in, sandbox};

#[tokio::test]
async fn output_of_ten_gigabytes_uses_bounded_memory() {
    let world = World::new();
    let spec = world.script("echo begin; head -c 10G /dev/zero; echo; echo end");
    outpours(&*sandbox(), spec).await;
}

#[tokio::test]
async fn output_with_invalid_utf8_is_unchanged() {
    let world = World::new();
    let finished = run_in(&*sandbox(), &world.script("printf '\\377\\000\\376'"))
        .await
        .unwrap();
    assert_eq!(finished.stdout.bytes, [0xff, 0, 0xfe]);
}
