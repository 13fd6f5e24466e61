//! Warnings about unknown variables with mimir's prefix, each with the closest setting.
//!
//! Unknown variables are not errors, because other programs may use the prefix. `environment` defines the meaning of
//! variables.

use std::ffi::OsString;
use std::sync::Once;

use mimir_core::name_suggestions::nearest;
use mimir_core::text::{prefix, visible};

use super::ConfigFile;
use super::config_schema::{ConfigSchema, SchemaNode};
use super::environment::{PREFIX, VariableMeaning, as_variable, resolve_variable};
use crate::interface::warn;

/// Variables of mimir that are not settings. mimir sets the last one for the commands that it starts.
const OTHER_VARIABLES: [&str; 11] = [
    "MIMIR_CACHE_DIR",
    "MIMIR_CC",
    "MIMIR_CONFIG_DIR",
    crate::signing_keys::KEY_PASSWORD_VARIABLE,
    "MIMIR_LOG",
    "MIMIR_LOG_FORMAT",
    "MIMIR_NATS",
    "MIMIR_NATS_CA",
    "MIMIR_NATS_KEY",
    "MIMIR_TEAM_POLICY",
    "MIMIR_COMMAND",
];

/// Prefixes of variables of mimir's tests and benchmarks.
const TEST_PREFIXES: [&str; 2] = ["MIMIR_TEST_", "MIMIR_BENCH_"];

/// Maximum nesting of blocks that are searched for names.
const MAX_DEPTH: usize = 4;

/// Warns about unknown variables, once per process. A variable that a config file or another variable names, such as
/// that of a secret, is not reported.
pub fn warn_once(variables: &[(String, OsString)], files: &[ConfigFile]) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| find_unknown(variables, files).iter().for_each(warn));
}

fn find_unknown(variables: &[(String, OsString)], files: &[ConfigFile]) -> Vec<String> {
    let is_candidate = |name: &str| {
        !OTHER_VARIABLES.contains(&name)
            && !TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let is_mentioned = |name: &str| {
        let in_file = files.iter().any(|file| file.text.contains(name));
        in_file || variables.iter().any(|(_, value)| value == name)
    };
    let names = variables.iter().map(|(name, _)| name.as_str());
    let names: Vec<&str> = names
        .filter(|name| is_candidate(name) && !is_mentioned(name))
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    let schema = ConfigSchema::default();
    let has_no_meaning = |name: &&str| {
        matches!(
            resolve_variable(&schema, name),
            Ok(VariableMeaning::Nothing)
        )
    };
    let unknown = names.into_iter().filter(has_no_meaning);
    unknown
        .map(|name| describe_unknown(&schema, name))
        .collect()
}

fn describe_unknown(schema: &ConfigSchema, variable: &str) -> String {
    let mut known = Vec::new();
    collect_variables(schema, &schema.root(), PREFIX, MAX_DEPTH, &mut known);
    known.extend(
        OTHER_VARIABLES[..OTHER_VARIABLES.len() - 1]
            .iter()
            .map(|name| (*name).to_owned()),
    );
    let near = nearest(variable, known.iter().map(String::as_str));
    let near = near.first().map(|near| (*near).to_owned());
    let near = split_variable(schema, variable).or(near);
    let variable = visible(prefix(variable, 200));
    match near {
        Some(near) => {
            format!("{variable} is not used: it is not a setting; the closest one is {near}")
        }
        None => format!("{variable} is not used: it is not a setting"),
    }
}

/// Returns the valid name with one or two `_` doubled, if there is one. Settings of a tool need two.
fn split_variable(schema: &ConfigSchema, variable: &str) -> Option<String> {
    let variable = variable
        .strip_prefix(PREFIX)
        .filter(|rest| rest.len() < 100)?;
    let underscores: Vec<usize> = variable.match_indices('_').map(|(at, _)| at).collect();
    let with_doubled = |underscores: &[usize]| {
        let mut name = variable.to_owned();
        for at in underscores.iter().rev() {
            name.insert(*at, '_');
        }
        let name = format!("{PREFIX}{name}");
        matches!(resolve_variable(schema, &name), Ok(VariableMeaning::Key(_))).then_some(name)
    };
    let after = |first: usize| underscores.iter().filter(move |at| **at > first);
    let mut pairs = underscores
        .iter()
        .flat_map(|first| after(*first).map(|second| [*first, *second]));
    let both = pairs.find_map(|pair| with_doubled(&pair));
    both.or_else(|| underscores.iter().find_map(|at| with_doubled(&[*at])))
}

/// Collects the variables of all settings in a block, except those below names that the user chooses, such as names of
/// tools.
fn collect_variables(
    schema: &ConfigSchema,
    node: &SchemaNode<'_>,
    before: &str,
    depth: usize,
    all: &mut Vec<String>,
) {
    for key in node.names() {
        let name = format!("{before}{}", as_variable(key));
        match schema.below(node, key) {
            Some(below) if below.is_leaf() => all.push(name),
            Some(below) if depth > 1 => {
                collect_variables(schema, &below, &format!("{name}__"), depth - 1, all);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ConfigLocation, ConfigOwner};

    fn of(names: &[&str]) -> Vec<String> {
        let variables: Vec<_> = names
            .iter()
            .map(|name| ((*name).to_owned(), OsString::from("x")))
            .collect();
        let place = ConfigLocation {
            path: "config.yml".into(),
            shown: "config.yml".into(),
            owner: ConfigOwner::User,
        };
        let text = "secrets: {KEY: {env: MIMIR_KEY_OF_MINE}}\n";
        find_unknown(&variables, &[ConfigFile::parse(place, text).unwrap()])
    }

    #[test]
    fn unknown_variables_are_reported_with_the_nearest_name() {
        for (variable, near) in [
            ("MIMIR_PROFLE", "MIMIR_PROFILE"),
            ("MIMIR_MODLE", "MIMIR_MODEL"),
            ("MIMIR_AGENT_MAX_TURNS", "MIMIR_AGENT__MAX_TURNS"),
            ("MIMIR_LIMITS_TIME_MS", "MIMIR_LIMITS__TIME_MS"),
            ("MIMIR_TOOLS_GIT_ENABLED", "MIMIR_TOOLS__GIT__ENABLED"),
            (
                "MIMIR_TOOLS_READ_FILE_ENABLED",
                "MIMIR_TOOLS__READ_FILE__ENABLED",
            ),
            (
                "MIMIR_TOOLS_SHOW_TOKEN_COSTS",
                "MIMIR_TOOLS__SHOW_TOKEN_COSTS",
            ),
            ("MIMIR_CONFIG_DRI", "MIMIR_CONFIG_DIR"),
        ] {
            let told = of(&[variable]);
            let wanted =
                format!("{variable} is not used: it is not a setting; the closest one is {near}");
            assert_eq!(told, [wanted]);
        }
    }

    #[test]
    fn unknown_variables_exclude_those_in_use() {
        let used = [
            "MIMIR_PROFILE",
            "MIMIR_TOOLS",
            "MIMIR_TOOLS__GIT__ENABLED",
            "MIMIR_LOG",
            "MIMIR_CC",
            "MIMIR_COMMAND",
            "MIMIR_TEAM_POLICY",
            "MIMIR_TEST_KEY",
            "MIMIR_BENCH_RUNS",
            "MIMIR_KEY_OF_MINE",
        ];
        assert_eq!(of(&used), [""; 0]);
    }
}
