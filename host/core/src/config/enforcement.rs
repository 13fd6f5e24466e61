//! The block `enforcement`: restrictions of tools and models. Any file can restrict, and no file can lift the restriction
//! of another.

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ChosenModel, Config};
use crate::error::{ToolError, ToolErrorCode};
use crate::text::visible;

/// Restrictions of tools and models. Those of all files apply together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EnforcementSettings {
    /// Does not load the custom tools and skills of workspaces.
    pub disable_local_tools: bool,
    /// If not empty, only these tools can be used: names, globs such as `git_*`, and sources such as `source:teams`.
    pub allow_tools: Vec<String>,
    /// Does not load custom tools without a trusted signature. Nothing of them is compiled or run.
    pub require_signature: bool,
    /// If not empty, only these models can be used: patterns of PROVIDER/MODEL such as `anthropic/*`.
    pub models: Vec<String>,
}

/// The models that one file allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAllowList {
    /// The file, for messages.
    pub source: String,
    /// The patterns of `enforcement.models`.
    pub patterns: Vec<String>,
}

impl EnforcementSettings {
    /// Combines the switches of all files: what one file requires applies.
    pub fn union<'a>(files: impl Iterator<Item = &'a Self>) -> Self {
        files.fold(Self::default(), |mut all, file| {
            all.disable_local_tools |= file.disable_local_tools;
            all.require_signature |= file.require_signature;
            all
        })
    }

    /// Returns the first invalid model pattern, as its index and the fault.
    pub(crate) fn bad_model_pattern(&self) -> Option<(usize, String)> {
        let mut faults = self.models.iter().enumerate();
        faults.find_map(|(at, pattern)| {
            let fault = model_matcher(pattern).err()?;
            Some((at, format!("`{}` {fault}", visible(pattern))))
        })
    }
}

/// Compiles a pattern of models, in which `*` also matches `/`.
fn model_matcher(pattern: &str) -> Result<GlobMatcher, String> {
    if pattern.trim().is_empty() {
        return Err("is empty: expected a pattern such as `anthropic/*`".to_owned());
    }
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    let glob = glob.map_err(|error| format!("is not a valid pattern: {}", error.kind()))?;
    Ok(glob.compile_matcher())
}

impl Config {
    /// Refuses a model that is not in the list of every file with `enforcement.models`.
    ///
    /// # Errors
    /// Names the first file that does not allow the model.
    pub fn check_model(&self, chosen: &ChosenModel) -> Result<(), ToolError> {
        let name = format!("{}/{}", chosen.provider, chosen.model);
        let allows = |list: &&ModelAllowList| {
            let mut patterns = list.patterns.iter();
            patterns.any(|pattern| model_matcher(pattern).is_ok_and(|glob| glob.is_match(&name)))
        };
        let Some(list) = self.model_lists.iter().find(|list| !allows(list)) else {
            return Ok(());
        };
        let (name, source) = (visible(&name), visible(&list.source));
        let patterns = visible(&list.patterns.join(", "));
        let message = format!("the model {name} is not among the models that {source} allows");
        let remedy = format!("`enforcement.models` of {source} allows {patterns}");
        Err(ToolError::new(ToolErrorCode::PolicyDenied, message).with_remedies([remedy]))
    }
}

/// A config file, for the check of a model's address.
#[derive(Debug, Clone, Copy)]
pub struct ModelAddressFile<'a> {
    /// The file, for messages.
    pub shown: &'a str,
    /// True if a team owns the file.
    pub is_team: bool,
    /// The settings of the file alone.
    pub config: &'a Config,
}

impl Config {
    /// Refuses a model whose provider gets its address from a file below that of a team with `enforcement.models`: the
    /// names in the list then say nothing about where conversations are sent. `files` has the teams' files first, the
    /// strongest at the beginning.
    ///
    /// # Errors
    /// Names the file with the address and the file with the list.
    pub fn check_model_address(
        &self,
        chosen: &ChosenModel,
        files: &[ModelAddressFile<'_>],
    ) -> Result<(), ToolError> {
        let name = &chosen.provider;
        let has_address = |config: &Config| {
            let provider = config.providers.get(name);
            provider.is_some_and(|provider| provider.url.is_some() || provider.api.is_some())
        };
        // Also the settings of a project that are not in force yet have no effect.
        if !has_address(self) {
            return Ok(());
        }
        for (at, list) in files.iter().enumerate() {
            if !list.is_team || list.config.enforcement.models.is_empty() {
                continue;
            }
            let (own, below) = files.split_at(at + 1);
            // The block of a team's file replaces those of the files below as a whole.
            let mut teams = own.iter().filter(|file| file.is_team);
            if teams.any(|file| file.config.providers.contains_key(name)) {
                continue;
            }
            let Some(other) = below.iter().find(|file| has_address(file.config)) else {
                continue;
            };
            let (name, other, list) = (visible(name), visible(other.shown), visible(list.shown));
            let message = format!(
                "the models of `{name}` cannot be used at the address in {other}: {list} allows models, so it sets their addresses"
            );
            let remedy = format!(
                "remove `url` and `api` of `providers.{name}` from {other}, or have `providers.{name}` set by {list}"
            );
            return Err(
                ToolError::new(ToolErrorCode::PolicyDenied, message).with_remedies([remedy])
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn enforcement_of_one_file_is_not_lifted_by_another() {
        let parse = |value| serde_json::from_value::<EnforcementSettings>(value).unwrap();
        let strict = parse(json!({"disableLocalTools": true, "requireSignature": true}));
        let lax = parse(json!({"disableLocalTools": false, "requireSignature": false}));
        for files in [[&strict, &lax], [&lax, &strict]] {
            let all = EnforcementSettings::union(files.into_iter());
            assert!(all.disable_local_tools && all.require_signature);
        }
        assert_eq!(EnforcementSettings::union([&lax].into_iter()), lax);
    }

    #[test]
    fn enforcement_models_of_every_file_must_allow_a_model() {
        let list = |source: &str, pattern: &str| ModelAllowList {
            source: source.to_owned(),
            patterns: vec![pattern.to_owned()],
        };
        let config = Config {
            model_lists: vec![list("team Acme", "local/*"), list("config.yml", "*/small*")],
            ..Config::default()
        };
        let check = |name: &str| {
            let source =
                json!({"providers": {"local": {"url": "http://127.0.0.1:1", "api": "openai"}}});
            let source: Config = serde_json::from_value(source).unwrap();
            config.check_model(&source.chosen_model(Some(name)).unwrap())
        };
        assert!(check("local/small").is_ok());
        assert!(check("local/org/small-2").is_ok(), "`*` did not match `/`");
        let error = check("anthropic/small").unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PolicyDenied);
        assert!(error.message.contains("team Acme"), "{}", error.message);
        let error = check("local/large").unwrap_err();
        assert!(error.message.contains("config.yml"), "{}", error.message);
    }

    #[test]
    fn enforcement_models_of_a_team_keep_their_addresses() {
        let config = |value| serde_json::from_value::<Config>(value).unwrap();
        let address = json!({"anthropic": {"url": "http://127.0.0.1:1"}});
        let list = config(json!({"enforcement": {"models": ["anthropic/*"]}}));
        let list_and_address = config(json!({
            "enforcement": {"models": ["anthropic/*"]},
            "providers": {"anthropic": {"url": "https://models.example.com"}},
        }));
        let own = config(json!({ "providers": address }));
        let key_only = config(json!({"providers": {"anthropic": {"key": "OTHER_KEY"}}}));
        let check = |files: &[(bool, &Config)], merged: &Config| {
            let names = ["first", "second", "third"];
            let files: Vec<_> = files
                .iter()
                .zip(names)
                .map(|((is_team, config), shown)| ModelAddressFile {
                    shown,
                    is_team: *is_team,
                    config,
                })
                .collect();
            let chosen = merged.chosen_model(Some("anthropic/claude")).unwrap();
            merged.check_model_address(&chosen, &files)
        };
        let error = check(&[(true, &list), (false, &own)], &own).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PolicyDenied);
        let message = &error.message;
        assert!(
            message.contains("in second") && message.contains("first allows"),
            "{message}"
        );
        // A weaker team does not move the models of a stronger one, but a stronger one may.
        assert!(
            check(
                &[(true, &list), (true, &list_and_address)],
                &list_and_address
            )
            .is_err()
        );
        assert!(
            check(
                &[(true, &list_and_address), (true, &list)],
                &list_and_address
            )
            .is_ok()
        );
        let files = [(true, &list_and_address), (false, &own)];
        assert!(check(&files, &list_and_address).is_ok());
        assert!(check(&[(true, &list), (false, &key_only)], &key_only).is_ok());
        // The list of a user restricts the user only.
        assert!(check(&[(false, &list), (false, &own)], &own).is_ok());
        assert!(check(&[(false, &own)], &own).is_ok());
        // A block that is not in force.
        assert!(check(&[(true, &list), (false, &own)], &list).is_ok());
    }

    #[test]
    fn enforcement_model_patterns_are_checked() {
        let settings = |pattern: &str| EnforcementSettings {
            models: vec!["a/*".to_owned(), pattern.to_owned()],
            ..EnforcementSettings::default()
        };
        assert_eq!(settings("b/c").bad_model_pattern(), None);
        for bad in ["", "a/[", "a/{b"] {
            let (at, fault) = settings(bad).bad_model_pattern().unwrap();
            assert!(at == 1 && !fault.is_empty(), "{bad}");
        }
    }
}
