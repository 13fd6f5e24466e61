//! Sleeps, without using fuel or processor time.

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
