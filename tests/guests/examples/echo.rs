//! A well-behaved guest that returns its arguments. It shows that the host still works after an attack.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Echo;

impl Hostile for Echo {
    fn call(arguments: String) -> Answer {
        text(arguments)
    }
}

hostile!(Echo);
