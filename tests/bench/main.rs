//! Speed of mimir, each measurement compared with a reference in the same run.
//!
//! `cargo bench --workspace --bench speed` measures everything and prints the table of `README.md`;
//! `… -- calls list` measures only these. It ends with an error if a budget is missed.

#![expect(clippy::unwrap_used, reason = "in benches a panic is the report")]

mod agent;
mod bare;
mod calls;
mod cluster;
mod code;
mod commands;
mod compile;
mod console;
mod container;
mod decide;
mod languages;
mod list;
mod mcp;
mod measure;
mod memory;
mod net;
mod process;
mod program;
mod redact;
mod script;
mod search;
mod subject;
mod throughput;
mod trees;
mod work;

use std::process::ExitCode;

use measure::Report;
use mimir_kit::guests;

/// The program's allocator, for mimir and for its reference.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A name and its measurements.
type Area = (&'static str, fn(&mut Report));

/// Areas that can be selected by name.
const AREAS: &[Area] = &[
    ("calls", calls::bench),
    ("console", console::bench),
    ("script", script::bench),
    ("languages", languages::bench),
    ("code", code::bench),
    ("work", work::bench),
    ("throughput", throughput::bench),
    ("decide", decide::bench),
    ("process", process::bench),
    ("list", list::bench),
    ("mcp", mcp::bench),
    ("cluster", cluster::bench),
    ("search", search::bench),
    ("redact", redact::bench),
    ("compile", compile::bench),
    ("memory", memory::bench),
    ("net", net::bench),
    ("commands", commands::bench),
    ("container", container::bench),
    ("agent", agent::bench),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, what] = &args[..]
        && flag == memory::CHILD
    {
        memory::child(what);
        return ExitCode::SUCCESS;
    }
    if let [flag, over] = &args[..]
        && flag == mcp::bare::CHILD
    {
        mcp::bare::child(over);
        return ExitCode::SUCCESS;
    }
    if let [flag, way, times] = &args[..]
        && flag == commands::CHILD
    {
        commands::child(way, times);
        return ExitCode::SUCCESS;
    }
    // `cargo test` runs benches too, unoptimised, so its figures would mean nothing.
    if !args.iter().any(|arg| arg == "--bench") {
        println!("nothing is measured without `cargo bench`");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    if let Some(unknown) = wanted
        .iter()
        .find(|name| AREAS.iter().all(|(area, _)| area != **name))
    {
        let names: Vec<_> = AREAS.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "there is no bench `{unknown}`; there are {}",
            names.join(", ")
        );
        return ExitCode::FAILURE;
    }
    let mut report = Report::new();
    for (name, bench) in AREAS {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name) {
            bench(&mut report);
        }
    }
    if report.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
