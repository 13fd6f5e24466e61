//! Sleeps instead of returning its description.

use mimir_guests::{Answer, Hostile, Manifest, hostile, manifest, text};
use std::time::Duration;

struct Sleeper;

impl Hostile for Sleeper {
    fn describe() -> Manifest {
        std::thread::sleep(Duration::from_secs(3600));
        manifest(vec![])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Sleeper);
