//! `mimir secrets`.

use std::io::{IsTerminal as _, Read as _};
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::redact::LONG_MIN;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use crate::args::{CanaryArgs, CanaryCommand, GlobalOptions, SecretsCommand};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, ResultPrinter, STRONG, note, styled, warn};
use crate::terminal;
use mimir::secrets::{SecretLocation, UserSecrets};
use mimir::setup::HostSetup;

/// Maximum number of bytes read from stdin, including line breaks after the value. `UserSecrets` limits the value.
const MAX_INPUT_SIZE: u64 = 1 << 20;

/// Stores, lists and deletes secrets.
pub fn run(globals: &GlobalOptions, command: &SecretsCommand) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find_for_user(globals.workspace.as_deref())?;
    let secrets = UserSecrets::new(&setup.user_dirs).ok_or_else(|| {
        ToolError::unavailable(
            "cannot store secrets without a user config folder; set MIMIR_CONFIG_DIR",
        )
    })?;
    match command {
        SecretsCommand::List => list(&setup, printer, &secrets),
        SecretsCommand::Set { on_the_line, .. } if !on_the_line.is_empty() => {
            Err(CommandFailure::usage(
                "values are read from stdin, because the command line is visible to other users and saved in your shell history; if you typed a secret, change it",
            ))
        }
        SecretsCommand::Set { name, in_file, .. } => {
            let value = read(name)?;
            let location = describe_location(&secrets.set(name, &value, *in_file)?, &secrets);
            if value.len() < LONG_MIN {
                warn(format_args!(
                    "a value shorter than {LONG_MIN} bytes is masked only as a separate word, and not in encoded form"
                ));
            }
            setup.record_event(
                &AuditEvent::new(EventKind::SecretSet, SystemTime::now()).with_subject(name),
            );
            printer.print_done(
                &json!({ "set": name, "place": location }),
                format_args!("stored `{name}` in {location}"),
            )
        }
        SecretsCommand::Canary {
            command: CanaryCommand::Add(args),
        } => plant(&setup, printer, &secrets, args),
        SecretsCommand::Remove { name } => {
            if !secrets.remove(name)? {
                let name = mimir_core::text::visible(name);
                let error = ToolError::not_found(format!(
                    "unknown secret `{name}`; `mimir secrets list` shows all"
                ));
                return Err(error.into());
            }
            setup.record_event(
                &AuditEvent::new(EventKind::SecretRemoved, SystemTime::now()).with_subject(name),
            );
            printer.print_done(
                &json!({ "removed": name }),
                format_args!("removed `{name}`"),
            )
        }
    }
}

fn list(setup: &HostSetup, printer: ResultPrinter, secrets: &UserSecrets) -> CommandResult {
    let all = secrets.list(&setup.settings.config.secrets)?;
    let canaries = secrets.canaries()?;
    let rows: Vec<_> = all
        .iter()
        .map(|(name, location)| {
            let mut row = json!({ "name": name, "place": describe_location(location, secrets) });
            if canaries.contains(name) {
                row["canary"] = true.into();
            }
            row
        })
        .collect();
    printer.print_result(&json!({ "secrets": rows }), |out| {
        if all.is_empty() {
            return writeln!(
                out,
                "{}",
                styled(FAINT, "no secrets; `mimir secrets set NAME` stores one")
            );
        }
        for (name, location) in &all {
            let location = describe_location(location, secrets);
            let kind = if canaries.contains(name) {
                "canary, in "
            } else {
                ""
            };
            let location = format!("{kind}{location}");
            writeln!(out, "{}  {}", styled(STRONG, name), styled(FAINT, location))?;
        }
        Ok(())
    })?;
    Ok(ExitReason::Done)
}

/// Creates a canary and prints its value, which is to be planted.
fn plant(
    setup: &HostSetup,
    printer: ResultPrinter,
    secrets: &UserSecrets,
    args: &CanaryArgs,
) -> CommandResult {
    let CanaryArgs { name, shape } = args;
    let value = shape.generate()?;
    secrets.add_canary(name, &value)?;
    let event = AuditEvent::new(EventKind::SecretSet, SystemTime::now()).with_subject(name);
    setup.record_event(&event.with_detail("a canary"));
    if setup.settings.config.alerts.is_none() {
        note(
            "set `alerts.webhook` in your settings to be told when it is seen; the audit log records it in any case",
        );
    }
    let row = json!({ "canary": name, "shape": shape.as_str(), "value": value });
    printer.print_result(&row, |out| writeln!(out, "{value}"))?;
    Ok(ExitReason::Done)
}

fn describe_location(location: &SecretLocation, secrets: &UserSecrets) -> String {
    match location {
        SecretLocation::File => mimir_core::text::visible(&secrets.path().display().to_string()),
        SecretLocation::Keyring => "the keyring".to_owned(),
        SecretLocation::Variable(name) => format!("the variable {name}"),
    }
}

/// Reads a value: a line typed without echo on a terminal, else all of stdin. Trailing line breaks are removed.
fn read(name: &str) -> CommandResult<String> {
    if std::io::stdin().is_terminal() {
        let prompt = format!("The value of `{name}` (not shown): ");
        let cancelled = || ToolError::new(ToolErrorCode::Cancelled, "cancelled: nothing is stored");
        return Ok(terminal::read_hidden_line(&prompt)?.ok_or_else(cancelled)?);
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_INPUT_SIZE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_INPUT_SIZE {
        return Err(ToolError::invalid_input(
            "the value on stdin is longer than 1 MB: expected at most 64 KB",
        )
        .into());
    }
    let mut value = String::from_utf8(bytes)
        .map_err(|_| ToolError::invalid_input("the value is not valid UTF-8"))?;
    let length = value.trim_end_matches(['\n', '\r']).len();
    value.truncate(length);
    Ok(value)
}
