//! Exits the process with success.

use mimir_guests::{Answer, Hostile, hostile};

struct Exit;

impl Hostile for Exit {
    fn call(_: String) -> Answer {
        std::process::exit(0)
    }
}

hostile!(Exit);
