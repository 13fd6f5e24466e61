//! The findings of `doctor`.

use std::io::{self, Write};

use mimir_core::text::visible;
use serde::Serialize;

use crate::exit::Failure;

use super::{BAD, GOOD, Printer, WARN, indented, styled};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Fair,
    /// Something does not work.
    Bad,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub health: Health,
    /// What was found.
    pub text: String,
    /// What would mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn good(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            health: Health::Good,
            text: text.into(),
            fix: None,
        }
    }

    /// It works, and could be better.
    pub fn fair(name: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            health: Health::Fair,
            text: text.into(),
            fix: Some(fix.into()),
        }
    }

    /// Something does not work.
    pub fn bad(name: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            health: Health::Bad,
            ..Self::fair(name, text, fix)
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    version: &'static str,
    findings: &'a [Finding],
}

/// Prints the findings.
pub fn print(printer: Printer, findings: &[Finding]) -> Result<(), Failure> {
    let report = Report {
        ok: is_well(findings),
        version: env!("CARGO_PKG_VERSION"),
        findings,
    };
    printer.result(&report, |out| text(out, findings))
}

/// Whether everything works.
pub fn is_well(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.health != Health::Bad)
}

/// Columns before the text of a finding.
const INDENT: usize = 15;

fn text(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let mark = match finding.health {
            Health::Good => styled(GOOD, "✓"),
            Health::Fair => styled(WARN, "!"),
            Health::Bad => styled(BAD, "✗"),
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
