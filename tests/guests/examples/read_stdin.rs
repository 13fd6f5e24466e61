//! Reads the host's stdin.

use mimir_guests::{Answer, Hostile, hostile, text};
use std::io::Read;

struct Stdin;

impl Hostile for Stdin {
    fn call(_: String) -> Answer {
        let mut all = Vec::new();
        let end = std::io::stdin().read_to_end(&mut all);
        text(format!("{} bytes, {}", all.len(), end.is_ok()))
    }
}

hostile!(Stdin);
