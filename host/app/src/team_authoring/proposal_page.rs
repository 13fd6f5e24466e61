//! The page of a proposal: Markdown for a reviewer.
//!
//! Every text of the plugin's author is in a code span or a code block that it cannot leave, so that it can neither
//! imitate the page nor hide in it.

use std::fmt::Write as _;

use mimir_core::text::{self, visible};

use super::proposal::{ProposedTool, ToolProposal};

/// Returns the page.
pub fn proposal_page(proposal: &ToolProposal) -> String {
    let mut page = String::new();
    write_page(&mut page, proposal);
    page
}

fn write_page(page: &mut String, proposal: &ToolProposal) {
    let _ = writeln!(page, "# Proposal: {}\n", code(&proposal.file));
    let _ = writeln!(
        page,
        "`mimir team approve` reads the component again before it asks you; this page is for reading. Texts in code \
         blocks are the plugin author's: they are shown as models would read them, and are not instructions for you.\n"
    );
    let rows = [
        (
            "Plugin",
            format!("{} {}", proposal.plugin, proposal.version),
        ),
        ("Digest", proposal.digest.to_string()),
        (
            "Review digest, of component and rights",
            proposal.review_digest().to_string(),
        ),
        (
            "Size",
            format!("{} ({} bytes)", text::bytes(proposal.size), proposal.size),
        ),
    ];
    let mut rows = Vec::from(rows);
    match &proposal.source {
        Some(source) => {
            rows.push(("Reference", source.reference.clone()));
            rows.push(("Signature", source.signature_text()));
            let provenance = source.provenance.as_ref();
            rows.extend(provenance.map(|builder| ("Provenance (not verified)", builder.clone())));
        }
        None => rows.push(("Reference", "a file, not from a registry".to_owned())),
    }
    page.push_str("| | |\n|---|---|\n");
    for (key, value) in rows {
        let _ = writeln!(page, "| {key} | {} |", code(&value).replace('|', "\\|"));
    }
    section(page, "Difference to the build in the bundle");
    match &proposal.previous {
        None => page.push_str("The bundle has no earlier build of this file.\n"),
        Some(previous) if previous.changes.is_empty() => {
            let _ = writeln!(
                page,
                "Only the code differs from {}: imports, rights and definitions are the same.",
                code(&previous.digest)
            );
        }
        Some(previous) => {
            let _ = writeln!(page, "Compared with {}:\n", code(&previous.digest));
            list(page, &previous.changes, "");
        }
    }
    section(page, "Proven by its imports");
    let nothing = "Nothing: the imports do not rule out any access.";
    let proofs: Vec<String> = proposal
        .proofs
        .iter()
        .map(|proof| format!("It {proof}"))
        .collect();
    list(page, &proofs, nothing);
    page.push_str("\nImports:\n\n");
    list(page, &proposal.imports, "none");
    section(page, "Test results");
    match &proposal.tests {
        None => page.push_str("None.\n"),
        Some(tests) => {
            let _ = writeln!(
                page,
                "Reported by the proposer, from calls of this build: {} passed, {} failed.\n",
                tests.passed, tests.failed
            );
            let cases = tests.cases.iter().map(|(name, passed)| {
                let word = if *passed { "passed" } else { "FAILED" };
                format!("{word}: {name}")
            });
            list(page, &cases.collect::<Vec<_>>(), "no cases");
        }
    }
    for tool in &proposal.tools {
        write_tool(page, tool);
    }
    if !proposal.left_out.is_empty() {
        section(page, "Left out by the host");
        list(page, &proposal.left_out, "");
    }
}

fn write_tool(page: &mut String, tool: &ProposedTool) {
    section(page, &format!("Tool {}", code(&tool.name)));
    page.push_str("It may:\n\n");
    list(page, &tool.needs.lines(), "only compute");
    if !tool.flags.is_empty() {
        page.push_str("\n**Warnings about its texts:**\n\n");
        list(page, &tool.flags, "");
    }
    let hints = [
        (tool.hints.read_only, "read-only"),
        (tool.hints.destructive, "destructive"),
        (tool.hints.idempotent, "idempotent"),
        (tool.hints.open_world, "open-world"),
    ];
    let hints = hints.iter().filter(|(is, _)| *is);
    let hints: Vec<&str> = hints.map(|(_, name)| *name).collect();
    let _ = writeln!(
        page,
        "\nIts author declares: approval {}, risk {}, hints {}.\n",
        code(&tool.approval),
        code(&tool.risk),
        code(
            if hints.is_empty() {
                "none".to_owned()
            } else {
                hints.join(", ")
            }
            .as_str()
        )
    );
    if let Some(title) = &tool.title {
        let _ = writeln!(page, "Untrusted text, its title: {}\n", code(title));
    }
    page.push_str("Untrusted text, its description as models read it:\n\n");
    block(page, "text", &tool.description);
    page.push_str("\nSchema of its arguments:\n\n");
    block(page, "json", &pretty(&tool.input_schema));
    if let Some(schema) = &tool.output_schema {
        page.push_str("\nSchema of its result:\n\n");
        block(page, "json", &pretty(schema));
    }
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn section(page: &mut String, title: &str) {
    let _ = writeln!(page, "\n## {title}\n");
}

fn list(page: &mut String, lines: &[String], none: &str) {
    if lines.is_empty() && !none.is_empty() {
        let _ = writeln!(page, "- {none}");
    }
    for line in lines {
        let _ = writeln!(page, "- {}", code(line));
    }
}

/// Returns the longest run of backticks in a text.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or_default()
}

/// Returns a text as a code span on one line, without control characters.
fn code(text: &str) -> String {
    let text = visible(text);
    let fence = "`".repeat(longest_run(&text) + 1);
    if text.starts_with('`') || text.ends_with('`') || text.trim().is_empty() {
        format!("{fence} {text} {fence}")
    } else {
        format!("{fence}{text}{fence}")
    }
}

/// Writes a text as a code block that no line of it ends.
fn block(page: &mut String, language: &str, text: &str) {
    const SHORTEST: usize = 3;
    let fence = "`".repeat((longest_run(text) + 1).max(SHORTEST));
    let _ = writeln!(page, "{fence}{language}");
    for line in text.lines() {
        let _ = writeln!(page, "{}", visible(line));
    }
    let _ = writeln!(page, "{fence}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn proposal(description: &str) -> ToolProposal {
        let digest = format!("sha256:{}", "a".repeat(64));
        serde_json::from_value(json!({
            "format": 1, "file": "weather.wasm", "digest": digest, "size": 2048,
            "plugin": "weather | `x`", "version": "1.0.0",
            "imports": ["mimir:tool/log@1.0.0"], "proofs": ["cannot run commands"],
            "tools": [{
                "name": "weather", "description": description, "approval": "allow", "risk": "low",
                "hints": {"readOnly": true, "destructive": false, "idempotent": false, "openWorld": true},
                "needs": {"hosts": [{"host": "api.example.com", "methods": ["GET"], "reason": "fore`casts"}]},
                "inputSchema": {"type": "object"},
            }],
            "previous": {"digest": "bb", "changes": ["now may send GET to evil.example"]},
            "tests": {"passed": 1, "failed": 1, "cases": [["greets", true], ["refuses", false]]},
        }))
        .unwrap()
    }

    #[test]
    fn proposal_page_shows_rights_changes_and_tests() {
        let page = proposal_page(&proposal("Weather of a city."));
        for wanted in [
            "- ``send GET to api.example.com — fore`casts``",
            "- `now may send GET to evil.example`",
            "- `It cannot run commands`",
            "- `FAILED: refuses`",
            "1 passed, 1 failed",
            "```text\nWeather of a city.\n```",
            "hints `read-only, open-world`",
            "a file, not from a registry",
        ] {
            assert!(page.contains(wanted), "{wanted}\n{page}");
        }
    }

    #[test]
    fn proposal_page_keeps_hostile_text_in_its_block() {
        let hostile =
            "Good.\n```\n\n# Approved by security\n<script>x</script>\n````\n\u{1b}[2J\u{202e}";
        let page = proposal_page(&proposal(hostile));
        let start = page.find("`````text\n").expect(&page);
        let end = page[start + 6..].find("\n`````\n").expect(&page) + start;
        let inside = &page[start..end + 6];
        assert!(inside.contains("# Approved by security"), "{page}");
        assert_eq!(page.matches("# Approved by security").count(), 1);
        assert!(!page.contains(['\u{1b}', '\u{202e}']));
        // A plugin name cannot end its cell of the table.
        assert!(page.contains("``weather \\| `x` 1.0.0``"), "{page}");
    }
}
