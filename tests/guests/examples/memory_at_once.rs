//! Allocates two gigabytes at once.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Memory;

impl Hostile for Memory {
    fn call(_: String) -> Answer {
        let held = std::hint::black_box(vec![1u8; 2_000_000_000]);
        text(held.len().to_string())
    }
}

hostile!(Memory);
