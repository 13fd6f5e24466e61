//! Settings of the labels of a tool's results, and of its calls after untrusted content.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::outcome::{DataClass, TrustLevel};

/// `tools.NAME.labels`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LabelSettings {
    /// The trust level of its results: untrusted, verified or user.
    #[schemars(with = "Option<String>")]
    #[serde(deserialize_with = "deserialize_output_trust")]
    pub output_trust: Option<TrustLevel>,
    /// The data class of its results: public, internal, sensitive or secret.
    #[schemars(with = "Option<String>")]
    pub output_data_class: Option<DataClass>,
    /// `false`: a session that has read untrusted content asks before it calls this tool.
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
    /// Ids of redaction rules that do not apply to this tool's results.
    pub exceptions: Vec<String>,
}

/// `tools.NAME.audit`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolAuditSettings {
    /// Records the arguments of its calls, in place of `audit.logArgs`.
    pub log_args: Option<bool>,
    /// Results are never recorded; only `false` is accepted.
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
