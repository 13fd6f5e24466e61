//! `mimir policy explain`

use std::io::{self, Write};

use mimir_core::{Decision, Evaluation};
use serde::Serialize;

use crate::args::{Approve, Globals};
use crate::arguments::Words;
use crate::exit::{Exit, Failure};
use crate::output::{BAD, GOOD, Printer, WARN, styled};
use crate::setup::Setup;
use crate::terminal::approver;

use super::call::call;

#[derive(Serialize)]
struct Explained<'a> {
    decision: Decision,
    reasons: &'a [mimir_core::decision::Reason],
}

/// Says what would be decided about a call. Nothing runs but the tool's assessor.
pub async fn run(
    globals: &Globals,
    printer: Printer,
    tool: &str,
    words: Words,
) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let world = setup.world().await?;
    let found = world
        .registry
        .find(tool)
        .map_err(|error| Failure::ending(error, Exit::Usage))?;
    let arguments = words
        .resolve(Some(found))
        .map_err(|error| Failure::ending(error, Exit::Usage))?;
    let pipeline = setup.pipeline(world, approver(Approve::Never, String::new()));
    let evaluation = pipeline.explain(call(tool.to_owned(), arguments)).await?;
    let explained = Explained {
        decision: evaluation.decision(),
        reasons: evaluation.reasons(),
    };
    printer.result(&explained, |out| text(out, &evaluation))?;
    Ok(Exit::Done)
}

fn text(out: &mut dyn Write, evaluation: &Evaluation) -> io::Result<()> {
    let word = |decision: Decision| match decision {
        Decision::Allow => styled(GOOD, decision.as_str()),
        Decision::Ask => styled(WARN, decision.as_str()),
        Decision::Deny => styled(BAD, decision.as_str()),
    };
    writeln!(out, "{}", word(evaluation.decision()))?;
    for reason in evaluation.reasons() {
        let line = format!("{} ({}; {})", reason.text, reason.rule, reason.source);
        writeln!(
            out,
            "  {}: {}",
            word(reason.decision),
            mimir_core::text::visible(&line)
        )?;
    }
    Ok(())
}
