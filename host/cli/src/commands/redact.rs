//! `mimir redact`: masks secrets in stdin as in results of tools.

use std::io::{self, ErrorKind, Read, Write};

use mimir_core::ToolError;
use mimir_core::redact::{Redactor, SecretFinding, Vault};
use serde::Serialize;

use crate::args::GlobalOptions;
use crate::exit::{CommandResult, ExitReason};
use crate::output::ResultPrinter;
use mimir::secrets::{UserSecrets, UserVault};
use mimir::settings::MergedSettings;
use mimir::setup;
use mimir::user_dirs::UserDirs;

/// Number of bytes per read: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

#[derive(Serialize)]
struct RedactReport {
    findings: Vec<SecretFinding>,
}

#[derive(Serialize)]
struct RedactRuleList {
    rules: Vec<&'static str>,
}

/// Creates the redactor for results, from the rules and this user's secrets. Works in any folder.
fn redactor(globals: &GlobalOptions) -> CommandResult<Redactor> {
    let user_dirs = UserDirs::find();
    let settings = MergedSettings::read(
        &user_dirs,
        &setup::find_workspace(globals.workspace.as_deref())?,
    )?;
    let vault = UserVault::new(UserSecrets::new(&user_dirs), &settings.config);
    let redactor = vault.redactor();
    Ok(redactor.map_err(ToolError::unavailable)?)
}

/// Copies stdin to stdout with secrets masked, or reports the positions of secrets as JSON. Uses bounded memory.
pub fn run(globals: &GlobalOptions) -> CommandResult {
    let printer = globals.printer();
    let mut stream = redactor(globals)?.stream_masker();
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut chunk = vec![0; CHUNK];
    let mut masked = Vec::new();
    let mut findings = Vec::new();
    loop {
        let length = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(ToolError::execution(format!("cannot read stdin: {error}")).into());
            }
        };
        findings.extend(stream.push(&chunk[..length], &mut masked));
        if length < CHUNK {
            // More input is not available yet, so write what was read.
            findings.extend(stream.flush(&mut masked));
        }
        if printer.is_json() {
            masked.clear();
        } else {
            findings.clear();
            write(&mut output, &mut masked)?;
        }
    }
    findings.extend(stream.finish(&mut masked));
    if printer.is_json() {
        drop(output);
        printer.print_json(&RedactReport { findings })?;
    } else {
        write(&mut output, &mut masked)?;
    }
    Ok(ExitReason::Done)
}

fn write(output: &mut impl Write, masked: &mut Vec<u8>) -> io::Result<()> {
    if !masked.is_empty() {
        output.write_all(masked)?;
        output.flush()?;
        masked.clear();
    }
    Ok(())
}

/// Lists the names of the rules.
pub fn rules(printer: ResultPrinter) -> CommandResult {
    let rules = Redactor::rules();
    printer.print_result(
        &RedactRuleList {
            rules: rules.clone(),
        },
        |out| rules.iter().try_for_each(|rule| writeln!(out, "{rule}")),
    )?;
    Ok(ExitReason::Done)
}
