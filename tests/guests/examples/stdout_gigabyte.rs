//! Writes a gigabyte to stdout: half of it as one line without an end, half of it as short lines.

use mimir_guests::{Answer, Hostile, hostile, text};
use std::io::Write;

struct Stdout;

const HALF: usize = 512 << 20;

impl Hostile for Stdout {
    fn call(_: String) -> Answer {
        let mut out = std::io::stdout().lock();
        let solid = vec![b'x'; 64 << 10];
        let lines = b"short\n".repeat(10 << 10);
        for chunk in [solid, lines] {
            for _ in 0..HALF / chunk.len() {
                if out.write_all(&chunk).is_err() {
                    return text("refused");
                }
            }
            drop(out.write_all(b"\n"));
        }
        text("written")
    }
}

hostile!(Stdout);
