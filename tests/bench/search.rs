//! `file_search` in a tree of 200 MB compared with ripgrep, both as whole processes; and without the process.
//! `search_code` in the same tree: the time to build its index, and that of queries.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::measure::{Budget, Pace, Report, Row, size, time};
use crate::subject::Subject;
use crate::{program, trees};

const NAME: &str = "`file_search` grep over 200 MB, whole process";

pub fn bench(report: &mut Report) {
    let Some(mut rg) = program::other("rg") else {
        return report.skip(NAME, "there is no `rg` (Debian: apt-get install ripgrep)");
    };
    let folder = tempfile::tempdir().unwrap();
    let (workspace, home) = (folder.path().join("tree"), folder.path().join("home"));
    let tree = trees::fill(&workspace);
    report.note(format_args!(
        "searching {} for {} lines",
        size(tree.bytes as f64),
        tree.matches
    ));

    rg.current_dir(&workspace)
        .args(["--line-number", "--fixed-strings", trees::NEEDLE, "."]);
    let arguments = json!({"mode": "grep", "query": trees::NEEDLE, "path": "."});
    let mut mimir = program::call(
        &workspace,
        &home,
        &["call", "file_search", &arguments.to_string()],
    );
    let [ours, theirs] = [&mut mimir, &mut rg].map(|command| lines(&program::printed(command)));
    assert_eq!(
        (ours, theirs),
        (tree.matches, tree.matches),
        "both find what is there"
    );

    let pace = Pace {
        turn: 1,
        samples: 10,
        time: Duration::from_secs(3),
    };
    let pair = report.pair(
        "search",
        pace,
        |times| program::run(&mut mimir, times),
        |times| program::run(&mut rg, times),
    );
    report.row(Row {
        name: NAME.to_owned(),
        ours: time(pair.ours),
        reference: format!("{} `rg`", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::AtMost(3.0),
    });
    inside(report, &workspace, pair.reference);
    code(report, &workspace, &home);
}

/// Time allowed for the first search of code, which builds the index, and for further ones.
const INDEX_ALLOWED: f64 = 20.0;
const QUERY_ALLOWED: f64 = 0.05;

/// Maximum number of searches that build the index.
const MAX_SEARCHES: u32 = 100;

/// Number of queries of each kind.
const QUERIES: usize = 15;

/// The search of code in a host that keeps running.
fn code(report: &mut Report, workspace: &Path, home: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let builder = mimir::Host::builder().workspace(workspace);
        let builder = builder.config_dir(home.join("config"));
        let host = builder.cache_dir(home.join("cache")).build().await.unwrap();
        let search = async |mode: &str, query: &str| {
            let arguments = json!({"mode": mode, "query": query, "maxResults": 20});
            let start = Instant::now();
            let outcome = host.call("search_code", arguments).await.unwrap();
            let took = start.elapsed().as_secs_f64();
            let is_complete = !outcome.text().contains("not complete");
            assert!(
                !is_complete || outcome.text().contains(".rs:"),
                "{}",
                outcome.text()
            );
            (took, is_complete)
        };
        // A search that would take too long answers from what is indexed, and the next one continues.
        let mut built = 0.0;
        let mut searches = 0;
        loop {
            let (took, is_complete) = search("words", trees::NEEDLE).await;
            built += took;
            searches += 1;
            if is_complete {
                break;
            }
            assert!(searches < MAX_SEARCHES, "the index is never complete");
        }
        report.note(format_args!(
            "the index was complete after {searches} searches"
        ));
        let query = async |mode: &str, query: &str| {
            let (took, is_complete) = search(mode, query).await;
            assert!(is_complete, "{mode}: the index is built again");
            took
        };
        report.row(Row {
            name: "`search_code`, building the index of 200 MB".to_owned(),
            ours: time(built),
            reference: format!("{} allowed", time(INDEX_ALLOWED)),
            ratio: built / INDEX_ALLOWED,
            budget: Budget::AtMost(1.0),
        });
        let mut times = Vec::new();
        for _ in 0..QUERIES {
            times.push(query("words", trees::NEEDLE).await);
            times.push(query("symbols", "session").await);
            times.push(query("references", trees::NEEDLE).await);
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        report.row(Row {
            name: "`search_code`, a query in 200 MB".to_owned(),
            ours: time(median),
            reference: format!("{} allowed", time(QUERY_ALLOWED)),
            ratio: median / QUERY_ALLOWED,
            budget: Budget::AtMost(1.0),
        });
    });
}

fn lines(printed: &str) -> usize {
    printed
        .lines()
        .filter(|line| line.contains(trees::NEEDLE))
        .count()
}

/// The search in this process, in which the component is already loaded.
fn inside(report: &Report, workspace: &Path, reference: f64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let subject = Subject::with_builtins(workspace).await;
        let arguments = json!({"mode": "grep", "query": trees::NEEDLE, "path": "."});
        subject.call("file_search", arguments.clone()).await;
        let start = Instant::now();
        let outcome = subject.call("file_search", arguments).await;
        let took = start.elapsed().as_secs_f64();
        let fuel = outcome.receipt().fuel.unwrap_or(0) as f64 / 1e9;
        report.note(format_args!(
            "in process: {}, {:.2} × rg, fuel {fuel:.2}e9",
            time(took),
            took / reference
        ));
    });
}
