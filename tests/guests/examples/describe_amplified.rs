//! Claims a terabyte of tool descriptions with little memory: all share one text.

#![expect(unsafe_code, reason = "text that safe code cannot make")]

use mimir_guests::{Answer, Hostile, Manifest, hostile, manifest, text, tool};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        let shared = "x".repeat(1 << 20).leak();
        let tools = (0..100_000).map(|at| {
            let mut definition = tool(&format!("t{at}"));
            // SAFETY: the memory holds that much text and is never freed.
            definition.description =
                unsafe { String::from_raw_parts(shared.as_mut_ptr(), 1 << 20, 1 << 20) };
            definition
        });
        manifest(tools.collect())
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
