//! Printing of a tool's full description.

use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use mimir_core::decision::DecisionReason;
use mimir_core::grants::{self, SourceRecord};
use mimir_core::tool::ToolTrust;
use mimir_core::{
    Decision, Limits, Needs, Policy, Tool, ToolHints, ToolName, ToolSource, text::visible,
};
use mimir_wasm::family::{Proof, proofs, uses_wasi_03};
use serde::Serialize;
use serde_json::Value;

use crate::args::DefinitionFormat;
use crate::exit::CommandResult;
use crate::tools::{
    InstalledSource, PastCall, PluginStorageInfo, TeamOrigin, TokenCost, ToolDetails,
};
use mimir::registries::SignatureState;

use super::{BAD, FAINT, GOOD, ResultPrinter, STRONG, columns, styled};

mod parameters;

use parameters::ToolParameter;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolInfo<'a> {
    name: &'a ToolName,
    title: Option<&'a str>,
    aliases: &'a [ToolName],
    description: &'a str,
    enabled: bool,
    listed: bool,
    refusal: Option<DecisionReason>,
    source: &'static str,
    plugin: &'a str,
    version: &'a str,
    location: &'a str,
    digest: &'a str,
    group: &'static str,
    risk: &'static str,
    hints: ToolHints,
    approval: &'static str,
    assessed: bool,
    trust: ToolTrust,
    input_schema: Value,
    output_schema: Option<Value>,
    needs: &'a Needs,
    grants: Vec<String>,
    imports: &'a [String],
    proofs: Vec<Proof>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    flags: &'a [String],
    limits: ToolLimitsInfo,
    #[serde(flatten)]
    cost: Option<TokenCost>,
    token_costs: BTreeMap<&'static str, u32>,
    last_calls: &'a [PastCall],
    #[serde(rename = "kept", skip_serializing_if = "Option::is_none")]
    stored: Option<&'a PluginStorageInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    installed_from: Option<&'a SourceRecord>,
    /// The reason why the signer in the lock file is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_problem: Option<&'a str>,
    /// The state of the signature of a component from a registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_signature: Option<&'static str>,
    /// The team whose bundle has the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<&'a TeamOrigin>,
    #[serde(skip)]
    installed_source: Option<&'a InstalledSource>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolLimitsInfo {
    time_ms: u128,
    fuel: u64,
    memory_bytes: u64,
}

impl<'a> ToolInfo<'a> {
    fn new(tool: &'a Tool, policy: &Policy, details: &'a ToolDetails) -> Self {
        let definition = &tool.definition;
        let origin = &tool.origin;
        let Limits {
            wall, fuel, memory, ..
        } = policy.limits(tool);
        Self {
            name: tool.name(),
            title: definition.title.as_deref(),
            aliases: &tool.aliases,
            description: &definition.description,
            enabled: policy.refusal(tool).is_none(),
            listed: policy.is_listed(tool),
            refusal: policy.refusal(tool),
            source: tool.source.as_str(),
            plugin: &origin.plugin,
            version: &origin.version,
            location: &origin.location,
            digest: &origin.digest,
            group: definition.group.as_str(),
            risk: definition.risk.as_str(),
            hints: definition.hints,
            approval: definition.approval.as_str(),
            assessed: tool.assessed,
            trust: tool.trust,
            input_schema: definition.input_schema.to_value(),
            output_schema: definition
                .output_schema
                .as_ref()
                .map(|schema| schema.to_value()),
            needs: &definition.needs,
            grants: tool
                .rights()
                .permanent()
                .map_or_else(Vec::new, Needs::lines),
            imports: &origin.imports,
            // Only the imports of a component limit what it can do, not those of a server or an agent.
            proofs: if origin.proofs.is_empty() {
                Vec::new()
            } else {
                proofs(&origin.imports)
            },
            flags: &tool.flags,
            limits: ToolLimitsInfo {
                time_ms: wall.as_millis(),
                fuel,
                memory_bytes: memory,
            },
            stored: details.stored.as_ref(),
            installed_from: details.installed_from.as_ref().map(|source| &source.record),
            source_problem: details
                .installed_from
                .as_ref()
                .and_then(|source| source.signature.as_ref().err())
                .map(String::as_str),
            source_signature: details
                .installed_from
                .as_ref()
                .and_then(|source| source.signature.as_ref().ok()?.as_ref())
                .map(SignatureState::as_str),
            team: details.team.as_ref(),
            installed_source: details.installed_from.as_ref(),
            cost: details
                .costs
                .iter()
                .find(|(format, _)| *format == DefinitionFormat::Openai)
                .map(|(_, cost)| *cost),
            token_costs: details
                .costs
                .iter()
                .map(|(format, cost)| (format.as_str(), cost.tokens))
                .collect(),
            last_calls: &details.calls,
        }
    }
}

/// Prints the full description of a tool, with its cost and its last calls.
pub fn print(
    printer: ResultPrinter,
    tool: &Tool,
    policy: &Policy,
    details: &ToolDetails,
) -> CommandResult<()> {
    let info = ToolInfo::new(tool, policy, details);
    printer.print_result(&info, |out| print_text(out, tool, &info))
}

/// Returns the full description of a tool, as `mimir tools info --json` prints it.
pub fn value(tool: &Tool, policy: &Policy, details: &ToolDetails) -> Value {
    serde_json::to_value(ToolInfo::new(tool, policy, details)).unwrap_or_default()
}

/// Returns the full description of a tool as lines without colours.
pub fn lines(tool: &Tool, policy: &Policy, details: &ToolDetails) -> io::Result<Vec<String>> {
    let mut out = anstream::StripStream::new(Vec::new());
    print_text(&mut out, tool, &ToolInfo::new(tool, policy, details))?;
    let text = String::from_utf8_lossy(&out.into_inner()).into_owned();
    Ok(text.lines().map(str::to_owned).collect())
}

fn print_text(out: &mut dyn Write, tool: &Tool, info: &ToolInfo<'_>) -> io::Result<()> {
    let mut title = styled(STRONG, info.name);
    if let Some(display_name) = info.title {
        title.push_str(&format!(" — {}", visible(display_name)));
    }
    writeln!(out, "Tool: {title}")?;
    let mut description = info.description.trim().lines();
    let first = visible(description.next().unwrap_or_default());
    writeln!(out, "Description: {first}")?;
    for line in description {
        writeln!(out, "  {}", visible(line))?;
    }
    let mut print_field = |name: &str, value: &str| writeln!(out, "{name} {value}");
    if !info.aliases.is_empty() {
        let names: Vec<&str> = info.aliases.iter().map(ToolName::as_str).collect();
        print_field("Aliases:", &names.join(", "))?;
    }
    let enabled = match &info.refusal {
        None => styled(GOOD, "Yes"),
        Some(reason) => format!(
            "{} — {} ({})",
            styled(BAD, "No"),
            visible(&reason.text),
            visible(&reason.source)
        ),
    };
    print_field(
        "Source:",
        &format!("{} {}", tool.source.badge(), visible(info.location)),
    )?;
    print_field("Enabled:", &enabled)?;
    print_field("Token Cost:", &cost(info))?;
    print_field(
        "Plugin:",
        &format!("{} {}", visible(info.plugin), visible(info.version)),
    )?;
    print_field("Digest:", &format!("sha256 {}", info.digest))?;
    for (name, value) in info.team.map(TeamOrigin::fields).unwrap_or_default() {
        print_field(name, &value)?;
    }
    if let Some(source) = info.installed_source {
        for (name, value) in source_fields(source, info.digest) {
            print_field(name, &value)?;
        }
    }
    print_field("Group:", info.group)?;
    print_field("Risk:", info.risk)?;
    print_field("Hints:", &hints(info.hints))?;
    print_field("Approval:", &approval(tool))?;
    let limits = &info.limits;
    let memory = mimir_core::text::bytes(limits.memory_bytes);
    print_field(
        "Limits:",
        &format!(
            "{} ms, {memory} of memory, {} million units of fuel",
            limits.time_ms,
            limits.fuel / 1_000_000
        ),
    )?;

    if !info.flags.is_empty() {
        list(out, "Warnings", info.flags, "")?;
    }
    writeln!(out, "\n{}", styled(STRONG, "Parameters:"))?;
    parameters(out, &info.input_schema)?;
    if info.output_schema.is_some() {
        writeln!(out, "\n{}", styled(STRONG, "Structured result"))?;
        parameters(out, info.output_schema.as_ref().unwrap_or(&Value::Null))?;
    }
    list(out, "Needs", &info.needs.lines(), "nothing")?;
    list(out, "Grants", &info.grants, without_grants(tool))?;
    if grants::lacks_files(tool, &tool.granted) {
        let line = format!("  {}", grants::files_remedy(tool));
        writeln!(out, "{}", styled(FAINT, line))?;
    }
    if tool.source == ToolSource::Mcp {
        let title = "Runs in the server";
        list(out, title, info.imports, "unknown")?;
    } else {
        let proofs: Vec<String> = info.proofs.iter().map(ToString::to_string).collect();
        list(
            out,
            "Proven by its imports",
            &proofs,
            "nothing: its imports do not rule out any access",
        )?;
    }
    if uses_wasi_03(info.imports) {
        let note = "experimental in wasmtime".to_owned();
        list(out, "WASI 0.3", &[note], "")?;
    }
    if let Some(stored) = info.stored {
        let bytes = mimir_core::text::bytes(stored.size.bytes);
        let line = format!(
            "{} values, {bytes}, in {}",
            stored.size.values, stored.folder
        );
        list(out, "Stores between calls", &[line], "")?;
    }
    let calls: Vec<String> = info.last_calls.iter().map(call).collect();
    list(out, "Last calls", &calls, "none recorded")
}

/// Returns the source of a component as fields. `digest` is that of the file.
fn source_fields(installed: &InstalledSource, digest: &str) -> Vec<(&'static str, String)> {
    let source = &installed.record;
    let mut fields = vec![("Installed from:", visible(&source.reference))];
    if let Some(version) = &source.version {
        fields.push(("Version:", visible(version)));
    }
    if let Some(manifest) = &source.manifest {
        fields.push(("Manifest:", visible(manifest)));
    }
    match (&installed.signature, &source.signer) {
        (Ok(Some(SignatureState::Signed(signer))), _) => fields.push(("Signer:", visible(signer))),
        (Ok(Some(state)), _) => fields.push(("Signature:", state.to_string())),
        (Ok(None), _) => {}
        (Err(why), named) => {
            let named = named
                .as_ref()
                .map_or_else(String::new, |signer| format!("tools.lock names {signer}, "));
            let text = visible(&format!("{named}not verified: {why}"));
            fields.push(("Signer:", styled(BAD, text)));
        }
    }
    if let Some(provenance) = &source.provenance {
        let text = format!("{} (as tools.lock says, not verified)", visible(provenance));
        fields.push(("Provenance:", text));
    }
    if source.layer_hex() != digest {
        let text = "the file is another than the one that was installed: see `mimir tools verify`";
        fields.push(("Warning:", styled(BAD, text)));
    }
    fields
}

/// Formats the token cost of a tool, in the OpenAI format and then in the others.
fn cost(info: &ToolInfo<'_>) -> String {
    let Some(cost) = info.cost else {
        return "not known".to_owned();
    };
    if cost.stated {
        return format!("~{} tokens, declared by its author", cost.tokens);
    }
    let others = [DefinitionFormat::Anthropic, DefinitionFormat::Mcp].map(DefinitionFormat::as_str);
    let others = others.into_iter().filter_map(|format| {
        let tokens = info.token_costs.get(format)?;
        Some(format!("{format} ~{tokens}"))
    });
    let others: Vec<String> = others.collect();
    format!("~{} tokens ({})", cost.tokens, others.join(", "))
}

/// Formats a call and its receipt as a line.
fn call(call: &PastCall) -> String {
    let mut line = call.time.clone();
    line.push_str(match (&call.code, call.ok) {
        (_, true) => " ok",
        (Some(_), false) => " ",
        (None, false) => " failed",
    });
    line.push_str(call.code.as_deref().unwrap_or_default());
    for (key, value) in &call.receipt {
        line.push_str(&format!(", {key} {value}"));
    }
    line
}

fn without_grants(tool: &Tool) -> &'static str {
    let changes = tool.changes.as_ref();
    match (tool.trust, changes.map(|changes| changes.lines.as_slice())) {
        (ToolTrust::Untrusted, Some([])) => {
            "none: it was rebuilt since it was granted, and requests the same rights"
        }
        (ToolTrust::Untrusted, Some(_)) => "none: it has changed since it was granted",
        (ToolTrust::Untrusted, None) => {
            "none: each call needs approval; `mimir tools trust` grants it"
        }
        (ToolTrust::Trusted | ToolTrust::Harmless, _) => "none needed",
    }
}

fn list(out: &mut dyn Write, title: &str, lines: &[String], none: &str) -> io::Result<()> {
    writeln!(out, "\n{}", styled(STRONG, title))?;
    if lines.is_empty() {
        return writeln!(out, "  {}", styled(FAINT, none));
    }
    for line in lines {
        writeln!(out, "  - {}", visible(line))?;
    }
    Ok(())
}

fn hints(hints: ToolHints) -> String {
    let all = [
        (hints.read_only, "read-only"),
        (hints.destructive, "destructive"),
        (hints.idempotent, "idempotent"),
        (hints.open_world, "open-world"),
    ];
    let active: Vec<&str> = all
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
    if active.is_empty() {
        "none".to_owned()
    } else {
        active.join(", ")
    }
}

fn approval(tool: &Tool) -> String {
    let own = tool.definition.approval.as_str();
    match (tool.assessed, tool.trust) {
        (_, ToolTrust::Untrusted) if tool.definition.approval == Decision::Allow => {
            "ask, because its needs are not granted (otherwise: allow)".to_owned()
        }
        (_, ToolTrust::Untrusted) => own.to_owned(),
        (true, _) => format!("{own} by default; the tool judges each call"),
        (false, _) => own.to_owned(),
    }
}

fn parameters(out: &mut dyn Write, schema: &Value) -> io::Result<()> {
    let parameters = ToolParameter::all(schema);
    if parameters.is_empty() {
        return writeln!(out, "  {}", styled(FAINT, "none"));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    // Without a terminal, lines are not wrapped, so that the output can be searched.
    table.set_width(columns().map_or(u16::MAX, |width| u16::try_from(width).unwrap_or(u16::MAX)));
    for parameter in parameters {
        let need = if parameter.required { "required" } else { "" };
        table.add_row([
            visible(&parameter.name),
            visible(&parameter.kind),
            need.to_owned(),
            visible(&parameter.about),
        ]);
    }
    for line in table.lines() {
        writeln!(out, " {}", line.trim_end())?;
    }
    Ok(())
}
