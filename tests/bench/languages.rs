//! A call of the template's tool in each language: the whole pipeline, a fresh instance.
//!
//! A language whose toolchain is missing is skipped. The fuel and the sizes of the components are printed for the table
//! of `sdk/README.md`.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::measure::{Budget, Pace, Report, Row, size, time, timed};
use crate::program;
use crate::subject::Subject;

/// A language, by its name in `mimir tools new --lang`, and the bound of a call.
struct Language {
    name: &'static str,
    budget: CallBudget,
}

/// The bound of a call.
#[derive(Clone, Copy)]
enum CallBudget {
    /// Milliseconds.
    Millis(f64),
    /// A multiple of a call of the same tool in Rust.
    OfRust(f64),
}

/// The languages beside Rust.
const LANGUAGES: &[Language] = &[
    Language {
        name: "c",
        budget: CallBudget::OfRust(2.0),
    },
    Language {
        name: "cpp",
        budget: CallBudget::OfRust(2.0),
    },
    Language {
        name: "zig",
        budget: CallBudget::OfRust(2.0),
    },
    Language {
        name: "js",
        budget: CallBudget::Millis(0.3),
    },
    Language {
        name: "ts",
        budget: CallBudget::Millis(0.3),
    },
    Language {
        name: "go",
        budget: CallBudget::Millis(1.0),
    },
    Language {
        name: "python",
        budget: CallBudget::Millis(1.5),
    },
];

const PACE: Pace = Pace {
    turn: 20,
    samples: 20,
    time: Duration::from_secs(2),
};

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let Ok(rust) = Hello::build(&runtime, &folder, "rust") else {
        report.skip("languages", "the template of Rust is not built");
        return;
    };
    for language in LANGUAGES {
        let name = language.name;
        let hello = match Hello::build(&runtime, &folder, name) {
            Ok(hello) => hello,
            Err(why) => {
                report.skip(&format!("a call of a plugin in {name}"), &why);
                continue;
            }
        };
        let pair = report.pair(
            name,
            PACE,
            |times| hello.call(times),
            |times| rust.call(times),
        );
        let (reference, ratio, budget) = match language.budget {
            CallBudget::Millis(allowed) => (
                format!("{allowed} ms allowed"),
                pair.ours / (allowed / 1e3),
                Budget::AtMost(1.0),
            ),
            CallBudget::OfRust(most) => (
                format!("{}, the same tool in Rust", time(pair.reference)),
                pair.ratio(),
                Budget::AtMost(most),
            ),
        };
        report.row(Row {
            name: format!("a call of a plugin in {name}"),
            ours: time(pair.ours),
            reference,
            ratio,
            budget,
        });
        report.note(format_args!(
            "{name}: {}, {} fuel; in Rust {}, {} fuel",
            size(hello.bytes as f64),
            hello.fuel,
            size(rust.bytes as f64),
            rust.fuel
        ));
    }
}

/// The built template in one language.
struct Hello<'r> {
    runtime: &'r Runtime,
    subject: Subject,
    /// Size of the component.
    bytes: usize,
    /// Fuel of a call.
    fuel: u64,
}

impl<'r> Hello<'r> {
    /// Makes the template and builds it. Returns the last line of the error if that fails.
    fn build(runtime: &'r Runtime, home: &TempDir, language: &str) -> Result<Self, String> {
        let workspace = home.path().join(language);
        std::fs::create_dir(&workspace).unwrap();
        for words in [
            &["tools", "new", "hello", "--lang", language][..],
            &["tools", "build", "hello"],
        ] {
            succeed(&workspace, home.path(), words)?;
        }
        let component = std::fs::read(workspace.join(".mimir/tools/hello.wasm"));
        let component = component.map_err(|error| error.to_string())?;
        let bytes = component.len();
        let plugins = [("hello".to_owned(), component)];
        let subject = runtime.block_on(Subject::with_plugins(plugins, json!({})));
        // The first call compiles the component.
        let outcome = runtime.block_on(subject.call("hello", json!({ "name": "bench" })));
        Ok(Self {
            runtime,
            subject,
            bytes,
            fuel: outcome.receipt().fuel.unwrap_or_default(),
        })
    }

    fn call(&self, times: u64) -> Duration {
        timed(self.runtime, times, async || {
            let outcome = self.subject.call("hello", json!({ "name": "bench" })).await;
            assert!(outcome.text().contains("bench"), "{}", outcome.text());
        })
    }
}

/// Runs mimir, and returns the last line of its output if it fails.
fn succeed(workspace: &Path, home: &Path, words: &[&str]) -> Result<(), String> {
    let output = program::call(workspace, home, words).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().next_back().unwrap_or_default().to_owned())
}
