//! `mimir policy explain`.

use std::io::{self, Write};

use mimir_core::approval::Fingerprint;
use mimir_core::command::CommandVerdict;
use mimir_core::grants;
use mimir_core::pipeline::{CallExplanation, RequestPreview};
use mimir_core::{Decision, Tool};
use serde::Serialize;

use crate::args::{ApproveMode, GlobalOptions};
use crate::arguments::ArgumentInput;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{BAD, GOOD, WARN, styled};
use crate::terminal::{StartedCommand, approver};
use mimir::install_package::question_of_running_call;
use mimir::setup::HostSetup;

use super::call::new_call;

/// An explanation, as `mimir policy explain --json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainReport<'a> {
    decision: Decision,
    reasons: Vec<&'a mimir_core::decision::DecisionReason>,
    /// Verdict on each simple command, if the call runs any.
    #[serde(skip_serializing_if = "<[CommandVerdict]>::is_empty")]
    commands: &'a [CommandVerdict],
    /// Id of the stored approval that allows the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<&'a Fingerprint>,
    /// The network request of the call, as far as it is known without network access.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<&'a RequestPreview>,
    /// Steps that would allow the call.
    #[serde(rename = "wayOut", skip_serializing_if = "<[String]>::is_empty")]
    remedies: &'a [String],
    /// Hint on file rights that the tool could use but was not granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    ungranted: Option<&'a str>,
    /// Question that comes while the call runs, whatever the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    later: Option<&'static str>,
}

impl<'a> ExplainReport<'a> {
    /// Creates the report. `ungranted` is the hint of [`ungranted_files`].
    pub fn new(
        explanation: &'a CallExplanation,
        ungranted: Option<&'a str>,
        later: Option<&'static str>,
    ) -> Self {
        Self {
            decision: explanation.evaluation.decision(),
            reasons: explanation.evaluation.reasons().collect(),
            commands: explanation.evaluation.commands(),
            lease: explanation.stored_approval.as_ref().map(|lease| &lease.id),
            network: explanation.network.as_ref(),
            remedies: &explanation.remedies,
            ungranted,
            later,
        }
    }
}

/// Returns the hint on file rights that the tool could use but was not granted.
pub fn ungranted_files(tool: &Tool) -> Option<String> {
    grants::lacks_files(tool, &tool.granted).then(|| grants::files_remedy(tool))
}

/// Explains the decision about a call without running it. Only the assessor of the tool runs.
pub async fn run(globals: &GlobalOptions, tool: &str, arguments: Vec<String>) -> CommandResult {
    let printer = globals.printer();
    let input = ArgumentInput::parse(arguments)?;
    let setup = HostSetup::find_with_bundles(globals.workspace.as_deref(), false).await?;
    let snapshot = setup.load_snapshot().await?;
    let found = snapshot
        .registry
        .find(tool)
        .map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?;
    let ungranted = ungranted_files(found);
    let later = question_of_running_call(found);
    let arguments = input
        .resolve(Some(found))
        .map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?;
    let pipeline = setup.pipeline(snapshot, approver(ApproveMode::Never, StartedCommand::Call));
    let explanation = pipeline
        .explain(new_call(tool.to_owned(), arguments))
        .await?;
    let explained = ExplainReport::new(&explanation, ungranted.as_deref(), later);
    printer.print_result(&explained, |out| {
        print_explanation(out, &explanation)?;
        let notes = [ungranted.as_deref(), later];
        let mut notes = notes.into_iter().flatten();
        notes.try_for_each(|line| writeln!(out, "  {line}"))
    })?;
    Ok(ExitReason::Done)
}

fn print_explanation(out: &mut dyn Write, explanation: &CallExplanation) -> io::Result<()> {
    let evaluation = &explanation.evaluation;
    let styled_decision = |decision: Decision| match decision {
        Decision::Allow => styled(GOOD, decision.as_str()),
        Decision::Ask => styled(WARN, decision.as_str()),
        Decision::Deny => styled(BAD, decision.as_str()),
    };
    writeln!(out, "{}", styled_decision(evaluation.decision()))?;
    for verdict in evaluation.commands() {
        let command = mimir_core::text::visible(&verdict.command);
        writeln!(out, "  {}: `{command}`", styled_decision(verdict.decision))?;
    }
    if !evaluation.commands().is_empty() {
        writeln!(out, "why")?;
    }
    for reason in evaluation.reasons() {
        let source_suffix = match reason.source.as_str() {
            "" => String::new(),
            source => format!("; {source}"),
        };
        let line = format!("{} ({}{source_suffix})", reason.text, reason.rule);
        writeln!(
            out,
            "  {}: {}",
            styled_decision(reason.decision),
            mimir_core::text::visible(&line)
        )?;
    }
    if let Some(network) = &explanation.network {
        print_request(out, network)?;
    }
    if let Some(lease) = &explanation.stored_approval {
        let id = lease.id.short();
        let covers = mimir_core::text::visible(&lease.pattern.describe());
        return writeln!(
            out,
            "It runs without a question: approval {id} covers calls with {covers}; `mimir approvals revoke {id}` revokes it"
        );
    }
    if !explanation.remedies.is_empty() {
        writeln!(out, "To allow this call, do the following:")?;
    }
    for line in &explanation.remedies {
        writeln!(out, "  {}", mimir_core::text::visible(line))?;
    }
    Ok(())
}

/// Prints the network request that the call would send.
fn print_request(out: &mut dyn Write, network: &RequestPreview) -> io::Result<()> {
    let visible = mimir_core::text::visible;
    let RequestPreview {
        method, url, port, ..
    } = network;
    writeln!(out, "request {method} {}", visible(url))?;
    writeln!(
        out,
        "  by {} to {}, port {port}",
        network.scheme,
        visible(&network.host)
    )?;
    if let Some(pattern) = &network.pattern {
        writeln!(out, "  listed as {}", visible(pattern))?;
    }
    match &network.addresses {
        Some(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            writeln!(out, "  at {}, without asking DNS", addresses.join(", "))
        }
        None => writeln!(
            out,
            "  nothing was sent and no DNS query was made; the addresses of the host are checked when the request is made"
        ),
    }
}
