//! Errors of servers that are written in another form than the protocol's: whoever waits is told what the server said,
//! and does not wait until the time is up.
//!
//! Never here: what is made of an error.

use rmcp::model::ServerJsonRpcMessage;
use serde_json::Value;

/// Bytes of an error: a longer one is left as it is.
const ERROR_MOST: usize = 64 << 10;

/// The code of an error whose own is none: that of servers' errors at large.
const ANY: i32 = -32_000;

/// A message of a server's.
pub(super) fn read(message: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    serde_json::from_slice(message).or_else(|error| match mended(message) {
        Some(message) => serde_json::from_value(message),
        None => Err(error),
    })
}

/// The message with its error in the protocol's form, if it is an error that is not.
pub(super) fn mended(message: &[u8]) -> Option<Value> {
    const KEY: &[u8] = b"\"error\"";
    if message.len() > ERROR_MOST || !message.windows(KEY.len()).any(|part| part == KEY) {
        return None;
    }
    let mut message: Value = serde_json::from_slice(message).ok()?;
    let answers = message.get("method").is_none() && message.get("result").is_none();
    let error = message.get_mut("error").filter(|_| answers)?;
    let code = error.get("code").and_then(Value::as_i64);
    let code = code.and_then(|code| i32::try_from(code).ok());
    let words = error.get("message").and_then(Value::as_str);
    if code.is_some() && words.is_some() {
        return None;
    }
    let words = match (words, &*error) {
        (Some(words), _) => words.to_owned(),
        (None, Value::String(words)) => words.clone(),
        (None, other) => other.to_string(),
    };
    let words = match (code, error.get("code")) {
        (None, Some(theirs)) => format!("{words} (its code is {theirs})"),
        _ => words,
    };
    let data = error.get("data").cloned();
    *error = serde_json::json!({ "code": code.unwrap_or(ANY), "message": words });
    if let Some(data) = data {
        error["data"] = data;
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: &str) -> Option<(i32, String)> {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error}}}");
        match read(text.as_bytes()) {
            Ok(ServerJsonRpcMessage::Error(answer)) => {
                Some((answer.error.code.0, answer.error.message.into_owned()))
            }
            _ => None,
        }
    }

    #[test]
    fn an_error_of_another_form_says_what_it_says() {
        let words = |words: &str| Some((ANY, words.to_owned()));
        assert_eq!(
            told(r#"{"code": 99999999999, "message": "over"}"#),
            words("over (its code is 99999999999)")
        );
        assert_eq!(
            told(r#"{"code": "E_NO", "message": "no"}"#),
            words("no (its code is \"E_NO\")")
        );
        assert_eq!(told(r#""just words""#), words("just words"));
        assert_eq!(told(r#"{"message": "no code"}"#), words("no code"));
        // What is as it should be stays so.
        let good = r#"{"code": -32602, "message": "wrong"}"#;
        assert_eq!(told(good), Some((-32_602, "wrong".to_owned())));
    }

    #[test]
    fn nothing_else_is_made_an_answer() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"x","params":{"error":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"error":{"code":1e99}}}"#,
            r#"{"error"#,
            r#""error""#,
        ] {
            assert_eq!(mended(text.as_bytes()), None, "{text}");
        }
    }
}
