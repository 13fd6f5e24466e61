//! Stores excessive amounts of data, under keys that try to leave the storage folder.

use mimir_guests::host::storage;
use mimir_guests::{Answer, Hostile, hostile, text};

struct Flood;

impl Hostile for Flood {
    fn call(arguments: String) -> Answer {
        let (count, bytes) = match arguments.contains("small") {
            true => (1_100, 1),
            false => (40, 1 << 20),
        };
        let value = vec![7u8; bytes];
        let mut kept = 0;
        let mut refused = String::new();
        for at in 0..count {
            match storage::set(&format!("key-{at}"), &value) {
                Ok(()) => kept += 1,
                Err(error) => refused = format!("{:?}", error.code),
            }
        }
        let long = "k".repeat(100_000);
        for name in [
            "../escape",
            "/escape",
            "a/../../escape",
            "nul\0byte",
            "",
            &long,
        ] {
            let kept = storage::set(name, b"escaped").is_ok();
            if kept && storage::get(name)? != Some(b"escaped".to_vec()) {
                return text("a value went astray");
            }
        }
        let huge = storage::set("huge", &vec![7; (1 << 20) + 1]).is_ok();
        text(format!("{kept} {refused} {huge}"))
    }
}

hostile!(Flood);
