//! The value of a key in each config file, as written in the file.

use serde_yaml::Value;

use super::{ConfigFile, ConfigOwner, MergedSettings, key_lines};

/// The value of a key in one file.
#[derive(Debug)]
pub struct LayerValue {
    /// The owner of the file.
    pub owner: ConfigOwner,
    /// The file with the line number, or the environment variables.
    pub place: String,
    /// The value.
    pub value: Value,
    /// True if the value is ignored until the user accepts the file.
    pub withheld: bool,
}

impl MergedSettings {
    /// Returns the values of the key at this path, in descending order of precedence.
    pub fn layer_values(&self, path: &[String]) -> Vec<LayerValue> {
        let key = path.join(".");
        // The files of teams are already in this order.
        let rank = |file: &&ConfigFile| match file.owner {
            ConfigOwner::Machine | ConfigOwner::NamedTeam | ConfigOwner::JoinedTeam => 0,
            ConfigOwner::Environment => 1,
            ConfigOwner::Project => 2,
            ConfigOwner::User => 3,
        };
        let mut files: Vec<&ConfigFile> = self.files.iter().collect();
        files.sort_by_key(rank);
        let values = files.into_iter().filter_map(|file| {
            let value = path
                .iter()
                .try_fold(&file.value, |at, key| at.get(key.as_str()))?;
            let covers_key = |withheld: &String| {
                let withheld = withheld.split(": ").next().unwrap_or(withheld);
                is_within(&key, withheld) || is_within(withheld, &key)
            };
            Some(LayerValue {
                owner: file.owner,
                place: file.key_location(&key_lines::key_lines(&file.text), &key),
                value: value.clone(),
                withheld: file.owner == ConfigOwner::Project
                    && self.withheld.iter().any(covers_key),
            })
        });
        values.filter(|layer| !layer.value.is_null()).collect()
    }
}

/// Returns true if both keys are equal or `key` is below `outer`.
fn is_within(key: &str, outer: &str) -> bool {
    let rest = key.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
