//! The keys `trust` and `trustRoot`: who must have signed the artifacts of a registry.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::Config;

/// The trusted signers of some artifacts. Artifacts that a rule covers must be signed by one of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TrustRule {
    /// Registry and repository, such as `registry.example.com/acme/*`. `*` matches all characters.
    pub registry: String,
    /// Trusted keys: names from `mimir keys list`, files, or PEM text.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Trusted identities of keyless signatures.
    #[serde(default)]
    pub identities: Vec<SignerIdentity>,
    /// True for a rule of a team, which replaces the rules of users for all artifacts that it covers.
    #[serde(skip)]
    pub from_team: bool,
}

/// An identity in the certificate of a keyless signature. `*` matches all characters except `/`, and `**` matches these,
/// too.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SignerIdentity {
    /// The identity provider, such as `https://issuer.example.com`.
    pub issuer: String,
    /// The signer: an email address or a URI.
    pub subject: String,
}

/// Source of a trusted key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// A key of the user's key folder.
    Name,
    /// A file with a public key.
    File,
    /// A public key in PEM.
    Pem,
}

impl KeySource {
    /// Tells a name, a file and PEM text apart. Names of keys have no dots or slashes.
    pub fn classify(key: &str) -> Self {
        if key.contains("-----BEGIN ") {
            Self::Pem
        } else if key.contains(['/', '\\', '.']) {
            Self::File
        } else {
            Self::Name
        }
    }
}

/// Reads the rules of one file, and refuses rules that could not work.
pub(super) fn deserialize_rules<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<TrustRule>, D::Error> {
    let rules = Vec::<TrustRule>::deserialize(from)?;
    let mut registries = BTreeSet::new();
    for (at, rule) in rules.iter().enumerate() {
        let fault = |why: &str| D::Error::custom(format!("trust[{at}]: {why}"));
        let registry = rule.registry.trim();
        if registry.is_empty() || registry != rule.registry {
            return Err(fault(
                "`registry` is empty or has spaces around it: expected a pattern such as registry.example.com/acme/*",
            ));
        }
        if registry.contains("://") {
            return Err(fault("`registry` is written without a scheme"));
        }
        if rule.keys.is_empty() && rule.identities.is_empty() {
            return Err(fault(
                "expected `keys` or `identities`: without them, nothing from this registry could be used",
            ));
        }
        let identities = rule.identities.iter();
        let mut names = identities.flat_map(|identity| [&identity.issuer, &identity.subject]);
        if rule.keys.iter().any(String::is_empty) || names.any(String::is_empty) {
            return Err(fault("a key, issuer or subject is empty"));
        }
        if !registries.insert(registry) {
            return Err(fault(
                "another rule has the same `registry`: write all keys into one rule",
            ));
        }
    }
    Ok(rules)
}

impl Config {
    /// Combines the rules of several files, in ascending precedence. A rule replaces that of another file for the same
    /// registry.
    pub fn merge_trust<'a>(files: impl IntoIterator<Item = &'a Config>) -> Vec<TrustRule> {
        let mut merged: Vec<TrustRule> = Vec::new();
        for rule in files.into_iter().flat_map(|file| &file.trust) {
            merged.retain(|other| other.registry != rule.registry);
            merged.push(rule.clone());
        }
        merged
    }

    /// Applies a team's rules and trust root. Rules of other files stay for artifacts that the team's do not cover.
    pub(super) fn trust_under_team(&mut self, team: &Self) {
        for rule in &team.trust {
            self.trust.retain(|other| other.registry != rule.registry);
            self.trust.push(TrustRule {
                from_team: true,
                ..rule.clone()
            });
        }
        if team.trust_root.is_some() {
            self.trust_root.clone_from(&team.trust_root);
        }
    }

    /// Collects the rules and the trust root that `below` does not have.
    pub(super) fn collect_trust_weakening_keys(&self, below: &Self, keys: &mut Vec<String>) {
        let added = self.trust.iter().filter(|rule| !below.trust.contains(rule));
        keys.extend(added.map(|rule| format!("trust: {}", rule.registry)));
        if self.trust_root.is_some() && self.trust_root != below.trust_root {
            keys.push("trustRoot".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: &serde_json::Value) -> Config {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn trust_rules_that_could_not_work_are_refused() {
        for (rule, why) in [
            (json!({"registry": "r.example/*"}), "expected `keys`"),
            (
                json!({"registry": "", "keys": ["a"]}),
                "`registry` is empty",
            ),
            (json!({"registry": " r.example", "keys": ["a"]}), "spaces"),
            (
                json!({"registry": "oci://r.example/*", "keys": ["a"]}),
                "without a scheme",
            ),
            (json!({"registry": "r.example/*", "keys": [""]}), "is empty"),
            (
                json!({"registry": "r.example/*", "identities": [{"issuer": "", "subject": "x"}]}),
                "is empty",
            ),
            (
                json!({"registry": "r.example/*", "keys": ["a"], "key": "b"}),
                "unknown field",
            ),
            (json!({"keys": ["a"]}), "missing field"),
        ] {
            let read = serde_json::from_value::<Config>(json!({"trust": [rule]}));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let twice = json!({"trust": [
            {"registry": "r.example/*", "keys": ["a"]}, {"registry": "r.example/*", "keys": ["b"]},
        ]});
        let error = serde_json::from_value::<Config>(twice)
            .unwrap_err()
            .to_string();
        assert!(error.contains("trust[1]: another rule"), "{error}");
    }

    #[test]
    fn trust_rules_of_teams_replace_those_of_the_same_registry() {
        let mut user = config(&json!({"trustRoot": "/own.json", "trust": [
            {"registry": "a.example/*", "keys": ["own"]}, {"registry": "b.example/*", "keys": ["own"]},
        ]}));
        let team = config(&json!({"trustRoot": "/team.json", "trust": [
            {"registry": "a.example/*", "keys": ["/team.pub"]},
        ]}));
        user.under_team(&team, |_| false);
        let rules: Vec<_> = user
            .trust
            .iter()
            .map(|rule| (rule.registry.as_str(), rule.from_team))
            .collect();
        assert_eq!(rules, [("b.example/*", false), ("a.example/*", true)]);
        assert_eq!(user.trust_root.as_deref(), Some("/team.json"));
    }

    #[test]
    fn trust_rules_of_an_untrusted_project_do_not_count() {
        let below = config(&json!({"trust": [{"registry": "a.example/*", "keys": ["own"]}]}));
        let text = json!({"trustRoot": "/x.json", "trust": [
            {"registry": "a.example/*", "keys": ["own"]}, {"registry": "a.example/x", "keys": ["theirs"]},
        ]});
        let mut project = config(&text);
        assert_eq!(
            project.weakening_keys(&below),
            ["trust: a.example/x", "trustRoot"]
        );
        project.clamp_to(&below);
        assert_eq!((&project.trust, &project.trust_root), (&below.trust, &None));
        let merged = Config::merge_trust([&below, &config(&text)]);
        assert_eq!(merged.len(), 2);
    }

    #[test]
    fn trust_keys_are_names_files_or_pem() {
        for (key, source) in [
            ("release", KeySource::Name),
            ("release.pub", KeySource::File),
            ("keys/release", KeySource::File),
            ("C:\\keys\\release", KeySource::File),
            ("-----BEGIN PUBLIC KEY-----\n…", KeySource::Pem),
        ] {
            assert_eq!(KeySource::classify(key), source, "{key}");
        }
    }
}
