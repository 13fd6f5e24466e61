//! The table of components of other projects: which file, which tool, and the result of one call.
//!
//! `build.sh` beside this file builds them from packages, and `README.md` names their sources and versions. The folder
//! with the results is named by the variable [`FOLDER`]. `.ci/foreign-components` does both.

mod rows;

use std::fs;
use std::path::{Path, PathBuf};

use mimir_core::grants::named_folder;
use mimir_core::needs::{DirectoryAccess, Needs};
use mimir_testkit::{Outcome, Testkit, Value, json};

use super::grant;
use ExpectedOutcome::{Failure, Printed, Refused, Text};
use rows::TABLE;

/// The environment variable with the folder of the components.
const FOLDER: &str = "MIMIR_FOREIGN_COMPONENTS";

/// A call of a component of another project.
struct ForeignCall {
    /// The file without `.wasm`, named after the project.
    file: &'static str,
    tool: &'static str,
    arguments: fn() -> Value,
    expected: ExpectedOutcome,
    /// The rights that a person grants before the call.
    needs: fn() -> Needs,
}

/// The outcome of a call.
enum ExpectedOutcome {
    /// Success, with this part of the result's text.
    Text(&'static str),
    /// A failure, with this part of its message.
    Failure(&'static str),
    /// An exit code other than 0 as the result of a program, after it has printed this.
    Printed(&'static str),
    /// No tool, for a reason with this part.
    Refused(&'static str),
}

/// Returns the folder that `build.sh` made.
fn folder() -> PathBuf {
    let folder = std::env::var_os(FOLDER);
    folder.map_or_else(
        || panic!("{FOLDER} is not set: expected the folder that build.sh made"),
        PathBuf::from,
    )
}

/// Returns a kit with a component, which may be refused.
fn kit(folder: &Path, file: &str) -> Testkit {
    let kit = Testkit::empty().unwrap();
    let added = kit.add(folder.join(file).with_extension("wasm"));
    added.unwrap_or_else(|error| panic!("{file}: {error}"));
    let limits = json!({ "limits": { "timeMs": 30_000 } });
    kit.settings(limits).unwrap()
}

/// Returns what a program printed before it ended with an exit code other than 0.
fn printed(outcome: &Outcome) -> Option<String> {
    let details = outcome.result().err()?.details.as_ref()?;
    Some(details["stdout"].as_str()?.to_owned())
}

/// Returns whether the outcome is the expected one, and the text of the outcome.
fn check(kit: &Testkit, row: &ForeignCall) -> (bool, String) {
    if let Refused(part) = row.expected {
        let reasons: Vec<String> = kit
            .quarantined()
            .iter()
            .map(|it| it.reason.clone())
            .collect();
        let reasons = reasons.join("\n");
        return (kit.tools().is_empty() && reasons.contains(part), reasons);
    }
    let outcome = kit.call(row.tool, (row.arguments)());
    let text = printed(&outcome).unwrap_or_else(|| outcome.text());
    let is_expected = match row.expected {
        Text(part) => outcome.is_ok() && text.contains(part),
        Failure(part) => !outcome.is_ok() && outcome.text().contains(part),
        Printed(part) => !outcome.is_ok() && text.contains(part),
        Refused(_) => false,
    };
    (is_expected, text)
}

#[test]
#[ignore = "needs MIMIR_FOREIGN_COMPONENTS, made by host/wasm/tests/foreign/build.sh"]
fn foreign_components_of_the_table_run() {
    let folder = folder();
    let mut failures = Vec::new();
    // A component is compiled once for all of its calls.
    for rows in TABLE.chunk_by(|a, b| a.file == b.file) {
        let kit = kit(&folder, rows[0].file);
        for row in rows {
            let needs = (row.needs)();
            if needs != Needs::default() {
                grant(&kit, needs);
            }
            let (is_expected, text) = check(&kit, row);
            eprintln!("{}: {text:.100}", row.file);
            if !is_expected {
                failures.push(format!("{}: {text}", row.file));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "needs MIMIR_FOREIGN_COMPONENTS, made by host/wasm/tests/foreign/build.sh"]
fn foreign_programs_use_the_folders_of_a_grant() {
    let kit = kit(&folder(), "resvg_resvg");
    let image = r#"<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4">
        <rect width="4" height="4" fill="red"/></svg>"#;
    fs::create_dir(kit.path().join("work")).unwrap();
    fs::write(kit.path().join("work/in.svg"), image).unwrap();
    let arguments = json!({ "args": ["work/in.svg", "work/out.png"] });
    assert!(!kit.call("resvg_resvg", arguments.clone()).is_ok());
    let access = DirectoryAccess::ReadWrite;
    let needs = Needs {
        files: vec![named_folder("work", access)],
        ..Needs::default()
    };
    grant(&kit, needs);
    let outcome = kit.call("resvg_resvg", arguments);
    assert!(outcome.is_ok(), "{}", outcome.text());
    let written = fs::read(kit.path().join("work/out.png")).unwrap();
    assert!(written.starts_with(b"\x89PNG"), "{written:?}");
}
