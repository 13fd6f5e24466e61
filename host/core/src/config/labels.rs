//! Settings of a tool's labels, redaction and audit.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::outcome::{DataClass, TrustLevel};

/// `tools.NAME.labels`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LabelSettings {
    /// The trust level of the tool's results: untrusted, verified or user.
    #[schemars(with = "Option<String>")]
    #[serde(deserialize_with = "deserialize_output_trust")]
    pub output_trust: Option<TrustLevel>,
    /// The data class of the tool's results: public, internal, sensitive or secret.
    #[schemars(with = "Option<String>")]
    pub output_data_class: Option<DataClass>,
    /// With `false`, calls need approval in sessions that have read untrusted content.
    pub accepts_untrusted: Option<bool>,
}

/// Rejects `system`, which is reserved for mimir.
fn deserialize_output_trust<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<TrustLevel>, D::Error> {
    match Option::<TrustLevel>::deserialize(from)? {
        Some(TrustLevel::System) => Err(serde::de::Error::custom(
            "unknown variant `system`, expected one of `user`, `verified`, `untrusted`",
        )),
        other => Ok(other),
    }
}

/// `tools.NAME.redaction`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RedactionSettings {
    /// Ids of redaction rules that do not apply to the tool's results.
    pub exceptions: Vec<String>,
}

/// `tools.NAME.audit`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolAuditSettings {
    /// Records the arguments of the tool's calls. Overrides `audit.logArgs`.
    pub log_args: Option<bool>,
    /// Must be `false`, because results are never recorded.
    #[serde(deserialize_with = "deserialize_log_output")]
    pub log_output: bool,
}

fn deserialize_log_output<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    if bool::deserialize(from)? {
        return Err(serde::de::Error::custom(
            "results are never recorded in the audit log: remove `logOutput`",
        ));
    }
    Ok(false)
}
