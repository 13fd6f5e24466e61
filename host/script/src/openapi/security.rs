//! Security schemes of a document, as secrets in headers.

use mimir_core::text;
use serde_json::{Map, Value};

use super::api_file::{ApiSecret, SECRET, is_allowed_header, is_token};
use super::document::ApiDocument;

/// The secrets of an operation, or the reason why none of its alternatives is supported.
pub(crate) type OperationSecrets = Result<Vec<ApiSecret>, String>;

/// Finds the secrets of operations. `prefix` begins the names of the secrets.
pub(crate) struct SecretFinder<'a> {
    document: &'a ApiDocument,
    prefix: String,
    /// The secret that is sent with each request instead.
    bearer: Option<ApiSecret>,
}

impl<'a> SecretFinder<'a> {
    /// Creates a finder. With `bearer`, that secret is the bearer token of all requests.
    pub(crate) fn new(document: &'a ApiDocument, api_name: &str, bearer: Option<&str>) -> Self {
        let bearer = bearer.map(|name| bearer_secret(name.to_owned(), "the token"));
        Self {
            document,
            prefix: api_name.to_ascii_uppercase(),
            bearer,
        }
    }

    /// Returns the secrets of the first supported alternative, and a note if it is not the first one.
    pub(crate) fn secrets_of(&self, operation: &Value) -> (OperationSecrets, Option<String>) {
        if let Some(bearer) = &self.bearer {
            return (Ok(vec![bearer.clone()]), None);
        }
        let security = operation
            .get("security")
            .or_else(|| self.document.root.get("security"));
        let Some(alternatives) = security
            .and_then(Value::as_array)
            .filter(|list| !list.is_empty())
        else {
            return (Ok(Vec::new()), None);
        };
        let mut reasons: Vec<String> = Vec::new();
        for alternative in alternatives.iter().filter_map(Value::as_object) {
            match self.alternative(alternative) {
                Ok(secrets) => {
                    let names: Vec<&str> = alternative.keys().map(String::as_str).collect();
                    let names = text::visible(&names.join(" and "));
                    let note = reasons.first().map(|reason| {
                        format!("the security scheme {names} is used, because {reason}")
                    });
                    return (Ok(secrets), note);
                }
                Err(reason) => reasons.push(reason),
            }
        }
        reasons.truncate(3);
        (Err(reasons.join("; ")), None)
    }

    fn alternative(&self, schemes: &Map<String, Value>) -> OperationSecrets {
        let mut secrets: Vec<ApiSecret> = Vec::new();
        for name in schemes.keys() {
            let secret = self.secret(name)?;
            let is_taken = |other: &ApiSecret| {
                other.header.eq_ignore_ascii_case(&secret.header)
                    && !secret.header.eq_ignore_ascii_case("cookie")
            };
            if secrets.iter().any(is_taken) {
                let header = &secret.header;
                return Err(format!(
                    "two security schemes together use the header `{header}`"
                ));
            }
            secrets.push(secret);
        }
        Ok(secrets)
    }

    fn secret(&self, scheme_name: &str) -> Result<ApiSecret, String> {
        let shown = text::visible(text::prefix(scheme_name, 60));
        let root = &self.document.root;
        let schemes = if self.document.is_swagger() {
            &root["securityDefinitions"]
        } else {
            &root["components"]["securitySchemes"]
        };
        let scheme = schemes
            .get(scheme_name)
            .and_then(|scheme| self.document.resolve(scheme));
        let Some(scheme) = scheme else {
            return Err(format!("the security scheme `{shown}` is not defined"));
        };
        let text = |key: &str| scheme[key].as_str().unwrap_or_default();
        let name = self.secret_name(scheme_name);
        match (
            text("type"),
            text("in"),
            text("scheme").to_ascii_lowercase().as_str(),
        ) {
            ("apiKey", "header", _) if is_allowed_header(text("name")) => {
                let is_authorization = text("name").eq_ignore_ascii_case("authorization");
                let note = if is_authorization {
                    "the whole value of the header Authorization, such as `Bearer TOKEN`"
                } else {
                    "the API key"
                };
                Ok(secret(name, text("name"), SECRET.to_owned(), note))
            }
            ("apiKey", "cookie", _) if is_token(text("name")) => {
                let value = format!("{}={SECRET}", text("name"));
                Ok(secret(name, "cookie", value, "the value of the cookie"))
            }
            ("apiKey", "query", _) => Err(format!(
                "the security scheme `{shown}` sends the key in the URL, which logs and caches store, and is not supported"
            )),
            ("basic", ..) | ("http", _, "basic") => {
                let value = format!("Basic {SECRET}");
                let note =
                    "`user:password` in base64, as `printf %s user:password | base64` prints it";
                Ok(secret(name, "Authorization", value, note))
            }
            ("http", _, "bearer") => Ok(bearer_secret(name, "the token")),
            ("oauth2", ..) => Ok(bearer_secret(name, &login_note(scheme, "an access token"))),
            ("openIdConnect", ..) => {
                Ok(bearer_secret(name, &login_note(scheme, "an access token")))
            }
            (kind, ..) => {
                let kind = text::visible(text::prefix(kind, 40));
                Err(format!(
                    "the security scheme `{shown}` of type `{kind}` is not supported"
                ))
            }
        }
    }

    fn secret_name(&self, scheme_name: &str) -> String {
        let scheme = super::import::snake_case(scheme_name).to_ascii_uppercase();
        let own = self.prefix.as_str();
        let scheme = scheme.strip_prefix(&format!("{own}_")).unwrap_or(&scheme);
        let mut name = format!("{own}_{scheme}");
        name.truncate(64);
        name.trim_end_matches('_').to_owned()
    }
}

fn secret(name: String, header: &str, value: String, note: &str) -> ApiSecret {
    ApiSecret {
        name,
        header: header.to_owned(),
        value,
        note: note.to_owned(),
    }
}

fn bearer_secret(name: String, note: &str) -> ApiSecret {
    secret(name, "Authorization", format!("Bearer {SECRET}"), note)
}

/// Explains where a token comes from. URLs of the document are quoted, and never opened.
fn login_note(scheme: &Value, what: &str) -> String {
    let mut urls = scheme["flows"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, flow)| {
            flow["authorizationUrl"]
                .as_str()
                .or_else(|| flow["tokenUrl"].as_str())
        });
    let url = scheme["openIdConnectUrl"]
        .as_str()
        .or_else(|| scheme["authorizationUrl"].as_str());
    match url.or_else(|| urls.next()) {
        Some(url) => format!(
            "{what}, which you get from the API's provider (the document names {})",
            text::visible(text::prefix(url, 200))
        ),
        None => format!("{what}, which you get from the API's provider"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(security: Value) -> (OperationSecrets, Option<String>) {
        let document = json!({"openapi": "3.0.0", "paths": {}, "components": {"securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
            "query": {"type": "apiKey", "in": "query", "name": "key"},
            "host": {"type": "apiKey", "in": "header", "name": "Host"},
            "basicAuth": {"type": "http", "scheme": "Basic"},
            "bearer": {"type": "http", "scheme": "bearer"},
            "oauth": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://example.com/login"}}},
            "mutual": {"type": "mutualTLS"},
        }}});
        let document = ApiDocument::parse("a", document.to_string().as_bytes()).unwrap();
        SecretFinder::new(&document, "shop", None).secrets_of(&json!({ "security": security }))
    }

    #[test]
    fn openapi_security_schemes_become_headers() {
        for (scheme, name, header, value) in [
            ("key", "SHOP_KEY", "X-Key", "{secret}"),
            ("cookie", "SHOP_COOKIE", "cookie", "sid={secret}"),
            (
                "basicAuth",
                "SHOP_BASIC_AUTH",
                "Authorization",
                "Basic {secret}",
            ),
            ("bearer", "SHOP_BEARER", "Authorization", "Bearer {secret}"),
            ("oauth", "SHOP_OAUTH", "Authorization", "Bearer {secret}"),
        ] {
            let (found, note) = secrets(json!([{ scheme: [] }]));
            let found = found.unwrap();
            assert_eq!(
                (
                    found[0].name.as_str(),
                    found[0].header.as_str(),
                    found[0].value.as_str()
                ),
                (name, header, value)
            );
            assert_eq!(note, None);
        }
        let (found, _) = secrets(json!([{"oauth": []}]));
        assert!(found.unwrap()[0].note.contains("https://example.com/login"));
    }

    #[test]
    fn openapi_security_uses_the_first_supported_alternative() {
        let (found, note) =
            secrets(json!([{"query": []}, {"key": [], "cookie": []}, {"bearer": []}]));
        assert_eq!(found.unwrap().len(), 2);
        assert!(note.unwrap().contains("key and cookie"));
        assert_eq!(secrets(json!([{}, {"bearer": []}])).0, Ok(Vec::new()));
        assert_eq!(secrets(json!([])).0, Ok(Vec::new()));
        for unsupported in ["query", "host", "mutual", "undefined"] {
            assert!(
                secrets(json!([{ unsupported: [] }])).0.is_err(),
                "{unsupported}"
            );
        }
        let (conflict, _) = secrets(json!([{"bearer": [], "basicAuth": []}]));
        assert!(conflict.unwrap_err().contains("together"));
    }
}
