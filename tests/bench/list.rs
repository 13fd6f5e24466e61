//! `mimir tools list` with a thousand plugins compared with ten, and with fifty tools compared with another program:
//! whole process, with the costs of all tools, everything cached.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::measure::{Budget, Pace, Report, Row, time};
use crate::program;

pub fn bench(report: &mut Report) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let [few, many] = [10, 1_000].map(|count| {
        let workspace = folder.path().join(count.to_string());
        fill(&workspace, count);
        workspace
    });
    let mut few = program::call(&few, &home, &["tools", "list"]);
    let mut many = program::call(&many, &home, &["tools", "list"]);
    assert!(program::printed(&mut few).contains("plan_9"));
    assert!(program::printed(&mut many).contains("plan_999"));
    let pace = Pace {
        turn: 1,
        samples: 10,
        time: Duration::from_secs(1),
    };
    let pair = report.pair(
        "list",
        pace,
        |times| program::run(&mut many, times),
        |times| program::run(&mut few, times),
    );
    report.row(Row {
        name: "`mimir tools list` with 1,000 plugins, whole process".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} with 10", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(3.0),
    });
    beside_node(report, folder.path(), pace);
}

/// A typical number of tools, with some thirty of mimir's own.
const PLUGINS: usize = 30;

fn beside_node(report: &mut Report, folder: &Path, pace: Pace) {
    let name = "`mimir tools list` with 50 tools and their costs, whole process";
    let Some(mut node) = program::other("node") else {
        return report.skip(name, "there is no `node`");
    };
    node.args(["-e", "0"]);
    let workspace = folder.join("fifty");
    fill(&workspace, PLUGINS);
    let mut mimir = program::call(&workspace, &folder.join("home"), &["tools", "list"]);
    let list = program::printed(&mut mimir);
    assert!(list.contains("Total system prompt cost: ~"), "{list}");
    let tools = list.matches(" tokens\n").count();
    assert!(tools >= 50, "{list}");
    let pair = report.pair(
        "list beside node",
        pace,
        |times| program::run(&mut mimir, times),
        |times| program::run(&mut node, times),
    );
    report.row(Row {
        name: name.to_owned(),
        ours: time(pair.ours),
        reference: format!("{} `node -e 0`", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(0.5),
    });
}

/// Creates this many plugins of one tool each in a workspace.
pub fn fill(workspace: &Path, count: usize) {
    let tools = workspace.join(".mimir/tools");
    std::fs::create_dir_all(&tools).unwrap();
    for number in 0..count {
        std::fs::write(tools.join(format!("plan_{number}.wasm")), plugin(number)).unwrap();
    }
}

/// A small component with one typed function, with the size and schema of a typical tool.
pub fn plugin(number: usize) -> Vec<u8> {
    let mut filler = String::new();
    for byte in 0..16 << 10 {
        let _ = write!(filler, "{}", (byte * 7 + number) % 10);
    }
    let text = format!(
        r#"(component
          (core module $code
            (memory (export "memory") 1)
            (data (i32.const 1024) "{filler}")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 32768))
            (func (export "plan") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 1024)))
          (core instance $code (instantiate $code))
          (type $pace' (enum "slow" "steady" "fast"))
          (export $pace "pace" (type $pace'))
          (func (export "plan-{number}")
            (param "title" string) (param "steps" (list string)) (param "pace" $pace)
            (param "limit" (option u32)) (param "strict" bool) (result u32)
            (canon lift (core func $code "plan")
              (memory $code "memory") (realloc (func $code "realloc")))))"#
    );
    wat::parse_str(text).unwrap()
}
