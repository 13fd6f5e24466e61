//! Requests a terabyte of random bytes from the host.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Random;

impl Hostile for Random {
    fn call(_: String) -> Answer {
        let bytes = wasip2::random::random::get_random_bytes(1 << 40);
        text(bytes.len().to_string())
    }
}

hostile!(Random);
