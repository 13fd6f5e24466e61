//! The result of a call: the server's response as output, or as an error with status and body.

use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::{ToolError, ToolErrorCode, text};
use mimir_wasm::ApiResponse;
use serde_json::{Value, json};

use super::exact_numbers::quote_inexact_numbers;

/// Maximum length of the body in an error message, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// Maximum length of the body in the details of an error, in characters.
const MAX_DETAIL_CHARS: usize = 8_000;

/// Converts a response. A status that is not a success is an error.
pub(crate) fn tool_result(response: ApiResponse) -> Result<ToolOutput, ToolError> {
    if !(200..300).contains(&response.status) {
        return Err(status_error(&response));
    }
    let media_type = essence(&response);
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    let parsed: Option<Value> = if is_json || media_type.is_empty() {
        serde_json::from_slice(&response.body).ok()
    } else {
        None
    };
    let status = response.status;
    let content = match std::str::from_utf8(&response.body) {
        Ok(body) if parsed.is_some() => Content::text(compact_json(body)),
        Ok("") => Content::text(format!("{status}, without content")),
        Ok(body) => Content::text(body),
        Err(_) => file_content(media_type, response.body.to_vec()),
    };
    let structured = match (&parsed, &content) {
        (Some(Value::Object(_)), Content::Text { text }) => {
            serde_json::from_str(&quote_inexact_numbers(text)).ok()
        }
        _ => None,
    };
    Ok(ToolOutput {
        content: vec![content],
        structured,
        exit_code: None,
    })
}

/// Returns valid JSON without spaces and unneeded escapes. Numbers stay as the server wrote them: parsing would round
/// long ones, such as amounts and ids.
fn compact_json(json: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(quote) = rest.find('"') {
        let (tokens, tail) = rest.split_at(quote);
        out.extend(tokens.chars().filter(|c| !c.is_ascii_whitespace()));
        let (string, after) = tail.split_at(string_length(tail));
        if string.contains('\\')
            && let Ok(text) = serde_json::from_str::<String>(string)
        {
            out.push_str(&Value::from(text).to_string());
        } else {
            out.push_str(string);
        }
        rest = after;
    }
    out.extend(rest.chars().filter(|c| !c.is_ascii_whitespace()));
    out
}

/// Returns the length in bytes of the JSON string that begins a text, with its quotes.
pub(super) fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn essence(response: &ApiResponse) -> String {
    let content_type = response.content_type.as_deref().unwrap_or_default();
    content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

fn file_content(media_type: String, data: Vec<u8>) -> Content {
    let mime_type = if super::api_file::is_media_type(&media_type) {
        media_type
    } else {
        "application/octet-stream".to_owned()
    };
    if mime_type.starts_with("image/") {
        Content::Image { data, mime_type }
    } else if mime_type.starts_with("audio/") {
        Content::Audio { data, mime_type }
    } else {
        let name = "response".to_owned();
        Content::File {
            data,
            mime_type,
            name,
        }
    }
}

fn status_error(response: &ApiResponse) -> ToolError {
    let code = match response.status {
        400 | 405..=408 | 411..=422 => ToolErrorCode::InvalidInput,
        401 | 403 => ToolErrorCode::PermissionDenied,
        404 | 410 => ToolErrorCode::NotFound,
        409 => ToolErrorCode::AlreadyExists,
        429 => ToolErrorCode::LimitExceeded,
        500..=599 => ToolErrorCode::Unavailable,
        _ => ToolErrorCode::ExecutionError,
    };
    let body = String::from_utf8_lossy(&response.body);
    let details = match serde_json::from_slice::<Value>(&response.body) {
        Ok(value) if body.len() <= MAX_DETAIL_CHARS => value,
        _ => text::prefix(&body, MAX_DETAIL_CHARS).into(),
    };
    let mut shown = text::visible(text::prefix(body.trim(), MAX_MESSAGE_CHARS));
    if body.trim().chars().count() > MAX_MESSAGE_CHARS {
        shown.push('…');
    }
    let status = response.status;
    let message = match shown.as_str() {
        "" => format!("the server responded with status {status}"),
        shown => format!("the server responded with status {status}: {shown}"),
    };
    let mut details = json!({ "status": status, "body": details });
    if let Some(seconds) = &response.retry_after {
        details["retryAfter"] = text::visible(text::prefix(seconds, 100)).into();
    }
    ToolError::new(code, message).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, content_type: Option<&str>, body: &[u8]) -> ApiResponse {
        ApiResponse {
            status,
            content_type: content_type.map(str::to_owned),
            retry_after: (status == 429).then(|| "30".to_owned()),
            body: body.to_vec().into(),
        }
    }

    #[test]
    fn openapi_response_is_parsed_by_its_type() {
        for (content_type, body, expected) in [
            (
                Some("application/json; charset=utf-8"),
                &b"{ \"a\": 1 }"[..],
                "{\"a\":1}",
            ),
            (Some("application/problem+json"), b"[ ]", "[]"),
            (Some("text/plain"), b"{ }", "{ }"),
            (Some("application/json"), b"not JSON", "not JSON"),
            (None, b"", "200, without content"),
        ] {
            let output = tool_result(response(200, content_type, body)).unwrap();
            assert_eq!(output.content, [Content::text(expected)]);
        }
        let numbers = r#"{ "price": 1.10, "big": 123456789012345678901234567890, "t\u0065xt": "a \" \/ \\" }"#;
        let output =
            tool_result(response(200, Some("application/json"), numbers.as_bytes())).unwrap();
        let compact = r#"{"price":1.10,"big":123456789012345678901234567890,"text":"a \" / \\"}"#;
        assert_eq!(output.content, [Content::text(compact)]);
        let structured = output.structured.unwrap();
        assert_eq!(structured["price"], 1.1);
        assert_eq!(structured["big"], "123456789012345678901234567890");
        let output = tool_result(response(200, Some("image/png"), b"\x89PNG\xff")).unwrap();
        assert!(
            matches!(&output.content[0], Content::Image { mime_type, .. } if mime_type == "image/png")
        );
        let output = tool_result(response(200, Some("a/b\r\nc"), b"\xff")).unwrap();
        assert!(
            matches!(&output.content[0], Content::File { mime_type, .. } if mime_type == "application/octet-stream")
        );
    }

    #[test]
    fn openapi_errors_have_status_body_and_code() {
        for (status, code) in [
            (302, ToolErrorCode::ExecutionError),
            (401, ToolErrorCode::PermissionDenied),
            (404, ToolErrorCode::NotFound),
            (409, ToolErrorCode::AlreadyExists),
            (422, ToolErrorCode::InvalidInput),
            (429, ToolErrorCode::LimitExceeded),
            (503, ToolErrorCode::Unavailable),
        ] {
            let error = tool_result(response(status, None, b"{\"why\": \"\\u202e\"}")).unwrap_err();
            assert_eq!(error.code, code, "{status}");
            let details = error.details.unwrap();
            assert_eq!(
                (details["status"].as_u64(), details["body"]["why"].as_str()),
                (Some(status.into()), Some("\u{202e}"))
            );
            assert_eq!(details["retryAfter"].is_string(), status == 429);
        }
    }
}
