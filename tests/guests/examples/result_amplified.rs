//! Returns a gigabyte, and a terabyte, out of little memory: every item of the list is the same text.

use mimir_guests::{Answer, Content, Hostile, Output, hostile};

struct Amplified;

const ONE: usize = 1 << 20;

impl Hostile for Amplified {
    fn call(_: String) -> Answer {
        let shared = "x".repeat(ONE).leak();
        // SAFETY: the memory holds that much text and is never freed: the host has no use for this guest
        // after it has refused the result.
        let mut same = || unsafe { String::from_raw_parts(shared.as_mut_ptr(), ONE, ONE) };
        let content = (0..1_000_000).map(|_| Content::Text(same())).collect();
        Ok(Output {
            content,
            structured: None,
            exit_code: None,
        })
    }
}

hostile!(Amplified);
