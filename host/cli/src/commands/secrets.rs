//! `mimir secrets`.

use std::io::{IsTerminal as _, Read as _};
use std::time::SystemTime;

use mimir_core::audit::{Event, Kind};
use mimir_core::redact::LONG_MIN;
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::args::{Globals, SecretsWish};
use crate::exit::{Exit, Failure};
use crate::output::{FAINT, Printer, STRONG, note, styled, warn};
use crate::terminal;
use mimir::secrets::{Secrets, Where};
use mimir::setup::Setup;

/// Size limit of a value; reading stops there.
const LONGEST: u64 = 1 << 20;

/// Stores, lists and deletes secrets.
pub fn run(globals: &Globals, printer: Printer, wish: &SecretsWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    let secrets = Secrets::new(&setup.places).ok_or_else(|| {
        ToolError::new(
            Code::Unavailable,
            "cannot store secrets: there is no user config folder; set MIMIR_CONFIG_DIR",
        )
    })?;
    match wish {
        SecretsWish::List => list(&setup, printer, &secrets)?,
        SecretsWish::Set {
            on_the_line: true, ..
        } => {
            return Err(Failure::usage(
                "values are read from stdin, because the command line is visible to other users and saved in your shell history; if you typed a secret, change it",
            ));
        }
        SecretsWish::Set { name, in_file, .. } => {
            let value = read(name)?;
            if value.len() < LONG_MIN {
                warn(format_args!(
                    "a value shorter than {LONG_MIN} bytes is masked only as a separate word, and not in encoded form"
                ));
            }
            let place = shown(&secrets.set(name, &value, *in_file)?, &secrets);
            setup.record(&Event::of(Kind::SecretSet, SystemTime::now()).with_subject(name));
            if printer.is_json() {
                printer.value(&json!({ "set": name, "place": place }))?;
            } else {
                note(format_args!("stored `{name}` in {place}"));
            }
        }
        SecretsWish::Remove { name } => {
            if !secrets.remove(name)? {
                let name = mimir_core::text::visible(name);
                let error = ToolError::new(
                    Code::NotFound,
                    format!("unknown secret `{name}`; `mimir secrets list` shows them"),
                );
                return Err(error.into());
            }
            setup.record(&Event::of(Kind::SecretRemoved, SystemTime::now()).with_subject(name));
            if printer.is_json() {
                printer.value(&json!({ "removed": name }))?;
            } else {
                note(format_args!("`{name}` is forgotten"));
            }
        }
    }
    Ok(Exit::Done)
}

fn list(setup: &Setup, printer: Printer, secrets: &Secrets) -> Result<(), Failure> {
    let all = secrets.list(&setup.settings.config.secrets)?;
    let rows: Vec<_> = all
        .iter()
        .map(|(name, place)| json!({ "name": name, "place": shown(place, secrets) }))
        .collect();
    printer.result(&json!({ "secrets": rows }), |out| {
        if all.is_empty() {
            return writeln!(
                out,
                "{}",
                styled(FAINT, "no secrets; `mimir secrets set NAME` stores one")
            );
        }
        for (name, place) in &all {
            let place = shown(place, secrets);
            writeln!(out, "{}  {}", styled(STRONG, name), styled(FAINT, place))?;
        }
        Ok(())
    })
}

fn shown(place: &Where, secrets: &Secrets) -> String {
    match place {
        Where::File => mimir_core::text::visible(&secrets.path().display().to_string()),
        Where::Keyring => "the keyring".to_owned(),
        Where::Variable(name) => format!("the variable {name}"),
    }
}

/// Reads the value: typed without echo on a terminal, else all of stdin without the final line end.
fn read(name: &str) -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        return Ok(terminal::unseen(&format!(
            "The value of `{name}` (not shown): "
        ))?);
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(LONGEST)
        .read_to_end(&mut bytes)?;
    let mut value = String::from_utf8(bytes)
        .map_err(|_| ToolError::new(Code::InvalidInput, "the value is not valid UTF-8"))?;
    let kept = value.trim_end_matches(['\n', '\r']).len();
    value.truncate(kept);
    Ok(value)
}
