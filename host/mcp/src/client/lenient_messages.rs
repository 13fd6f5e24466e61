//! Repair of malformed responses of servers: the waiting caller gets the server's error message, or a description of
//! the fault, instead of a timeout.
//!
//! Out of scope: the handling of an error.

use rmcp::model::ServerJsonRpcMessage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// Error code for generic server errors, used if the server's code is not valid.
const SERVER_ERROR_CODE: i32 = -32_000;

/// Parses a message of a server.
pub(super) fn parse_message(message: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    serde_json::from_slice(message).or_else(|error| match response_id(message) {
        Some(id) => serde_json::from_value(error_response(message, id, &error)),
        None => Err(error),
    })
}

/// Returns an error response in the protocol's form if the message is a malformed response.
pub(super) fn repair_reply(message: &[u8]) -> Option<Value> {
    let id = response_id(message)?;
    let read: Result<ServerJsonRpcMessage, _> = serde_json::from_slice(message);
    Some(error_response(message, id, &read.err()?))
}

/// Members of a message that are examined first. Other values are skipped, because they may contain numbers that do not
/// parse.
#[derive(Deserialize)]
struct MessageHead {
    id: Option<Value>,
    method: Option<IgnoredAny>,
    jsonrpc: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Returns the id of the request that a message answers, if it is a response with an id.
fn response_id(message: &[u8]) -> Option<Value> {
    let head: MessageHead = serde_json::from_slice(message).ok()?;
    // A JSON log line on stdout may have an `id`, too.
    let is_message = head.jsonrpc.or(head.result).or(head.error).is_some();
    let id = head.id.filter(|_| head.method.is_none() && is_message)?;
    (id.is_i64() || id.is_string()).then_some(id)
}

/// Returns the replacement of a malformed response: the server's error message, or a description of the fault.
fn error_response(message: &[u8], id: Value, parse_error: &serde_json::Error) -> Value {
    let parsed = serde_json::from_slice::<Value>(message);
    let parsed = parsed
        .as_ref()
        .ok()
        .filter(|parsed| parsed.get("result").is_none());
    let mut error = match parsed.and_then(|parsed| parsed.get("error")) {
        Some(error) if !error.is_null() => convert_error(error),
        _ => {
            json!({"code": SERVER_ERROR_CODE, "message": format!("invalid answer: {}", describe_fault(message, parse_error))})
        }
    };
    if error["message"] == "" {
        error["message"] = "no reason given".into();
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// Converts an error to the protocol's form.
fn convert_error(error: &Value) -> Value {
    let code = error.get("code").and_then(Value::as_i64);
    let code = code.and_then(|code| i32::try_from(code).ok());
    let message = match (error.get("message").and_then(Value::as_str), error) {
        (Some(message), _) => message.to_owned(),
        (None, Value::String(message)) => message.clone(),
        (None, other) => other.to_string(),
    };
    let message = match (code, error.get("code")) {
        (None, Some(code)) => format!("{message} (its code is {code})"),
        _ => message,
    };
    let mut converted = json!({ "code": code.unwrap_or(SERVER_ERROR_CODE), "message": message });
    if let Some(data) = error.get("data") {
        converted["data"] = data.clone();
    }
    converted
}

/// Describes the fault in a response.
fn describe_fault(message: &[u8], parse_error: &serde_json::Error) -> String {
    let parsed: Value = match serde_json::from_slice(message) {
        Ok(parsed) => parsed,
        Err(error) => return error.to_string(),
    };
    let (version, result) = (parsed.get("jsonrpc"), parsed.get("result"));
    match (version.and_then(Value::as_str), result) {
        (Some("2.0"), None) => "neither a `result` nor an `error` is present".to_owned(),
        (Some("2.0"), Some(_)) => parse_error.to_string(),
        (None, _) => "no `jsonrpc: \"2.0\"` is present".to_owned(),
        (Some(other), _) => {
            let other = mimir_core::text::prefix(other, 20);
            format!("`jsonrpc` is \"{other}\" instead of \"2.0\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(error: &str) -> Option<(i32, String)> {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error}}}");
        match parse_message(text.as_bytes()) {
            Ok(ServerJsonRpcMessage::Error(answer)) => {
                Some((answer.error.code.0, answer.error.message.into_owned()))
            }
            _ => None,
        }
    }

    #[test]
    fn errors_of_another_form_keep_their_message() {
        let words = |words: &str| Some((SERVER_ERROR_CODE, words.to_owned()));
        assert_eq!(
            parsed(r#"{"code": 99999999999, "message": "over"}"#),
            words("over (its code is 99999999999)")
        );
        assert_eq!(
            parsed(r#"{"code": "E_NO", "message": "no"}"#),
            words("no (its code is \"E_NO\")")
        );
        assert_eq!(parsed(r#""just words""#), words("just words"));
        assert_eq!(parsed(r#"{"message": "no code"}"#), words("no code"));
        // A valid error is unchanged.
        let good = r#"{"code": -32602, "message": "wrong"}"#;
        assert_eq!(parsed(good), Some((-32_602, "wrong".to_owned())));
    }

    #[test]
    fn errors_repair_responses_only() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"x","params":{"error":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"error":{"code":1e99}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","error":{}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":1e99}}"#,
            r#"{"level":30,"time":1,"id":1,"msg":"up"}"#,
            r#"{"error"#,
            r#""error""#,
        ] {
            assert_eq!(repair_reply(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn errors_describe_an_invalid_response() {
        let long = "x".repeat(100 << 10);
        let long =
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":"E","message":"{long}"}}}}"#);
        for (text, words) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1e400,"message":"no"}}"#,
                "number out of range",
            ),
            (r#"{"jsonrpc":"2.0","id":1}"#, "neither a `result` nor"),
            (r#"{"id":1,"result":{"content":[]}}"#, "no `jsonrpc"),
            (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, "is \"1.0\""),
            (r#"{"jsonrpc":"2.0","id":1,"error":null}"#, "neither a"),
            (&long, "xxx"),
        ] {
            let Ok(ServerJsonRpcMessage::Error(answer)) = parse_message(text.as_bytes()) else {
                panic!("{} hangs", &text[..80.min(text.len())]);
            };
            assert!(
                answer.error.message.contains(words),
                "{}",
                answer.error.message
            );
            assert_eq!(answer.id, Some(rmcp::model::RequestId::Number(1)));
            assert!(repair_reply(text.as_bytes()).is_some(), "{words}");
        }
    }
}
