//! Compilation of the built-in plugins, and loading them from the cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_kit::builtins;
use mimir_wasm::{HostOptions, Toolbox, WasmHost};
use tempfile::TempDir;
use wasmtime::component::Component;

use crate::bare;
use crate::measure::{Budget, Report, Row, median, size, time};
use crate::subject::Subject;

/// Number of compilations: each takes seconds, and the ratio is near one.
const TURNS: usize = 3;

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let components: Vec<_> = builtins()
        .iter()
        .map(|builtin| builtin.component.unpack().unwrap())
        .collect();
    let bytes: usize = components.iter().map(|component| component.len()).sum();
    let megabytes = bytes as f64 / f64::from(1 << 20);
    let engine = bare::engine();
    let (mut ours, mut reference, mut warm) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let start = Instant::now();
        for component in &components {
            Component::new(&engine, component).unwrap();
        }
        reference.push(start.elapsed().as_secs_f64());

        let folder = tempfile::tempdir().unwrap();
        let took = runtime.block_on(describe(&folder));
        ours.push(took.as_secs_f64());
        let took = runtime.block_on(first_call(folder));
        warm.push(took.as_secs_f64());
    }
    let (ours, reference, warm) = (median(&mut ours), median(&mut reference), median(&mut warm));
    report.row(Row {
        name: format!(
            "compiling the built-in plugins ({}) and asking what they are",
            size(bytes as f64)
        ),
        ours: format!("{} per MB", time(ours / megabytes)),
        reference: format!("{} per MB bare wasmtime", time(reference / megabytes)),
        ratio: ours / reference,
        budget: Budget::Open,
    });
    report.row(Row {
        name: "a new host and its first call, code from the cache".to_owned(),
        ours: time(warm),
        reference: format!("{} to compile", time(reference)),
        ratio: warm / reference,
        budget: Budget::Open,
    });
}

/// Compiles the built-in plugins in a new host that caches code in `folder`, and describes them.
async fn describe(folder: &TempDir) -> Duration {
    let mut options = HostOptions::new(folder.path().join("workspace"));
    options.cache_dir = Some(folder.path().join("cache"));
    let start = Instant::now();
    let toolbox = Toolbox::new(WasmHost::new(options), builtins(), None);
    let output = toolbox.descriptions().await.unwrap();
    assert_eq!(output.len(), builtins().len());
    start.elapsed()
}

/// Time from a new host to the first outcome, with everything in the cache of `folder`.
async fn first_call(folder: TempDir) -> Duration {
    let workspace = folder.path().join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("a.txt"), "a").unwrap();
    let start = Instant::now();
    let subject = Arc::new(Subject::with_builtins_in(folder, &workspace).await);
    subject
        .call("file_info", serde_json::json!({"path": "a.txt"}))
        .await;
    start.elapsed()
}
