//! `mimir config get`, `set` and `unset`.

use std::io;

use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::{Value, json};

use crate::args::GlobalOptions;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, GOOD, WARN, styled};
use mimir::settings::{self, ConfigEdit, ConfigOwner, ConfigSchema, LayerValue};
use mimir::setup::HostSetup;

/// Prints the value of a key that is in force, and its values in the other layers.
pub fn get(globals: &GlobalOptions, key: &str) -> CommandResult {
    let printer = globals.printer();
    let keys = ConfigSchema::default();
    let path = keys.path(key).map_err(usage)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let layer_values = setup.settings.layer_values(&path);
    let effective = layer_values.iter().find(|layer| !layer.withheld);
    let default = match effective {
        Some(_) => None,
        None => keys.default_of(&path),
    };
    let from = effective.map(|layer| layer.owner.as_str());
    let layers: Vec<Value> = layer_values.iter().map(layer_json).collect();
    let result = json!({
        "key": path.join("."),
        "value": effective.map(|layer| to_json(&layer.value)).or(default.clone()),
        "from": from.or(default.as_ref().map(|_| "default")),
        "layers": layers,
    });
    printer.print_result(&result, |out| {
        let Some(first) = effective else {
            for line in default.iter().flat_map(yaml_lines) {
                writeln!(out, "{line}")?;
            }
            let note = match default {
                Some(_) => format!("default: {} is not set", path.join(".")),
                None => format!("{} is not set", path.join(".")),
            };
            writeln!(out, "{}", styled(FAINT, note))?;
            return layer_values
                .iter()
                .try_for_each(|layer| print_other_layer(out, layer));
        };
        for line in yaml_lines(&first.value) {
            writeln!(out, "{line}")?;
        }
        let from = format!("{}: {}", first.owner.as_str(), visible(&first.place));
        writeln!(out, "{}", styled(FAINT, from))?;
        let mut others = layer_values
            .iter()
            .filter(|other| !std::ptr::eq(*other, first));
        others.try_for_each(|other| print_other_layer(out, other))
    })?;
    Ok(ExitReason::Done)
}

/// Prints the value of another layer, which is overridden, merged or withheld.
fn print_other_layer(out: &mut dyn io::Write, layer: &LayerValue) -> io::Result<()> {
    let lines = yaml_lines(&layer.value).join(" ");
    let place = visible(&layer.place);
    let owner = layer.owner.as_str();
    match layer.withheld {
        true => {
            let waits = styled(WARN, "waits for `mimir policy accept`:");
            writeln!(out, "{waits} {lines} ({owner}: {place})")
        }
        false => writeln!(
            out,
            "{} {lines} ({owner}: {place})",
            styled(FAINT, "beside it:")
        ),
    }
}

fn layer_json(layer: &LayerValue) -> Value {
    json!({
        "layer": layer.owner.as_str(),
        "place": layer.place,
        "value": to_json(&layer.value),
        "withheld": layer.withheld,
    })
}

fn to_json(value: &serde_yaml::Value) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Formats a value as YAML lines without terminal control characters.
fn yaml_lines<T: serde::Serialize>(value: &T) -> Vec<String> {
    let text = serde_yaml::to_string(value).unwrap_or_default();
    text.trim_end().lines().map(visible).collect()
}

/// Sets a key to a value, or removes the key if `value` is `None`.
pub fn set(globals: &GlobalOptions, key: &str, value: Option<&str>, user: bool) -> CommandResult {
    let printer = globals.printer();
    let path = ConfigSchema::default().path(key).map_err(usage)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let owner = if user {
        ConfigOwner::User
    } else {
        ConfigOwner::Project
    };
    let edit = match value {
        Some(text) => ConfigEdit::Set(path.clone(), read(text)?),
        None => {
            let layer_values = setup.settings.layer_values(&path);
            if !layer_values.iter().any(|layer| layer.owner == owner) {
                let message = format!("{} is not set there", path.join("."));
                return Err(usage(ToolError::not_found(message)));
            }
            ConfigEdit::Remove(path.clone())
        }
    };
    let file = settings::retry_change(&setup, owner, |_| Ok(vec![edit.clone()]))?;
    let result = json!({ "ok": true, "key": path.join("."), "file": file });
    printer.print_result(&result, |out| {
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
    warn_overriding_layers(&setup, &path, owner)?;
    Ok(ExitReason::Done)
}

/// Warns about layers that override the new value.
fn warn_overriding_layers(
    setup: &HostSetup,
    path: &[String],
    owner: ConfigOwner,
) -> CommandResult<()> {
    let settings = settings::MergedSettings::read(&setup.user_dirs, &setup.workspace)?;
    let layer_values = settings.layer_values(path);
    let overriding = layer_values.iter().take_while(|layer| layer.owner != owner);
    for layer in overriding {
        crate::output::note(format_args!(
            "{} has another value and overrides it ({})",
            visible(&layer.place),
            layer.owner.as_str()
        ));
    }
    Ok(())
}

fn read(text: &str) -> CommandResult<Value> {
    let value: Result<Value, _> = serde_yaml::from_str(text);
    value.map_err(|error| {
        let message = format!("the value is not valid YAML: {error}");
        usage(ToolError::invalid_input(visible(&message)))
    })
}

fn usage(error: ToolError) -> CommandFailure {
    CommandFailure::with_exit(error, ExitReason::Usage)
}
