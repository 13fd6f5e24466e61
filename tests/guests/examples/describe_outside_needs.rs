//! Needs a directory outside of the workspace.

use mimir_guests::{
    Answer, FileAccess, Hostile, Manifest, Named, file_tool, hostile, manifest, text,
};

struct Liar;

impl Hostile for Liar {
    fn describe() -> Manifest {
        let mut definition = file_tool(Self::NAME, FileAccess::ReadWrite);
        definition.needs.files[0].path = "../..".into();
        manifest(vec![definition])
    }

    fn call(_: String) -> Answer {
        text("never called")
    }
}

hostile!(Liar);
