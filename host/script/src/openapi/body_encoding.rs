//! Encoding of request bodies: JSON, forms, multipart, text and files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::{ToolError, text};
use serde_json::Value;

use super::api_file::{ApiBody, BodyField, ParameterStyle};
use super::parameter_encoding::{encode_percent, plain_text, query_pairs};

/// Maximum size of a body in bytes.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Form of a body, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    Form,
    Multipart,
    Text,
    Binary,
}

impl BodyKind {
    /// Returns the form of bodies of this type.
    pub(crate) fn of(media_type: &str) -> Self {
        let essence = media_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        match essence.as_str() {
            "application/json" | "*/*" | "application/*" => Self::Json,
            "application/x-www-form-urlencoded" => Self::Form,
            "application/xml"
            | "application/yaml"
            | "application/graphql"
            | "application/x-ndjson" => Self::Text,
            kind if kind.ends_with("+json") => Self::Json,
            kind if kind.starts_with("multipart/") => Self::Multipart,
            kind if kind.starts_with("text/")
                || kind.ends_with("+xml")
                || kind.ends_with("+yaml") =>
            {
                Self::Text
            }
            _ => Self::Binary,
        }
    }
}

/// Returns the value of `Content-Type` and the bytes of a body.
pub(crate) fn encode_body(body: &ApiBody, value: &Value) -> Result<(String, Vec<u8>), ToolError> {
    let media_type = match body.media_type.as_str() {
        "*/*" | "application/*" => "application/json",
        other => other,
    };
    let own_type = media_type.to_owned();
    let (content_type, bytes) = match BodyKind::of(media_type) {
        BodyKind::Json => (own_type, value.to_string().into_bytes()),
        BodyKind::Form => (own_type, encode_form(body, value)?.into_bytes()),
        BodyKind::Multipart => encode_multipart(body, media_type, value)?,
        BodyKind::Text => (own_type, plain_text(value).into_bytes()),
        BodyKind::Binary => (own_type, decode_file(&body.argument, value)?),
    };
    if bytes.len() > MAX_BODY_BYTES {
        return Err(ToolError::limit_exceeded(format!(
            "the argument `{}` is too large: expected at most {}",
            text::visible(&body.argument),
            text::bytes(MAX_BODY_BYTES as u64)
        )));
    }
    Ok((content_type, bytes))
}

fn members<'a>(
    body: &ApiBody,
    value: &'a Value,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, ToolError> {
    match value.as_object() {
        Some(members) => Ok(members.iter().filter(|(_, value)| !value.is_null())),
        None => Err(ToolError::invalid_input(format!(
            "the argument `{}` is not valid: expected an object with the fields of the form",
            text::visible(&body.argument)
        ))),
    }
}

fn encode_form(body: &ApiBody, value: &Value) -> Result<String, ToolError> {
    let mut pairs = Vec::new();
    for (name, value) in members(body, value)? {
        let field = body.fields.get(name);
        let style = field.and_then(|field| field.style);
        let style = style.unwrap_or(match value {
            // The specification leaves nested values open; JSON keeps all of them.
            Value::Object(_) => ParameterStyle::Json,
            _ => ParameterStyle::Form,
        });
        let explodes = field.and_then(|field| field.explode);
        let explodes = explodes.unwrap_or(style == ParameterStyle::Form);
        pairs.extend(query_pairs(name, value, (style, explodes, false)));
    }
    Ok(pairs.join("&"))
}

fn decode_file(argument: &str, value: &Value) -> Result<Vec<u8>, ToolError> {
    let text = value.as_str().unwrap_or_default();
    if text.len() / 4 * 3 > MAX_BODY_BYTES {
        return Err(ToolError::limit_exceeded(format!(
            "the argument `{}` is too large: expected a file of at most {}",
            text::visible(argument),
            text::bytes(MAX_BODY_BYTES as u64)
        )));
    }
    STANDARD.decode(text).map_err(|_| {
        let argument = text::visible(argument);
        ToolError::invalid_input(format!(
            "the argument `{argument}` is not valid: expected a file in base64"
        ))
    })
}

fn encode_multipart(
    body: &ApiBody,
    media_type: &str,
    value: &Value,
) -> Result<(String, Vec<u8>), ToolError> {
    let default = BodyField::default();
    let mut parts: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, value) in members(body, value)? {
        let field = body.fields.get(name).unwrap_or(&default);
        let items = match value {
            Value::Array(items) => items.iter().collect(),
            value => vec![value],
        };
        // Quotes and line ends cannot occur in an encoded name.
        let name = encode_percent(name, b" []()!#$&'*+,/:;=?@^`{|}<>");
        for item in items {
            let mut head = format!("Content-Disposition: form-data; name=\"{name}\"");
            let (kind, bytes) = if field.file {
                head.push_str(&format!("; filename=\"{name}\""));
                (Some("application/octet-stream"), decode_file(&name, item)?)
            } else if item.is_object() || item.is_array() {
                (Some("application/json"), item.to_string().into_bytes())
            } else {
                (None, plain_text(item).into_bytes())
            };
            let kind = field
                .media_type
                .as_deref()
                .filter(|kind| !kind.contains(['*', ',']))
                .or(kind);
            if let Some(kind) = kind {
                head.push_str(&format!("\r\nContent-Type: {kind}"));
            }
            parts.push((head, bytes));
        }
    }
    let boundary = unused_boundary(&parts);
    let mut bytes = Vec::new();
    for (head, content) in &parts {
        bytes.extend_from_slice(format!("--{boundary}\r\n{head}\r\n\r\n").as_bytes());
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("{media_type}; boundary={boundary}"), bytes))
}

/// Returns a boundary that does not occur in the parts.
fn unused_boundary(parts: &[(String, Vec<u8>)]) -> String {
    use std::hash::{BuildHasher as _, RandomState};
    loop {
        let boundary = format!("mimir-{:016x}", RandomState::new().hash_one(0));
        let occurs = |bytes: &[u8]| {
            bytes
                .windows(boundary.len())
                .any(|window| window == boundary.as_bytes())
        };
        if !parts.iter().any(|(_, bytes)| occurs(bytes)) {
            return boundary;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(media_type: &str, fields: Value) -> ApiBody {
        serde_json::from_value(json!({"argument": "body", "type": media_type, "fields": fields}))
            .unwrap()
    }

    fn encoded(body: &ApiBody, value: &Value) -> (String, String) {
        let (kind, bytes) = encode_body(body, value).unwrap();
        (kind, String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn openapi_bodies_are_encoded_by_media_type() {
        let value = json!({"a": "x&y", "b": [1, 2], "c": {"d": "e"}, "none": null});
        let form = body(
            "application/x-www-form-urlencoded",
            json!({"c": {"style": "deepObject"}}),
        );
        assert_eq!(encoded(&form, &value).1, "a=x%26y&b=1&b=2&c[d]=e");
        let form = body("application/x-www-form-urlencoded", json!({}));
        assert_eq!(
            encoded(&form, &value).1,
            "a=x%26y&b=1&b=2&c=%7B%22d%22%3A%22e%22%7D"
        );
        let patch = body("application/merge-patch+json", json!({}));
        assert_eq!(
            encoded(&patch, &json!({"a": 1})),
            ("application/merge-patch+json".into(), "{\"a\":1}".into())
        );
        assert_eq!(
            encoded(&body("*/*", json!({})), &json!([1])),
            ("application/json".into(), "[1]".into())
        );
        assert_eq!(
            encoded(&body("text/plain", json!({})), &json!("hé")).1,
            "hé"
        );
        assert_eq!(
            encoded(&body("application/octet-stream", json!({})), &json!("AAE=")).1,
            "\0\u{1}"
        );
        let invalid = encode_body(&body("image/png", json!({})), &json!("no base64")).unwrap_err();
        assert!(invalid.message.contains("base64"), "{invalid}");
        let large = json!("A".repeat(MAX_BODY_BYTES * 4 / 3 + 8));
        let error = encode_body(&body("image/png", json!({})), &large).unwrap_err();
        assert_eq!(error.code, mimir_core::ToolErrorCode::LimitExceeded);
    }

    #[test]
    fn openapi_multipart_parts_cannot_add_headers() {
        let upload = body(
            "multipart/form-data",
            json!({"file": {"file": true, "type": "image/png"}}),
        );
        let value = json!({"file": "aGk=", "tags": ["a", "b"], "x\"\r\nEvil: 1": {"y": 1}});
        let (kind, text) = encoded(&upload, &value);
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        assert_eq!(text.matches(boundary).count(), 5, "{text}");
        assert!(
            text.contains(
                "name=\"file\"; filename=\"file\"\r\nContent-Type: image/png\r\n\r\nhi\r\n"
            ),
            "{text}"
        );
        assert_eq!(text.matches("name=\"tags\"\r\n\r\n").count(), 2, "{text}");
        assert!(
            text.contains(
                "name=\"x%22%0D%0AEvil: 1\"\r\nContent-Type: application/json\r\n\r\n{\"y\":1}"
            ),
            "{text}"
        );
        assert!(!text.contains("\r\nEvil"), "{text}");
    }
}
