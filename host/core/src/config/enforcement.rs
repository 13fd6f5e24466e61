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
    /// Does not load the custom tools of workspaces.
    pub disable_local_tools: bool,
    /// If not empty, only these tools can be used: names, globs such as `git_*`, and sources such as `source:teams`.
    pub allow_tools: Vec<String>,
    /// Does not load custom tools without a trusted signature.
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
