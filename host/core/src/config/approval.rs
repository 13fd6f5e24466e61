//! The approval setting of a tool: one word, or a block.

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
    /// The decision for its calls, in place of its own default.
    #[schemars(with = "Option<String>")]
    pub level: Option<Decision>,
    /// Regular expressions over the arguments; a call with a match requires an approval.
    pub danger_patterns: Vec<String>,
    /// Calls that require an approval.
    pub conditions: ApprovalConditions,
}

/// Calls that require an approval because of their effects.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApprovalConditions {
    /// Calls whose argument `method` is one of these.
    pub method_requires_approval: Vec<String>,
    /// Calls whose argument `url` names a host that the tool was not granted.
    pub unknown_host_requires_approval: bool,
}

/// `approval: {default, tools}`: the decision for all custom tools and for some by name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalDefaults {
    /// The decision for calls of custom tools without another setting; a stricter default of the tool itself stays.
    #[schemars(with = "Option<String>")]
    pub default: Option<Decision>,
    /// The decision for calls of a tool, in place of its own default: equivalent to `tools.NAME.approval`.
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
    /// The decision for every call, if set.
    pub fn level(&self) -> Option<Decision> {
        match self {
            Self::Unset => None,
            Self::Word(decision) => Some(*decision),
            Self::Block(block) => block.level,
        }
    }

    /// The block, if it is one.
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
