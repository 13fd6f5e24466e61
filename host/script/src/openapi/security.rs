//! Security schemes of a document, as secrets in headers.

use std::collections::HashMap;

use mimir_core::text;
use serde_json::{Map, Value};

use super::api_file::{ApiSecret, SECRET, is_allowed_header, is_token};
use super::document::ApiDocument;

/// The secrets of an operation, or the reason why none of its alternatives is supported.
pub(crate) type OperationSecrets = Result<Vec<ApiSecret>, String>;

/// Maximum number of security schemes of a document that are read.
const MAX_SCHEMES: usize = 200;

/// Maximum number of alternatives of an operation, and of schemes in an alternative.
const MAX_ALTERNATIVES: usize = 20;

/// Maximum length of the name of a secret.
const MAX_SECRET_NAME: usize = 64;

/// Finds the secrets of operations.
pub(crate) struct SecretFinder<'a> {
    document: &'a ApiDocument,
    /// The secret of each security scheme, or the reason why the scheme is not supported.
    schemes: HashMap<&'a str, Result<ApiSecret, String>>,
    /// The secret that is sent with each request instead.
    bearer: Option<ApiSecret>,
}

impl<'a> SecretFinder<'a> {
    /// Creates a finder. The names of secrets begin with that of the API. With `bearer`, that secret is the bearer token
    /// of all requests.
    pub(crate) fn new(document: &'a ApiDocument, api_name: &str, bearer: Option<&str>) -> Self {
        let bearer = bearer.map(|name| bearer_secret(name.to_owned(), "the token"));
        let root = &document.root;
        let schemes = if document.is_swagger() {
            &root["securityDefinitions"]
        } else {
            &root["components"]["securitySchemes"]
        };
        let listed = schemes.as_object().into_iter().flatten();
        let mut names = SecretNames::default();
        let schemes = listed.take(MAX_SCHEMES).map(|(scheme_name, scheme)| {
            let secret = scheme_secret(document, (api_name, scheme_name), scheme);
            (scheme_name.as_str(), secret.map(|secret| names.add(secret)))
        });
        Self {
            document,
            schemes: schemes.collect(),
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
        let alternatives = alternatives.iter().take(MAX_ALTERNATIVES);
        for alternative in alternatives.filter_map(Value::as_object) {
            match self.alternative(alternative) {
                Ok(secrets) => {
                    let names: Vec<&str> = alternative.keys().map(String::as_str).collect();
                    let names = text::visible(text::prefix(&names.join(" and "), 200));
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
        if schemes.len() > MAX_ALTERNATIVES {
            return Err(format!(
                "it needs more than {MAX_ALTERNATIVES} security schemes together"
            ));
        }
        for name in schemes.keys() {
            let Some(secret) = self.schemes.get(name.as_str()) else {
                let shown = text::visible(text::prefix(name, 60));
                return Err(format!(
                    "the security scheme `{shown}` is not defined, or not among the first {MAX_SCHEMES}"
                ));
            };
            let secret = secret.clone()?;
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
}

/// Gives each secret a name of its own. Secrets that are sent alike and have the same name are one secret.
#[derive(Default)]
struct SecretNames(HashMap<String, ApiSecret>);

impl SecretNames {
    fn add(&mut self, mut secret: ApiSecret) -> ApiSecret {
        let wanted = secret.name.clone();
        let mut count = 2;
        while self
            .0
            .get(&secret.name)
            .is_some_and(|known| *known != secret)
        {
            let begin = text::prefix_bytes(&wanted, MAX_SECRET_NAME - 4).trim_end_matches('_');
            secret.name = format!("{begin}_{count}");
            count += 1;
        }
        self.0.insert(secret.name.clone(), secret.clone());
        secret
    }
}

/// Returns the secret of a security scheme. `names` are those of the API and the scheme.
fn scheme_secret(
    document: &ApiDocument,
    (api_name, scheme_name): (&str, &str),
    scheme: &Value,
) -> Result<ApiSecret, String> {
    let shown = text::visible(text::prefix(scheme_name, 60));
    let Some(scheme) = document.resolve(scheme) else {
        return Err(format!(
            "the security scheme `{shown}` refers to something outside of the document"
        ));
    };
    let text = |key: &str| scheme[key].as_str().unwrap_or_default();
    let name = secret_name(api_name, scheme_name);
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
            // The secret is encoded when it is sent.
            let value = format!("Basic {SECRET}");
            let note = "the user name and the password, as `user:password`";
            Ok(secret(name, "Authorization", value, note))
        }
        ("http", _, "bearer") => Ok(bearer_secret(name, "the token")),
        ("oauth2" | "openIdConnect", ..) => {
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

fn secret_name(api_name: &str, scheme_name: &str) -> String {
    let scheme = super::import::snake_case(scheme_name).to_ascii_uppercase();
    let own = api_name.to_ascii_uppercase();
    let scheme = scheme.strip_prefix(&format!("{own}_")).unwrap_or(&scheme);
    let name = format!("{own}_{scheme}");
    let name = text::prefix_bytes(&name, MAX_SECRET_NAME);
    name.trim_end_matches('_').to_owned()
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

    #[test]
    fn openapi_security_schemes_with_similar_names_have_own_secrets() {
        let long = "x".repeat(80);
        let document = json!({"openapi": "3.0.0", "paths": {}, "components": {"securitySchemes": {
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-One"},
            "api_key": {"type": "apiKey", "in": "header", "name": "X-Two"},
            "API-Key": {"type": "apiKey", "in": "header", "name": "X-One"},
            "api_key_2": {"type": "apiKey", "in": "header", "name": "X-Three"},
            format!("{long}A"): {"type": "apiKey", "in": "header", "name": "X-Four"},
            format!("{long}B"): {"type": "apiKey", "in": "header", "name": "X-Five"},
        }}});
        let document = ApiDocument::parse("a", document.to_string().as_bytes()).unwrap();
        let finder = SecretFinder::new(&document, "shop", None);
        let long_name = format!("SHOP_{}", "X".repeat(59));
        let second_long_name = format!("SHOP_{}_2", "X".repeat(55));
        for (scheme, name, header) in [
            ("apiKey", "SHOP_API_KEY", "X-One"),
            ("api_key", "SHOP_API_KEY_2", "X-Two"),
            ("API-Key", "SHOP_API_KEY", "X-One"),
            ("api_key_2", "SHOP_API_KEY_2_2", "X-Three"),
            (format!("{long}A").as_str(), long_name.as_str(), "X-Four"),
            (
                format!("{long}B").as_str(),
                second_long_name.as_str(),
                "X-Five",
            ),
        ] {
            let (found, _) = finder.secrets_of(&json!({"security": [{ scheme: [] }]}));
            let found = found.unwrap();
            assert_eq!(
                (found[0].name.as_str(), found[0].header.as_str()),
                (name, header)
            );
            assert!(crate::openapi::api_file::is_secret_name(name), "{name}");
        }
    }
}
