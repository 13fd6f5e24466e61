//! The pages with which users of this server log in at other servers.
//!
//! A link may be opened by someone else than its user: a user could send it to another one, whose account at the other
//! server would then be used in the calls of the first. Whoever opens a link therefore logs in at the identity provider
//! first, and only its user is sent on to the other server. Each step belongs to the browser that has begun it, by a
//! cookie, works once, and expires.
//!
//! Out of scope: which calls need a login.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, LOCATION, REFERRER_POLICY,
    SET_COOKIE,
};
use ::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use mimir_core::network::{RequestTarget, UrlScheme};
use mimir_core::{ToolError, ToolErrorCode};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::identity::IdentityVerifier;
use super::{BoxedResponse, text_response};
use crate::client::{
    CallbackError, IdentityLogin, LinkError, LinkOwner, LoginLinks, McpServers, PendingIdentity,
    PendingLogin, random_string,
};

/// Path prefix of the pages.
const PREFIX: &str = "/login/";

/// Path of the callback of the identity provider, and path prefix of those of other servers. Each server has a path of
/// its own, so that the callback for one cannot be passed to another; RFC 9700 section 4.4.2.
const IDENTITY: &str = "identity";
const DONE: &str = "done/";

/// Lifetime of a step, for the browser's cookie, too.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Maximum number of steps that wait for a browser: of one link, of one user, and of all users. The oldest one is removed
/// first, so that a user who opens many links ends only steps of their own.
const MAX_STEPS_OF_LINK: usize = 4;
const MAX_STEPS_OF_USER: usize = 8;
const MAX_STEPS: usize = 4096;

/// A login of a user in a browser that has succeeded or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLogin {
    /// Id of the link's user.
    pub user: String,
    /// Name of the server.
    pub server: String,
    /// The outcome.
    pub outcome: UserLoginOutcome,
}

/// Outcome of a login in a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserLoginOutcome {
    /// The login was stored.
    Stored {
        /// The authorization server.
        issuer: String,
    },
    /// The link was opened by another user, so that nothing was changed.
    OtherUser {
        /// Id of the other user.
        opened_by: String,
    },
    /// The identity provider or the authorization server did not accept the login.
    Failed {
        /// The code of the error.
        code: ToolErrorCode,
    },
}

/// Receives the logins of users and the failed attempts, for the audit log.
pub type LoginRecorder = Arc<dyn Fn(&UserLogin) + Send + Sync>;

/// The pages, and the steps that wait for a browser.
pub(super) struct LoginPages {
    /// URL under which clients reach the pages.
    base: String,
    links: LoginLinks,
    servers: Arc<McpServers>,
    identity: IdentityLogin,
    recorder: Option<LoginRecorder>,
    steps: Mutex<HashMap<String, LoginStep>>,
}

/// A step of a login, which the callback with its state completes.
struct LoginStep {
    link: String,
    /// Id of the link's user.
    user: String,
    /// Value of the cookie of the browser.
    browser: String,
    since: Instant,
    awaited: AwaitedCallback,
}

enum AwaitedCallback {
    /// The identity provider shows who uses the browser.
    Identity(Box<PendingIdentity>),
    /// The authorization server of another server answers.
    Server(Box<PendingLogin>),
}

/// Result of a request: where the browser goes next, or the end of the login.
enum PageOutcome {
    /// The browser goes to a URL, with this cookie, which is not set again if it is `None`.
    Redirect(String, Option<String>),
    Done(String),
}

/// Reason why a request is rejected.
enum PageError {
    /// The link or the step is unknown, used, expired, or of another browser.
    NotValid,
    /// The links of the user were opened too often.
    TooMany,
    /// The browser is used by someone else than the link's user: the user with this id.
    OtherUser(String),
    Failed(ToolError),
}

impl From<LinkError> for PageError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::NotValid => Self::NotValid,
            LinkError::TooMany => Self::TooMany,
        }
    }
}

impl From<ToolError> for PageError {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

impl LoginPages {
    /// Creates the pages of the server whose resource identifier is `resource`, and enables the links to them. Returns
    /// `None` if the pages would not be confidential.
    pub(super) fn new(
        resource: &RequestTarget,
        servers: &Arc<McpServers>,
        identity: IdentityLogin,
        recorder: Option<LoginRecorder>,
    ) -> Option<Self> {
        let is_confidential =
            resource.scheme() == UrlScheme::Https || resource.host().is_this_machine();
        if !is_confidential {
            return None;
        }
        let path = resource.url().path().trim_end_matches('/');
        let path = path.strip_suffix(super::ENDPOINT).unwrap_or(path);
        let base = format!("{}{path}", resource.origin());
        let links = servers.login_links().clone();
        links.enable(&base);
        Some(Self {
            base,
            links,
            servers: Arc::clone(servers),
            identity,
            recorder,
            steps: Mutex::default(),
        })
    }

    /// Handles a request of a browser. Returns `None` if the path is not that of a page.
    pub(super) async fn handle(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        verifier: &IdentityVerifier,
    ) -> Option<BoxedResponse> {
        let page = uri.path().strip_prefix(PREFIX)?;
        if method != Method::GET {
            let text = "only GET is supported here\n";
            return Some(text_response(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        let callback = uri.path_and_query().map_or("", |both| both.as_str());
        let outcome = if page == IDENTITY || page.starts_with(DONE) {
            self.continue_login(page, callback, headers, verifier).await
        } else {
            self.open_link(page).await
        };
        Some(self.response(outcome))
    }

    /// Sends a browser that opens a link to the identity provider.
    async fn open_link(&self, id: &str) -> Result<PageOutcome, PageError> {
        let owner = self.links.open(id)?;
        let redirect = format!("{}{PREFIX}{IDENTITY}", self.base);
        let pending = self.identity.begin(&redirect).await?;
        let (url, state) = (pending.url().to_owned(), pending.state().to_owned());
        let browser = random_string()?;
        let cookie = self.cookie(id, &browser, LIFETIME);
        self.await_callback(
            state,
            LoginStep {
                link: id.to_owned(),
                user: owner.user,
                browser,
                since: Instant::now(),
                awaited: AwaitedCallback::Identity(Box::new(pending)),
            },
        );
        Ok(PageOutcome::Redirect(url, Some(cookie)))
    }

    /// Continues the login of a browser that comes back.
    async fn continue_login(
        &self,
        page: &str,
        callback: &str,
        headers: &HeaderMap,
        verifier: &IdentityVerifier,
    ) -> Result<PageOutcome, PageError> {
        let state = state_of(callback).ok_or(PageError::NotValid)?;
        // Removed in any case, so that each state can be tried once.
        let step = self.steps.lock().remove(&state);
        let step = step.filter(|step| step.since.elapsed() < LIFETIME);
        let step = step.ok_or(PageError::NotValid)?;
        if !self.is_from(&step, headers) {
            return Err(PageError::NotValid);
        }
        let owner = self.links.owner(&step.link).ok_or(PageError::NotValid)?;
        let outcome = self
            .complete_step(step, page, callback, &owner, verifier)
            .await;
        match &outcome {
            Err(PageError::OtherUser(opened_by)) => {
                let opened_by = opened_by.clone();
                self.record(&owner, UserLoginOutcome::OtherUser { opened_by });
            }
            Err(PageError::Failed(error)) => {
                self.record(&owner, UserLoginOutcome::Failed { code: error.code });
            }
            _ => {}
        }
        outcome
    }

    /// Completes a step with its callback.
    async fn complete_step(
        &self,
        step: LoginStep,
        page: &str,
        callback: &str,
        owner: &LinkOwner,
        verifier: &IdentityVerifier,
    ) -> Result<PageOutcome, PageError> {
        match step.awaited {
            AwaitedCallback::Identity(pending) if page == IDENTITY => {
                let token = self.identity.token(*pending, callback).await?;
                let user = verifier.user_of_token(&token).await?;
                if user != owner.user {
                    return Err(PageError::OtherUser(user));
                }
                self.begin_login(step.link, step.browser, owner).await
            }
            AwaitedCallback::Server(pending) if page == done_page(&owner.server) => {
                let code = pending.code(callback).map_err(CallbackError::into_error)?;
                let login = pending.finish(&code).await?;
                self.links.complete(&step.link);
                let issuer = login.issuer;
                self.record(owner, UserLoginOutcome::Stored { issuer });
                Ok(PageOutcome::Done(owner.server.clone()))
            }
            // The callback for one server was passed to another.
            _ => Err(PageError::NotValid),
        }
    }

    fn record(&self, owner: &LinkOwner, outcome: UserLoginOutcome) {
        if let Some(recorder) = &self.recorder {
            recorder(&UserLogin {
                user: owner.user.clone(),
                server: owner.server.clone(),
                outcome,
            });
        }
    }

    /// Sends the browser of the link's user to the authorization server of the link's server.
    async fn begin_login(
        &self,
        link: String,
        browser: String,
        owner: &LinkOwner,
    ) -> Result<PageOutcome, PageError> {
        let plan = self
            .servers
            .plan_for_user(&owner.server, Some(&owner.user))
            .await;
        // The server was removed from the settings.
        let plan = plan.ok_or(PageError::NotValid)??;
        let redirect = format!("{}{PREFIX}{}", self.base, done_page(&owner.server));
        let pending = plan.begin(&redirect).await?;
        let (url, state) = (pending.url().to_owned(), pending.state().to_owned());
        self.await_callback(
            state,
            LoginStep {
                link,
                user: owner.user.clone(),
                browser,
                since: Instant::now(),
                awaited: AwaitedCallback::Server(Box::new(pending)),
            },
        );
        Ok(PageOutcome::Redirect(url, None))
    }

    fn await_callback(&self, state: String, step: LoginStep) {
        let mut steps = self.steps.lock();
        steps.retain(|_, step| step.since.elapsed() < LIFETIME);
        make_room(&mut steps, MAX_STEPS_OF_LINK, |other| {
            other.link == step.link
        });
        make_room(&mut steps, MAX_STEPS_OF_USER, |other| {
            other.user == step.user
        });
        make_room(&mut steps, MAX_STEPS, |_| true);
        steps.insert(state, step);
    }

    /// Returns true if a request is from the browser that has begun a login.
    fn is_from(&self, step: &LoginStep, headers: &HeaderMap) -> bool {
        let name = self.cookie_name(&step.link);
        let all = headers.get_all(COOKIE).iter();
        let mut pairs = all
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(other, value)| {
            other == name && bool::from(value.as_bytes().ct_eq(step.browser.as_bytes()))
        })
    }

    fn is_secure(&self) -> bool {
        self.base.starts_with("https:")
    }

    /// Returns the name of the cookie for a link, so that several logins in one browser do not interfere. The prefix
    /// prevents other hosts of the domain from setting the cookie.
    fn cookie_name(&self, link: &str) -> String {
        let prefix = if self.is_secure() { "__Host-" } else { "" };
        format!("{prefix}mimir-login-{}", link.get(..16).unwrap_or(link))
    }

    fn cookie(&self, link: &str, value: &str, lifetime: Duration) -> String {
        let name = self.cookie_name(link);
        let secure = if self.is_secure() { "; Secure" } else { "" };
        // Lax, because the callbacks are navigations from other sites.
        format!(
            "{name}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            lifetime.as_secs()
        )
    }

    fn response(&self, outcome: Result<PageOutcome, PageError>) -> BoxedResponse {
        let (status, text) = match outcome {
            Ok(PageOutcome::Redirect(url, cookie)) => return redirect(&url, cookie.as_deref()),
            Ok(PageOutcome::Done(server)) => (
                StatusCode::OK,
                format!(
                    "You are logged in at the server {server}. You can close this window and continue in your client."
                ),
            ),
            Err(PageError::NotValid) => (
                StatusCode::BAD_REQUEST,
                "This link is not valid: it was used or has expired, or the login was begun in another browser. Repeat the call in your client to get a new one.".to_owned(),
            ),
            Err(PageError::TooMany) => (
                StatusCode::TOO_MANY_REQUESTS,
                "Your links were opened too often. Wait 10 minutes, and repeat the call in your client to get a new one.".to_owned(),
            ),
            Err(PageError::OtherUser(_)) => {
                tracing::warn!("a login link was opened by another user than its own");
                (
                    StatusCode::FORBIDDEN,
                    "This link belongs to another user, so nothing was changed. Do not open links to this page that others send you.".to_owned(),
                )
            }
            Err(PageError::Failed(error)) => {
                tracing::warn!(%error, "a login in a browser has failed");
                (
                    StatusCode::BAD_GATEWAY,
                    format!("The login has failed: {}.", error.message),
                )
            }
        };
        page_response(status, &text)
    }
}

/// Removes the oldest of the steps that `is_counted` selects until there are fewer than `max`.
fn make_room(
    steps: &mut HashMap<String, LoginStep>,
    max: usize,
    is_counted: impl Fn(&LoginStep) -> bool,
) {
    loop {
        let counted = || steps.iter().filter(|(_, step)| is_counted(step));
        if counted().count() < max {
            return;
        }
        let oldest = counted().min_by_key(|(_, step)| step.since);
        let Some(state) = oldest.map(|(state, _)| state.clone()) else {
            return;
        };
        steps.remove(&state);
    }
}

/// Returns the page of the callback of a server's login.
fn done_page(server: &str) -> String {
    let name: String = url::form_urlencoded::byte_serialize(server.as_bytes()).collect();
    format!("{DONE}{name}")
}

/// Returns the state in a callback. A repeated state is ambiguous.
fn state_of(callback: &str) -> Option<String> {
    let (_, query) = callback.split_once('?')?;
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let mut states = pairs.filter(|(name, _)| name == "state");
    let (_, state) = states.next()?;
    states.next().is_none().then(|| state.into_owned())
}

fn redirect(url: &str, cookie: Option<&str>) -> BoxedResponse {
    let (Ok(location), Ok(cookie)) = (
        HeaderValue::from_str(url),
        cookie.map(HeaderValue::from_str).transpose(),
    ) else {
        return page_response(StatusCode::BAD_GATEWAY, "The login has failed.");
    };
    let mut response = page_response(StatusCode::SEE_OTHER, "Continue at the next page.");
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    if let Some(cookie) = cookie {
        headers.insert(SET_COOKIE, cookie);
    }
    response
}

/// Returns a page with one paragraph of text.
fn page_response(status: StatusCode, text: &str) -> BoxedResponse {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>mimir</title><p>{text}</p></html>\n"
    );
    let mut response = text_response(status, &page);
    // No referrer, which would leak the code, and no frames, in which another site could hide the page.
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
