//! Returns as structured result what is no JSON at all, or is nested without end.

use mimir_guests::{Answer, Hostile, hostile, structured};

struct NotJson;

impl Hostile for NotJson {
    fn call(arguments: String) -> Answer {
        if arguments.contains("deep") {
            structured("[".repeat(1 << 20))
        } else {
            structured("{\"a\": 1,,}")
        }
    }
}

hostile!(NotJson);
