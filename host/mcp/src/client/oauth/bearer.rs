//! The login of a connection: the token of its requests, its renewal, and the errors when it is missing or not
//! sufficient.
//!
//! Out of scope: requests to the server itself, and starting a login.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use mimir_core::ToolError;
use mimir_core::config::McpOauthSettings;
use mimir_core::network::RequestTarget;
use mimir_core::redact::Redactor;
use mimir_core::text::{prefix, visible};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::challenge::BearerChallenge;
use super::endpoint::{OauthEndpoint, check_url};
use super::stored_login::StoredLogin;
use super::token_endpoint::{TokenError, TokenRequest};
use super::{login, login_error, login_hint};
use crate::client::description::{DescriptionStore, mask_known_secrets};
use crate::client::server::ServerDeps;

/// The current login at a server.
pub(crate) struct BearerAuth {
    server: String,
    url: RequestTarget,
    oauth: McpOauthSettings,
    /// Key of the stored challenge.
    note: String,
    deps: ServerDeps,
    now: Mutex<LoadedLogin>,
    /// Held during a renewal: other requests wait for it.
    turn: tokio::sync::Mutex<()>,
    /// Time of the last renewal after the server rejected the token. Held during such a renewal: other requests wait
    /// for it.
    forced: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct LoadedLogin {
    version: Option<u64>,
    kept: Option<Arc<StoredLogin>>,
    /// All secret values of this connection: renewed tokens remain secret.
    values: Vec<String>,
    redactor: Redactor,
}

/// A token for requests.
#[derive(Clone)]
pub(crate) struct BearerToken(Arc<StoredLogin>);

/// Minimum interval between forced renewals, for a server that rejects every token.
const MIN_FORCED_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of scopes shown, and maximum length of each in characters.
const MAX_SCOPES_SHOWN: usize = 10;
const MAX_SCOPE_CHARS: usize = 80;

/// Maximum number of values remembered as secret.
const MAX_SECRET_VALUES: usize = 64;

/// Kind of an error that requires a login.
const KIND: &str = "login";

/// Headers that carry credentials.
const AUTHORIZATION: &str = "authorization";

/// Returns true if the settings have a header with credentials.
pub(super) fn has_authorization(headers: &[(String, String)]) -> bool {
    let mut names = headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION))
}

/// Returns true if an error requires a login, with no other remedy.
pub(crate) fn is_login_required(error: &ToolError) -> bool {
    let kind = error.details.as_ref().map(|details| &details["kind"]);
    kind.is_some_and(|kind| kind == KIND)
}

/// Returns the stored challenge of the last request that the server rejected, in this process or another.
pub(super) fn stored_challenge(store: &dyn DescriptionStore, key: &str) -> Option<BearerChallenge> {
    serde_json::from_str(&store.read(&note_key(key))?).ok()
}

/// Removes the stored challenge.
pub(super) fn forget_challenge(store: &dyn DescriptionStore, key: &str) {
    store.write(&note_key(key), "");
    // Clears the recorded failure, too, so that listings may retry.
    store.write(&format!("{key}-failed"), "");
}

fn note_key(key: &str) -> String {
    format!("{key}-login")
}

/// Returns scopes for display: only some, because they are untrusted text.
fn shown(scopes: &[String]) -> String {
    let some: Vec<String> = scopes
        .iter()
        .take(MAX_SCOPES_SHOWN)
        .map(|scope| format!("`{}`", visible(prefix(scope, MAX_SCOPE_CHARS))))
        .collect();
    let more = scopes.len().saturating_sub(MAX_SCOPES_SHOWN);
    match more {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

impl BearerToken {
    /// Returns the header with the token.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0.access)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl BearerAuth {
    /// Creates the login state for a server; none if the settings carry the credentials.
    pub(crate) fn new(
        server: &str,
        url: &str,
        headers: &[(String, String)],
        oauth: &McpOauthSettings,
        note: String,
        deps: &ServerDeps,
    ) -> Option<Arc<Self>> {
        if has_authorization(headers) {
            return None;
        }
        Some(Arc::new(Self {
            server: server.to_owned(),
            url: RequestTarget::parse(url).ok()?,
            oauth: oauth.clone(),
            note,
            deps: deps.clone(),
            now: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            forced: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the token for a request; none if there is no login.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<BearerToken>, ToolError> {
        let Some(kept) = self.load()? else {
            return Ok(None);
        };
        if !kept.needs_renewal() {
            return Ok(Some(BearerToken(kept)));
        }
        let renewed = match kept.refresh {
            Some(_) => self.renew(&kept).await,
            None => Err(TokenError::Expired(login_error("it cannot be renewed"))),
        };
        match renewed {
            Ok(kept) => Ok(Some(BearerToken(kept))),
            Err(_) if !kept.has_ended() => Ok(Some(BearerToken(kept))),
            Err(TokenError::Expired(why)) => Err(self.over(&why.message)),
            Err(TokenError::Failed(why)) => {
                let server = visible(&self.server);
                let message = format!(
                    "the login at the server `{server}` cannot be renewed now: {}",
                    why.message
                );
                let way = format!(
                    "try again; if it keeps failing, log in again with {}",
                    login_hint(&self.server)
                );
                Err(ToolError::new(why.code, message).with_remedies([way]))
            }
        }
    }

    /// Returns another token after the server rejected this one; none if there is no other.
    pub(crate) async fn replace_rejected(
        self: &Arc<Self>,
        token: &BearerToken,
    ) -> Option<BearerToken> {
        let mut forced = self.forced.lock().await;
        let kept = self.load().ok()??;
        if kept.access != token.0.access {
            return Some(BearerToken(kept));
        }
        kept.refresh.as_ref()?;
        if forced.is_some_and(|then| then.elapsed() < MIN_FORCED_INTERVAL) {
            return None;
        }
        *forced = Some(Instant::now());
        self.renew(&kept).await.ok().map(BearerToken)
    }

    /// Returns the error for a server that requires a login, or another one. Stores the challenge for that login.
    pub(crate) fn login_required(
        &self,
        challenge: &BearerChallenge,
        token: Option<&BearerToken>,
    ) -> ToolError {
        let challenge = &self.clean(challenge);
        self.note(challenge);
        match token {
            Some(_) => self.over("the server no longer accepts it"),
            None => self.wants(format!(
                "the server `{}` requires a login",
                visible(&self.server)
            )),
        }
    }

    /// Returns the error for a login that lacks scopes.
    pub(crate) fn insufficient_scope(
        &self,
        challenge: &BearerChallenge,
        token: Option<&BearerToken>,
    ) -> ToolError {
        let challenge = &self.clean(challenge);
        let server = visible(&self.server);
        let scopes = shown(&challenge.scopes);
        if challenge.scopes.is_empty() {
            return ToolError::permission_denied(format!(
                "the login at the server `{server}` is not sufficient for this, and the server does not say which scopes are missing"
            ));
        }
        let has = token.is_some_and(|BearerToken(kept)| kept.covers_scopes(&challenge.scopes));
        if has {
            // Requesting the same scopes again would be an endless loop.
            return ToolError::permission_denied(format!(
                "the login at the server `{server}` is not sufficient for this: the server requires {scopes}, which were already requested"
            ));
        }
        self.note(challenge);
        self.wants(format!(
            "the login at the server `{server}` lacks scopes: this requires {scopes}"
        ))
    }

    /// Returns true if there are values to mask, which is not the case before the first login.
    pub(crate) fn has_values(&self) -> bool {
        let now = self.now.lock();
        !now.values.is_empty()
    }

    /// Masks all values of this login in the server's messages: the secrets known to a call do not include a token
    /// that was renewed during it.
    pub(crate) fn mask(&self, message: &mut Value) {
        let redactor = self.redactor();
        mask_known_secrets(&redactor, message);
    }

    /// Masks all values of this login in a text.
    pub(crate) fn mask_text(&self, text: &mut String) {
        self.redactor().mask_text(text);
    }

    /// Returns a challenge that is safe to show and store: a server may put a secret of this login into it.
    fn clean(&self, challenge: &BearerChallenge) -> BearerChallenge {
        let redactor = self.redactor();
        let is_clean = |text: &String| {
            let mut masked = text.clone();
            redactor.mask_text(&mut masked);
            masked == *text
        };
        let mut clean = challenge.clone();
        clean.scopes.retain(is_clean);
        clean.resource_metadata = clean.resource_metadata.filter(is_clean);
        clean
    }

    fn redactor(&self) -> Redactor {
        let now = self.now.lock();
        now.redactor.clone()
    }

    fn note(&self, challenge: &BearerChallenge) {
        if let Ok(text) = serde_json::to_string(challenge) {
            self.deps.store.write(&note_key(&self.note), &text);
        }
    }

    fn over(&self, why: &str) -> ToolError {
        let server = visible(&self.server);
        self.wants(format!(
            "the login at the server `{server}` has expired: {why}"
        ))
    }

    fn wants(&self, message: String) -> ToolError {
        let way = format!("log in with {}, in a browser", login_hint(&self.server));
        ToolError::unavailable(message)
            .with_details(json!({ "kind": KIND }))
            .with_remedies([way])
    }

    /// Returns the stored login.
    fn load(&self) -> Result<Option<Arc<StoredLogin>>, ToolError> {
        let version = self.deps.logins.version();
        let mut now = self.now.lock();
        if now.version != Some(version) {
            let kept = StoredLogin::read(&*self.deps.logins, &self.server, &self.url)?;
            // A login of another authorization server, or of another client, does not belong to these settings.
            let kept = kept.filter(|kept| self.is_of_settings(kept));
            now.put(version, kept.map(Arc::new));
        }
        Ok(now.kept.clone())
    }

    fn is_of_settings(&self, kept: &StoredLogin) -> bool {
        let issuer = self.oauth.issuer.as_deref();
        let client = self.oauth.client_id.as_deref();
        let same = |name: &str| name.trim_end_matches('/') == kept.issuer.trim_end_matches('/');
        issuer.is_none_or(same) && client.is_none_or(|id| id == kept.client.id)
    }

    /// Renews a login, in a task that survives its caller: losing the response would lose the login.
    async fn renew(
        self: &Arc<Self>,
        stale: &Arc<StoredLogin>,
    ) -> Result<Arc<StoredLogin>, TokenError> {
        let (this, stale) = (Arc::clone(self), Arc::clone(stale));
        let renewed = tokio::spawn(async move { this.renewed(&stale).await }).await;
        renewed.unwrap_or_else(|error| {
            let error = ToolError::internal(error);
            Err(TokenError::Failed(error))
        })
    }

    async fn renewed(&self, stale: &StoredLogin) -> Result<Arc<StoredLogin>, TokenError> {
        let failed = TokenError::Failed;
        let _here = self.turn.lock().await;
        // A refresh token can be used once: two processes that send it would both lose the login.
        let turn = login::lock_renewal(&self.deps, &self.server, &self.url).await;
        let _everywhere = turn.map_err(failed)?;
        let kept =
            StoredLogin::read(&*self.deps.logins, &self.server, &self.url).map_err(failed)?;
        let kept = kept.filter(|kept| self.is_of_settings(kept));
        let Some(mut kept) = kept else {
            return Err(TokenError::Expired(login_error("the login was removed")));
        };
        if kept.access != stale.access && !kept.needs_renewal() {
            return self.take(kept);
        }
        let Some(refresh) = kept.refresh.clone() else {
            return Err(TokenError::Expired(login_error("it cannot be renewed")));
        };
        let place = check_url(&kept.token_endpoint, "token endpoint", &self.url);
        let place = place.and_then(|place| OauthEndpoint::new(place, &*self.deps.client));
        let place = place.map_err(failed)?;
        let secret = kept.client.secret(&self.oauth, &*self.deps.vault);
        let secret = secret.map_err(failed)?;
        let asking = TokenRequest {
            endpoint: &place,
            client: &kept.client,
            secret: secret.as_deref(),
            resource: &kept.resource,
        };
        match asking.refresh(&refresh).await {
            Ok(granted) => {
                kept.access = granted.access;
                kept.refresh = granted.refresh.or(Some(refresh));
                kept.until = granted.until;
                if let Some(scopes) = granted.scopes {
                    kept.granted = scopes;
                }
                // The old refresh token is used up: a token that cannot be stored is used until this process ends.
                if let Err(error) = kept.write(&*self.deps.logins, &self.url) {
                    let server = visible(&self.server);
                    tracing::warn!(%error, "the renewed login at the server `{server}` cannot be stored");
                }
                self.take(kept)
            }
            Err(TokenError::Expired(why)) => {
                // Prevents a second renewal.
                kept.refresh = None;
                kept.write(&*self.deps.logins, &self.url).map_err(failed)?;
                Err(TokenError::Expired(why))
            }
            Err(error) => Err(error),
        }
    }

    fn take(&self, kept: StoredLogin) -> Result<Arc<StoredLogin>, TokenError> {
        let kept = Arc::new(kept);
        let version = self.deps.logins.version();
        let mut now = self.now.lock();
        now.put(version, Some(Arc::clone(&kept)));
        Ok(kept)
    }
}

impl LoadedLogin {
    fn put(&mut self, version: u64, kept: Option<Arc<StoredLogin>>) {
        self.version = Some(version);
        let new = kept.iter().flat_map(|kept| kept.values());
        let new: Vec<String> = new.filter(|value| !self.values.contains(value)).collect();
        if !new.is_empty() {
            self.values.extend(new);
            let over = self.values.len().saturating_sub(MAX_SECRET_VALUES);
            self.values.drain(..over);
            let values = self.values.iter();
            self.redactor = Redactor::new().with_values(values.map(|value| ("LOGIN", value)));
        }
        self.kept = kept;
    }
}
