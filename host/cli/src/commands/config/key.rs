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
    let setup = HostSetup::find_for_user(globals.workspace.as_deref())?;
    let layer_values = setup.settings.layer_values(&path);
    let effective = layer_values.iter().find(|layer| !layer.withheld);
    let default = match effective {
        Some(_) => None,
        None => keys.default_of(&path),
    };
    let from = effective.map(|layer| layer.owner.as_str());
    let layers: Vec<Value> = layer_values.iter().map(layer_json).collect();
    let mut result = json!({
        "key": path.join("."),
        "value": effective.map(|layer| to_json(&layer.value)).or(default.clone()),
        "from": from.or(default.as_ref().map(|_| "default")),
        "layers": layers,
    });
    let in_force = layer_values.iter().filter(|layer| !layer.withheld);
    let count_together = is_evaluated_together(&path) && in_force.count() > 1;
    if count_together {
        result["evaluatedTogether"] = true.into();
    }
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
                .try_for_each(|layer| print_other_layer(out, layer, "beside it:"));
        };
        for line in yaml_lines(&first.value) {
            writeln!(out, "{line}")?;
        }
        let from = format!("{}: {}", first.owner.as_str(), visible(&first.place));
        writeln!(out, "{}", styled(FAINT, from))?;
        let mut others = layer_values
            .iter()
            .filter(|other| !std::ptr::eq(*other, first));
        let relation = if count_together { "and:" } else { "beside it:" };
        others.try_for_each(|other| print_other_layer(out, other, relation))?;
        if count_together {
            let note = "all of these count, and the strictest decision wins";
            writeln!(out, "{}", styled(FAINT, note))?;
        }
        Ok(())
    })?;
    Ok(ExitReason::Done)
}

/// Returns true for keys whose values in all files count, because the rules of each file are evaluated.
fn is_evaluated_together(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        ["policy" | "enforcement", ..] | ["files", "deny", ..] | ["tools", _, "deny" | "rules", ..]
    )
}

/// Returns true for keys of which a team's value is a cap.
fn is_capped_by_teams(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        ["limits" | "network", ..] | ["tools", _, "limits", ..]
    )
}

/// Returns true for keys that can refuse a tool, which a team's value does not replace.
fn is_switch_of_tool(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(path.as_slice(), ["tools", _, "enabled" | "approval", ..])
}

/// Prints the value of another layer, which is overridden, merged or withheld.
fn print_other_layer(
    out: &mut dyn io::Write,
    layer: &LayerValue,
    relation: &str,
) -> io::Result<()> {
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
            styled(FAINT, relation)
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
    let (setup, owner) = if user {
        let setup = HostSetup::find_for_user(globals.workspace.as_deref())?;
        (setup, ConfigOwner::User)
    } else {
        let setup = HostSetup::find(globals.workspace.as_deref())?;
        (setup, ConfigOwner::Project)
    };
    let edit = match value {
        Some(text) => {
            let value = ConfigEdit::read_value(text).map_err(usage)?;
            ConfigEdit::Set(path.clone(), value)
        }
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
    note_other_layers(&setup, &path, owner, value.is_some())?;
    Ok(ExitReason::Done)
}

/// Notes the layers that override the new value, or count beside it. After a removal, the layers that still set the key.
fn note_other_layers(
    setup: &HostSetup,
    path: &[String],
    owner: ConfigOwner,
    is_set: bool,
) -> CommandResult<()> {
    let settings = settings::MergedSettings::read(&setup.user_dirs, &setup.workspace)?;
    let layer_values = settings.layer_values(path);
    let overriding = layer_values.iter().take_while(|layer| layer.owner != owner);
    for layer in overriding {
        let is_team = layer.owner.is_team();
        let effect = if !is_set {
            "still sets it"
        } else if is_evaluated_together(path) || is_switch_of_tool(path) && is_team {
            "sets it, too: both count, and the strictest decision wins"
        } else if is_capped_by_teams(path) && is_team {
            "sets it, too, as a cap: the tighter value counts"
        } else {
            "has another value and overrides it"
        };
        let (place, owner) = (visible(&layer.place), layer.owner.as_str());
        crate::output::note(format_args!("{place} {effect} ({owner})"));
    }
    Ok(())
}

fn usage(error: ToolError) -> CommandFailure {
    CommandFailure::with_exit(error, ExitReason::Usage)
}
