//! Opens one file a hundred thousand times and closes none.

#![expect(clippy::expect_used, reason = "a panic here is a failed test there")]

use mimir_guests::{
    Answer, FileAccess, Hostile, Manifest, Named, file_tool, hostile, manifest, text,
};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

struct Open;

impl Hostile for Open {
    fn describe() -> Manifest {
        manifest(vec![file_tool(Self::NAME, FileAccess::Read)])
    }

    fn call(_: String) -> Answer {
        let preopens = get_directories();
        let (root, _) = preopens.first().expect("a workspace");
        let mut open = vec![];
        let mut refused = 0;
        for _ in 0..100_000 {
            match root.open_at(
                PathFlags::empty(),
                "file.txt",
                OpenFlags::empty(),
                DescriptorFlags::READ,
            ) {
                Ok(file) => open.push(file),
                Err(_) => refused += 1,
            }
        }
        text(format!("{} open, {refused} refused", open.len()))
    }
}

hostile!(Open);
