//! Output of `mimir team`: the card of a team before joining, and the status of teams.

use std::io::{self, Write};

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::text::{bytes, visible};
use mimir_registry::team::{BundledTool, TeamBundle};
use serde_json::{Value, json};

use super::dates::{json_time_with_distance, time_with_distance};
use super::{BAD, FAINT, GOOD, STRONG, WARN, indented, styled};
use mimir::team_authoring::granted_rights;
use mimir::teams::{
    JoinPlan, TeamInForce, TeamMembership, allowed_lines, enforced_lines, enforced_settings_lines,
};

/// Number of lines of settings above which the card leaves out comments and empty lines.
const MAX_SETTINGS_LINES: usize = 200;

/// Returns the lines of the card: everything that joining puts in force.
///
/// # Errors
/// The settings of the bundle are not valid.
pub fn card_lines(plan: &JoinPlan) -> Result<Vec<String>, ToolError> {
    let JoinPlan {
        membership,
        bundle,
        signer_id,
        ..
    } = plan;
    let now = Timestamp::now();
    let mut lines = vec![
        styled(STRONG, format_args!("Team {}", visible(&bundle.team.name))),
        field("id", &bundle.team.org_id),
        field("bundle", &membership.reference),
        field("signed by", &format!("key {signer_id}")),
        field(
            "version",
            &format!(
                "{}, of {}",
                bundle.version,
                time_with_distance(bundle.issued_at, now)
            ),
        ),
        field("valid until", &time_with_distance(bundle.expires_at, now)),
    ];
    let enforced = enforced_lines(bundle)?;
    let enforced = if enforced.is_empty() {
        vec!["nothing beyond its settings".to_owned()]
    } else {
        enforced
    };
    list(&mut lines, "enforces", &enforced);
    list(&mut lines, "allows", &allowed_lines(bundle)?);
    let tools = bundle.tools.iter();
    let tools: Vec<String> = tools.flat_map(|tool| tool_lines(bundle, tool)).collect();
    list(&mut lines, "tools", &tools);
    for (title, files) in [
        ("workers", &bundle.workers),
        ("prompts", &bundle.prompts),
        ("skills", &bundle.skills),
    ] {
        let files: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        list(&mut lines, title, &files);
    }
    let (settings, left_out) = settings_lines(&bundle.settings);
    list(&mut lines, "settings", &settings);
    if left_out > 0 {
        lines.push(format!(
            "    ({left_out} comments and empty lines are left out)"
        ));
    }
    Ok(lines)
}

/// Returns the lines of settings, and how many comments and empty lines are left out because the text is long. Lines that
/// have a meaning are never left out.
fn settings_lines(text: &str) -> (Vec<String>, usize) {
    let all: Vec<String> = text.lines().map(str::to_owned).collect();
    if all.len() <= MAX_SETTINGS_LINES {
        return (all, 0);
    }
    let is_shown = |line: &&String| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    };
    let short: Vec<String> = all.iter().filter(is_shown).cloned().collect();
    // In a text block, such a line is content.
    let parse = |text: &str| serde_yaml::from_str::<serde_yaml::Value>(text).ok();
    if parse(&short.join("\n")) != parse(text) {
        return (all, 0);
    }
    let left_out = all.len() - short.len();
    (short, left_out)
}

fn field(title: &str, text: &str) -> String {
    let title = styled(FAINT, format_args!("{title:<12}"));
    format!("  {title} {}", visible(text))
}

fn list(lines: &mut Vec<String>, title: &str, entries: &[String]) {
    if entries.is_empty() {
        return;
    }
    lines.push(format!("  {}", styled(FAINT, title)));
    lines.extend(
        entries
            .iter()
            .map(|entry| format!("    {}", visible(entry))),
    );
}

/// Returns the lines of a tool: its file, and the rights that the team grants.
fn tool_lines(bundle: &TeamBundle, tool: &BundledTool) -> Vec<String> {
    let enforced = if tool.enforced { ", enforced" } else { "" };
    let mut lines = vec![format!("{} ({}{enforced})", tool.file, bytes(tool.size))];
    if let Some(reference) = &tool.reference {
        lines.push(format!("  from {reference}"));
    }
    if let Some(signer) = &tool.signer {
        let revoked = match bundle.revokes(signer) {
            true => ", a key that the team has revoked",
            false => "",
        };
        lines.push(format!("  signed by {signer}{revoked}"));
    }
    let Some(grant) = &tool.grant else {
        lines.push("  no rights are granted: each call asks".to_owned());
        return lines;
    };
    let rights = granted_rights(tool);
    lines.extend(rights.iter().map(|right| format!("  may {right}")));
    let withheld: Vec<&str> = grant.withheld.iter().map(|kind| kind.as_str()).collect();
    match (withheld.is_empty(), rights.is_empty()) {
        (false, _) => lines.push(format!("  withheld: {}", withheld.join(", "))),
        (true, true) => lines.push("  needs no rights".to_owned()),
        (true, false) => {}
    }
    lines
}

/// Returns the facts on the card for JSON.
///
/// # Errors
/// The settings of the bundle are not valid.
pub fn card_value(plan: &JoinPlan) -> Result<Value, ToolError> {
    let JoinPlan {
        membership,
        bundle,
        signer_id,
        ..
    } = plan;
    // A bundle whose settings are not valid is not joined.
    enforced_lines(bundle)?;
    let mut card = json!({
        "orgId": bundle.team.org_id,
        "reference": membership.reference,
        "settings": bundle.settings,
    });
    add_bundle_facts(&mut card, bundle, signer_id);
    Ok(card)
}

/// Adds what a bundle contains, enforces and allows.
fn add_bundle_facts(row: &mut Value, bundle: &TeamBundle, signer_id: &str) {
    row["name"] = bundle.team.name.clone().into();
    row["version"] = bundle.version.into();
    row["signer"] = signer_id.into();
    row["issuedAt"] = bundle.issued_at.to_string().into();
    row["expiresAt"] = bundle.expires_at.to_string().into();
    row["enforces"] = json!(enforced_lines(bundle).unwrap_or_default());
    row["allows"] = json!(allowed_lines(bundle).unwrap_or_default());
    row["tools"] = bundle.tools.iter().map(tool_value).collect();
    for (key, files) in [
        ("workers", &bundle.workers),
        ("prompts", &bundle.prompts),
        ("skills", &bundle.skills),
    ] {
        row[key] = files.iter().map(|file| file.path.clone()).collect();
    }
}

/// Returns a tool of a bundle for JSON. `rights` is missing if the team grants none.
fn tool_value(tool: &BundledTool) -> Value {
    let mut value = json!({ "file": tool.file, "enforced": tool.enforced });
    if let Some(reference) = &tool.reference {
        value["reference"] = reference.clone().into();
    }
    if let Some(signer) = &tool.signer {
        value["signer"] = signer.to_string().into();
    }
    if let Some(grant) = &tool.grant {
        value["rights"] = json!(granted_rights(tool));
        value["withheld"] = json!(grant.withheld);
    }
    value
}

/// Returns the status of a team for JSON and text.
pub fn status_row(membership: &TeamMembership, team: Result<&TeamInForce, &ToolError>) -> Value {
    let mut row = json!({
        "orgId": membership.org_id,
        "reference": membership.reference,
        "required": membership.is_required(),
        "setBy": membership.shown,
        "sharedTools": membership.shared_tools,
        "refreshMinutes": membership.refresh.as_secs() / 60,
        "maxAgeHours": membership.max_age.as_hours(),
        "problem": null,
    });
    let team = match team {
        Ok(team) => team,
        Err(error) => {
            row["problem"] = error.message.clone().into();
            return row;
        }
    };
    let bundle: &TeamBundle = &team.bundle;
    let next = team.checked_at.checked_add(jiff_span(membership));
    add_bundle_facts(&mut row, bundle, &team.signer_id);
    if !membership.shared_tools && !bundle.tools.is_empty() {
        // Tools that are not loaded are not enforced either.
        let enforced = enforced_settings_lines(bundle).unwrap_or_default();
        row["enforces"] = json!(enforced);
        row["toolsNotLoaded"] = "features.sharedTools: false".into();
    }
    row["checkedAt"] = team.checked_at.to_string().into();
    row["nextCheck"] = next.map(|next| next.to_string()).unwrap_or_default().into();
    row["lastFault"] = json!(team.last_fault);
    if let Some(warning) = expiry_warning(team, Timestamp::now()) {
        row["warning"] = warning.into();
    }
    row["problem"] = match (
        team.outdated_now(),
        team.store().damaged_blobs(bundle).len(),
    ) {
        (Some(outdated), _) => outdated.text.into(),
        (None, 0) => Value::Null,
        (None, damaged) => format!(
            "{damaged} parts of the bundle are damaged; `mimir team sync` fetches them again"
        )
        .into(),
    };
    row
}

/// Returns the warning about a bundle that expires soon; `None` if it does not, or has expired already.
pub fn expiry_warning(team: &TeamInForce, now: Timestamp) -> Option<String> {
    let bundle = &team.bundle;
    if !bundle.expires_soon(now) || bundle.expires_at <= now {
        return None;
    }
    Some(format!(
        "the bundle expires at {}, and then the team's tools are refused: `mimir team sync` gets a newer one, \
         or ask the team's administrator to publish again (`mimir team publish`)",
        time_with_distance(bundle.expires_at, now)
    ))
}

fn jiff_span(membership: &TeamMembership) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(membership.refresh).unwrap_or_default()
}

/// Prints the status of all teams.
pub fn print_status(out: &mut dyn Write, rows: &[Value]) -> io::Result<()> {
    let now = Timestamp::now();
    for row in rows {
        let time = |key: &str| json_time_with_distance(row[key].as_str().unwrap_or_default(), now);
        let text = |key: &str| visible(row[key].as_str().unwrap_or_default());
        let fault = row["lastFault"]["text"].as_str();
        let (style, mark) = match (row["problem"].is_null(), fault) {
            (false, _) => (BAD, "✗"),
            (true, Some(_)) => (WARN, "!"),
            (true, None) => (GOOD, "✓"),
        };
        let failed = match fault {
            Some(_) => styled(WARN, " (the last check failed)"),
            None => String::new(),
        };
        let name = if row["name"].is_null() {
            text("orgId")
        } else {
            text("name")
        };
        writeln!(
            out,
            "{} {}{failed}",
            styled(style, mark),
            styled(STRONG, name)
        )?;
        if !row["problem"].is_null() {
            writeln!(out, "{}", indented(&text("problem"), 2))?;
        }
        if !row["warning"].is_null() {
            let warning = indented(&text("warning"), 2);
            writeln!(out, "{}", styled(WARN, warning))?;
        }
        let required = if row["required"] == true {
            ", for every user of this machine"
        } else {
            ""
        };
        for (title, value) in [
            (
                "bundle",
                format!("{} (set by {}{required})", text("reference"), text("setBy")),
            ),
            ("version", row["version"].to_string()),
            ("signed by", format!("key {}", text("signer"))),
            ("valid until", time("expiresAt")),
            (
                "checked",
                format!("{}; next {}", time("checkedAt"), time("nextCheck")),
            ),
            (
                "last fault",
                visible(row["lastFault"]["text"].as_str().unwrap_or_default()),
            ),
        ] {
            if !row["version"].is_null() && !value.is_empty() || title == "bundle" {
                writeln!(out, "{}", field(title, &value))?;
            }
        }
        let mut lines = Vec::new();
        for title in ["enforces", "allows", "workers", "prompts", "skills"] {
            let entries = row[title].as_array().into_iter().flatten();
            let entries: Vec<String> = entries
                .filter_map(|it| Some(it.as_str()?.to_owned()))
                .collect();
            list(&mut lines, title, &entries);
        }
        let tools = row["tools"].as_array().into_iter().flatten();
        let tools: Vec<String> = tools
            .map(|tool| {
                let enforced = if tool["enforced"] == true {
                    " (enforced)"
                } else {
                    ""
                };
                format!("{}{enforced}", tool["file"].as_str().unwrap_or_default())
            })
            .collect();
        let title = match row["toolsNotLoaded"].as_str() {
            Some(why) => format!("tools, not loaded ({why})"),
            None => "tools".to_owned(),
        };
        list(&mut lines, &title, &tools);
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn team_card_leaves_out_only_lines_without_a_meaning() {
        let allows = "approval:\n  default: preApproved";
        let hidden = format!("{}{allows}", "# note\n".repeat(300));
        let (lines, left_out) = settings_lines(&hidden);
        assert_eq!((lines.join("\n").as_str(), left_out), (allows, 300));
        let many = format!("files:\n  deny:\n{}", "  - a\n".repeat(300));
        assert_eq!(settings_lines(&many).0.len(), 302);
        // In a text, such a line is an instruction for the model.
        let text = format!(
            "{}agent:\n  instructions: |\n    # Always approve\n\n    x\n",
            "#\n".repeat(300)
        );
        let (lines, left_out) = settings_lines(&text);
        assert!(lines.iter().any(|line| line.contains("# Always")));
        assert_eq!((lines.len(), left_out), (305, 0));
        assert_eq!(settings_lines("# note\na: 1").1, 0);
    }
}
