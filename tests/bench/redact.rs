//! Masking of secrets: ordinary text compared with a search for one word by the standard library, the result of an
//! ordinary call, and texts with the highest cost.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use mimir_core::Redactor;

use crate::measure::{Budget, Pace, Report, Row, size, time};

/// Masking clean text, relative to `str::contains` over it.
const MASKED: f64 = 80.0;

/// Bytes of an outcome.
const OUTCOME: usize = 100_000;

/// Bytes of text masked at a time.
const CLEAN: usize = 8 << 20;

/// Bytes of the largest possible result.
const HOSTILE: usize = 16 << 20;

/// The most expensive texts: words that rules begin with, followed by as many matching characters as possible.
const UNITS: [&str; 6] = [
    "key=",
    "curl -H \"X-Api-Key: abcd1234efgh\" ",
    "<add key=\"Password\" value=\"aaaaaaaa",
    "sk-proj-",
    "-----BEGIN RSA PRIVATE ",
    "\"password\":\"\"",
];

pub fn bench(report: &mut Report) {
    let redactor = Redactor::new();
    let text = sources();
    let first = Instant::now();
    redactor.find(b"{\"path\":\"README.md\",\"exists\":true,\"type\":\"file\"}");
    report.note(format_args!(
        "the first use in a process takes {}",
        time(first.elapsed().as_secs_f64())
    ));

    let outcome = text[..text.floor_char_boundary(OUTCOME)].to_owned();
    let pace = Pace {
        turn: 1,
        samples: 10,
        time: Duration::from_secs(1),
    };
    let search = |text: &str| {
        // A word that is in no source file. The searched text must not be known to the compiler.
        let start = Instant::now();
        black_box(black_box(text).contains("\u{1}no such word"));
        start.elapsed()
    };
    let pair = report.pair(
        "redact",
        pace,
        |times| (0..times).map(|_| masked(&redactor, &text)).sum(),
        |times| (0..times).map(|_| search(&text)).sum(),
    );
    let rate = text.len() as f64 / pair.ours;
    report.row(Row {
        name: "redaction of clean text".to_owned(),
        ours: per_second(rate),
        reference: format!(
            "{} `str::contains`",
            per_second(text.len() as f64 / pair.reference)
        ),
        ratio: pair.ratio(),
        budget: Budget::AtMost(MASKED),
    });

    let pair = report.pair(
        "redact-outcome",
        pace,
        |times| (0..times).map(|_| masked(&redactor, &outcome)).sum(),
        |times| (0..times).map(|_| search(&outcome)).sum(),
    );
    report.row(Row {
        name: "redaction of an outcome of 100 KB".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} `str::contains`", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::Open,
    });

    for unit in UNITS {
        let text = unit.repeat(HOSTILE / unit.len());
        let took = masked(&redactor, &text).as_secs_f64();
        report.note(format_args!(
            "{} of `{unit}`: {}, {}",
            size(text.len() as f64),
            time(took),
            per_second(text.len() as f64 / took)
        ));
    }
}

/// Formats bytes per second.
fn per_second(rate: f64) -> String {
    format!("{:.0} MB/s", rate / 1e6)
}

/// Time for scanning a text.
fn masked(redactor: &Redactor, text: &str) -> Duration {
    let start = Instant::now();
    black_box(redactor.find(black_box(text).as_bytes()));
    start.elapsed()
}

/// The sources of this repository, without those about secrets, repeated.
fn sources() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = String::new();
    let mut folders = vec![root.join("host"), root.join("plugins"), root.join("sdk")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("redact") || path.ends_with("target") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let once = text.len();
    assert!(once > OUTCOME, "{once} bytes of sources");
    text.repeat(CLEAN.div_ceil(once))
}
