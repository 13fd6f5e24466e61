//! Settings from environment variables: `MIMIR_LIMITS__TIME_MS=5000` means `limits: {timeMs: 5000}`.
//!
//! Two underscores separate the keys, and a key is written in upper snake case: `timeMs` is `TIME_MS`. Names that the
//! user chooses, such as those of tools, are converted to lower case, except names of secrets. A value is YAML, or
//! plain text. A variable with two underscores that matches no key is an error, as in a file, and so is a non-empty
//! variable with the name of a block. Other unknown variables only cause a warning (see `unknown_variables`).

use std::ffi::OsString;
use std::path::PathBuf;

use mimir_core::ToolError;
use mimir_core::config::Config;
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::policy::EnforcedTools;
use mimir_core::text::{prefix, visible};
use serde_yaml::{Mapping, Value};

use super::config_schema::{ConfigSchema, SchemaNode};
use super::{ConfigFile, ConfigOwner, merge};

/// Prefix of mimir's variables.
pub const PREFIX: &str = "MIMIR_";

/// The block of secrets, whose names keep their case.
const SECRETS: &str = "secrets";

/// Returns the variables with mimir's prefix, sorted by name.
pub fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, OsString)> {
    let unicode = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut ours: Vec<_> = unicode
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    ours.sort();
    ours
}

/// Parses the variables like a config file. Returns `None` if no variable is a setting.
pub fn read(variables: &[(String, OsString)]) -> Result<Option<ConfigFile>, ToolError> {
    if variables.is_empty() {
        return Ok(None);
    }
    let keys = ConfigSchema::default();
    let mut merged = Value::Null;
    let mut used = Vec::new();
    for (variable, value) in variables {
        let meaning = resolve_variable(&keys, variable)?;
        if matches!(meaning, VariableMeaning::Nothing) {
            continue;
        }
        let text = value
            .to_str()
            .ok_or_else(|| fault(variable, "it is not UTF-8"))?;
        let path = match meaning {
            VariableMeaning::Nothing => continue,
            VariableMeaning::Key(path) => path,
            VariableMeaning::Block { .. } if is_empty(text) => continue,
            VariableMeaning::Block { key, example } => {
                let message = format!(
                    "`{key}` has keys below it; set each in its own variable, such as {variable}__{example}"
                );
                return Err(fault(variable, &message));
            }
        };
        let value = setting(&path, text).map_err(|message| fault(variable, &message))?;
        merged = merge::merge_values(merged, value);
        used.push(variable.as_str());
    }
    if used.is_empty() {
        return Ok(None);
    }
    let names = used.join(", ");
    let config = serde_yaml::from_value(merged.clone())
        .map_err(|error| fault(&names, &error.to_string()))?;
    let shown = format!("the environment ({names})");
    Ok(Some(ConfigFile {
        path: PathBuf::from(&shown),
        shown,
        config,
        value: merged,
        // Empty, because variables have no line numbers.
        text: "".into(),
        unaccepted: false,
        unaccepted_text: false,
        outdated: None,
        disables: EnforcedTools::All,
        covered_teams: None,
        owner: ConfigOwner::Environment,
    }))
}

fn fault(variable: &str, message: &str) -> ToolError {
    let message = mimir_core::name_suggestions::with_nearest_name(message);
    let message = visible(prefix(&message, 500));
    let variable = visible(prefix(variable, 200));
    ToolError::invalid_input(format!("{variable}: {message}"))
}

/// The meaning of a variable.
pub enum VariableMeaning {
    /// The variable is not a setting.
    Nothing,
    /// The variable sets the key at this path.
    Key(Vec<String>),
    /// The variable names a block, which one variable cannot set.
    Block {
        /// Key of the block.
        key: String,
        /// A key in the block, in the form of a variable.
        example: String,
    },
}

/// Returns the meaning of a variable. Fails if the variable has two underscores and matches no key.
pub fn resolve_variable(keys: &ConfigSchema, variable: &str) -> Result<VariableMeaning, ToolError> {
    let rest = variable.strip_prefix(PREFIX).unwrap_or(variable);
    let is_nested = rest.contains("__");
    let mut path: Vec<String> = Vec::new();
    let mut node = keys.root();
    for part in rest.split("__") {
        let key = key(&node, &path, part);
        let below = key.as_ref().and_then(|key| keys.below(&node, key));
        let (Some(key), Some(below)) = (key, below) else {
            if !is_nested {
                return Ok(VariableMeaning::Nothing);
            }
            let wanted = part.to_lowercase();
            let names: Vec<String> = node.names().map(as_variable).collect();
            let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
            let near = did_you_mean(&wanted, lower.iter().map(String::as_str)).to_uppercase();
            let near = near.replace("DID YOU MEAN", "Did you mean");
            let near = near.replace("` OR `", "` or `");
            let message = format!("unknown key `{part}`.{near}");
            return Err(fault(variable, &message));
        };
        path.push(key);
        node = below;
    }
    if is_nested || node.is_leaf() {
        return Ok(VariableMeaning::Key(path));
    }
    // A block is not set by one variable, because a name without `__` may belong to another program.
    let example = node.names().next().map_or("NAME".to_owned(), as_variable);
    Ok(VariableMeaning::Block {
        key: path.join("."),
        example,
    })
}

/// Returns true if a value sets nothing in a block.
fn is_empty(text: &str) -> bool {
    match serde_yaml::from_str(text) {
        Ok(Value::Null) => true,
        Ok(Value::Mapping(block)) => block.is_empty(),
        _ => false,
    }
}

fn key(node: &SchemaNode<'_>, path: &[String], part: &str) -> Option<String> {
    let own = node.names().find(|name| as_variable(name) == part);
    if let Some(own) = own {
        return Some(own.to_owned());
    }
    if part.is_empty() || !node.is_map() {
        return None;
    }
    Some(match path {
        [block] if block == SECRETS => part.to_owned(),
        _ => part.to_lowercase(),
    })
}

/// Converts a key to the form of a variable: `blockPrivateIPs` becomes `BLOCK_PRIVATE_IPS`.
pub fn as_variable(key: &str) -> String {
    let mut name = String::new();
    let mut after_lowercase = false;
    for character in key.chars() {
        if after_lowercase && character.is_ascii_uppercase() {
            name.push('_');
        }
        after_lowercase = !character.is_ascii_uppercase();
        name.push(character.to_ascii_uppercase());
    }
    name
}

/// Nests a value under the keys of its path. The value is parsed as YAML if the result is valid, else taken as text.
fn setting(path: &[String], text: &str) -> Result<Value, String> {
    let whole = |value: Value| {
        path.iter().rev().fold(value, |inner, key| {
            Value::Mapping(Mapping::from_iter([(Value::String(key.clone()), inner)]))
        })
    };
    let parse = |value: Value| {
        let whole = whole(value);
        let config: Result<Config, _> = serde_yaml::from_value(whole.clone());
        config.map(|_| whole).map_err(|error| error.to_string())
    };
    let parsed: Value = serde_yaml::from_str(text).unwrap_or_else(|_| text.into());
    parse(parsed).or_else(|error| parse(text.into()).map_err(|_| error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::ToolErrorCode;

    fn of(variables: &[(&str, &str)]) -> Result<Option<ConfigFile>, ToolError> {
        let all = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        read(&super::variables(all))
    }

    #[test]
    fn config_variables_set_config_keys() {
        let file = of(&[
            ("MIMIR_LIMITS__TIME_MS", "5000"),
            ("MIMIR_TOOLS__READ_FILE__ENABLED", "false"),
            ("MIMIR_TOOLS__MAX_EXECUTION_TIME", "9"),
            ("MIMIR_POLICY__DENY", "[git, exec]"),
            ("MIMIR_NETWORK__BLOCK_PRIVATE_IPS", "true"),
            ("MIMIR_PROFILE", "compact"),
            ("MIMIR_SECRETS__API_KEY__ENV", "12"),
            ("MIMIR_LOG", "debug"),
            ("MIMIR_CACHE_DIR", "/x"),
            ("HOME", "/h"),
        ]);
        let file = file.unwrap().unwrap();
        let config = &file.config;
        assert_eq!(config.limits.time_ms, Some(5000));
        assert_eq!(config.tools.each["read_file"].enabled, Some(false));
        assert_eq!(config.tools.max_execution_time, Some(9));
        assert_eq!(config.policy.deny, ["git", "exec"]);
        assert_eq!(
            config.secrets["API_KEY"].env, "12",
            "a text that looks like a number"
        );
        assert_eq!(config.profile, mimir_core::config::ToolProfile::Compact);
        assert!(file.shown.contains("MIMIR_PROFILE") && !file.shown.contains("MIMIR_LOG"));
        assert!(
            of(&[("MIMIR_LOG", "x"), ("MIMIR_TOOLS", "{}")])
                .unwrap()
                .is_none()
        );
        assert!(of(&[]).unwrap().is_none());
    }

    #[test]
    fn config_variable_typos_name_the_nearest_key() {
        for (name, value, wanted) in [
            ("MIMIR_POLCY__DENY", "[git]", "Did you mean `POLICY`?"),
            ("MIMIR_TOOLS__GIT__ENABLE", "false", "`ENABLED`"),
            ("MIMIR_LIMITS__", "1", "unknown key"),
            ("MIMIR_LIMITS__TIME_MS", "soon", "MIMIR_LIMITS__TIME_MS"),
            ("MIMIR_LIMITS__TIME_MS__X", "1", "unknown key"),
            (
                "MIMIR_LIMITS",
                "{timeMs: 3}",
                "such as MIMIR_LIMITS__TIME_MS",
            ),
            ("MIMIR_TOOLS", "x", "`tools` has keys below it"),
            ("MIMIR_SECRETS", "x", "MIMIR_SECRETS__NAME"),
            ("MIMIR_PROFILE", "compat", "Did you mean `compact`?"),
            ("MIMIR_TOOLS__A-B__ENABLED", "true", "tool name"),
        ] {
            let error = of(&[(name, value)]).unwrap_err();
            assert!(error.message.contains(wanted), "{name}: {error}");
            assert!(error.message.starts_with(name), "{error}");
            assert_eq!(error.code, ToolErrorCode::InvalidInput);
        }
    }

    #[test]
    fn config_key_is_converted_to_a_variable_name() {
        for (key, variable) in [
            ("timeMs", "TIME_MS"),
            ("blockPrivateIPs", "BLOCK_PRIVATE_IPS"),
            ("profile", "PROFILE"),
        ] {
            assert_eq!(as_variable(key), variable);
        }
    }
}
