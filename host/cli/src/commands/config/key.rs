//! `mimir config get`, `set` and `unset`.

use std::io;

use mimir_core::text::visible;
use mimir_core::{Code, ToolError};
use serde_json::{Value, json};

use crate::args::Globals;
use crate::exit::{Exit, Failure};
use crate::output::{FAINT, GOOD, Printer, WARN, styled};
use mimir::settings::{self, Edit, Keys, Said, Whose};
use mimir::setup::Setup;

/// Prints the value of a key in each layer.
pub fn get(globals: &Globals, printer: Printer, key: &str) -> Result<Exit, Failure> {
    let keys = Keys::new();
    let path = keys.path(key).map_err(usage)?;
    let setup = Setup::find(globals.workspace.as_deref())?;
    let said = setup.settings.said(&path);
    let counting = said.iter().find(|said| !said.withheld);
    let default = match counting {
        Some(_) => None,
        None => keys.default_of(&path),
    };
    let from = counting.map(|said| said.whose.as_str());
    let layers: Vec<Value> = said.iter().map(layer).collect();
    let result = json!({
        "key": path.join("."),
        "value": counting.map(|said| plain(&said.value)).or(default.clone()),
        "from": from.or(default.as_ref().map(|_| "default")),
        "layers": layers,
    });
    printer.result(&result, |out| {
        let Some(first) = counting else {
            for line in default.iter().flat_map(written) {
                writeln!(out, "{line}")?;
            }
            let words = match default {
                Some(_) => format!("default: {} is not set", path.join(".")),
                None => format!("{} is not set", path.join(".")),
            };
            writeln!(out, "{}", styled(FAINT, words))?;
            return said.iter().try_for_each(|said| beside(out, said));
        };
        for line in written(&first.value) {
            writeln!(out, "{line}")?;
        }
        let from = format!("{}: {}", first.whose.as_str(), visible(&first.place));
        writeln!(out, "{}", styled(FAINT, from))?;
        let mut others = said.iter().filter(|other| !std::ptr::eq(*other, first));
        others.try_for_each(|other| beside(out, other))
    })?;
    Ok(Exit::Done)
}

/// An overridden layer.
fn beside(out: &mut dyn io::Write, said: &Said) -> io::Result<()> {
    let lines = written(&said.value).join(" ");
    let place = visible(&said.place);
    let whose = said.whose.as_str();
    match said.withheld {
        true => {
            let waits = styled(WARN, "waits for `mimir policy accept`:");
            writeln!(out, "{waits} {lines} ({whose}: {place})")
        }
        false => writeln!(
            out,
            "{} {lines} ({whose}: {place})",
            styled(FAINT, "beside it:")
        ),
    }
}

fn layer(said: &Said) -> Value {
    json!({
        "layer": said.whose.as_str(),
        "place": said.place,
        "value": plain(&said.value),
        "withheld": said.withheld,
    })
}

fn plain(value: &serde_yaml::Value) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Formats a value as YAML lines without terminal control characters.
fn written<T: serde::Serialize>(value: &T) -> Vec<String> {
    let text = serde_yaml::to_string(value).unwrap_or_default();
    text.trim_end().lines().map(visible).collect()
}

/// Sets a key, or removes it.
pub fn set(
    globals: &Globals,
    printer: Printer,
    key: &str,
    value: Option<&str>,
    user: bool,
) -> Result<Exit, Failure> {
    let path = Keys::new().path(key).map_err(usage)?;
    let setup = Setup::find(globals.workspace.as_deref())?;
    let whose = if user { Whose::User } else { Whose::Project };
    let edit = match value {
        Some(text) => Edit::Set(path.clone(), read(text)?),
        None => {
            let said = setup.settings.said(&path);
            if !said.iter().any(|said| said.whose == whose) {
                let message = format!("{} is not set there", path.join("."));
                return Err(usage(ToolError::new(Code::NotFound, message)));
            }
            Edit::Remove(path.clone())
        }
    };
    let file = settings::change_again(&setup, whose, |_| Ok(vec![edit.clone()]))?;
    let result = json!({ "ok": true, "key": path.join("."), "file": file });
    printer.result(&result, |out| {
        let done = if value.is_some() {
            "set in"
        } else {
            "removed from"
        };
        writeln!(
            out,
            "{} {} {done} {file}",
            styled(GOOD, "✓"),
            path.join(".")
        )
    })?;
    overruled(&setup, &path, whose)?;
    Ok(Exit::Done)
}

/// Warns of layers that override the new value.
fn overruled(setup: &Setup, path: &[String], whose: Whose) -> Result<(), Failure> {
    let settings = settings::Settings::read(&setup.places, &setup.workspace)?;
    let said = settings.said(path);
    let above = said.iter().take_while(|said| said.whose != whose);
    for said in above {
        crate::output::note(format_args!(
            "{} has another value and overrides it ({})",
            visible(&said.place),
            said.whose.as_str()
        ));
    }
    Ok(())
}

fn read(text: &str) -> Result<Value, Failure> {
    let value: Result<Value, _> = serde_yaml::from_str(text);
    value.map_err(|error| {
        let message = format!("the value is not valid YAML: {error}");
        usage(ToolError::new(Code::InvalidInput, visible(&message)))
    })
}

fn usage(error: ToolError) -> Failure {
    Failure::ending(error, Exit::Usage)
}
