//! The block `teams`: membership in a team, whose signed bundle is fetched and kept up to date.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer};

/// Membership in a team. Only the machine's file, a team's file and the user's file can set it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TeamSettings {
    /// Puts the team's bundle in force.
    pub enabled: bool,
    /// The id of the team, which its bundle must have.
    pub org_id: Option<String>,
    /// Location of the bundle: a reference of a registry, or the absolute path of a folder.
    pub reference: Option<String>,
    /// The public keys that may sign the bundle: PEM texts, or absolute paths of PEM files.
    pub keys: Vec<String>,
    /// Parts of the bundle that can be left out.
    pub features: TeamFeatures,
    /// Minutes between two checks for a newer bundle, while mimir runs.
    #[serde(deserialize_with = "deserialize_refresh")]
    #[schemars(range(min = 1, max = 10080))]
    pub refresh_minutes: Option<u32>,
    /// Hours after the last successful check until calls of the team's tools are refused.
    #[serde(deserialize_with = "deserialize_max_age")]
    #[schemars(range(min = 1, max = 8760))]
    pub max_age_hours: Option<u32>,
}

/// Parts of a team's bundle that can be left out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TeamFeatures {
    /// Loads the team's tools.
    pub shared_tools: bool,
}

impl Default for TeamFeatures {
    fn default() -> Self {
        Self { shared_tools: true }
    }
}

/// Range of `teams.refreshMinutes`: up to a week.
const REFRESH_RANGE: std::ops::RangeInclusive<u32> = 1..=10_080;

/// Range of `teams.maxAgeHours`: up to a year.
const MAX_AGE_RANGE: std::ops::RangeInclusive<u32> = 1..=8_760;

/// Default of `teams.refreshMinutes`.
const REFRESH_MINUTES: u32 = 60;

/// Default of `teams.maxAgeHours`: a week, so that a long weekend offline stops nothing.
const MAX_AGE_HOURS: u32 = 168;

impl TeamSettings {
    /// Returns the minutes between two checks for a newer bundle.
    pub fn refresh_minutes(&self) -> u32 {
        self.refresh_minutes.unwrap_or(REFRESH_MINUTES)
    }

    /// Returns the hours after which a bundle that could not be checked is too old.
    pub fn max_age_hours(&self) -> u32 {
        self.max_age_hours.unwrap_or(MAX_AGE_HOURS)
    }
}

fn deserialize_refresh<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    in_range(from, "teams.refreshMinutes", &REFRESH_RANGE)
}

fn deserialize_max_age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    in_range(from, "teams.maxAgeHours", &MAX_AGE_RANGE)
}

fn in_range<'de, D: Deserializer<'de>>(
    from: D,
    key: &str,
    range: &std::ops::RangeInclusive<u32>,
) -> Result<Option<u32>, D::Error> {
    let value = Option::<u32>::deserialize(from)?;
    match value {
        Some(number) if !range.contains(&number) => Err(de::Error::custom(format!(
            "{key}: {number} is out of range: expected {} to {}",
            range.start(),
            range.end()
        ))),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn teams_block_has_the_seeds_keys_and_ranges() {
        let block = json!({"enabled": true, "orgId": "acme", "features": {"sharedTools": false}});
        let settings: TeamSettings = serde_json::from_value(block).unwrap();
        assert!(settings.enabled && !settings.features.shared_tools);
        assert_eq!(
            (settings.refresh_minutes(), settings.max_age_hours()),
            (60, 168)
        );
        assert!(TeamSettings::default().features.shared_tools);
        for (bad, wanted) in [
            (
                json!({"refreshMinutes": 0}),
                "teams.refreshMinutes: 0 is out of range",
            ),
            (
                json!({"maxAgeHours": 9000}),
                "teams.maxAgeHours: 9000 is out of range",
            ),
            (json!({"org": "acme"}), "unknown field"),
        ] {
            let error = serde_json::from_value::<TeamSettings>(bad).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
