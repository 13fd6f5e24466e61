//! The value of a key in each config file, as it is written there.

use serde_yaml::Value;

use super::{ConfigFile, Settings, Whose, lines};

/// The value of a key in one file.
#[derive(Debug)]
pub struct Said {
    /// The owner of the file.
    pub whose: Whose,
    /// The file with the line, or the variables.
    pub place: String,
    /// The value.
    pub value: Value,
    /// True if the value is ignored until a person accepts the file.
    pub withheld: bool,
}

impl Settings {
    /// The values of the key at this path, strongest first.
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

/// Returns true if both keys are equal or `key` is below `outer`.
fn is_within(key: &str, outer: &str) -> bool {
    let rest = key.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
