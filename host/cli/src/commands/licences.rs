//! `mimir licences`: licences of components in the binary that are not Rust crates.

use mimir_builtins::{LICENCES, Licence};
use mimir_core::redact;
use serde_json::json;

use crate::exit::{CommandResult, ExitReason};
use crate::output::{ResultPrinter, STRONG, styled};

/// Prints all licences.
pub fn run(printer: ResultPrinter) -> CommandResult {
    let rules = Licence {
        of: "gitleaks, whose rules find secrets",
        text: redact::LICENCE,
    };
    let all: Vec<Licence> = LICENCES.into_iter().chain([rules]).collect();
    let value = |one: &Licence| json!({"of": one.of, "text": one.text});
    let values: Vec<_> = all.iter().map(value).collect();
    printer.print_result(&values, |out| {
        for one in &all {
            writeln!(
                out,
                "{}\n\n{}\n",
                styled(STRONG, one.of),
                one.text.trim_end()
            )?;
        }
        Ok(())
    })?;
    Ok(ExitReason::Done)
}
