//! Settings of servers whose calls run on the workers of a cluster.

use std::collections::BTreeMap;

use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Settings of servers whose calls run on workers. The block replaces the whole block of a weaker file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ClusterSettings {
    /// The labels that workers must have to run certain tools. All rules that match a tool apply.
    pub route: Vec<WorkerRoute>,
}

/// The labels that workers must have to run certain tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerRoute {
    /// Name of a tool; `*` stands for any characters.
    #[serde(deserialize_with = "deserialize_pattern")]
    pub tools: String,
    /// The labels, as workers have them from `mimir worker --label KEY=VALUE`.
    pub labels: BTreeMap<String, String>,
}

fn deserialize_pattern<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let pattern = String::deserialize(from)?;
    match Glob::new(&pattern) {
        Ok(_) if !pattern.is_empty() => Ok(pattern),
        Ok(_) => Err(D::Error::custom(
            "cluster.route.tools is empty: expected the name of a tool, or a pattern such as gpu_*",
        )),
        Err(error) => Err(D::Error::custom(format!(
            "cluster.route.tools is not a pattern of tool names: {error}"
        ))),
    }
}

/// The labels that tools need, by patterns of their names.
#[derive(Debug, Clone, Default)]
pub struct WorkerRoutes(Vec<(GlobMatcher, BTreeMap<String, String>)>);

impl WorkerRoutes {
    /// Creates the routes of these settings.
    ///
    /// ```
    /// # use mimir_core::config::{ClusterSettings, WorkerRoutes};
    /// let json = r#"{"route": [{"tools": "gpu_*", "labels": {"gpu": "true"}}]}"#;
    /// let settings: ClusterSettings = serde_json::from_str(json).unwrap();
    /// let routes = WorkerRoutes::new(Some(&settings));
    /// assert_eq!(routes.labels("gpu_train")["gpu"], "true");
    /// assert!(routes.labels("read_file").is_empty());
    /// ```
    pub fn new(settings: Option<&ClusterSettings>) -> Self {
        let routes = settings.into_iter().flat_map(|settings| &settings.route);
        let compiled = routes.filter_map(|route| {
            // Checked when the settings were read.
            let pattern = Glob::new(&route.tools).ok()?;
            Some((pattern.compile_matcher(), route.labels.clone()))
        });
        Self(compiled.collect())
    }

    /// Returns the labels that a worker must have to run this tool. If rules contradict each other, the last one
    /// applies.
    pub fn labels(&self, tool: &str) -> BTreeMap<String, String> {
        let matching = self.0.iter().filter(|(pattern, _)| pattern.is_match(tool));
        let labels = matching.flat_map(|(_, labels)| labels.clone());
        labels.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cluster_routes_combine_labels_and_reject_invalid_patterns() {
        let settings = json!({"route": [
            {"tools": "*", "labels": {"zone": "eu"}},
            {"tools": "gpu_*", "labels": {"gpu": "true"}},
        ]});
        let settings: ClusterSettings = serde_json::from_value(settings).unwrap();
        let routes = WorkerRoutes::new(Some(&settings));
        assert_eq!(routes.labels("gpu_a").len(), 2);
        assert_eq!(routes.labels("read_file").len(), 1);
        for invalid in ["", "[", "{a"] {
            let settings = json!({"route": [{"tools": invalid, "labels": {}}]});
            let error = serde_json::from_value::<ClusterSettings>(settings).unwrap_err();
            assert!(error.to_string().contains("cluster.route.tools"), "{error}");
        }
    }
}
