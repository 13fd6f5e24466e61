//! Settings of the console of `mimir serve`.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// Settings of the console that people log in to. Not read from the settings of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ConsoleSettings {
    /// Id of the client that is registered at the identity provider for logins at the console, if it is not that of
    /// `mimir serve --client-id`.
    pub client_id: Option<String>,
    /// The people who may use the console.
    pub roles: ConsoleRoleSettings,
}

/// The members of each role. A person has the highest role that lists them, and cannot use the console without one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleRoleSettings {
    /// People who see everything and change nothing, as `subject:ID`, `email:ADDRESS` or `group:NAME`.
    #[schemars(with = "Vec<String>")]
    pub viewer: Vec<ConsoleMember>,
    /// People who also answer questions and cancel calls.
    #[schemars(with = "Vec<String>")]
    pub approver: Vec<ConsoleMember>,
    /// People who also stop all calls and change tools, rules and files.
    #[schemars(with = "Vec<String>")]
    pub admin: Vec<ConsoleMember>,
}

/// People who have a role.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ConsoleMember {
    /// The person with this subject in their token.
    Subject(String),
    /// The person with this email address, which the provider has verified.
    Email(String),
    /// The members of this group.
    Group(String),
}

/// A person as their token describes them.
#[derive(Debug, Clone, Copy)]
pub struct ConsolePersonClaims<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The email address, if the provider has verified it.
    pub email: Option<&'a str>,
    /// The groups.
    pub groups: &'a [String],
}

impl ConsoleMember {
    /// Returns true if this is the person, or has the person as a member.
    ///
    /// ```
    /// # use mimir_core::config::{ConsoleMember, ConsolePersonClaims};
    /// let member = ConsoleMember::try_from("email:Ann@example.com".to_owned())?;
    /// let ann = ConsolePersonClaims { subject: "00u1", email: Some("ann@example.com"), groups: &[] };
    /// assert!(member.includes(&ann));
    /// assert!(!member.includes(&ConsolePersonClaims { email: None, ..ann }));
    /// # Ok::<(), String>(())
    /// ```
    pub fn includes(&self, person: &ConsolePersonClaims<'_>) -> bool {
        match self {
            Self::Subject(subject) => subject == person.subject,
            Self::Email(email) => person
                .email
                .is_some_and(|own| own.eq_ignore_ascii_case(email)),
            Self::Group(group) => person.groups.contains(group),
        }
    }
}

impl TryFrom<String> for ConsoleMember {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').unwrap_or((&text, ""));
        let member: fn(String) -> Self = match kind {
            "subject" => Self::Subject,
            "email" => Self::Email,
            "group" => Self::Group,
            _ => return Err(invalid(&text)),
        };
        if name.is_empty() || name.trim() != name {
            return Err(invalid(&text));
        }
        Ok(member(name.to_owned()))
    }
}

fn invalid(text: &str) -> String {
    let text = crate::text::visible(crate::text::prefix(text, 100));
    format!(
        "`{text}` does not name people: expected subject:ID, email:ADDRESS or group:NAME, such as group:oncall"
    )
}

impl fmt::Display for ConsoleMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subject(name) => write!(f, "subject:{name}"),
            Self::Email(name) => write!(f, "email:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn console_members_are_subjects_emails_and_groups() {
        let groups = ["oncall".to_owned()];
        let ann = ConsolePersonClaims {
            subject: "00u1",
            email: Some("ann@example.com"),
            groups: &groups,
        };
        for (text, expected) in [
            ("subject:00u1", true),
            ("subject:00U1", false),
            ("subject:ann@example.com", false),
            ("email:ANN@example.com", true),
            ("email:00u1", false),
            ("group:oncall", true),
            ("group:Oncall", false),
            ("group:ann@example.com", false),
        ] {
            let member = ConsoleMember::try_from(text.to_owned()).unwrap();
            assert_eq!(member.includes(&ann), expected, "{text}");
            assert_eq!(member.to_string(), text);
        }
        for text in ["ann@example.com", "", "group:", "user:ann", "email: a", "*"] {
            let error = ConsoleMember::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains("group:NAME"), "{error}");
        }
    }

    #[test]
    fn console_settings_default_to_nobody() {
        let settings: ConsoleSettings = serde_json::from_value(json!({})).unwrap();
        assert_eq!(settings, ConsoleSettings::default());
        let settings = json!({"clientId": "mimir", "roles": {"admin": ["group:a"]}});
        let settings: ConsoleSettings = serde_json::from_value(settings).unwrap();
        assert_eq!(settings.roles.admin.len(), 1);
        let unknown = json!({"roles": {"owner": ["group:a"]}});
        assert!(serde_json::from_value::<ConsoleSettings>(unknown).is_err());
    }
}
