//! The block `registries`: mirrors of component registries, and catalogs that are searched for tools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Registries of components.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySettings {
    /// Mirrors of registries, by the host of the registry: hosts that are tried first, in this order.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Catalogs that `mimir tools search` also searches: references of a registry, https URLs, or JSON files.
    pub catalogs: Vec<String>,
}

impl RegistrySettings {
    /// Adds the keys that choose other sources than `below`.
    pub(super) fn collect_weakening_keys(&self, below: &Self, keys: &mut Vec<String>) {
        // A mirror decides which content a tag has, and a catalog which tool a word finds.
        if !self.mirrors.is_empty() && self.mirrors != below.mirrors {
            keys.push("registries.mirrors".to_owned());
        }
        if !self.catalogs.is_empty() && self.catalogs != below.catalogs {
            keys.push("registries.catalogs".to_owned());
        }
    }

    /// Applies a team's block. The team's mirrors of a host, and its list of catalogs, take precedence.
    pub(super) fn under_team(&mut self, team: &Self) {
        let mirrors = team.mirrors.iter();
        self.mirrors
            .extend(mirrors.map(|(host, mirrors)| (host.clone(), mirrors.clone())));
        if !team.catalogs.is_empty() {
            self.catalogs.clone_from(&team.catalogs);
        }
    }
}

/// Returns true if an entry of `registries.catalogs` is the path of a file: neither a URL nor a reference of a registry.
pub fn is_catalog_file(entry: &str) -> bool {
    let is_json = || {
        let name = entry.rsplit(['/', '\\']).next().unwrap_or(entry);
        name.to_ascii_lowercase().ends_with(".json")
    };
    !entry.contains("://") && (entry.starts_with(['.', '/', '\\']) || is_json())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;

    #[test]
    fn registries_of_a_project_weaken_only_if_they_differ() {
        let parse = |value| serde_json::from_value::<Config>(value).unwrap();
        let own = parse(json!({"registries": {"catalogs": ["registry.example.com/catalog"]}}));
        assert!(own.weakening_keys(&own, |_| true).is_empty());
        let mut project = parse(json!({"registries": {
            "mirrors": {"registry.example.com": ["mirror.example.com"]},
            "catalogs": ["tools.json"],
        }}));
        assert_eq!(
            project.weakening_keys(&own, |_| true),
            ["registries.mirrors", "registries.catalogs"]
        );
        project.clamp_to(&own);
        assert_eq!(project.registries, own.registries);
    }

    #[test]
    fn registries_of_a_team_take_precedence() {
        let parse = |value| serde_json::from_value::<Config>(value).unwrap();
        let mut user = parse(json!({"registries": {
            "mirrors": {"a.example.com": ["x.example.com"], "b.example.com": ["y.example.com"]},
            "catalogs": ["own.json"],
        }}));
        let team = parse(json!({"registries": {
            "mirrors": {"a.example.com": ["team.example.com"]}, "catalogs": ["/team.json"],
        }}));
        user.under_team(&team, |_| false);
        assert_eq!(
            user.registries.mirrors["a.example.com"],
            ["team.example.com"]
        );
        assert_eq!(user.registries.mirrors["b.example.com"], ["y.example.com"]);
        assert_eq!(user.registries.catalogs, ["/team.json"]);
    }

    #[test]
    fn catalog_files_are_told_from_references_and_urls() {
        for file in [
            "./c",
            "../c.json",
            "/etc/c.json",
            "tools.json",
            r"C:\c.JSON",
        ] {
            assert!(is_catalog_file(file), "{file}");
        }
        for other in [
            "https://example.com/tools.json",
            "registry.example.com/acme/catalog:1",
            "oci://registry.example.com/catalog",
        ] {
            assert!(!is_catalog_file(other), "{other}");
        }
    }
}
