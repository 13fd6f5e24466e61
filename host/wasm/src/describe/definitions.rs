//! Tool definitions of a plugin: validated, limited in size and sanitized, tool by tool.

use std::collections::HashSet;

use mimir_core::name_suggestions::did_you_mean;
use mimir_core::network::HostPattern;
use mimir_core::tool::{ToolDefinition, ToolName};
use mimir_core::{Needs, Schema, ToolErrorCode, text};

use super::plugin_manifest::ClaimedTool;
use crate::error::WasmHostError;

/// Maximum number of tools of a plugin: more than real plugins have. Models see all tools.
const MAX_TOOLS: usize = 256;

/// Maximum lengths of the texts in a definition, in characters. Every prompt to a model contains all descriptions.
pub(super) const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 8_000;
const MAX_TEXT: usize = 500;
const MAX_SCHEMA: usize = 200_000;
const MAX_NEEDS: usize = 100;

/// The valid definitions of a manifest, and the names of skipped tools with the reasons.
pub(super) type SortedDefinitions = (Vec<ToolDefinition>, Vec<(String, String)>);

/// Validates the tools of a manifest. An invalid tool is skipped; a manifest with no tools or too many is an error.
pub(super) fn definitions(tools: Vec<ClaimedTool>) -> Result<SortedDefinitions, WasmHostError> {
    let refuse_manifest = |message: String| {
        Err(WasmHostError::Manifest(
            format!("it {message}"),
            ToolErrorCode::InvalidInput,
        ))
    };
    if tools.is_empty() {
        return refuse_manifest("describes no tools".to_owned());
    }
    if tools.len() > MAX_TOOLS {
        return refuse_manifest(format!(
            "describes {} tools; the limit is {MAX_TOOLS}, so split it into several plugins",
            tools.len()
        ));
    }
    let mut names = HashSet::new();
    let (mut valid, mut refused) = (Vec::new(), Vec::new());
    for tool in tools {
        let name = single_line(&tool.name, MAX_NAME);
        if !names.insert(tool.name.clone()) {
            refused.push((
                name,
                "the plugin describes this name twice; only the first definition is used"
                    .to_owned(),
            ));
            continue;
        }
        match definition(tool) {
            Ok(definition) => valid.push(definition),
            Err(reason) => refused.push((name, reason)),
        }
    }
    Ok((valid, refused))
}

fn definition(tool: ClaimedTool) -> Result<ToolDefinition, String> {
    let name = ToolName::new(&tool.name).map_err(|error| error.to_string())?;
    let too_long = |what: &str, length: usize, limit: usize| {
        format!("its {what} has {length} characters; the limit is {limit}")
    };
    let length = tool.description.chars().count();
    if length > MAX_DESCRIPTION {
        return Err(too_long("description", length, MAX_DESCRIPTION));
    }
    if tool.description.trim().is_empty() {
        return Err(
            "the description is empty: models choose tools by their descriptions".to_owned(),
        );
    }
    let schema = |what: &str, text: &str| {
        if text.len() > MAX_SCHEMA {
            return Err(too_long(what, text.len(), MAX_SCHEMA));
        }
        Schema::parse(text).map_err(|error| format!("its {what} is {error}"))
    };
    Ok(ToolDefinition {
        name,
        title: tool.title.map(|title| single_line(&title, MAX_TEXT)),
        description: text::sanitize(tool.description),
        group: tool.group,
        input_schema: schema("input schema", &tool.input_schema)?,
        output_schema: tool
            .output_schema
            .map(|text| schema("output schema", &text))
            .transpose()?,
        approval: tool.approval,
        silent: false,
        risk: tool.risk,
        hints: tool.hints,
        needs: needs(tool.needs)?,
    })
}

/// Validates a tool's needs. A need that could not be granted as written is an error.
fn needs(mut needs: Needs) -> Result<Needs, String> {
    let count = needs.files.len()
        + needs.hosts.len()
        + needs.commands.len()
        + needs.secrets.len()
        + needs.variables.len()
        + needs.tools.len();
    if count > MAX_NEEDS {
        return Err(format!("it has {count} needs; the limit is {MAX_NEEDS}"));
    }
    for need in &mut needs.files {
        let trimmed = need.path.trim_end_matches('/');
        let is_inside = trimmed == "."
            || trimmed
                .split('/')
                .all(|part| !part.is_empty() && part != "." && part != "..");
        if !is_inside || need.path.contains(['\\', '\0', ':']) {
            let shown = single_line(&need.path, MAX_TEXT);
            return Err(format!(
                "the needed directory `{shown}` is not valid: expected a path below the workspace, such as `data`, or `.` for all of it"
            ));
        }
        need.path = trimmed.to_owned();
        need.reason = single_line(&need.reason, MAX_TEXT);
    }
    for need in &mut needs.hosts {
        const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        if let Some(method) = need
            .methods
            .iter()
            .find(|method| !METHODS.contains(&method.as_str()))
        {
            let near = did_you_mean(method, METHODS);
            return Err(format!(
                "a host need has `{}`, which is not a valid HTTP method.{near}",
                single_line(method, MAX_NAME)
            ));
        }
        need.pattern()
            .map_err(|error| format!("it needs a host, but {error}"))?;
        need.reason = single_line(&need.reason, MAX_TEXT);
    }
    for need in &needs.secrets {
        let host: Result<HostPattern, _> = need.host.parse();
        host.map_err(|error| {
            let name = single_line(&need.name, MAX_NAME);
            format!("it needs the secret `{name}` for a host, but {error}")
        })?;
    }
    for reason in needs
        .commands
        .iter_mut()
        .map(|n| &mut n.reason)
        .chain(needs.secrets.iter_mut().map(|n| &mut n.reason))
    {
        *reason = single_line(reason, MAX_TEXT);
    }
    Ok(needs)
}

/// Returns a text from a guest as one sanitized line of at most `max_chars` characters.
pub(super) fn single_line(text: &str, max_chars: usize) -> String {
    text::visible(text::prefix(text, max_chars))
}
