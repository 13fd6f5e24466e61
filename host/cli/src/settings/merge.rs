//! Config files over each other. A setting of the workspace replaces the user's; what either forbids
//! stays forbidden, because each file's rules are evaluated by themselves.

use mimir_core::config::Config;
use mimir_core::{Code, Policy, ToolError};
use serde_yaml::Value;

use super::{ConfigFile, Settings};

/// What the files say together.
pub fn layers(files: &[ConfigFile]) -> Result<Config, ToolError> {
    let mut config = match files {
        [] => return Ok(Config::default()),
        [one] => return Ok(one.config.clone()),
        many => {
            let merged = many
                .iter()
                .fold(Value::Null, |below, file| over(below, file.value.clone()));
            match merged {
                Value::Null => Config::default(),
                merged => serde_yaml::from_value(merged).map_err(|e| {
                    ToolError::new(
                        Code::InvalidInput,
                        format!("the config files do not fit together: {e}"),
                    )
                })?,
            }
        }
    };
    for (name, settings) in &mut config.tools.each {
        settings.deny = gathered(files, |file| {
            file.tools.each.get(name).map(|tool| tool.deny.as_slice())
        });
    }
    Ok(config)
}

/// A list with what each file has in it.
fn gathered<'a>(
    files: &'a [ConfigFile],
    list: impl Fn(&'a Config) -> Option<&'a [String]>,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for item in files.iter().filter_map(|file| list(&file.config)).flatten() {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}

fn over(below: Value, above: Value) -> Value {
    match (below, above) {
        (Value::Mapping(mut below), Value::Mapping(above)) => {
            for (key, value) in above {
                let merged = match below.remove(&key) {
                    Some(old) => over(old, value),
                    None => value,
                };
                below.insert(key, merged);
            }
            Value::Mapping(below)
        }
        (below, Value::Null) => below,
        (_, above) => above,
    }
}

/// The rules, each with the name of its file.
pub fn policy(settings: &Settings) -> Result<Policy, ToolError> {
    let bad = |place: &str, error: &dyn std::fmt::Display| {
        ToolError::new(Code::InvalidInput, format!("{place}: {error}"))
    };
    let mut files = Vec::new();
    for ConfigFile { config, shown, .. } in &settings.files {
        files.push(Policy::new(config, shown.as_str()).map_err(|e| bad(shown, &e))?);
    }
    let together = Policy::new(&settings.config, "").map_err(|e| bad("the config files", &e))?;
    Ok(together.judged_by(files))
}
