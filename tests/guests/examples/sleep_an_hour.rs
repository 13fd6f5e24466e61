//! Uses no fuel and no time of the processor: it sleeps.

use mimir_guests::{Answer, Hostile, hostile, text};
use std::time::Duration;

struct Sleep;

impl Hostile for Sleep {
    fn call(_: String) -> Answer {
        std::thread::sleep(Duration::from_secs(3600));
        text("good morning")
    }
}

hostile!(Sleep);
