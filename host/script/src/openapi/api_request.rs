//! The request of a call: the URL, headers and body that the arguments determine.

use bytes::Bytes;
use mimir_core::network::RequestTarget;
use mimir_core::{ToolError, text};
use mimir_wasm::ApiRequest;
use serde_json::{Map, Value};

use super::api_file::{ApiOperation, ApiParameter, ParameterLocation};
use super::body_encoding::encode_body;
use super::parameter_encoding::{
    cookie_pairs, encode_percent, header_text, path_text, query_pairs,
};
use super::server_url::ServerUrl;

/// Characters of a fixed query that stay as the document has them.
const QUERY_CHARACTERS: &[u8] = b"/:@!$&'()*+,;=%[]";

/// Characters of a path that stay as the document has them.
const PATH_CHARACTERS: &[u8] = b"/:@!$&'()*+,;=%";

/// Maximum length of a path with variables in bytes.
const MAX_PATH_BYTES: usize = 1_000;

/// Returns true for a path that can be sent. It may have a fixed query, as in `/messages?beta=true`.
pub(crate) fn is_usable_path(path: &str) -> bool {
    let (own_path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_plain = |text: &str| !text.contains(|c: char| c.is_control() || "?#\\ ".contains(c));
    path.len() <= MAX_PATH_BYTES
        && is_plain(own_path)
        && is_plain(query)
        && !query.contains(['{', '}'])
}

/// Returns the names of the variables in a path.
pub(crate) fn path_variables(path: &str) -> Vec<&str> {
    let parts = path.split('{').skip(1);
    parts
        .filter_map(|part| part.split_once('}'))
        .map(|(name, _)| name)
        .collect()
}

/// Builds the request of an operation. `secrets` are headers with their values, which contain placeholders.
///
/// # Errors
///
/// Returns `INVALID_INPUT` if an argument cannot be sent, or would change another part of the request than its own.
pub(crate) fn build_request(
    operation: &ApiOperation,
    server: &ServerUrl,
    arguments: &Map<String, Value>,
    secrets: Vec<(String, String)>,
) -> Result<ApiRequest, ToolError> {
    let Some((method, template)) = operation.method_and_path() else {
        return Err(ToolError::internal(
            "the request of the operation is not valid",
        ));
    };
    let (template, fixed_query) = match template.split_once('?') {
        Some((template, query)) => (template, Some(query)),
        None => (template, None),
    };
    let path = fill_path(operation, template, arguments)?;
    let (mut query, mut headers, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
    query.extend(fixed_query.map(|query| encode_percent(query, QUERY_CHARACTERS)));
    for (parameter, value) in given(operation, arguments) {
        let name = parameter.wire_name();
        match parameter.location {
            ParameterLocation::Path => {}
            ParameterLocation::Query => {
                let form = (
                    parameter.style(),
                    parameter.explodes(),
                    parameter.allow_reserved,
                );
                query.extend(query_pairs(name, value, form));
            }
            ParameterLocation::Header => {
                headers.push((name.to_owned(), header_text(parameter, value)?))
            }
            ParameterLocation::Cookie => cookies.extend(cookie_pairs(parameter, value)),
        }
    }
    for (header, value) in secrets {
        if header.eq_ignore_ascii_case("cookie") {
            // Of two cookies with one name, servers read the first or the last.
            let names: Vec<&str> = value.split(';').map(cookie_name).collect();
            let is_secret = |pair: &str| {
                let name = cookie_name(pair);
                names.iter().any(|secret| secret.eq_ignore_ascii_case(name))
            };
            cookies.retain(|pair: &String| !is_secret(pair));
            cookies.push(value);
        } else {
            headers.retain(|(name, _): &(String, String)| !name.eq_ignore_ascii_case(&header));
            headers.push((header, value));
        }
    }
    if !cookies.is_empty() {
        headers.push(("cookie".to_owned(), cookies.join("; ")));
    }
    let has_header = |headers: &[(String, String)], wanted: &str| {
        headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    if !has_header(&headers, "accept") {
        let accept = operation.accept.clone();
        headers.push((
            "accept".to_owned(),
            accept.unwrap_or_else(|| "application/json, */*;q=0.5".to_owned()),
        ));
    }
    if !has_header(&headers, "user-agent") {
        // Some servers refuse requests without it.
        headers.push((
            "user-agent".to_owned(),
            concat!("mimir/", env!("CARGO_PKG_VERSION")).to_owned(),
        ));
    }
    let mut bytes = Bytes::new();
    if let Some(body) = &operation.body
        && let Some(value) = arguments.get(&body.argument)
    {
        let (content_type, content) = encode_body(body, value)?;
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        headers.push(("content-type".to_owned(), content_type));
        bytes = content.into();
    }
    let mut url = format!("{}{path}", server.base());
    check_target(server, &url)?;
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    RequestTarget::parse(&url).map_err(|error| {
        ToolError::invalid_input(format!("the arguments do not fit into a URL: {error}"))
    })?;
    Ok(ApiRequest {
        method: method.to_owned(),
        url,
        headers,
        body: bytes,
    })
}

fn cookie_name(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default().trim()
}

/// Returns the parameters that the call has a value for.
fn given<'a>(
    operation: &'a ApiOperation,
    arguments: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a ApiParameter, &'a Value)> {
    let parameters = operation.parameters.iter();
    let values =
        parameters.filter_map(|parameter| Some((parameter, arguments.get(&parameter.argument)?)));
    values.filter(|(_, value)| !value.is_null())
}

fn fill_path(
    operation: &ApiOperation,
    template: &str,
    arguments: &Map<String, Value>,
) -> Result<String, ToolError> {
    let (mut path, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else {
            break;
        };
        path.push_str(&encode_percent(before, PATH_CHARACTERS));
        let mut values = given(operation, arguments);
        let value = values.find(|(parameter, _)| {
            parameter.location == ParameterLocation::Path && parameter.wire_name() == name
        });
        let Some((parameter, value)) = value else {
            let name = text::visible(name);
            return Err(ToolError::invalid_input(format!(
                "the argument for `{name}` in the path is missing"
            )));
        };
        path.push_str(&path_text(parameter, value)?);
        rest = tail;
    }
    path.push_str(&encode_percent(rest, PATH_CHARACTERS));
    Ok(path)
}

/// Checks that the URL, as it will be sent, has the server's origin and exactly the path that was built: nothing in it
/// is read as another host or removed as `..`.
fn check_target(server: &ServerUrl, url: &str) -> Result<(), ToolError> {
    let changed = || {
        ToolError::invalid_input(
            "the arguments would change the host or the path of the request: pass values without `.` and `..` parts",
        )
    };
    let target = RequestTarget::parse(url).map_err(|_| changed())?;
    if target.origin() != server.target().origin() || target.to_string() != url {
        return Err(changed());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation(value: Value) -> ApiOperation {
        let mut operation = json!({"name": "a", "description": "a", "schema": {"type": "object"}});
        operation
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        serde_json::from_value(operation).unwrap()
    }

    fn build(operation: &ApiOperation, arguments: Value) -> Result<ApiRequest, ToolError> {
        let server = ServerUrl::parse("https://api.example.com/v1/").unwrap();
        let secrets = vec![
            ("Authorization".to_owned(), "Bearer SECRET".to_owned()),
            ("Cookie".to_owned(), "session=SECRET".to_owned()),
        ];
        build_request(operation, &server, arguments.as_object().unwrap(), secrets)
    }

    #[test]
    fn openapi_request_has_all_parts() {
        let operation = operation(json!({
            "request": "POST /users/{id}/files/{name}.txt",
            "parameters": [
                {"argument": "id", "in": "path"},
                {"argument": "file", "name": "name", "in": "path"},
                {"argument": "tags", "in": "query", "explode": false},
                {"argument": "trace", "name": "X-Trace", "in": "header"},
                {"argument": "theme", "in": "cookie"},
            ],
            "body": {"argument": "body", "type": "application/json"},
        }));
        let request = build(&operation, json!({
            "id": 7, "file": "a b", "tags": ["x", "y"], "trace": "1", "theme": "dark", "body": {"a": null}
        })).unwrap();
        assert_eq!(request.method, "POST");
        assert_eq!(
            request.url,
            "https://api.example.com/v1/users/7/files/a%20b.txt?tags=x,y"
        );
        let header = |name: &str| {
            let mut headers = request.headers.iter();
            headers
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(header("x-trace"), Some("1"));
        assert_eq!(header("authorization"), Some("Bearer SECRET"));
        assert_eq!(header("cookie"), Some("theme=dark; session=SECRET"));
        assert_eq!(header("content-type"), Some("application/json"));
        assert_eq!(request.body, "{\"a\":null}");
    }

    #[test]
    fn openapi_request_stays_on_its_host_and_path() {
        let operation = operation(json!({
            "request": "DELETE /{a}{b}/x",
            "parameters": [{"argument": "a", "in": "path"}, {"argument": "b", "in": "path"}],
        }));
        for (a, b) in [
            (".", "."),
            ("..", "a"),
            ("", "."),
            ("..%2f", ".."),
            ("a", "/../.."),
            ("\n", "a"),
        ] {
            let error = build(&operation, json!({"a": a, "b": b})).unwrap_err();
            assert_eq!(
                error.code,
                mimir_core::ToolErrorCode::InvalidInput,
                "{a:?} {b:?}"
            );
        }
        for (a, b) in [
            ("@evil.example", ":80"),
            ("//evil.example", "/"),
            ("%2e", "%2e"),
            ("a?b", "#c"),
            ("a\\", "b"),
        ] {
            let url = build(&operation, json!({"a": a, "b": b})).unwrap().url;
            let target = RequestTarget::parse(&url).unwrap();
            assert_eq!(target.url().host_str(), Some("api.example.com"), "{url}");
            assert!(
                target.url().path().starts_with("/v1/") && target.url().path().ends_with("/x"),
                "{url}"
            );
            assert_eq!(target.url().path().split('/').count(), 4, "{url}");
            assert_eq!(target.url().query(), None, "{url}");
        }
        assert!(
            build(&operation, json!({"a": "x"})).is_err(),
            "a value is missing"
        );
    }

    #[test]
    fn openapi_request_keeps_the_fixed_query_of_a_path() {
        let operation = operation(json!({
            "request": "GET /messages/{id}?beta=true",
            "parameters": [{"argument": "id", "in": "path"}, {"argument": "limit", "in": "query"}],
        }));
        let request = build(&operation, json!({"id": "a?b", "limit": 2})).unwrap();
        assert_eq!(
            request.url,
            "https://api.example.com/v1/messages/a%3Fb?beta=true&limit=2"
        );
        for bad in ["/a?b?c", "/a?{b}", "/a b", "/a#b", "/a\\b", "/a\n"] {
            assert!(!is_usable_path(bad), "{bad:?}");
        }
    }

    #[test]
    fn openapi_request_uses_the_secret_instead_of_an_argument() {
        let operation = operation(json!({
            "request": "GET /a",
            "parameters": [
                {"argument": "auth", "name": "authorization", "in": "header"},
                {"argument": "session", "in": "cookie"},
                {"argument": "other", "name": "Session", "in": "cookie"},
                {"argument": "lang", "in": "cookie"},
            ],
        }));
        let arguments =
            json!({"auth": "Bearer other", "session": "a", "other": ["b"], "lang": "en"});
        let request = build(&operation, arguments).unwrap();
        let values = |wanted: &str| -> Vec<&str> {
            let headers = request.headers.iter();
            headers
                .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.as_str())
                .collect()
        };
        assert_eq!(values("authorization"), ["Bearer SECRET"]);
        assert_eq!(values("cookie"), ["lang=en; session=SECRET"]);
    }
}
