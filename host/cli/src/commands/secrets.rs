//! `mimir secrets`

use std::io::{IsTerminal as _, Read as _};
use std::time::SystemTime;

use mimir_core::audit::{Event, Kind};
use mimir_core::redact::LONG_MIN;
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::args::{Globals, SecretsWish};
use crate::exit::{Exit, Failure};
use crate::output::{FAINT, Printer, STRONG, note, styled, warn};
use crate::secrets::{Secrets, Where};
use crate::setup::Setup;
use crate::terminal;

/// A longer value is none; it is read no further.
const LONGEST: u64 = 1 << 20;

/// Keeps, lists and forgets secrets.
pub fn run(globals: &Globals, printer: Printer, wish: &SecretsWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let secrets = Secrets::new(&setup.places).ok_or_else(|| {
        ToolError::new(
            Code::Unavailable,
            "there is no folder for your own settings, where secrets are kept; set MIMIR_CONFIG_DIR",
        )
    })?;
    match wish {
        SecretsWish::List => list(&setup, printer, &secrets)?,
        SecretsWish::Set {
            on_the_line: true, ..
        } => {
            return Err(Failure::usage(
                "a value is taken from stdin and not from the command line, which others can see and your shell keeps; if that was one, change it",
            ));
        }
        SecretsWish::Set { name, in_file, .. } => {
            let value = read(name)?;
            if value.len() < LONG_MIN {
                warn(format_args!(
                    "a value of fewer than {LONG_MIN} bytes is masked only where it stands alone, and in no other form"
                ));
            }
            let place = shown(&secrets.set(name, &value, *in_file)?, &secrets);
            setup.record(&Event::of(Kind::SecretSet, SystemTime::now()).with_subject(name));
            if printer.is_json() {
                printer.value(&json!({ "set": name, "place": place }))?;
            } else {
                note(format_args!("`{name}` is kept in {place}"));
            }
        }
        SecretsWish::Remove { name } => {
            if !secrets.remove(name)? {
                let name = mimir_core::text::visible(name);
                let error = ToolError::new(
                    Code::NotFound,
                    format!("there is no secret `{name}`; `mimir secrets list` shows them"),
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
                styled(FAINT, "no secrets; `mimir secrets set NAME` keeps one")
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

/// The value: typed unseen on a terminal, or all of stdin without the line end behind it.
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
        .map_err(|_| ToolError::new(Code::InvalidInput, "the value is no UTF-8 text"))?;
    let kept = value.trim_end_matches(['\n', '\r']).len();
    value.truncate(kept);
    Ok(value)
}
