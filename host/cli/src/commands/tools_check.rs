//! `mimir tools check`: checks a tool in a YAML file, without running it.

use std::path::Path;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::needs::Needs;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_script::{openapi, syntax};
use serde::Serialize;
use serde_json::json;

use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, ResultPrinter, styled};
use mimir::file_error::file_error;
use mimir::setup;

/// Maximum size of a tool file in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScriptCheckReport {
    ok: bool,
    name: String,
    enabled: bool,
    approval: mimir_core::Decision,
    risk: mimir_core::RiskLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_cost: Option<u32>,
    needs: Needs,
}

/// Creates the error with all faults, one per line.
pub fn faults_failure(faults: Vec<ToolError>) -> CommandFailure {
    let mut messages: Vec<String> = faults.iter().map(|fault| fault.message.clone()).collect();
    messages.dedup();
    let mut faults = faults.into_iter();
    let code = faults
        .next()
        .map_or(ToolErrorCode::InvalidInput, |first| first.code);
    let error = ToolError::new(code, messages.join("\n"));
    CommandFailure::from(match messages.len() {
        1 => error,
        _ => error.with_details(json!({ "faults": messages })),
    })
}

/// Checks the file as if it were in `.mimir/tools`, and parses its code with the engine of its language.
pub async fn run(printer: ResultPrinter, file: &Path) -> CommandResult {
    let shown = visible(&file.display().to_string());
    let is_api = openapi::is_api_file(&shown);
    let limit = if is_api {
        openapi::MAX_FILE_BYTES
    } else {
        MAX_FILE_SIZE
    };
    let content = files::read(file, LinkPolicy::Follow, limit);
    let content = content.map_err(|error| file_error("read", file, &error))?;
    let content = String::from_utf8(content)
        .map_err(|_| ToolError::invalid_input(format!("{shown} is not UTF-8")))?;
    if is_api {
        let file = openapi::check_api_file(&shown, &content)?;
        let names = file.tool_names();
        let line = format!(
            "{} {shown}: {} tools are valid",
            styled(GOOD, "✓"),
            names.len()
        );
        printer.print_result(&json!({ "ok": true, "tools": names }), |out| {
            writeln!(out, "{line}")
        })?;
        return Ok(ExitReason::Done);
    }
    let checked = match mimir_script::check_all(&shown, &content) {
        Ok(checked) => checked,
        Err(faults) => return Err(faults_failure(faults)),
    };
    let faults = syntax::faults(&setup::standalone_engines(), &shown, &checked).await?;
    if !faults.is_empty() {
        return Err(faults_failure(faults));
    }
    let definition = checked.definition;
    let report = ScriptCheckReport {
        ok: true,
        name: definition.name.to_string(),
        enabled: checked.enabled,
        approval: definition.approval,
        risk: definition.risk,
        token_cost: checked.token_cost,
        needs: definition.needs,
    };
    printer.print_result(&report, |out| {
        writeln!(
            out,
            "{} {shown}: `{}` is valid",
            styled(GOOD, "✓"),
            report.name
        )?;
        if !report.enabled {
            writeln!(out, "  it is not used, because it has `enabled: false`")?;
        }
        for line in report.needs.lines() {
            writeln!(out, "  - {line}")?;
        }
        Ok(())
    })?;
    Ok(ExitReason::Done)
}
