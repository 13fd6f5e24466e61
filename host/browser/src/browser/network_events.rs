//! Events about requests: the log of a tab, and the decision about paused ones.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::network::RequestTarget;
use serde_json::{Value, json};

use super::Browser;
use super::events::text;
use crate::cdp::CdpEvent;
use crate::request_gate::{PausedRequest, RequestGate};
use crate::tab::{PageRequest, Tab};

/// Schemes that reach nothing outside the page.
const LOCAL_SCHEMES: [&str; 3] = ["data:", "blob:", "about:"];

/// Headers that only the browser itself writes, besides those that begin with `sec-`.
const BROWSER_HEADERS: [&str; 3] = ["cookie", "origin", "user-agent"];

/// Maximum size of a stored request body in bytes.
const STORED_BODY_MAX: usize = 16 << 10;

/// Handles an event of the domain `Network`.
pub(super) fn handle(tab: &mut Tab, event: &CdpEvent, gate: &RequestGate) {
    let params = &event.params;
    let id = text(&params["requestId"]);
    match &*event.method {
        "Network.requestWillBeSent" => {
            let request = &params["request"];
            let url = text(&request["url"]);
            if LOCAL_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
                return;
            }
            let kind = text(&params["type"]);
            let is_page = kind == "Document"
                && text(&params["frameId"]) == tab.main_frame
                && params["redirectResponse"].is_null();
            if is_page {
                tab.requests.clear();
                tab.in_flight.clear();
                tab.blocked.clear();
            }
            let redirect = &params["redirectResponse"];
            if let Some(known) = tab.request_mut(id).filter(|_| !redirect.is_null()) {
                known.status = status_of(redirect);
            }
            let request = PageRequest {
                id: id.to_owned(),
                session: event.session.clone(),
                method: text(&request["method"]).to_owned(),
                url: url.to_owned(),
                kind: kind.to_owned(),
                request_headers: headers_of(&request["headers"]),
                request_body: request["postData"].as_str().map(|body| {
                    let mut body = body.to_owned();
                    gate.hide_entered_secrets(&mut body);
                    let max = STORED_BODY_MAX.min(body.len());
                    mimir_core::text::prefix_bytes(&body, max).to_owned()
                }),
                ..PageRequest::default()
            };
            tab.add_request(request, gate);
        }
        "Network.responseReceived" => {
            let loader = text(&params["loaderId"]);
            if text(&params["frameId"]) == tab.main_frame && loader == id {
                let security = text(&params["response"]["securityState"]);
                tab.document_security = Some((loader.to_owned(), security.to_owned()));
            }
            if let Some(request) = tab.request_mut(id) {
                let response = &params["response"];
                request.status = status_of(response);
                request.response_headers = headers_of(&response["headers"]);
            }
            // The rest of a stream may take forever.
            if text(&params["type"]) == "EventSource" {
                tab.in_flight.remove(id);
            }
        }
        "Network.loadingFinished" => {
            tab.in_flight.remove(id);
        }
        "Network.loadingFailed" => {
            tab.in_flight.remove(id);
            if let Some(request) = tab.request_mut(id) {
                request.failure = Some(text(&params["errorText"]).to_owned());
            }
        }
        _ => {}
    }
}

fn status_of(response: &Value) -> Option<(u64, String)> {
    Some((
        response["status"].as_u64()?,
        text(&response["statusText"]).to_owned(),
    ))
}

fn headers_of(headers: &Value) -> Vec<(String, String)> {
    let headers = headers.as_object().into_iter().flatten();
    headers
        .map(|(name, value)| (name.to_ascii_lowercase(), text(value).to_owned()))
        .collect()
}

/// Returns the headers that a page can choose.
fn chosen_headers(headers: &Value) -> Vec<(String, String)> {
    let mut chosen = headers_of(headers);
    chosen.retain(|(name, _)| !BROWSER_HEADERS.contains(&&**name) && !name.starts_with("sec-"));
    chosen
}

/// Returns the body of a paused request, as far as the browser reports it.
fn body_of(request: &Value) -> Option<String> {
    if let Some(body) = request["postData"].as_str() {
        return Some(body.to_owned());
    }
    let entries = request["postDataEntries"].as_array().into_iter().flatten();
    let bytes: Vec<u8> = entries
        .filter_map(|entry| STANDARD.decode(text(&entry["bytes"])).ok())
        .flatten()
        .collect();
    (request["hasPostData"] == true).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

impl Browser {
    /// Decides about a paused request, without blocking other events.
    pub(super) fn request_paused(self: &Arc<Self>, event: &CdpEvent) {
        let params = &event.params;
        let (id, session) = (text(&params["requestId"]).to_owned(), event.session.clone());
        let request = &params["request"];
        let url = text(&request["url"]).to_owned();
        if LOCAL_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
            self.cdp
                .post(&session, "Fetch.continueRequest", json!({"requestId": id}));
            return;
        }
        let method = text(&request["method"]).to_ascii_uppercase();
        let (is_own_origin, is_main_document) = {
            let mut state = self.state();
            let tab = state.tab_of_session(&session);
            tab.map_or_else(Default::default, |tab| {
                let is_document = text(&params["resourceType"]) == "Document";
                let is_main = is_document && text(&params["frameId"]) == tab.main_frame;
                let is_own_origin = is_same_origin(&tab.url, &url);
                tab.asked += u32::from(is_main || is_own_origin);
                (is_own_origin, is_main)
            })
        };
        let paused = PausedRequest {
            method,
            headers: chosen_headers(&request["headers"]),
            body: body_of(request),
            // A person is asked about pages and about the origin of the page, not about everything that it embeds.
            may_ask: is_main_document || is_own_origin,
            is_own_origin,
            url,
        };
        let browser = Arc::clone(self);
        tokio::spawn(async move {
            let verdict = browser.gate.judge(&paused).await;
            if paused.may_ask {
                let mut state = browser.state();
                if let Some(tab) = state.tab_of_session(&session) {
                    tab.asked = tab.asked.saturating_sub(1);
                }
            }
            match verdict {
                Ok(()) => {
                    let allowed = json!({"requestId": id});
                    browser.cdp.post(&session, "Fetch.continueRequest", allowed);
                }
                Err(error) => {
                    let mut state = browser.state();
                    if let Some(tab) = state.tab_of_session(&session) {
                        if is_main_document {
                            tab.refused_document = Some(error);
                        } else {
                            let origin = origin_of(&paused.url);
                            tab.add_blocked(origin, &error.message, &browser.gate);
                        }
                    }
                    drop(state);
                    let refused = json!({"requestId": id, "errorReason": "BlockedByClient"});
                    browser.cdp.post(&session, "Fetch.failRequest", refused);
                }
            }
            browser.changes.send_modify(|count| *count += 1);
        });
    }

    /// Answers the proxy's request for a login. Servers get none.
    pub(super) fn login_required(&self, event: &CdpEvent) {
        let answer = if event.params["authChallenge"]["source"] == "Proxy" {
            let (user, password) = &self.proxy_login;
            json!({"response": "ProvideCredentials", "username": user, "password": password})
        } else {
            json!({"response": "CancelAuth"})
        };
        let params = json!({
            "requestId": event.params["requestId"], "authChallengeResponse": answer
        });
        self.cdp
            .post(&event.session, "Fetch.continueWithAuth", params);
    }
}

fn is_same_origin(one: &str, other: &str) -> bool {
    match (RequestTarget::parse(one), RequestTarget::parse(other)) {
        (Ok(one), Ok(other)) => one.origin() == other.origin(),
        _ => false,
    }
}

fn origin_of(url: &str) -> String {
    match RequestTarget::parse(url) {
        Ok(target) => target.origin().to_string(),
        Err(_) => mimir_core::text::prefix(url, 100).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_log_keeps_redirects_and_failures() {
        let mut tab = Tab::new("t".to_owned(), "s".to_owned());
        let gate = RequestGate::new();
        let mut send = |method: &str, params: Value| {
            let event = CdpEvent {
                method: method.to_owned(),
                params,
                session: "s".to_owned(),
            };
            handle(&mut tab, &event, &gate);
        };
        let sent = |url: &str| json!({"requestId": "1", "type": "XHR", "request": {"method": "GET", "url": url}});
        send("Network.requestWillBeSent", sent("http://a.example/x"));
        let mut redirected = sent("http://a.example/y");
        redirected["redirectResponse"] = json!({"status": 302, "statusText": "Found"});
        send("Network.requestWillBeSent", redirected);
        send(
            "Network.loadingFailed",
            json!({"requestId": "1", "errorText": "net::ERR_FAILED"}),
        );
        send("Network.requestWillBeSent", sent("data:text/plain,x"));
        assert_eq!(tab.requests.len(), 2);
        assert_eq!(tab.requests[0].status, Some((302, "Found".to_owned())));
        assert_eq!(tab.requests[1].failure.as_deref(), Some("net::ERR_FAILED"));
        assert!(tab.in_flight.is_empty());
    }

    #[test]
    fn headers_that_pages_can_choose_are_checked() {
        let headers = json!({
            "Accept": "a", "Referer": "b", "Cache-Control": "c", "Upgrade-Insecure-Requests": "d", "X-Own": "e",
            "Cookie": "f", "Origin": "g", "User-Agent": "h", "Sec-Fetch-Mode": "i"
        });
        let mut values: Vec<String> = chosen_headers(&headers)
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        values.sort();
        assert_eq!(values, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn request_body_is_found_in_both_forms() {
        assert_eq!(body_of(&json!({})), None);
        assert_eq!(body_of(&json!({"postData": "a=1"})).as_deref(), Some("a=1"));
        let entries =
            json!({"hasPostData": true, "postDataEntries": [{"bytes": "YT0x"}, {"bytes": "Jg=="}]});
        assert_eq!(body_of(&entries).as_deref(), Some("a=1&"));
        // A file: the browser reports that there is a body, and not its content.
        assert_eq!(body_of(&json!({"hasPostData": true})).as_deref(), Some(""));
    }
}
