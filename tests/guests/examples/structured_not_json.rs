//! Returns structured content that is not JSON, or is nested very deeply.

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
