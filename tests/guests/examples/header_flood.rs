//! Adds headers to a header block, which uses the host's memory, without end.

use mimir_guests::{Answer, Hostile, hostile, text};
use wasip2::http::types::Fields;

struct Headers;

impl Hostile for Headers {
    fn call(_: String) -> Answer {
        let value = vec![b'x'; 1 << 20];
        let mut held = vec![];
        for _ in 0..10_000 {
            let fields = Fields::new();
            for at in 0..16 {
                if fields.append(&format!("x-{at}"), &value).is_err() {
                    return text("refused");
                }
            }
            held.push(fields);
        }
        text("160 GB")
    }
}

hostile!(Headers);
