//! What each layer says of a key, as it is written there.

use serde_yaml::Value;

use super::{ConfigFile, Settings, Whose, lines};

/// What one layer says of a key.
#[derive(Debug)]
pub struct Said {
    /// Who says so.
    pub whose: Whose,
    /// Where: a file with its line, or variables.
    pub place: String,
    /// What.
    pub value: Value,
    /// Whether it waits for a person who accepts the file.
    pub withheld: bool,
}

impl Settings {
    /// What is said of the key at this path, the strongest layer first.
    pub fn said(&self, path: &[String]) -> Vec<Said> {
        let key = path.join(".");
        let rank = |file: &&ConfigFile| match file.whose {
            Whose::Machine => 0,
            Whose::NamedTeam => 1,
            Whose::Environment => 2,
            Whose::Project => 3,
            Whose::User => 4,
        };
        let mut files: Vec<&ConfigFile> = self.files.iter().collect();
        files.sort_by_key(rank);
        let said = files.into_iter().filter_map(|file| {
            let value = path
                .iter()
                .try_fold(&file.value, |at, key| at.get(key.as_str()))?;
            let line = lines::of(&file.text).get(&key).copied();
            let place = match line {
                Some(line) => format!("{}:{line}", file.shown),
                None => file.shown.clone(),
            };
            let waits = |withheld: &String| {
                let withheld = withheld.split(": ").next().unwrap_or(withheld);
                is_within(&key, withheld) || is_within(withheld, &key)
            };
            Some(Said {
                whose: file.whose,
                place,
                value: value.clone(),
                withheld: file.whose == Whose::Project && self.withheld.iter().any(waits),
            })
        });
        said.filter(|said| !said.value.is_null()).collect()
    }
}

/// Whether a key is the other, or below it.
fn is_within(key: &str, outer: &str) -> bool {
    let rest = key.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
