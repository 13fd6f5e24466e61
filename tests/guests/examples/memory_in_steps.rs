//! Allocates one megabyte after another.

use mimir_guests::{Answer, Hostile, hostile};

struct Memory;

impl Hostile for Memory {
    fn call(_: String) -> Answer {
        let mut held = Vec::new();
        loop {
            held.push(std::hint::black_box(vec![1u8; 1 << 20]));
        }
    }
}

hostile!(Memory);
