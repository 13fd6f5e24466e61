//! The interface of an identity provider at which people log in.

use mimir_core::{BoxFuture, ToolError};

use crate::user::ConsoleRole;

/// A person whom the identity provider has named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolePerson {
    /// Subject of the token.
    pub subject: String,
    /// Email address, if the provider has verified it.
    pub email: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
}

impl ConsolePerson {
    /// Returns the name for other people.
    pub fn name(&self) -> &str {
        self.email.as_deref().unwrap_or(&self.subject)
    }
}

/// Login of people at an identity provider, with an authorization code and PKCE.
pub trait BrowserLogin: Send + Sync + 'static {
    /// Begins a login, whose callback goes to the URL `redirect`.
    fn begin<'a>(
        &'a self,
        redirect: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn StartedLogin>, ToolError>>;

    /// Returns the role of a person by the settings of now. `None` if they have none.
    fn role_of(&self, person: &ConsolePerson) -> Option<ConsoleRole>;
}

/// A login that waits for its callback.
pub trait StartedLogin: Send {
    /// Returns the URL of the provider's page.
    fn url(&self) -> &str;

    /// Returns the state that the callback repeats.
    fn state(&self) -> &str;

    /// Completes the login with the path and query of its callback.
    fn finish(
        self: Box<Self>,
        callback: String,
    ) -> BoxFuture<'static, Result<ConsolePerson, ToolError>>;
}
