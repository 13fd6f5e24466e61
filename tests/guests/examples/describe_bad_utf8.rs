//! Has a description that is not UTF-8.

#![expect(unsafe_code, reason = "text that safe code cannot make")]

use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, text, tool};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        let mut definition = tool(Self::NAME);
        // SAFETY: nothing in this guest reads the text again; it is passed to the host as it is.
        definition.description = unsafe { String::from_utf8_unchecked(vec![0xff, 0xfe, 0xc0]) };
        manifest(vec![definition])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
