//! Fails with a huge message.

use mimir_guests::{Answer, Error, ErrorCode, Hostile, hostile};

struct Huge;

impl Hostile for Huge {
    fn call(_: String) -> Answer {
        Err(Error {
            code: ErrorCode::Execution,
            message: "x".repeat(60 << 20),
            details: Some(format!("\"{}\"", "y".repeat(60 << 20))),
        })
    }
}

hostile!(Huge);
