//! Printing of audit events, and of verification results.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use mimir_audit::{AuditEntry, VerifyFinding, VerifyReport};
use mimir_cluster::{ClusterFinding, ClusterVerifyReport};
use mimir_core::text::visible;

use crate::exit::CommandResult;

use super::{BAD, FAINT, GOOD, ResultPrinter, WARN, styled};

/// Prints the result of the verification of one file among several, with `--json` as one object per line.
pub fn file_report(
    printer: ResultPrinter,
    file: &Path,
    report: &VerifyReport,
) -> CommandResult<()> {
    let name = visible(&file.display().to_string());
    if printer.is_json() {
        let value = serde_json::json!({"file": name, "report": report});
        writeln!(io::stdout().lock(), "{value}")?;
        return Ok(());
    }
    printer.print_result(&(), |out| writeln!(out, "{name}:"))?;
    self::report(printer, report)
}

/// Prints the result of the verification of a cluster's log.
pub fn cluster_report(printer: ResultPrinter, report: &ClusterVerifyReport) -> CommandResult<()> {
    printer.print_result(report, |out| {
        let (mark, verdict) = verdict(report.ok);
        writeln!(
            out,
            "{mark} {verdict}: {} {} of {} {} in {} {}",
            report.lines,
            plural(report.lines, "line", "lines"),
            report.writers,
            plural(report.writers as u64, "writer", "writers"),
            report.messages,
            plural(report.messages, "message", "messages")
        )?;
        writeln!(
            out,
            "  {} {} announced, {} running; {} of {} writers closed",
            report.announced_calls,
            plural(report.announced_calls, "call", "calls"),
            report.running_calls,
            report.closed_writers,
            report.writers
        )?;
        for finding in &report.findings {
            print_cluster_finding(out, finding)?;
        }
        if report.more > 0 {
            writeln!(out, "  and {} more", report.more)?;
        }
        if let Some(sequence) = report.noted {
            writeln!(
                out,
                "{} the noted hash is the state after message {sequence}",
                styled(GOOD, "✓")
            )?;
        }
        writeln!(
            out,
            "head: message {}, {}",
            report.head.sequence, report.head.hash
        )
    })
}

fn print_cluster_finding(out: &mut dyn Write, finding: &ClusterFinding) -> io::Result<()> {
    let style = if finding.fault.is_fault() { BAD } else { WARN };
    let message = finding.message.map(|message| format!("message {message}"));
    let writer = finding
        .writer
        .as_ref()
        .map(|writer| format!("writer {}", visible(writer)));
    let line = finding.line.map(|line| format!("line {line}"));
    let location: Vec<String> = [message, writer, line].into_iter().flatten().collect();
    let location = if location.is_empty() {
        "-".to_owned()
    } else {
        location.join(", ")
    };
    writeln!(
        out,
        "  {} {location}: {}",
        styled(style, format_args!("{:<15}", finding.fault.as_str())),
        visible(&finding.text)
    )
}

/// Prints the result of a verification.
pub fn report(printer: ResultPrinter, report: &VerifyReport) -> CommandResult<()> {
    printer.print_result(report, |out| {
        match report.first {
            None if report.ok => writeln!(out, "The log is empty.")?,
            None => writeln!(out, "{} the log is empty", styled(BAD, "✗"))?,
            Some(first) => print_summary(out, report, first)?,
        }
        for finding in &report.findings {
            print_finding(out, finding)?;
        }
        if report.more > 0 {
            writeln!(out, "  and {} more", report.more)?;
        }
        if let Some(seq) = report.noted {
            writeln!(
                out,
                "{} the noted hash belongs to line {seq}",
                styled(GOOD, "✓")
            )?;
        }
        if report.first.is_some() {
            writeln!(out, "head: line {}, {}", report.head.seq, report.head.hash)?;
        }
        Ok(())
    })
}

fn print_summary(out: &mut dyn Write, report: &VerifyReport, first: u64) -> io::Result<()> {
    let (mark, verdict) = verdict(report.ok);
    let VerifyReport { lines, files, .. } = report;
    writeln!(
        out,
        "{mark} {verdict}: {lines} {} from line {first} on, in {files} {}",
        plural(*lines, "line", "lines"),
        plural(*files as u64, "file", "files")
    )
}

/// Returns the mark and the text about an intact or a damaged log.
fn verdict(ok: bool) -> (impl fmt::Display, &'static str) {
    if ok {
        (styled(GOOD, "✓"), "the log is intact")
    } else {
        (styled(BAD, "✗"), "the log was changed or is damaged")
    }
}

fn plural<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    match count {
        1 => one,
        _ => many,
    }
}

fn print_finding(out: &mut dyn Write, finding: &VerifyFinding) -> io::Result<()> {
    let style = if finding.fault.is_fault() { BAD } else { WARN };
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!("{}:{line}", visible(file)),
        _ => "-".to_owned(),
    };
    let seq = finding.seq.map(|seq| format!(" (line {seq} of the log)"));
    writeln!(
        out,
        "  {} {place}{}: {}",
        styled(style, format_args!("{:<10}", finding.fault.as_str())),
        seq.unwrap_or_default(),
        visible(&finding.text)
    )
}

/// Prints events, with `--json` as one object per line.
pub fn entries(printer: ResultPrinter, entries: &[AuditEntry]) -> CommandResult<()> {
    if !printer.is_json() {
        return printer.print_result(&(), |out| {
            entries.iter().try_for_each(|entry| line(out, entry))
        });
    }
    let mut out = io::stdout().lock();
    for entry in entries {
        let mut text = serde_json::to_vec(entry.value()).map_err(io::Error::from)?;
        text.push(b'\n');
        out.write_all(&text)?;
    }
    out.flush()?;
    Ok(())
}

/// Prints events while they are read, with `--json` as a single object.
pub struct EventPrinter {
    out: Box<dyn Write>,
    json: bool,
    any: bool,
}

impl EventPrinter {
    /// Starts the output.
    pub fn begin(printer: ResultPrinter) -> CommandResult<Self> {
        let mut out: Box<dyn Write> = match printer.is_json() {
            true => Box::new(io::BufWriter::new(io::stdout().lock())),
            false => {
                let out = anstream::AutoStream::auto(io::stdout().lock());
                Box::new(io::BufWriter::new(out))
            }
        };
        if printer.is_json() {
            out.write_all(b"{\"events\": [")?;
        }
        Ok(Self {
            out,
            json: printer.is_json(),
            any: false,
        })
    }

    /// Prints an event.
    pub fn add(&mut self, entry: &AuditEntry) -> CommandResult<()> {
        if !self.json {
            line(&mut self.out, entry)?;
        } else {
            let before: &[u8] = if self.any { b",\n  " } else { b"\n  " };
            self.out.write_all(before)?;
            serde_json::to_writer(&mut self.out, entry.value()).map_err(io::Error::from)?;
        }
        self.any = true;
        Ok(())
    }

    /// Returns true if no event was printed.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Ends the output.
    pub fn end(mut self) -> CommandResult<()> {
        if self.json {
            self.out.write_all(b"\n]}\n")?;
        } else if !self.any {
            self.out.write_all(b"No matching events.\n")?;
        }
        self.out.flush()?;
        Ok(())
    }
}

/// Prints an event as a line.
fn line(out: &mut dyn Write, entry: &AuditEntry) -> io::Result<()> {
    let value = entry.value();
    let about = match (entry.text("tool"), entry.text("subject")) {
        (tool, subject) if subject.is_empty() => tool,
        (tool, subject) if tool.is_empty() => subject,
        (tool, subject) => format!("{tool}: {subject}"),
    };
    write!(
        out,
        "{} {:<8} {about}",
        styled(FAINT, entry.text("time")),
        entry.text("event")
    )?;
    for name in ["decision", "answer"] {
        let value = entry.text(name);
        if !value.is_empty() {
            write!(out, " {value}")?;
        }
    }
    match (value["ok"].as_bool(), entry.text("code")) {
        (Some(false), code) if code.is_empty() => write!(out, " {}", styled(BAD, "not done"))?,
        (Some(false), code) => write!(out, " {}", styled(BAD, code))?,
        _ => write!(out, " {}", styled(GOOD, "ok"))?,
    }
    if let Some(millis) = value["durationMs"].as_f64() {
        write!(out, " {millis:.0} ms")?;
    }
    if let Some(millis) = value["waitedMs"].as_f64().filter(|millis| *millis >= 50.0) {
        write!(out, ", waited {:.1} s", millis / 1_000.0)?;
    }
    for (name, mark) in [
        ("client", "from "),
        ("worker", "on "),
        ("parent", "called by "),
        ("detail", ""),
    ] {
        let text = entry.text(name);
        if !text.is_empty() {
            write!(out, " {}", styled(FAINT, format_args!("({mark}{text})")))?;
        }
    }
    writeln!(out)
}
