//! Approval settings of tools: one word, or a block.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::decision::Decision;

/// `approval: ask`, or a block with a level, danger patterns and conditions.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum ToolApproval {
    /// Not set.
    #[default]
    Unset,
    /// One decision for every call.
    Word(#[schemars(with = "String")] Decision),
    /// The block.
    Block(ApprovalBlock),
}

/// `approval:` as a block.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApprovalBlock {
    /// The decision for calls of the tool, which overrides the tool's own default.
    #[schemars(with = "Option<String>")]
    pub level: Option<Decision>,
    /// Regular expressions for arguments. A call with a match needs approval.
    pub danger_patterns: Vec<String>,
    /// Conditions under which calls need approval.
    pub conditions: ApprovalConditions,
}

/// Conditions under which calls need approval because of their effects.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApprovalConditions {
    /// Calls with one of these values in the argument `method` need approval.
    pub method_requires_approval: Vec<String>,
    /// Calls with a host in the argument `url` that was not granted to the tool need approval.
    pub unknown_host_requires_approval: bool,
}

/// `approval: {default, tools}`: the decisions for custom tools, in general and by name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalDefaults {
    /// The decision for calls of custom tools without another setting. A stricter default of the tool itself applies.
    #[schemars(with = "Option<String>")]
    pub default: Option<Decision>,
    /// The decision for calls of a tool, by tool name. Equivalent to `tools.NAME.approval`.
    #[schemars(with = "BTreeMap<String, String>")]
    pub tools: BTreeMap<String, Decision>,
}

impl ApprovalDefaults {
    /// Returns true if nothing is set.
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.tools.is_empty()
    }
}

impl ToolApproval {
    /// Returns the decision for all calls, if set.
    pub fn level(&self) -> Option<Decision> {
        match self {
            Self::Unset => None,
            Self::Word(decision) => Some(*decision),
            Self::Block(block) => block.level,
        }
    }

    /// Returns the block, if the setting is one.
    pub fn block(&self) -> Option<&ApprovalBlock> {
        match self {
            Self::Block(block) => Some(block),
            Self::Unset | Self::Word(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for ToolApproval {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ToolApprovalVisitor;
        impl<'de> Visitor<'de> for ToolApprovalVisitor {
            type Value = ToolApproval;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "allow, ask, deny, or a block with level, dangerPatterns and conditions",
                )
            }
            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(ToolApproval::Unset)
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
                Decision::deserialize(de::value::StrDeserializer::new(word)).map(ToolApproval::Word)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                ApprovalBlock::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(ToolApproval::Block)
            }
        }
        from.deserialize_any(ToolApprovalVisitor)
    }
}
