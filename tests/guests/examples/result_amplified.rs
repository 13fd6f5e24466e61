//! Returns a gigabyte, and a terabyte, with little memory: all items of the list share one text.

#![expect(unsafe_code, reason = "text that safe code cannot make")]

use mimir_guests::{Answer, Content, Hostile, Output, hostile};

struct Amplified;

const ONE: usize = 1 << 20;

impl Hostile for Amplified {
    fn call(_: String) -> Answer {
        let shared = "x".repeat(ONE).leak();
        // SAFETY: the memory holds that much text and is never freed, because the host does not run this guest again
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
