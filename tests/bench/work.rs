//! Scripts and programs with real work, compared with the interpreters of the machine as whole processes, as they run
//! without mimir. Ours are warm, except for the one that is a whole process too.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::program;
use crate::subject::Subject;

/// Scripts with typical work of tools: some text, some rows. The last line is the result.
const SCRIPTS: [(&str, &str); 2] = [
    (
        "JSON of 1 MB, read and written",
        r#"const rows = Array.from({ length: 12000 }, (_, n) => ({ id: n, name: "user" + n, tags: ["a", "b", "c"], score: (n * 37) % 1000, ok: true }));
const text = JSON.stringify(rows);
const back = JSON.parse(text);
const sum = back.reduce((all, row) => all + row.score, 0);
const result = sum + " " + JSON.stringify(back).length;
"#,
    ),
    (
        "regular expressions over 10,000 lines",
        r#"const lines = Array.from({ length: 10000 }, (_, n) => "2026-11-22T10:20:" + (n % 60) + "Z INFO user" + n + " came from 10.0." + (n % 256) + ".1 in " + (n % 7) + " ms");
let found = 0;
for (const line of lines) {
  const match = /user(\d+) came from (\d+\.\d+\.\d+\.\d+) in (\d+) ms/.exec(line);
  if (match && Number(match[3]) > 2) found += 1;
}
const days = lines.join("\n").match(/\d{4}-\d{2}-\d{2}/g).length;
const result = found + " " + days;
"#,
    ),
];

/// Python programs. Each prints one line.
const PROGRAMS: [(&str, &str); 4] = [
    (
        "calls and numbers",
        "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(26))\n",
    ),
    (
        "JSON",
        "import json\nrows = [{'id': n, 'name': f'user{n}', 'tags': ['a', 'b'], 'score': n * 37 % 1000} for n in range(20000)]\ntext = json.dumps(rows)\nfor _ in range(4):\n    text = json.dumps(json.loads(text))\nprint(len(text))\n",
    ),
    (
        "words in a text",
        "import collections, re\ntext = ' '.join(f'word{n * 7919 % 5003} and some more of them,' for n in range(30000))\ncount = collections.Counter(word.lower() for word in re.findall(r'[A-Za-z0-9]+', text))\nprint(count.most_common(3))\n",
    ),
    (
        "rows sorted and summed",
        "import random\nrandom.seed(1)\nrows = [(random.random(), n % 100, str(n)) for n in range(100000)]\nrows.sort(key=lambda row: (row[1], row[0]))\nsums = {}\nfor value, group, _ in rows:\n    sums[group] = sums.get(group, 0) + value\nprint(round(sum(sums.values()), 3))\n",
    ),
];

/// A script, relative to a whole `node` process with the same work.
const SCRIPT: f64 = 1.75;

/// Our Python, relative to the machine's.
const PROGRAM: f64 = 2.8;

/// A new process, relative to a new `python3`.
const PROCESS: f64 = 0.6;

/// Longer than compiled code counts as just written.
const WRITTEN: Duration = Duration::from_millis(300);

const PACE: Pace = Pace {
    turn: 1,
    samples: 10,
    time: Duration::from_secs(1),
};

pub fn bench(report: &mut Report) {
    scripts(report);
    programs(report);
    process(report);
}

fn scripts(report: &mut Report) {
    let runtime = runtime();
    for (what, code) in SCRIPTS {
        let name = format!("a script: {what}");
        let Some(mut node) = program::other("node") else {
            report.skip(&name, "there is no `node`");
            continue;
        };
        node.args(["-e", &format!("{code}\nconsole.log(result);")]);
        let body = code.replace('\n', "\n    ");
        let text = format!(
            "name: work\ndescription: Works.\nschema: {{type: object}}\ncode: |\n  export default () => {{\n    {body}\n    return result;\n  }};\n"
        );
        let subject = runtime.block_on(Subject::with_script("work", &text));
        let wanted = program::printed(&mut node);
        let ours = |times| {
            timed(&runtime, times, async || {
                let outcome = subject.call("work", json!({})).await;
                assert_eq!(outcome.text(), wanted.trim());
            })
        };
        ours(1);
        let pair = report.pair(&name, PACE, ours, |times| program::run(&mut node, times));
        report.row(Row {
            name,
            ours: time(pair.ours),
            reference: format!("{} `node`", time(pair.reference)),
            ratio: pair.ratio(),
            budget: Budget::AtMost(SCRIPT),
        });
    }
}

fn programs(report: &mut Report) {
    let runtime = runtime();
    let subject = runtime.block_on(Subject::with_script("none", NONE));
    for (what, code) in PROGRAMS {
        let name = format!("`run_code` in Python: {what}");
        let Some(mut python) = python(code) else {
            report.skip(&name, "there is no `python3`");
            continue;
        };
        let wanted = program::printed(&mut python);
        let ours = |times| {
            timed(&runtime, times, async || {
                let arguments = json!({"language": "python", "code": code, "backend": "wasm"});
                assert_eq!(subject.call("run_code", arguments).await.text(), wanted);
            })
        };
        ours(1);
        let pair = report.pair(&name, PACE, ours, |times| program::run(&mut python, times));
        report.row(Row {
            name,
            ours: time(pair.ours),
            reference: format!("{} `python3`", time(pair.reference)),
            ratio: pair.ratio(),
            budget: Budget::AtMost(PROGRAM),
        });
    }
}

fn process(report: &mut Report) {
    let name = "`mimir call run_code` of the least program in Python, whole process, warm";
    let Some(mut python) = python("print(1)") else {
        return report.skip(name, "there is no `python3`");
    };
    let folder = tempfile::tempdir().unwrap();
    let (home, workspace) = (folder.path().join("home"), folder.path().join("work"));
    std::fs::create_dir_all(workspace.join(".mimir")).unwrap();
    settle(&home);
    let words = ["call", "run_code", "language=python", "code=print(1)"];
    let mut mimir = program::call(&workspace, &home, &words);
    // The engine is compiled once per machine; shortly after, its code in the cache counts as unchanged.
    for _ in 0..2 {
        assert_eq!(program::printed(&mut mimir), "1\n");
        std::thread::sleep(WRITTEN);
    }
    let pace = Pace {
        samples: 20,
        ..PACE
    };
    let pair = report.pair(
        "process",
        pace,
        |times| program::run(&mut mimir, times),
        |times| program::run(&mut python, times),
    );
    report.row(Row {
        name: name.to_owned(),
        ours: time(pair.ours),
        reference: format!("{} `python3 -c`", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(PROCESS),
    });
}

/// Writes settings that let code run without approval.
fn settle(home: &Path) {
    let config = home.join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("config.yml"),
        "tools: {run_code: {approval: allow}}\n",
    )
    .unwrap();
}

/// An unused script, for a workspace that has one.
const NONE: &str = "name: none\ndescription: Does nothing.\nschema: {type: object}\ncode: export default () => ''\n";

fn python(code: &str) -> Option<Command> {
    // The interpreter itself: the first `python3` in `PATH` may be a wrapper script, which takes ten times as long.
    let mut found = program::other("python3")?;
    found.args(["-c", "import sys; print(sys.executable)"]);
    let mut python = program::other(program::printed(&mut found).trim())?;
    python.args(["-c", code]);
    Some(python)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}
