//! `mimir licences`: whose work is part of the binary beside the crates that it is built of, and on what terms.

use mimir_builtins::{LICENCES, Licence};
use mimir_core::redact;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output::{Printer, STRONG, styled};

/// Prints them all.
pub fn run(printer: Printer) -> Result<Exit, Failure> {
    let rules = Licence {
        of: "gitleaks, whose rules find secrets",
        text: redact::LICENCE,
    };
    let all: Vec<Licence> = LICENCES.into_iter().chain([rules]).collect();
    let value = |one: &Licence| json!({"of": one.of, "text": one.text});
    let values: Vec<_> = all.iter().map(value).collect();
    printer.result(&values, |out| {
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
    Ok(Exit::Done)
}
