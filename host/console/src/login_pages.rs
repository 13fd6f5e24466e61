//! Login at the identity provider. Each step belongs to the browser that has begun it, by a cookie, works once, and
//! expires.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use mimir_core::{ToolError, ToolErrorCode};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use crate::handler::ConsoleListener;
use crate::login::{BrowserLogin, StartedLogin};
use crate::login_budget::LoginOrigin;
use crate::login_record::{ConsoleLoginKind, ConsoleLoginRecord, LoginClient};
use crate::response::{ConsoleRequestError, add_cookie, redirect_response, text_response};
use crate::server::ConsoleResult;
use crate::sessions::{SessionOwner, cookie_values, random_secret};

/// Lifetime of a step, for the browser's cookie, too.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Maximum number of steps that wait for a browser. The oldest one of the client that has the most is removed first.
const MAX_STEPS: usize = 256;

/// Steps that wait for a callback, by state.
#[derive(Default)]
pub(crate) struct LoginSteps(Mutex<HashMap<String, WaitingLogin>>);

struct WaitingLogin {
    started: Box<dyn StartedLogin>,
    /// Value of the cookie of the browser.
    browser: String,
    origin: LoginOrigin,
    since: Instant,
}

impl ConsoleListener {
    /// Answers a request for a page of the login.
    pub(crate) async fn answer_login(&self, page: &str, parts: &Parts) -> ConsoleResult {
        let shared = &self.server.0;
        let login = shared.options.login.as_ref();
        let login = login.ok_or_else(ConsoleRequestError::not_found)?;
        let origin = LoginOrigin::of_client(&LoginClient::of_request(parts));
        if !shared.logins.take(origin) {
            return Err(ConsoleRequestError::too_many(
                "too many attempts to log in: wait a second",
            ));
        }
        if page == "login" {
            self.begin_login(&**login, parts, origin).await
        } else {
            self.complete_login(&**login, parts).await
        }
    }

    async fn begin_login(
        &self,
        login: &dyn BrowserLogin,
        parts: &Parts,
        origin: LoginOrigin,
    ) -> ConsoleResult {
        let redirect = self.server.callback_url(&self.public_base);
        let failed = |error: ToolError| self.failed_login(&error, parts);
        let started = login.begin(&redirect).await.map_err(failed)?;
        let browser = random_secret().map_err(failed)?;
        let name = self.step_cookie(started.state());
        let mut response = redirect_response(started.url()).ok_or_else(|| {
            ConsoleRequestError::bad_request(
                "the login page of the identity provider has an invalid URL",
            )
        })?;
        let seconds = LIFETIME.as_secs();
        let scope = self.cookie_scope();
        // Lax, because the callback is a navigation from another site.
        let cookie =
            format!("{name}={browser}; {scope}; Max-Age={seconds}; HttpOnly; SameSite=Lax");
        add_cookie(&mut response, &cookie);
        self.server.0.login_steps.add(started, browser, origin);
        Ok(response)
    }

    async fn complete_login(&self, login: &dyn BrowserLogin, parts: &Parts) -> ConsoleResult {
        let shared = &self.server.0;
        let not_valid = || {
            ConsoleRequestError::bad_request(
                "this login is not valid: it was used or has expired, or it was begun in another browser; open the console again",
            )
        };
        let state = state_of(parts.uri.query().unwrap_or_default()).ok_or_else(not_valid)?;
        let name = self.step_cookie(&state);
        let started = shared.login_steps.take(&state, &name, &parts.headers);
        let started = started.ok_or_else(not_valid)?;
        let callback = parts.uri.path_and_query().map_or("", |both| both.as_str());
        let person = started.finish(callback.to_owned()).await;
        let person = person.map_err(|error| self.failed_login(&error, parts))?;
        let role = login.role_of(&person);
        self.server.record_login(ConsoleLoginRecord {
            name: Some(person.name().to_owned()),
            kind: ConsoleLoginKind::Provider,
            outcome: role.ok_or(ToolErrorCode::PermissionDenied),
            client: LoginClient::of_request(parts),
        });
        if role.is_none() {
            return Ok(text_response(
                StatusCode::FORBIDDEN,
                "You are logged in, but your account has no role at this console. Ask the person who runs mimir for one.",
            ));
        }
        let secret = shared.sessions.begin(SessionOwner::Person(person));
        let secret = secret.map_err(|error| ConsoleRequestError::of_backend(&error, false))?;
        let mut response =
            redirect_response(&self.public_base).ok_or_else(ConsoleRequestError::not_found)?;
        add_cookie(&mut response, &self.session_cookie(&secret));
        Ok(response)
    }

    /// Records a login that has failed, and returns the response.
    fn failed_login(&self, error: &ToolError, parts: &Parts) -> ConsoleRequestError {
        self.server.record_login(ConsoleLoginRecord {
            name: None,
            kind: ConsoleLoginKind::Provider,
            outcome: Err(error.code),
            client: LoginClient::of_request(parts),
        });
        ConsoleRequestError::of_backend(error, false)
    }

    /// Returns the name of the cookie of a step, so that several logins in one browser do not interfere.
    fn step_cookie(&self, state: &str) -> String {
        let prefix = self.cookie_prefix();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let start: String = state.chars().filter(is_plain).take(16).collect();
        format!("{prefix}mimir_console_login_{start}")
    }
}

impl LoginSteps {
    fn add(&self, started: Box<dyn StartedLogin>, browser: String, origin: LoginOrigin) {
        let mut steps = self.0.lock();
        steps.retain(|_, step| step.since.elapsed() < LIFETIME);
        if steps.len() >= MAX_STEPS
            && let Some(state) = step_to_remove(&steps)
        {
            steps.remove(&state);
        }
        let state = started.state().to_owned();
        let since = Instant::now();
        steps.insert(
            state,
            WaitingLogin {
                started,
                browser,
                origin,
                since,
            },
        );
    }

    /// Removes a step, so that each state can be tried once. `None` if another browser has begun it.
    fn take(
        &self,
        state: &str,
        cookie: &str,
        headers: &HeaderMap,
    ) -> Option<Box<dyn StartedLogin>> {
        let step = self.0.lock().remove(state)?;
        let is_own = cookie_values(headers, cookie)
            .any(|value| bool::from(value.as_bytes().ct_eq(step.browser.as_bytes())));
        (is_own && step.since.elapsed() < LIFETIME).then_some(step.started)
    }
}

/// Returns the oldest step of the client that has the most, so that a client cannot remove the steps of others.
fn step_to_remove(steps: &HashMap<String, WaitingLogin>) -> Option<String> {
    let connection = most_frequent(steps.values().map(|step| step.origin.connection))?;
    let origins = steps.values().map(|step| step.origin);
    let origin = most_frequent(origins.filter(|origin| origin.connection == connection))?;
    let own = steps.iter().filter(|(_, step)| step.origin == origin);
    let oldest = own.min_by_key(|(_, step)| step.since);
    oldest.map(|(state, _)| state.clone())
}

fn most_frequent<T: Copy + Eq + Hash>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: HashMap<T, usize> = HashMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(value, _)| value)
}

/// Returns the state in the query of a callback. A repeated state is ambiguous.
fn state_of(query: &str) -> Option<String> {
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let mut states = pairs.filter(|(name, _)| name == "state");
    let (_, state) = states.next()?;
    states.next().is_none().then(|| state.into_owned())
}
