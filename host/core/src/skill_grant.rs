//! Permissions of a skill: kinds of calls that a person has approved for sessions that use the skill.
//!
//! A skill's permissions answer questions of built-in defaults in the person's place. They never answer a question of a
//! settings file, of a missing grant, or about untrusted content and secrets, and they lift no denial.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::approval::ApprovalLookup;
use crate::command::CommandPattern;
use crate::decision::{ApprovalOffer, BUILT_IN_SOURCE, DecisionReason, PolicyLayer};
use crate::network::RequestTarget;
use crate::tool::{Tool, ToolSource};

/// One kind of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillPermission {
    /// Calls of this built-in tool.
    Tool(String),
    /// Calls of one tool of a configured MCP server.
    ServerTool {
        /// The name of the server in the settings.
        server: String,
        /// The server's own name of the tool.
        tool: String,
    },
    /// Commands that match this [`CommandPattern`].
    Command(String),
    /// GET and HEAD requests of `web_fetch` to this host, over https.
    Host(String),
}

/// Tells whether a person's consent to a skill is still in force.
pub trait SkillConsent: Send + Sync {
    /// Returns true if the skill is unchanged, and a person still accepts it with these permissions.
    fn is_in_force(&self) -> bool;
}

/// The permissions of a skill that a session uses.
#[derive(Clone)]
pub struct SkillGrant {
    /// The name of the skill.
    pub skill: String,
    /// The folder of the skill, relative to the workspace root. Its scripts are covered by the consent.
    pub folder: String,
    /// The permissions.
    pub permissions: Vec<SkillPermission>,
    /// The consent that the permissions come from.
    pub consent: Arc<dyn SkillConsent>,
}

impl fmt::Debug for SkillGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillGrant")
            .field("skill", &self.skill)
            .field("permissions", &self.permissions)
            .finish_non_exhaustive()
    }
}

impl SkillGrant {
    /// Returns true if the permissions cover the call and every question that rules have about it. Calls of tools by
    /// other tools are not covered.
    pub(crate) fn covers(&self, lookup: &ApprovalLookup<'_>) -> bool {
        if !lookup.callers.is_empty() || !self.permits_tool(lookup) {
            return false;
        }
        let mut questions = lookup.evaluation.asking_reasons_with_basis();
        questions.all(|(reason, basis)| match &basis.offer {
            Some(offer) => is_of_mimir(reason) && self.permits_command(offer),
            None => match reason.layer {
                PolicyLayer::ToolDefault | PolicyLayer::Assessor => true,
                PolicyLayer::Network => self.permits_request(lookup.tool, lookup.arguments),
                _ => false,
            },
        }) && self.consent.is_in_force()
    }

    /// Returns true if a permission is about this call, disregarding the questions.
    fn permits_tool(&self, lookup: &ApprovalLookup<'_>) -> bool {
        let tool = lookup.tool;
        let name = tool.name().as_str();
        let mut permissions = self.permissions.iter();
        permissions.any(|permission| match permission {
            SkillPermission::Tool(permitted) => {
                tool.source == ToolSource::BuiltIn && permitted == name
            }
            SkillPermission::ServerTool {
                server,
                tool: permitted,
            } => {
                tool.source == ToolSource::Mcp
                    && tool.origin.location == format!("mcp:{server}")
                    && tool.own_name() == permitted
            }
            // The questions name the commands, so a call without such a question is not about a command.
            SkillPermission::Command(_) => {
                tool.source == ToolSource::BuiltIn && has_command_question(lookup)
            }
            SkillPermission::Host(_) => self.permits_request(tool, lookup.arguments),
        })
    }

    fn permits_command(&self, offer: &ApprovalOffer) -> bool {
        let own_file = |path: &String| {
            let below = path.strip_prefix(self.folder.as_str());
            below.is_some_and(|below| below.starts_with('/'))
        };
        // The person has accepted the scripts of the skill, but no other code of the workspace. Build tools and package
        // scripts run such code, too, without naming it.
        if offer.builds || !offer.code.iter().all(own_file) {
            return false;
        }
        let mut permissions = self.permissions.iter();
        permissions.any(|permission| match permission {
            SkillPermission::Command(pattern) => {
                CommandPattern::parse(pattern).is_ok_and(|pattern| pattern.matches(&offer.words))
            }
            _ => false,
        })
    }

    fn permits_request(&self, tool: &Tool, arguments: &Value) -> bool {
        let text = |key: &str| arguments[key].as_str();
        let only_reads = arguments["body"].is_null()
            && arguments["headers"].is_null()
            && text("method").is_none_or(|method| {
                method.eq_ignore_ascii_case("GET") || method.eq_ignore_ascii_case("HEAD")
            });
        if tool.source != ToolSource::BuiltIn || tool.name().as_str() != "web_fetch" || !only_reads
        {
            return false;
        }
        let url = text("url").unwrap_or_default();
        let Ok(target) = RequestTarget::parse(url) else {
            return false;
        };
        let origin = target.origin().to_string();
        let mut permissions = self.permissions.iter();
        permissions.any(|permission| match permission {
            SkillPermission::Host(host) => origin == format!("https://{host}"),
            _ => false,
        })
    }
}

/// Returns true if the question is one of mimir's built-in rules, and not of a settings file.
fn is_of_mimir(reason: &DecisionReason) -> bool {
    reason.layer == PolicyLayer::Commands && reason.source == BUILT_IN_SOURCE
}

fn has_command_question(lookup: &ApprovalLookup<'_>) -> bool {
    let mut questions = lookup.evaluation.asking_reasons_with_basis();
    questions.any(|(_, basis)| basis.offer.is_some())
}

#[cfg(test)]
mod tests;
