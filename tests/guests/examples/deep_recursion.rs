//! Recurses until the stack overflows.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Deep;

#[expect(unconditional_recursion, reason = "that is the attack")]
fn down(depth: u64) -> u64 {
    let here = std::hint::black_box(depth);
    down(here + 1) + here
}

impl Hostile for Deep {
    fn call(_: String) -> Answer {
        text(down(0).to_string())
    }
}

hostile!(Deep);
