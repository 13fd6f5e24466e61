//! URLs of API servers: variables, relative URLs, and the host pattern that a tool needs.

use mimir_core::network::{RequestTarget, UrlScheme};
use mimir_core::{ToolError, text};
use serde_json::Value;

/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 4_096;

/// The base URL of an API, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    base: String,
    target: RequestTarget,
}

fn invalid(url: &str, why: impl std::fmt::Display) -> ToolError {
    let url = text::visible(text::prefix(url, 200));
    ToolError::invalid_input(format!(
        "the server URL `{url}` is not valid: {why}; name the server with `--server URL`"
    ))
}

impl ServerUrl {
    /// Parses an absolute URL.
    pub(crate) fn parse(url: &str) -> Result<Self, ToolError> {
        if url.contains(['?', '#']) {
            return Err(invalid(url, "expected a URL without query and fragment"));
        }
        if url.contains(['{', '}']) {
            return Err(invalid(url, "a variable has no default"));
        }
        let target = RequestTarget::parse(url).map_err(|error| invalid(url, error))?;
        let base = target.to_string();
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            target,
        })
    }

    /// Converts an entry of `servers`. `document` is the URL of the document, to which relative URLs refer.
    pub(crate) fn from_entry(entry: &Value, document: Option<&str>) -> Result<Self, ToolError> {
        let url = fill_variables(entry)?;
        if url.contains("://") {
            return Self::parse(&url);
        }
        let Some(document) = document else {
            return Err(invalid(&url, "it is relative, and the document is a file"));
        };
        let document = RequestTarget::parse(document).map_err(|error| invalid(document, error))?;
        let joined = document.join(&url).map_err(|error| invalid(&url, error))?;
        Self::parse(&joined.to_string())
    }

    /// Returns the base URL, without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the parsed URL.
    pub(crate) fn target(&self) -> &RequestTarget {
        &self.target
    }

    /// Returns the host pattern of the needs.
    pub(crate) fn host_pattern(&self) -> String {
        let origin = self.target.origin().to_string();
        match (self.target.scheme(), self.target.port()) {
            (UrlScheme::Https, 443) => origin.trim_start_matches("https://").to_owned(),
            _ => origin,
        }
    }
}

/// Returns the URL of an entry with the defaults of its variables. A variable without a default stays as it is.
fn fill_variables(entry: &Value) -> Result<String, ToolError> {
    let template = entry["url"].as_str().unwrap_or("/");
    let check_length = |length: usize| {
        if length > MAX_URL_BYTES {
            return Err(invalid(template, "it is too long"));
        }
        Ok(())
    };
    check_length(template.len())?;
    let (mut url, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else {
            break;
        };
        url.push_str(before);
        match &entry["variables"][name]["default"] {
            Value::String(default) => {
                check_length(url.len() + default.len())?;
                url.push_str(default);
            }
            Value::Number(number) => url.push_str(&number.to_string()),
            _ => url.push_str(&format!("{{{name}}}")),
        }
        rest = tail;
    }
    url.push_str(rest);
    check_length(url.len())?;
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn openapi_server_url_fills_in_defaults() {
        let entry = json!({
            "url": "https://{region}.example.com:{port}/v1/",
            "variables": {"region": {"default": "eu"}, "port": {"default": 8443}}
        });
        let server = ServerUrl::from_entry(&entry, None).unwrap();
        assert_eq!(server.base(), "https://eu.example.com:8443/v1");
        assert_eq!(server.host_pattern(), "https://eu.example.com:8443");
        let server = ServerUrl::parse("https://api.example.com").unwrap();
        assert_eq!(
            (server.base(), server.host_pattern().as_str()),
            ("https://api.example.com", "api.example.com")
        );
    }

    #[test]
    fn openapi_server_url_is_relative_to_the_document() {
        let entry = json!({"url": "/v2"});
        let server =
            ServerUrl::from_entry(&entry, Some("https://example.com/docs/api.json")).unwrap();
        assert_eq!(server.base(), "https://example.com/v2");
        let error = ServerUrl::from_entry(&entry, None).unwrap_err();
        assert!(error.message.contains("--server URL"), "{error}");
    }

    #[test]
    fn openapi_server_url_rejects_tricks() {
        for url in [
            "https://safe.example@evil.example/",
            "https://{host}/",
            "file:///etc/passwd",
            "https://example.com/?a=b",
            "https://example.com/#a",
            "https://exa mple.com/",
            "https://example.com\\@evil.example/",
            "ws://example.com",
            "https://example.com/\r\nx: y",
        ] {
            assert!(ServerUrl::parse(url).is_err(), "{url}");
        }
    }
}
