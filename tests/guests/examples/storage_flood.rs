//! Keeps more than anyone could want kept, under names that try to leave their place.

use mimir_guests::host::storage;
use mimir_guests::{Answer, Hostile, hostile, text};

struct Flood;

impl Hostile for Flood {
    fn call(_: String) -> Answer {
        let megabyte = vec![7u8; 1 << 20];
        let mut kept = 0;
        for at in 0..2_000 {
            kept += u32::from(storage::set(&format!("key-{at}"), &megabyte).is_ok());
        }
        for name in ["../escape", "/escape", "a/../../escape", "nul\0byte", ""] {
            drop(storage::set(name, b"escaped"));
        }
        text(kept.to_string())
    }
}

hostile!(Flood);
