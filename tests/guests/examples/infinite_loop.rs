//! Loops forever, except with the argument `quick`.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Loop;

impl Hostile for Loop {
    fn call(arguments: String) -> Answer {
        if arguments.contains("quick") {
            return text("done");
        }
        let mut count = 0u64;
        loop {
            count = std::hint::black_box(count + 1);
        }
    }
}

hostile!(Loop);
