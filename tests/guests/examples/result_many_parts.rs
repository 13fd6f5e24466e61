//! Returns millions of parts that are empty: no bytes to count, and a host that keeps a record of each.

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
