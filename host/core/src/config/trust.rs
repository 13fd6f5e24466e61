//! The keys `trust` and `trustRoot`: who must have signed the artifacts of a registry.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::Config;

mod registry_pattern;

/// The config file of a trust setting. A rule of a file above decides alone for all artifacts that it covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustLayer {
    /// The project's file, which a person has accepted.
    #[default]
    Project,
    /// The user's file and environment variables.
    User,
    /// A team's file: the larger the number, the more it has precedence. The file of the machine has the largest.
    Team(usize),
}

impl TrustLayer {
    /// Returns true for the file of a team.
    pub fn is_team(self) -> bool {
        matches!(self, Self::Team(_))
    }
}

/// The files of the trust settings that are not rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrustLayers {
    /// The file that sets `trustRoot`.
    pub root: TrustLayer,
    /// The highest file that sets `enforcement.requireSignature`.
    pub signature: Option<TrustLayer>,
    /// Number of teams' files.
    teams: usize,
}

/// The trusted signers of some artifacts. Artifacts that a rule covers must be signed by one of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TrustRule {
    /// Registry and repository, such as `registry.example.com/acme/*`. `*` matches all characters. Without `*`, the rule
    /// covers this one repository, with all its tags.
    pub registry: String,
    /// Trusted keys: names from `mimir keys list`, files, or PEM text.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Trusted identities of keyless signatures.
    #[serde(default)]
    pub identities: Vec<SignerIdentity>,
    /// The file of the rule.
    #[serde(skip)]
    pub layer: TrustLayer,
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
        registry_pattern::check_pattern(&rule.registry).map_err(|why| fault(&why))?;
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
        if !registries.insert(rule.registry.to_ascii_lowercase()) {
            return Err(fault(
                "another rule has the same `registry`: write all keys into one rule",
            ));
        }
    }
    Ok(rules)
}

impl Config {
    /// Combines the rules and trust roots of the files below those of teams, in ascending precedence. Rules of different
    /// files for the same registry are those of the highest one.
    pub fn merge_trust<'a>(&mut self, files: impl IntoIterator<Item = (TrustLayer, &'a Self)>) {
        self.trust.clear();
        self.trust_root = None;
        self.trust_layers = TrustLayers::default();
        for (layer, file) in files {
            self.add_trust(layer, file);
        }
    }

    /// Applies a team's rules and trust root above the others.
    pub(super) fn trust_under_team(&mut self, team: &Self) {
        self.trust_layers.teams += 1;
        self.add_trust(TrustLayer::Team(self.trust_layers.teams), team);
    }

    fn add_trust(&mut self, layer: TrustLayer, file: &Self) {
        for rule in &file.trust {
            let is_same = |other: &TrustRule| other.registry == rule.registry;
            let mut others = self.trust.iter();
            if others.any(|other| is_same(other) && other.layer > layer) {
                continue;
            }
            self.trust.retain(|other| !is_same(other));
            self.trust.push(TrustRule {
                layer,
                ..rule.clone()
            });
        }
        let is_above = self.trust_root.is_none() || layer >= self.trust_layers.root;
        if file.trust_root.is_some() && is_above {
            self.trust_root.clone_from(&file.trust_root);
            self.trust_layers.root = layer;
        }
        if file.enforcement.require_signature {
            self.trust_layers.signature = self.trust_layers.signature.max(Some(layer));
        }
    }

    /// Collects the rules and the trust root that `below` does not have.
    pub(super) fn collect_trust_weakening_keys(&self, below: &Self, keys: &mut Vec<String>) {
        let is_known = |rule: &TrustRule| {
            let mut known = below.trust.iter();
            known.any(|known| {
                let layer = rule.layer;
                *rule
                    == TrustRule {
                        layer,
                        ..known.clone()
                    }
            })
        };
        let added = self.trust.iter().filter(|rule| !is_known(rule));
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
                json!({"registry": "r.example/acme/", "keys": ["a"]}),
                "trust[0]: `registry: r.example/acme/` covers nothing",
            ),
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
        user.merge_trust([(TrustLayer::User, &user.clone())]);
        user.under_team(&team, |_| false);
        let rules: Vec<_> = user
            .trust
            .iter()
            .map(|rule| (rule.registry.as_str(), rule.layer))
            .collect();
        assert_eq!(
            rules,
            [
                ("b.example/*", TrustLayer::User),
                ("a.example/*", TrustLayer::Team(1))
            ]
        );
        assert_eq!(user.trust_root.as_deref(), Some("/team.json"));
        assert_eq!(user.trust_layers.root, TrustLayer::Team(1));
    }

    #[test]
    fn trust_settings_keep_the_layer_of_their_file() {
        let project = config(&json!({"trustRoot": "/project.json", "trust": [
            {"registry": "a.example/*", "keys": ["project"]}, {"registry": "a.example/x", "keys": ["project"]},
        ]}));
        let user = config(&json!({"trustRoot": "/user.json", "trust": [
            {"registry": "a.example/*", "keys": ["user"]},
        ]}));
        let mut all = Config::default();
        // A project has precedence in other settings, and comes after the user.
        all.merge_trust([(TrustLayer::User, &user), (TrustLayer::Project, &project)]);
        assert_eq!(all.trust_root.as_deref(), Some("/user.json"));
        let joined = config(
            &json!({"enforcement": {"requireSignature": true}, "trust": [
                {"registry": "a.example/x", "keys": ["/joined.pub"]},
            ]}),
        );
        let machine =
            config(&json!({"trust": [{"registry": "a.example/*", "keys": ["/machine.pub"]}]}));
        for team in [&joined, &machine] {
            all.under_team(team, |_| false);
        }
        let rules = all.trust.iter();
        let rules: Vec<_> = rules
            .map(|rule| (&*rule.registry, &*rule.keys[0], rule.layer))
            .collect();
        assert_eq!(
            rules,
            [
                ("a.example/x", "/joined.pub", TrustLayer::Team(1)),
                ("a.example/*", "/machine.pub", TrustLayer::Team(2)),
            ]
        );
        assert_eq!(all.trust_layers.signature, Some(TrustLayer::Team(1)));
        assert_eq!(all.trust_layers.root, TrustLayer::User);
    }

    #[test]
    fn trust_rules_of_an_untrusted_project_do_not_count() {
        let user = config(&json!({"trust": [{"registry": "a.example/*", "keys": ["own"]}]}));
        let mut below = Config::default();
        below.merge_trust([(TrustLayer::User, &user)]);
        let text = json!({"trustRoot": "/x.json", "trust": [
            {"registry": "a.example/*", "keys": ["own"]}, {"registry": "a.example/x", "keys": ["theirs"]},
        ]});
        let mut project = config(&text);
        assert_eq!(
            project.weakening_keys(&below, |_| true),
            ["trust: a.example/x", "trustRoot"]
        );
        project.clamp_to(&below);
        assert_eq!((&project.trust, &project.trust_root), (&below.trust, &None));
        let mut merged = Config::default();
        let accepted = config(&text);
        merged.merge_trust([(TrustLayer::User, &below), (TrustLayer::Project, &accepted)]);
        assert_eq!(merged.trust.len(), 2);
        assert_eq!(merged.trust[0].layer, TrustLayer::User);
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
