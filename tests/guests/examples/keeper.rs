//! A well-behaved guest that stores values between calls and returns them.

use mimir_guests::host::storage;
use mimir_guests::{Answer, Hostile, hostile, text};

struct Keeper;

impl Hostile for Keeper {
    /// The arguments are an object with an operation and its operand: `{"set": "key=value"}`.
    fn call(arguments: String) -> Answer {
        let words: Vec<&str> = arguments.split('"').collect();
        let (what, with) = (words[1], words[3]);
        let told = match what {
            "set" => {
                let (key, value) = with.split_once('=').unwrap_or((with, ""));
                storage::set(key, value.as_bytes()).map(|()| "kept".to_owned())?
            }
            "delete" => storage::delete(with).map(|()| "gone".to_owned())?,
            "keys" => storage::keys(with)?.join(","),
            _ => match storage::get(with)? {
                Some(value) => String::from_utf8_lossy(&value).into_owned(),
                None => "nothing".to_owned(),
            },
        };
        text(told)
    }
}

hostile!(Keeper);
