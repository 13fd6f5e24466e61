//! The step that a call needs if its user has no sufficient login at a server: the user opens a link, and the call goes on
//! or is repeated.
//!
//! Out of scope: the pages behind the links, and logins of the owner of this mimir.

use mimir_core::ToolError;
use mimir_core::pipeline::Approved;
use mimir_core::text::visible;
use mimir_core::upstream_request::{UpstreamRequest, UpstreamRequestKind};
use serde_json::json;

use super::oauth::{is_login_required, login_hint};
use super::server::RemoteServer;

/// Lets the user of a failed call log in, if the client can show pages and the user agrees, so that the call can be
/// repeated at once. Returns the error, with the step for the user, if the call cannot be repeated.
pub(super) async fn log_in_for_call(
    server: &RemoteServer,
    call: &Approved,
    error: ToolError,
) -> Result<(), ToolError> {
    let deps = server.deps();
    let Some(user) = deps.logins.user().filter(|_| is_login_required(&error)) else {
        return Err(error);
    };
    let name = &server.spec.name;
    let Some(link) = deps.links.offer(user, name) else {
        let hint = login_hint(name, Some(user));
        let step = format!(
            "the operator of this mimir starts a login with {hint}, and you open the page that it prints"
        );
        return Err(with_step(error, &step));
    };
    let client = call.observer().upstream_handler();
    let client = client.filter(|client| client.supports(UpstreamRequestKind::Page));
    if let Some(client) = client {
        let shown = visible(name);
        let request = UpstreamRequest {
            name: "login".to_owned(),
            kind: UpstreamRequestKind::Page,
            params: json!({
                "mode": "url",
                "message": format!("mimir needs your login at the server `{shown}` for a call of `{}`.", call.tool().name()),
                "url": link.url,
                "elicitationId": link.id,
            }),
        };
        // The user's time does not count against the deadlines of this call and of the calls that contain it.
        let _pause = call.deadline().pause();
        let answers = client.handle_requests(vec![request]).await?;
        let accepted = answers
            .first()
            .is_some_and(|answer| answer["action"] == "accept");
        if accepted && deps.links.wait(&link.id).await {
            return Ok(());
        }
    }
    let mut error = with_step(error, &login_step(&link.url));
    if let Some(details) = &mut error.details {
        details["url"] = link.url.into();
    }
    Err(error)
}

/// Returns the step of a user who gets a link.
pub(crate) fn login_step(url: &str) -> String {
    format!("open {url} in a browser to log in, then repeat the call")
}

fn with_step(mut error: ToolError, step: &str) -> ToolError {
    error.message = format!("{}; {step}", error.message);
    error
}
