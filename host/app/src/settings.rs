//! The config files: read, checked with their line numbers, and laid over each other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::config::Config;
use mimir_core::redact::Redactor;
use mimir_core::{Policy, Tool, ToolError, ToolName};
use serde_yaml::{Mapping, Value};
use sha2::{Digest, Sha256};

use crate::interface::warn;
use crate::ledger::UserLedger;
use crate::places::Places;
use crate::secrets::Secrets;
use crate::workspace::Workspace;

mod anchor;
mod defaults;
mod edit;
pub mod environment;
mod faults;
mod keys;
mod lines;
mod merge;
mod places;
mod reload;
mod shown;
mod strays;
mod value;
mod write;

pub use edit::Edit;
pub use faults::explain;
pub use keys::Keys;
pub use places::{Place, Whose};
pub use reload::{Change, Watched, WatchedFiles};
pub use value::Said;
pub use write::{change, change_again};

/// A config file with every key, commented out: what `mimir init` writes.
pub const TEMPLATE: &str = include_str!("settings/config.template.yml");

/// One config file that was read.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// How messages call it.
    pub shown: String,
    /// What it says by itself.
    pub config: Config,
    value: Value,
    text: Arc<str>,
    /// Whether it may have come with a checkout, and nobody has accepted it.
    unaccepted: bool,
    /// Whether nobody has accepted its words, which a model would read.
    strange: bool,
    /// Who speaks in it.
    pub whose: Whose,
}

/// All config files together.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What they say together.
    pub config: Config,
    /// The files: a team's, the user's, what variables say, the workspace's.
    pub files: Vec<ConfigFile>,
    withheld: Vec<String>,
}

impl Settings {
    /// Reads a team's files, the user's and the workspace's, as far as they are there.
    pub fn read(places: &Places, workspace: &Workspace) -> Result<Self, ToolError> {
        Self::find(places, workspace).map_err(|error| masked(error, Some(places)))
    }

    fn find(places: &Places, workspace: &Workspace) -> Result<Self, ToolError> {
        let mut files = Vec::new();
        let mut variables = environment::read(&places.variables)?;
        for place in Place::all(places, workspace) {
            if place.whose == Whose::Project {
                // Before it, since what lowers a bar is measured by what the person says.
                files.extend(variables.take());
            }
            let Some(file) = ConfigFile::read(place)? else {
                continue;
            };
            if file.whose.is_team() {
                // Also what only the rules show stops every command, and not just those that judge a call.
                merge::of_file(&file)?;
            }
            files.push(file);
        }
        strays::warn_once(&places.variables, &files);
        let withheld = accepted(&mut files, places, workspace)?;
        let config = merge::layers(&files)?;
        Ok(Self {
            config,
            files,
            withheld,
        })
    }

    /// The same with the rules of every file, and with all that is wrong instead of the first of it.
    pub fn read_all(places: &Places, workspace: &Workspace) -> Result<Self, Vec<ToolError>> {
        let each = Place::all(places, workspace).into_iter();
        let faults: Vec<ToolError> = each
            .filter_map(|place| {
                let file = ConfigFile::read(place).transpose()?;
                file.and_then(|file| merge::of_file(&file)).err()
            })
            .map(|error| masked(error, Some(places)))
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let read =
            Self::read(places, workspace).and_then(|settings| settings.policy().map(|_| settings));
        read.map_err(|error| vec![error])
    }

    /// Whether this would be a config file at that place.
    fn check(place: &Place, text: &str) -> Result<(), ToolError> {
        let file = ConfigFile::parse(place.clone(), text);
        let policy = file.and_then(|file| merge::of_file(&file));
        policy.map(drop).map_err(|error| masked(error, None))
    }

    /// The workspace's own file, if it is there.
    pub fn project(&self) -> Option<&ConfigFile> {
        let mut files = self.files.iter();
        files.find(|file| file.whose == Whose::Project)
    }

    /// The files of a team.
    pub fn team(&self) -> impl Iterator<Item = &ConfigFile> {
        self.files.iter().filter(|file| file.whose.is_team())
    }

    /// Whether a team refuses every call of the tool, whatever the others say. That a tool is off in its own file is no
    /// word of a team's.
    pub fn is_denied_by_team(&self, tool: &Tool) -> Result<bool, ToolError> {
        let mut tool = tool.clone();
        tool.off = false;
        for file in self.team() {
            if merge::of_file(file)?.refusal(&tool).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys of the workspace's file that do not count, because nobody has accepted it as it is now.
    pub fn withheld(&self) -> &[String] {
        &self.withheld
    }

    /// The rules of the workspace's file whose words no model reads, because nobody has accepted them.
    pub fn unread_words(&self) -> Vec<String> {
        let file = self.project().filter(|file| file.strange);
        let words = file.map(ConfigFile::words).unwrap_or_default();
        let known = |word: &String| self.withheld.iter().any(|key| key.starts_with(word));
        words.into_iter().filter(|word| !known(word)).collect()
    }

    /// How messages call each file, with the hash of what it is now.
    pub fn digests(&self) -> Vec<(String, String)> {
        let files = self.files.iter();
        let files = files.filter(|file| file.whose != Whose::Environment);
        files
            .map(|file| (file.shown.clone(), file.digest()))
            .collect()
    }

    /// Bounds the wall clock of calls of `tool`, in place of what the files say. `maxExecutionTime` still holds.
    pub fn bound(&mut self, tool: &Tool, time: Duration) {
        let each = &mut self.config.tools.each;
        let mut names = std::iter::once(tool.name()).chain(&tool.aliases);
        let set = names.find(|name| each.contains_key(name.as_str()));
        let name = set.unwrap_or(tool.name()).to_string();
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        each.entry(name).or_default().limits.time_ms = Some(millis);
    }

    /// The rules that the files state.
    pub fn policy(&self) -> Result<Policy, ToolError> {
        merge::policy(self).map_err(|error| masked(error, None))
    }
}

/// An error that repeats what stands in a file, without the secrets in that.
fn masked(mut error: ToolError, places: Option<&Places>) -> ToolError {
    let secrets = places.and_then(Secrets::new);
    let values = secrets.and_then(|secrets| secrets.values(&BTreeMap::new()).ok());
    let redactor = Redactor::new().with_values(values.unwrap_or_default());
    redactor.parts_and_value([&mut error.message], error.details.as_mut());
    error
}

/// Looks at whether the workspace's file lowers a bar, and if so, whether this user has accepted it. Gives
/// the keys that do not count.
fn accepted(
    files: &mut [ConfigFile],
    places: &Places,
    workspace: &Workspace,
) -> Result<Vec<String>, ToolError> {
    let last = files.split_last_mut();
    let Some((file, below)) = last.filter(|(file, _)| file.whose == Whose::Project) else {
        return Ok(Vec::new());
    };
    let withheld = file.config.lowering(&merge::layers(below)?);
    let book = UserLedger::new(places, workspace).map(|ledger| ledger.book());
    let accepted = match book {
        Some(Ok(book)) => book.settings.contains(&file.digest()),
        Some(Err(error)) => {
            warn(error);
            false
        }
        None => false,
    };
    file.strange = !accepted;
    file.unaccepted = !accepted && !withheld.is_empty();
    Ok(if accepted { Vec::new() } else { withheld })
}

impl ConfigFile {
    /// sha256 of the file, in lower-case hex.
    pub fn digest(&self) -> String {
        digest(&self.text)
    }

    /// The keys with a rule's name or reason, which a model reads once a person has accepted them.
    pub fn words(&self) -> Vec<String> {
        let each = self.config.tools.each.iter();
        let own = each.map(|(name, tool)| (format!("tools.{name}.rules"), &tool.rules));
        let all =
            std::iter::once(("policy.rules".to_owned(), &self.config.policy.rules)).chain(own);
        let mut words = Vec::new();
        for (key, rules) in all {
            let spoken = rules.iter().enumerate();
            let spoken = spoken.filter(|(_, rule)| rule.name.is_some() || rule.reason.is_some());
            words.extend(spoken.map(|(at, _)| format!("{key}[{at}]")));
        }
        words
    }

    /// Reads the file, if it is there.
    fn read(place: Place) -> Result<Option<Self>, ToolError> {
        let text = place.text()?;
        text.map(|text| Self::parse(place, &text)).transpose()
    }

    fn parse(place: Place, text: &str) -> Result<Self, ToolError> {
        let Place { path, shown, whose } = place;
        let fault = |error: serde_yaml::Error| faults::explain(&shown, &error);
        let plain = edit::unmarked(text);
        mimir_script::yaml::fit(plain).map_err(|unfit| faults::unfit(&shown, &unfit))?;
        let mut value: Value = serde_yaml::from_str(plain).map_err(fault)?;
        let silent = silenced(&mut value);
        let mut config = match value {
            // A file of comments only.
            Value::Null => Config::default(),
            _ => match serde_yaml::from_str(plain) {
                Ok(config) => config,
                // That of the text has a line.
                Err(error) if silent => {
                    serde_yaml::from_value(value.clone()).map_err(|_| fault(error))?
                }
                Err(error) => return Err(fault(error)),
            },
        };
        if whose != Whose::Project
            && let Some(folder) = path.parent()
            && anchor::anchor(&mut value, folder)
        {
            config = serde_yaml::from_value(value.clone()).map_err(fault)?;
        }
        Ok(Self {
            path,
            shown,
            config,
            value,
            text: text.into(),
            unaccepted: false,
            strange: false,
            whose,
        })
    }

    /// Whether a key, such as `audit.keep`, stands in the file.
    fn sets(&self, key: &str) -> bool {
        let found = key.split('.').try_fold(&self.value, |at, key| at.get(key));
        found.is_some_and(|value| !value.is_null())
    }
}

/// Makes `tools: {git: ~}` an empty block of that tool, as `git:` is one. Gives whether there is any.
fn silenced(value: &mut Value) -> bool {
    let tools = value.get_mut("tools").and_then(Value::as_mapping_mut);
    let tools = tools.into_iter().flat_map(|tools| tools.iter_mut());
    let named = |key: &Value| key.as_str().is_some_and(|key| ToolName::new(key).is_ok());
    let mut any = false;
    for (_, said) in tools.filter(|(key, said)| said.is_null() && named(key)) {
        *said = Value::Mapping(Mapping::new());
        any = true;
    }
    any
}

/// The text of another file of YAML, without what some editors put in front, if its shape lets it be read.
pub fn plain<'a>(shown: &str, text: &'a str) -> Result<&'a str, ToolError> {
    let plain = edit::unmarked(text);
    mimir_script::yaml::fit(plain).map_err(|unfit| faults::unfit(shown, &unfit))?;
    Ok(plain)
}

/// The lines of its keys.
pub fn lines_of(text: &str) -> BTreeMap<String, u64> {
    lines::of(text)
}

/// sha256 of the text of a config file, in lower-case hex.
fn digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests;
