//! Roles of the users of `mimir serve --issuer`, by the groups that the identity provider names.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::decision::Decision;

use super::limits::{self, CALLS_PER_MINUTE, OutOfRangeError};
use super::{Config, RuleSettings};

/// Name of the role of users whose groups give them no other role.
pub const DEFAULT_ROLE: &str = "default";

/// Maximum length of a role's name, in characters. It is part of messages and of each audit event.
const NAME_MAX: usize = 64;

/// The block `roles`, in the order of the file: the first role with a group of the user applies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoleList(Vec<(String, RoleSettings)>);

/// A role: the groups that have it, and the restrictions of their members.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoleSettings {
    /// Groups of the identity provider whose members have the role. `default` has none: it is the role of everyone else.
    pub groups: Vec<String>,
    /// The available tools.
    pub tools: RoleTools,
    /// Rules for calls with certain arguments, which can ask and deny.
    pub rules: Vec<RuleSettings>,
    /// Limits of each member.
    pub budget: RoleBudget,
}

/// The tools that are available in a role. The deny list takes precedence over the allow list.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoleTools {
    /// If not empty, only these tools are available.
    pub allow: Vec<String>,
    /// Tools that are not available.
    pub deny: Vec<String>,
}

/// The limits of each member of a role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RoleBudget {
    /// Calls of all tools per minute, including the calls that tools and workers make.
    pub calls_per_minute: Option<u32>,
}

impl RoleList {
    /// Returns the roles with their names, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RoleSettings)> {
        self.0.iter().map(|(name, role)| (name.as_str(), role))
    }

    /// Returns true if no role is defined.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first invalid key, and what is wrong with it.
    pub(crate) fn find_fault(&self) -> Option<(String, String)> {
        self.iter().find_map(|(name, role)| {
            let key = format!("roles.{name}");
            role.find_fault(name, &key)
        })
    }

    /// Checks that every limit is in range.
    pub(super) fn check(&self) -> Result<(), OutOfRangeError> {
        self.iter().try_for_each(|(name, role)| {
            limits::check(
                || format!("roles.{name}.budget.callsPerMinute"),
                role.budget.calls_per_minute.map(u64::from),
                CALLS_PER_MINUTE,
            )
        })
    }
}

impl RoleSettings {
    fn find_fault(&self, name: &str, key: &str) -> Option<(String, String)> {
        let fault = |key: String, text: &str| Some((key, text.to_owned()));
        let is_name_character = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_name_character) {
            let text = "is not a valid name of a role: use up to 64 letters, digits, `-` and `_`";
            return fault(key.to_owned(), text);
        }
        let groups = format!("{key}.groups");
        match name {
            DEFAULT_ROLE if !self.groups.is_empty() => {
                let text = "must not be set: `default` is the role of users without another role";
                return fault(groups, text);
            }
            DEFAULT_ROLE => {}
            _ if self.groups.is_empty() => {
                let text =
                    "is empty, so that no user has the role: add a group of the identity provider";
                return fault(groups, text);
            }
            _ => {}
        }
        if let Some(at) = self.groups.iter().position(|group| group.trim().is_empty()) {
            return fault(format!("{groups}[{at}]"), "is empty: name a group");
        }
        let allowing = self
            .rules
            .iter()
            .position(|rule| rule.decision == Decision::Allow);
        let at = allowing?;
        let text = "has the decision `allow`, but a role can only ask and deny: put the rule into `policy.rules`";
        fault(format!("{key}.rules[{at}]"), text)
    }
}

impl Config {
    /// Adds `roles` if this file changes the roles of `below`: a user could get more rights by another role.
    pub(super) fn collect_role_weakening_keys(&self, below: &Config, keys: &mut Vec<String>) {
        if !self.roles.is_empty() && self.roles != below.roles {
            keys.push("roles".to_owned());
        }
    }
}

impl<'de> Deserialize<'de> for RoleList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct RolesVisitor;
        impl<'de> Visitor<'de> for RolesVisitor {
            type Value = RoleList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("roles by name")
            }
            fn visit_unit<E: de::Error>(self) -> Result<RoleList, E> {
                Ok(RoleList::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RoleList, A::Error> {
                let mut roles: Vec<(String, RoleSettings)> = Vec::new();
                while let Some((name, role)) = map.next_entry::<String, Option<RoleSettings>>()? {
                    if roles.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format!("`{name}` is set twice")));
                    }
                    roles.push((name, role.unwrap_or_default()));
                }
                Ok(RoleList(roles))
            }
        }
        from.deserialize_any(RolesVisitor)
    }
}

impl JsonSchema for RoleList {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RoleList".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, RoleSettings>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(value: Value) -> Config {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn roles_keep_the_order_of_their_file() {
        let roles = config(json!({"roles": {
            "writer": {"groups": ["w"]}, "admin": {"groups": ["a"]}, "default": null,
        }}))
        .roles;
        let names: Vec<&str> = roles.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["writer", "admin", "default"]);
        assert_eq!(roles.find_fault(), None);
    }

    #[test]
    fn roles_that_cannot_apply_are_refused() {
        for (role, key) in [
            (json!({"viewer": {}}), "roles.viewer.groups"),
            (
                json!({"viewer": {"groups": [" "]}}),
                "roles.viewer.groups[0]",
            ),
            (
                json!({"default": {"groups": ["x"]}}),
                "roles.default.groups",
            ),
            (json!({"a b": {"groups": ["x"]}}), "roles.a b"),
            (json!({"": {"groups": ["x"]}}), "roles."),
            (
                json!({"viewer": {"groups": ["x"], "rules": [{"decision": "deny"}, {"decision": "allow"}]}}),
                "roles.viewer.rules[1]",
            ),
        ] {
            let (found, text) = config(json!({ "roles": role })).roles.find_fault().unwrap();
            assert_eq!(found, key, "{text}");
        }
        for unknown in [
            json!({"viewer": {"group": ["x"]}}),
            json!({"viewer": {"tools": {"only": ["x"]}}}),
            json!({"viewer": {"budget": {"calls": 3}}}),
        ] {
            assert!(serde_json::from_value::<RoleList>(unknown).is_err());
        }
        let zero = config(json!({"roles": {"default": {"budget": {"callsPerMinute": 0}}}}));
        let error = zero.check().unwrap_err();
        assert_eq!(error.key, "roles.default.budget.callsPerMinute");
    }

    #[test]
    fn roles_of_an_unaccepted_file_do_not_apply() {
        let user = config(json!({"roles": {"viewer": {"groups": ["v"]}}}));
        let mut project = config(json!({"roles": {"admin": {"groups": ["v"]}}}));
        assert_eq!(project.weakening_keys(&user, |_| true), ["roles"]);
        assert!(user.weakening_keys(&user, |_| true).is_empty());
        project.clamp_to(&user);
        assert_eq!(project.roles, user.roles);
    }
}
