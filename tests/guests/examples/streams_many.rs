//! Opens one file, then a hundred thousand streams on it, and as many listings of a directory.

#![expect(clippy::expect_used, reason = "a panic here is a failed test there")]

use mimir_guests::{
    Answer, FileAccess, Hostile, Manifest, Named, file_tool, hostile, manifest, text,
};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

struct Streams;

impl Hostile for Streams {
    fn describe() -> Manifest {
        manifest(vec![file_tool(Self::NAME, FileAccess::Read)])
    }

    fn call(_: String) -> Answer {
        let preopens = get_directories();
        let (root, _) = preopens.first().expect("a workspace");
        let file = root
            .open_at(
                PathFlags::empty(),
                "file.txt",
                OpenFlags::empty(),
                DescriptorFlags::READ,
            )
            .expect("the first one opens");
        let mut streams = vec![];
        let mut listings = vec![];
        for _ in 0..100_000 {
            streams.extend(file.read_via_stream(0));
            listings.extend(root.read_directory());
        }
        text(format!(
            "{} streams, {} listings",
            streams.len(),
            listings.len()
        ))
    }
}

hostile!(Streams);
