//! Findings of `mimir doctor`.

use std::io::{self, Write};

use mimir_core::Redactor;
use mimir_core::text::visible;
use serde::Serialize;

use crate::exit::CommandResult;
use crate::version::{BUILD, BuildFacts};

use super::{BAD, GOOD, ResultPrinter, WARN, indented, shorten_home, styled};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckHealth {
    /// Works.
    Good,
    /// Works, but could be better.
    Fair,
    /// Does not work.
    Bad,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// The subject of the check.
    pub name: &'static str,
    /// The severity.
    pub health: CheckHealth,
    /// The finding.
    pub text: String,
    /// How to fix the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl DoctorFinding {
    /// Creates the finding of a passed check.
    pub fn good(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            health: CheckHealth::Good,
            text: text.into(),
            fix: None,
        }
    }

    /// Creates a finding of something that works, but could be better.
    pub fn fair(name: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            health: CheckHealth::Fair,
            text: text.into(),
            fix: Some(fix.into()),
        }
    }

    /// Creates a finding of something that works in part and cannot be fixed.
    pub fn note(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            health: CheckHealth::Fair,
            text: text.into(),
            fix: None,
        }
    }

    /// Creates a finding of something that does not work.
    pub fn bad(name: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            health: CheckHealth::Bad,
            ..Self::fair(name, text, fix)
        }
    }
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    ok: bool,
    #[serde(flatten)]
    build: BuildFacts,
    findings: &'a [DoctorFinding],
}

/// Prints the findings. As JSON they are meant for bug reports: without the path of the home folder and without secrets.
pub fn print(printer: ResultPrinter, findings: &[DoctorFinding]) -> CommandResult<()> {
    if !printer.is_json() {
        return printer.print_result(&(), |out| print_text(out, findings));
    }
    let public: Vec<DoctorFinding> = findings.iter().map(public_finding).collect();
    printer.print_json(&DoctorReport {
        ok: all_good(findings),
        build: BUILD,
        findings: &public,
    })
}

/// The finding with a short home folder, and with secrets masked.
fn public_finding(finding: &DoctorFinding) -> DoctorFinding {
    let redactor = Redactor::new();
    let public = |text: &str| {
        let mut text = shorten_home(text);
        redactor.mask_text(&mut text);
        text
    };
    DoctorFinding {
        text: public(&finding.text),
        fix: finding.fix.as_deref().map(public),
        ..finding.clone()
    }
}

/// Returns true if no check failed.
pub fn all_good(findings: &[DoctorFinding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.health != CheckHealth::Bad)
}

/// Number of columns before the text of a finding.
const INDENT: usize = 15;

fn print_text(out: &mut dyn Write, findings: &[DoctorFinding]) -> io::Result<()> {
    for finding in findings {
        let mark = match finding.health {
            CheckHealth::Good => styled(GOOD, "✓"),
            CheckHealth::Fair => styled(WARN, "!"),
            CheckHealth::Bad => styled(BAD, "✗"),
        };
        writeln!(
            out,
            "{mark} {:<12} {}",
            finding.name,
            indented(&visible(&finding.text), INDENT)
        )?;
        if let Some(fix) = &finding.fix {
            writeln!(
                out,
                "{:INDENT$}→ {}",
                "",
                indented(&visible(fix), INDENT + 2)
            )?;
        }
    }
    Ok(())
}
