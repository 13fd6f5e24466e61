//! Calls itself twice in every call, which it was granted.

use mimir_guests::host::tools;
use mimir_guests::{Answer, Hostile, Manifest, Named, hostile, manifest, text, tool};

struct Bomb;

impl Hostile for Bomb {
    fn describe() -> Manifest {
        let mut definition = tool(Self::NAME);
        definition.needs.tools = vec![Self::NAME.into()];
        manifest(vec![definition])
    }

    fn call(_: String) -> Answer {
        let one = tools::call(Self::NAME, "{}");
        let two = tools::call(Self::NAME, "{}");
        match one.and(two) {
            Ok(_) => text("both"),
            Err(error) => Err(error),
        }
    }
}

hostile!(Bomb);
