//! The whole process `mimir call` with a built-in tool, compared with a Node that does nothing.

use std::time::Duration;

use crate::measure::{Budget, Pace, Report, Row, time};
use crate::program;

const NAME: &str = "`mimir call` of a built-in, whole process";

pub fn bench(report: &mut Report) {
    let Some(mut node) = program::other("node") else {
        return report.skip(NAME, "there is no `node`");
    };
    node.args(["-e", "0"]);
    let folder = tempfile::tempdir().unwrap();
    let (workspace, home) = (folder.path().join("workspace"), folder.path().join("home"));
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("notes.txt"), "a line\nanother\n").unwrap();
    let mut mimir = program::call(&workspace, &home, &["call", "read_file", "path=notes.txt"]);
    assert!(program::printed(&mut mimir).contains("another"));
    let pace = Pace {
        turn: 1,
        samples: 10,
        time: Duration::from_secs(1),
    };
    let pair = report.pair(
        "process",
        pace,
        |times| program::run(&mut mimir, times),
        |times| program::run(&mut node, times),
    );
    report.row(Row {
        name: NAME.to_owned(),
        ours: time(pair.ours),
        reference: format!("{} `node -e 0`", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(0.5),
    });
}
