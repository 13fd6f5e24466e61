//! Returns millions of empty parts: no bytes to count, but the host stores an entry for each.

use mimir_guests::{Answer, Content, Hostile, Output, hostile};

struct Many;

impl Hostile for Many {
    fn call(_: String) -> Answer {
        Ok(Output {
            content: (0..5_000_000)
                .map(|_| Content::Text(String::new()))
                .collect(),
            structured: None,
            exit_code: None,
        })
    }
}

hostile!(Many);
