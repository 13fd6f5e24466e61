//! Login of people in a browser at the identity provider of a shared mimir, for pages of mimir itself.
//!
//! The access token that a login yields is verified as those of clients are, and then discarded.

use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::redact::Vault;

use super::identity::{IdentityOptions, IdentityVerifier};
use crate::client::{IdentityLogin, PendingIdentity};

/// A person as their token describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentifiedPerson {
    /// Subject.
    pub subject: String,
    /// Email address, if the token says that the provider has verified it.
    pub email: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
}

/// Logs people in at an identity provider, with an authorization code and PKCE.
pub struct BrowserIdentity {
    login: IdentityLogin,
    verifier: IdentityVerifier,
}

/// A login that waits for the callback. Its state and verifier are used once.
pub struct StartedIdentity(PendingIdentity);

impl BrowserIdentity {
    /// Creates the login of these settings, without contacting the provider. The vault has the secret of the client.
    ///
    /// # Errors
    /// The issuer or the resource is not valid, or the secret of the client is not stored.
    pub fn new(options: &IdentityOptions, vault: Arc<dyn Vault>) -> Result<Self, ToolError> {
        let login = IdentityLogin::new(options, vault)?;
        let verifier = IdentityVerifier::new(options)?;
        Ok(Self { login, verifier })
    }

    /// Begins a login, whose callback goes to `redirect`.
    pub async fn begin(&self, redirect: &str) -> Result<StartedIdentity, ToolError> {
        self.login.begin(redirect).await.map(StartedIdentity)
    }

    /// Completes a login with its callback: a URL, or its path and query.
    pub async fn finish(
        &self,
        started: StartedIdentity,
        callback: &str,
    ) -> Result<IdentifiedPerson, ToolError> {
        let token = self.login.token(started.0, callback).await?;
        self.verifier.person_of_token(&token).await
    }
}

impl StartedIdentity {
    /// Returns the URL of the provider's login page.
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// Returns the state that the callback repeats.
    pub fn state(&self) -> &str {
        self.0.state()
    }
}
