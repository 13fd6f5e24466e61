//! Routes of the API: method, path, query and body become a [`ConsoleRequest`].

use http::Method;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handler::method_not_allowed;
use crate::request::{
    ConsoleRequest, PolicyEdit, QuestionAnswer, RecordFilter, ServerAction, one_or_many,
};
use crate::response::ConsoleRequestError;

/// Maximum length of an id or name in bytes.
const MAX_NAME: usize = 256;

/// Maximum length of the shown name of a session in bytes.
const MAX_SESSION: usize = 1024;

/// Maximum length of a condition of a record filter in bytes.
const MAX_CONDITION: usize = 1024;

/// Maximum number of lines on a page of the record.
const MAX_LINES: usize = 200;

/// Longest period of charts and of the evaluation of an edit, in days.
const MAX_DAYS: u32 = 90;

/// Maximum length of a reason in bytes.
const MAX_REASON: usize = 2000;

/// Maximum length of the values of an edit in bytes, together. The time to apply it grows faster than its size.
const MAX_VALUES: usize = 64 << 10;

/// Maximum number of changes of an edit, and of patterns.
const MAX_ITEMS: usize = 100;

/// A route of the API.
#[derive(Debug, PartialEq)]
pub(crate) enum ApiRoute {
    Login,
    Logout,
    Events,
    Pair,
    Export(Box<RecordFilter>),
    Backend(BackendRoute),
}

/// A request to the backend, whose body may still be missing.
#[derive(Debug, PartialEq)]
pub(crate) enum BackendRoute {
    Complete(Box<ConsoleRequest>),
    StopAll,
    StopAgent,
    StartAgent,
    AnswerQuestion { id: String },
    QuestionMatches { id: String },
    SwitchTool { name: String },
    TrustTool { name: String },
    ExplainCall,
    WhatIf,
    ProposeEdit,
    ApplyEdit,
}

/// Finds the route of a request. `path` begins behind `api/`.
pub(crate) fn parse_route(
    method: &Method,
    path: &str,
    query: &str,
) -> Result<ApiRoute, ConsoleRequestError> {
    let segments: Vec<String> = path.split('/').map(segment).collect::<Result<_, _>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let route = match *method {
        Method::GET => get_route(&segments, query)?,
        Method::POST => post_route(&segments)?,
        _ => return Err(method_not_allowed()),
    };
    let other = if *method == Method::GET {
        post_route(&segments).ok().flatten()
    } else {
        get_route(&segments, "").ok().flatten()
    };
    match (route, other) {
        (Some(route), _) => Ok(route),
        (None, Some(_)) => Err(method_not_allowed()),
        (None, None) => Err(ConsoleRequestError::not_found()),
    }
}

fn get_route(segments: &[&str], query: &str) -> Result<Option<ApiRoute>, ConsoleRequestError> {
    let request = match segments {
        ["events"] => return no_query(query).map(|()| Some(ApiRoute::Events)),
        ["record", "export"] => {
            return record_filter(query).map(|filter| Some(ApiRoute::Export(Box::new(filter))));
        }
        ["record"] => ConsoleRequest::Record(record_filter(query)?),
        ["record", "charts"] => ConsoleRequest::Charts {
            days: days_of(query)?,
        },
        _ => {
            no_query(query)?;
            match segments {
                ["state"] => ConsoleRequest::State,
                ["calls"] => ConsoleRequest::Calls,
                ["agents"] => ConsoleRequest::Agents,
                ["questions"] => ConsoleRequest::Questions,
                ["record", "calls", id] => ConsoleRequest::CallStory {
                    id: (*id).to_owned(),
                },
                ["record", "verify"] => ConsoleRequest::VerifyRecord,
                ["tools"] => ConsoleRequest::Tools,
                ["tools", name] => ConsoleRequest::ToolDetails {
                    name: (*name).to_owned(),
                },
                ["servers"] => ConsoleRequest::Servers,
                ["sessions"] => ConsoleRequest::Sessions,
                ["workers"] => ConsoleRequest::Workers,
                ["memory"] => ConsoleRequest::Memory,
                ["packages"] => ConsoleRequest::Packages,
                ["undo"] => ConsoleRequest::UndoRecords,
                ["undo", id] => ConsoleRequest::UndoDetails {
                    id: (*id).to_owned(),
                },
                ["policy"] => ConsoleRequest::Policy,
                ["policy", "least-privilege"] => ConsoleRequest::LeastPrivilege,
                _ => return Ok(None),
            }
        }
    };
    Ok(Some(ApiRoute::Backend(complete(request))))
}

fn post_route(segments: &[&str]) -> Result<Option<ApiRoute>, ConsoleRequestError> {
    let route = match segments {
        ["login"] => return Ok(Some(ApiRoute::Login)),
        ["logout"] => return Ok(Some(ApiRoute::Logout)),
        ["pair"] => return Ok(Some(ApiRoute::Pair)),
        ["calls", id, "cancel"] => complete(ConsoleRequest::CancelCall {
            id: (*id).to_owned(),
        }),
        ["agents", "stop"] => BackendRoute::StopAgent,
        ["agents", "start"] => BackendRoute::StartAgent,
        ["stop"] => BackendRoute::StopAll,
        ["start"] => complete(ConsoleRequest::StartAll),
        ["questions", id, "answer"] => BackendRoute::AnswerQuestion {
            id: (*id).to_owned(),
        },
        ["questions", id, "matches"] => BackendRoute::QuestionMatches {
            id: (*id).to_owned(),
        },
        ["tools", name, "switch"] => BackendRoute::SwitchTool {
            name: (*name).to_owned(),
        },
        ["tools", name, "trust"] => BackendRoute::TrustTool {
            name: (*name).to_owned(),
        },
        ["servers", name, action] => {
            let action = match *action {
                "start" => ServerAction::Start,
                "stop" => ServerAction::Stop,
                "restart" => ServerAction::Restart,
                _ => return Ok(None),
            };
            let name = (*name).to_owned();
            complete(ConsoleRequest::ControlServer { name, action })
        }
        ["undo", id] => complete(ConsoleRequest::Undo {
            id: (*id).to_owned(),
        }),
        ["policy", "explain"] => BackendRoute::ExplainCall,
        ["policy", "what-if"] => BackendRoute::WhatIf,
        ["policy", "propose"] => BackendRoute::ProposeEdit,
        ["policy", "apply"] => BackendRoute::ApplyEdit,
        ["approvals", id, "revoke"] => complete(ConsoleRequest::RevokeApproval {
            id: (*id).to_owned(),
        }),
        _ => return Ok(None),
    };
    Ok(Some(ApiRoute::Backend(route)))
}

/// Returns the route of a request without a body.
fn complete(request: ConsoleRequest) -> BackendRoute {
    BackendRoute::Complete(Box::new(request))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopBody {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentBody {
    pid: u32,
    session: String,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchesBody {
    #[serde(default, deserialize_with = "one_or_many")]
    pattern: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchBody {
    on: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustBody {
    digest: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainBody {
    tool: String,
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    edit: Option<PolicyEdit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhatIfBody {
    edit: PolicyEdit,
    #[serde(default = "default_days")]
    days: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposeBody {
    edit: PolicyEdit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyBody {
    edit: PolicyEdit,
    digest: String,
}

impl BackendRoute {
    /// Returns true for orders to stop calls, or to allow them again.
    pub(crate) fn is_order(&self) -> bool {
        match self {
            BackendRoute::StopAll | BackendRoute::StopAgent | BackendRoute::StartAgent => true,
            BackendRoute::Complete(request) => matches!(
                **request,
                ConsoleRequest::CancelCall { .. } | ConsoleRequest::StartAll
            ),
            _ => false,
        }
    }

    /// Returns true for requests that evaluate rules, which takes long.
    pub(crate) fn is_evaluation(&self) -> bool {
        matches!(self, BackendRoute::ExplainCall | BackendRoute::WhatIf)
    }

    /// Completes the request with its body.
    pub(crate) fn with_body(self, body: &[u8]) -> Result<ConsoleRequest, ConsoleRequestError> {
        Ok(match self {
            BackendRoute::Complete(request) => *request,
            BackendRoute::StopAll => {
                let StopBody { reason } = parse_body(body)?;
                check_reason(reason.as_deref())?;
                ConsoleRequest::StopAll { reason }
            }
            BackendRoute::StopAgent => {
                let AgentBody {
                    pid,
                    session,
                    reason,
                } = parse_body(body)?;
                check_length("session", &session, MAX_SESSION)?;
                check_reason(reason.as_deref())?;
                ConsoleRequest::StopAgent {
                    pid,
                    session,
                    reason,
                }
            }
            BackendRoute::StartAgent => {
                let AgentBody { pid, session, .. } = parse_body(body)?;
                check_length("session", &session, MAX_SESSION)?;
                ConsoleRequest::StartAgent { pid, session }
            }
            BackendRoute::AnswerQuestion { id } => {
                let answer: QuestionAnswer = parse_body(body)?;
                check_length("fingerprint", &answer.fingerprint, MAX_NAME)?;
                check_reason(answer.reason.as_deref())?;
                check_patterns(answer.pattern.as_deref())?;
                ConsoleRequest::AnswerQuestion { id, answer }
            }
            BackendRoute::QuestionMatches { id } => {
                let MatchesBody { pattern } = parse_body(body)?;
                check_patterns(pattern.as_deref())?;
                ConsoleRequest::QuestionMatches { id, pattern }
            }
            BackendRoute::SwitchTool { name } => {
                let SwitchBody { on } = parse_body(body)?;
                ConsoleRequest::SwitchTool { name, on }
            }
            BackendRoute::TrustTool { name } => {
                let TrustBody { digest } = parse_body(body)?;
                check_length("digest", &digest, MAX_NAME)?;
                ConsoleRequest::TrustTool { name, digest }
            }
            BackendRoute::ExplainCall => {
                let ExplainBody {
                    tool,
                    arguments,
                    edit,
                } = parse_body(body)?;
                check_length("tool", &tool, MAX_NAME)?;
                edit.as_ref().map_or(Ok(()), check_edit)?;
                ConsoleRequest::ExplainCall {
                    tool,
                    arguments,
                    edit,
                }
            }
            BackendRoute::WhatIf => {
                let WhatIfBody { edit, days } = parse_body(body)?;
                check_edit(&edit)?;
                check_days(days)?;
                ConsoleRequest::WhatIf { edit, days }
            }
            BackendRoute::ProposeEdit => {
                let ProposeBody { edit } = parse_body(body)?;
                check_edit(&edit)?;
                ConsoleRequest::ProposeEdit { edit }
            }
            BackendRoute::ApplyEdit => {
                let ApplyBody { edit, digest } = parse_body(body)?;
                check_edit(&edit)?;
                check_length("digest", &digest, MAX_NAME)?;
                ConsoleRequest::ApplyEdit { edit, digest }
            }
        })
    }
}

/// Decodes a segment of a path. Segments that have a meaning in file paths are refused, whatever they name.
fn segment(encoded: &str) -> Result<String, ConsoleRequestError> {
    let decoded = percent_decode_str(encoded).decode_utf8();
    let decoded = decoded.map_err(|_| ConsoleRequestError::not_found())?;
    let has_meaning = |c: char| c.is_control() || matches!(c, '/' | '\\');
    let is_name = !decoded.is_empty()
        && decoded.len() <= MAX_NAME
        && !decoded.contains(has_meaning)
        && !decoded.chars().all(|c| c == '.');
    if is_name {
        Ok(decoded.into_owned())
    } else {
        Err(ConsoleRequestError::not_found())
    }
}

fn parse_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, ConsoleRequestError> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| {
        ConsoleRequestError::bad_request(format!("the body is not valid: {error}"))
    })
}

fn check_length(what: &str, text: &str, max: usize) -> Result<(), ConsoleRequestError> {
    if text.len() > max {
        let message = format!("`{what}` is longer than {max} bytes");
        return Err(ConsoleRequestError::bad_request(message));
    }
    Ok(())
}

fn check_reason(reason: Option<&str>) -> Result<(), ConsoleRequestError> {
    check_length("reason", reason.unwrap_or_default(), MAX_REASON)
}

fn check_patterns(patterns: Option<&[String]>) -> Result<(), ConsoleRequestError> {
    let patterns = patterns.unwrap_or_default();
    if patterns.len() > MAX_ITEMS {
        let message = format!("`pattern` has more than {MAX_ITEMS} items");
        return Err(ConsoleRequestError::bad_request(message));
    }
    patterns
        .iter()
        .try_for_each(|pattern| check_length("pattern", pattern, MAX_CONDITION))
}

fn check_edit(edit: &PolicyEdit) -> Result<(), ConsoleRequestError> {
    if edit.changes.is_empty() || edit.changes.len() > MAX_ITEMS {
        let message = format!("an edit has 1 to {MAX_ITEMS} changes");
        return Err(ConsoleRequestError::bad_request(message));
    }
    let mut length = 0;
    for change in &edit.changes {
        check_length("key", &change.key, MAX_CONDITION)?;
        length += match &change.yaml {
            Some(yaml) => yaml.len(),
            None => change.value.to_string().len(),
        };
    }
    if length > MAX_VALUES {
        let message = format!(
            "the values of an edit have {length} bytes: expected at most {MAX_VALUES}; edit the file itself"
        );
        return Err(ConsoleRequestError::bad_request(message));
    }
    Ok(())
}

fn default_days() -> u32 {
    7
}

fn check_days(days: u32) -> Result<(), ConsoleRequestError> {
    if (1..=MAX_DAYS).contains(&days) {
        return Ok(());
    }
    let message = format!("`days` is out of range: expected 1 to {MAX_DAYS}");
    Err(ConsoleRequestError::bad_request(message))
}

fn days_of(query: &str) -> Result<u32, ConsoleRequestError> {
    let mut days = default_days();
    for (name, value) in query_pairs(query)? {
        match name.as_str() {
            "days" => days = number("days", &value)?,
            _ => return Err(unknown_parameter(&name)),
        }
    }
    check_days(days)?;
    Ok(days)
}

fn record_filter(query: &str) -> Result<RecordFilter, ConsoleRequestError> {
    let mut filter = RecordFilter {
        limit: MAX_LINES,
        ..RecordFilter::default()
    };
    for (name, value) in query_pairs(query)? {
        check_length(&name, &value, MAX_CONDITION)?;
        let condition = match name.as_str() {
            "before" | "limit" if value.is_empty() => continue,
            "before" => {
                filter.before = Some(number("before", &value)?);
                continue;
            }
            "limit" => {
                filter.limit = number::<usize>("limit", &value)?.clamp(1, MAX_LINES);
                continue;
            }
            "tool" => &mut filter.tool,
            "outcome" => &mut filter.outcome,
            "code" => &mut filter.code,
            "decision" => &mut filter.decision,
            "event" => &mut filter.event,
            "session" => &mut filter.session,
            "client" => &mut filter.client,
            "host" => &mut filter.host,
            "file" => &mut filter.file,
            "text" => &mut filter.text,
            "since" => &mut filter.since,
            "until" => &mut filter.until,
            _ => return Err(unknown_parameter(&name)),
        };
        // A form sends its empty fields, too.
        *condition = Some(value).filter(|value| !value.is_empty());
    }
    Ok(filter)
}

fn no_query(query: &str) -> Result<(), ConsoleRequestError> {
    match query_pairs(query)?.first() {
        None => Ok(()),
        Some((name, _)) => Err(unknown_parameter(name)),
    }
}

/// Returns the parameters of a query. A repeated one is ambiguous.
fn query_pairs(query: &str) -> Result<Vec<(String, String)>, ConsoleRequestError> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if pairs.iter().any(|(known, _)| *known == name) {
            let message = format!("the parameter `{name}` is repeated");
            return Err(ConsoleRequestError::bad_request(message));
        }
        pairs.push((name.into_owned(), value.into_owned()));
    }
    Ok(pairs)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, ConsoleRequestError> {
    let message = || format!("`{name}` must be a number");
    value
        .parse()
        .map_err(|_| ConsoleRequestError::bad_request(message()))
}

fn unknown_parameter(name: &str) -> ConsoleRequestError {
    let name = mimir_core::text::prefix(name, 100);
    ConsoleRequestError::bad_request(format!("unknown parameter `{name}`"))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    fn status(method: Method, path: &str, query: &str) -> Result<ApiRoute, StatusCode> {
        parse_route(&method, path, query).map_err(|error| error.status)
    }

    #[test]
    fn routes_distinguish_methods_and_addresses() {
        let route = status(Method::GET, "tools/fetch", "");
        let name = "fetch".to_owned();
        let request = ConsoleRequest::ToolDetails { name };
        assert_eq!(route, Ok(ApiRoute::Backend(complete(request))));
        for (method, path, expected) in [
            (Method::GET, "stop", StatusCode::METHOD_NOT_ALLOWED),
            (Method::GET, "login", StatusCode::METHOD_NOT_ALLOWED),
            (Method::POST, "state", StatusCode::METHOD_NOT_ALLOWED),
            (Method::PUT, "state", StatusCode::METHOD_NOT_ALLOWED),
            (Method::DELETE, "undo/1", StatusCode::METHOD_NOT_ALLOWED),
            (Method::GET, "", StatusCode::NOT_FOUND),
            (Method::GET, "unknown", StatusCode::NOT_FOUND),
            (Method::GET, "state/", StatusCode::NOT_FOUND),
            (Method::GET, "/state", StatusCode::NOT_FOUND),
            (Method::POST, "servers/x/kill", StatusCode::NOT_FOUND),
            (Method::POST, "approvals//revoke", StatusCode::NOT_FOUND),
            (Method::POST, "approvals/revoke", StatusCode::NOT_FOUND),
            (
                Method::GET,
                "approvals/a/revoke",
                StatusCode::METHOD_NOT_ALLOWED,
            ),
        ] {
            assert_eq!(
                status(method.clone(), path, ""),
                Err(expected),
                "{method} {path}"
            );
        }
    }

    #[test]
    fn routes_refuse_path_traversal() {
        for path in [
            "undo/..",
            "undo/%2e%2e",
            "undo/.",
            "undo/..%2f..%2fetc",
            "undo/a%2Fb",
            "undo/a%5cb",
            "undo/a%00",
            "undo/%ff",
            "tools//switch",
            "../index.html",
        ] {
            assert_eq!(
                status(Method::GET, path, ""),
                Err(StatusCode::NOT_FOUND),
                "{path}"
            );
        }
        let long = format!("undo/{}", "x".repeat(257));
        assert_eq!(status(Method::GET, &long, ""), Err(StatusCode::NOT_FOUND));
    }

    #[test]
    fn routes_read_record_filters() {
        let query =
            "tool=a%20b&decision=&before=7&limit=5000&text=%F0%9F%A6%80&client=b&code=TIMEOUT";
        let Ok(ApiRoute::Backend(BackendRoute::Complete(request))) =
            status(Method::GET, "record", query)
        else {
            panic!("not a request");
        };
        let ConsoleRequest::Record(filter) = *request else {
            panic!("not a filter");
        };
        let expected = RecordFilter {
            tool: Some("a b".to_owned()),
            before: Some(7),
            limit: 200,
            text: Some("🦀".to_owned()),
            client: Some("b".to_owned()),
            code: Some("TIMEOUT".to_owned()),
            ..RecordFilter::default()
        };
        assert_eq!(filter, expected);
        for query in ["limit=x", "before=-1", "tool=a&tool=b", "path=/etc", "a"] {
            assert_eq!(
                status(Method::GET, "record", query),
                Err(StatusCode::BAD_REQUEST),
                "{query}"
            );
        }
        let long = format!("text={}", "x".repeat(1025));
        assert_eq!(
            status(Method::GET, "record", &long),
            Err(StatusCode::BAD_REQUEST)
        );
        for query in ["days=0", "days=91", "days=1&x=1"] {
            assert_eq!(
                status(Method::GET, "record/charts", query),
                Err(StatusCode::BAD_REQUEST)
            );
        }
    }

    #[test]
    fn routes_read_bodies() {
        let answer = |body: Value| {
            let route = BackendRoute::AnswerQuestion { id: "q".to_owned() };
            route.with_body(body.to_string().as_bytes())
        };
        assert!(answer(json!({"fingerprint": "f", "answer": "once"})).is_ok());
        assert!(answer(json!({"fingerprint": "f", "answer": "once", "preview": "d"})).is_ok());
        let one = answer(json!({"fingerprint": "f", "answer": "always", "pattern": "git *"}));
        let Ok(ConsoleRequest::AnswerQuestion { answer: given, .. }) = one else {
            panic!("not an answer");
        };
        assert_eq!(given.pattern, Some(vec!["git *".to_owned()]));
        for body in [
            json!({"answer": "once"}),
            json!({"fingerprint": "f", "answer": "yes"}),
            json!({"fingerprint": "f", "answer": "once", "role": "admin"}),
            json!({"fingerprint": "f", "answer": "once", "preview": {"diff": []}}),
            json!({"fingerprint": "f", "answer": "no", "reason": "x".repeat(2001)}),
            json!({"fingerprint": "f", "answer": "always", "pattern": vec!["x"; 101]}),
            json!([]),
        ] {
            assert!(answer(body.clone()).is_err(), "{body}");
        }
        assert!(BackendRoute::StopAll.with_body(b"").is_ok());
        let edit = |changes: Value| {
            let body = json!({"edit": {"file": "user", "changes": changes}, "digest": "d"});
            BackendRoute::ApplyEdit.with_body(body.to_string().as_bytes())
        };
        assert!(edit(json!([{"key": "a", "value": null}])).is_ok());
        assert!(edit(json!([])).is_err());
        assert!(edit(json!([{"key": "a", "yaml": "[x]"}])).is_ok());
        // A value that was forgotten does not remove the key.
        assert!(edit(json!([{"key": "a"}])).is_err());
    }
}
