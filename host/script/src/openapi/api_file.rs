//! The file with the tools of an API: its keys and their checks.

use std::collections::{BTreeMap, HashMap, HashSet};

use mimir_core::tool::ToolName;
use mimir_core::{Schema, ToolError, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MAX_OPERATIONS;
use super::api_request::{is_usable_path, path_variables};
use super::document::METHODS;
use super::server_url::ServerUrl;
use crate::yaml;

/// Format version of the file that this release reads and writes.
pub(crate) const FILE_VERSION: u32 = 1;

/// Maximum length of a description in characters; plugins have the same limit.
const MAX_DESCRIPTION_CHARS: usize = 8_000;

/// Placeholder of the secret in the value of a header.
pub(crate) const SECRET: &str = "{secret}";

/// Headers that no parameter or secret can set: those of the connection, and those that could select another method,
/// path or length.
const FORBIDDEN_HEADERS: [&str; 20] = [
    "connection",
    "content-length",
    "content-encoding",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// The tools of one API.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiFile {
    /// Format version of the file.
    pub(crate) openapi: u32,
    /// Title of the API.
    #[serde(default)]
    pub(crate) title: String,
    /// The document, and the options of the import.
    pub source: ApiSource,
    /// Base URL of the requests.
    pub(crate) server: String,
    /// Secrets that are added to requests.
    #[serde(default)]
    pub(crate) secrets: Vec<ApiSecret>,
    /// The operations, each of which is a tool.
    pub(crate) operations: Vec<ApiOperation>,
}

/// The document of an API, and the options of its import, for updates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiSource {
    /// Path or URL of the document.
    #[serde(default)]
    pub document: String,
    /// sha256 of the document in hex.
    #[serde(default)]
    pub sha256: String,
    /// Operations that were included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Operations that were excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The server that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The secret that is sent as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
}

/// A secret in a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApiSecret {
    pub(crate) name: String,
    pub(crate) header: String,
    /// Value of the header, with the placeholder `{secret}`.
    pub(crate) value: String,
    /// Explanation of the secret's value.
    #[serde(default)]
    pub(crate) note: String,
}

/// An operation of an API.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApiOperation {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Method and path, such as `GET /users/{id}`.
    pub(crate) request: String,
    /// Another base URL than that of the file.
    #[serde(default)]
    pub(crate) server: Option<String>,
    /// Names of the secrets that are sent.
    #[serde(default)]
    pub(crate) secrets: Vec<String>,
    /// Value of the header `Accept`.
    #[serde(default)]
    pub(crate) accept: Option<String>,
    #[serde(default)]
    pub(crate) parameters: Vec<ApiParameter>,
    #[serde(default)]
    pub(crate) body: Option<ApiBody>,
    /// JSON Schema of the arguments.
    pub(crate) schema: Value,
}

/// An argument that becomes a part of the URL, a header or a cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApiParameter {
    pub(crate) argument: String,
    /// Name in the request, if it is not that of the argument.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(rename = "in")]
    pub(crate) location: ParameterLocation,
    /// The style, if it is not the default of the location.
    #[serde(default)]
    pub(crate) style: Option<ParameterStyle>,
    #[serde(default)]
    pub(crate) explode: Option<bool>,
    #[serde(default)]
    pub(crate) allow_reserved: bool,
}

/// Part of the request that contains a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ParameterLocation {
    Path,
    Query,
    Header,
    Cookie,
}

/// Serialization of a parameter; `json` is that of parameters with `content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ParameterStyle {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
    Json,
}

/// The argument that becomes the body of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApiBody {
    pub(crate) argument: String,
    /// Media type of the body.
    #[serde(rename = "type")]
    pub(crate) media_type: String,
    /// Serialization of fields of a form, by name.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, BodyField>,
}

/// Serialization of a field of a form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BodyField {
    #[serde(default)]
    pub(crate) style: Option<ParameterStyle>,
    #[serde(default)]
    pub(crate) explode: Option<bool>,
    /// True for a file, which the argument contains as base64.
    #[serde(default)]
    pub(crate) file: bool,
    /// Media type of the field.
    #[serde(default, rename = "type")]
    pub(crate) media_type: Option<String>,
}

impl ApiParameter {
    /// Returns the name in the request.
    pub(crate) fn wire_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.argument)
    }

    /// Returns the style, or the default of the location.
    pub(crate) fn style(&self) -> ParameterStyle {
        self.style.unwrap_or(match self.location {
            ParameterLocation::Path | ParameterLocation::Header => ParameterStyle::Simple,
            ParameterLocation::Query | ParameterLocation::Cookie => ParameterStyle::Form,
        })
    }

    /// Returns true if each item or member becomes a value of its own.
    pub(crate) fn explodes(&self) -> bool {
        self.explode.unwrap_or(self.style() == ParameterStyle::Form)
    }
}

impl ApiOperation {
    /// Returns the method in upper case, and the path.
    pub(crate) fn method_and_path(&self) -> Option<(&str, &str)> {
        let (method, path) = self.request.split_once(' ')?;
        let is_known = METHODS
            .iter()
            .any(|known| known.to_ascii_uppercase() == method);
        (is_known && path.starts_with('/')).then_some((method, path))
    }

    fn check(&self, secrets: &[ApiSecret]) -> Result<(), String> {
        ToolName::new(&self.name).map_err(|error| error.to_string())?;
        if self.description.trim().is_empty()
            || self.description.chars().count() > MAX_DESCRIPTION_CHARS
        {
            return Err(format!(
                "`description` must have 1 to {MAX_DESCRIPTION_CHARS} characters"
            ));
        }
        let Some((_, path)) = self.method_and_path() else {
            return Err(
                "`request` must be a method and a path, such as `GET /users/{id}`".to_owned(),
            );
        };
        if !is_usable_path(path) {
            return Err(
                "the path of `request` has characters that are not allowed in paths".to_owned(),
            );
        }
        if let Some(server) = &self.server {
            ServerUrl::parse(server).map_err(|error| error.message)?;
        }
        let mut arguments = HashSet::new();
        for parameter in &self.parameters {
            if !arguments.insert(parameter.argument.as_str()) {
                return Err(format!(
                    "the argument `{}` is used twice",
                    text::visible(&parameter.argument)
                ));
            }
            let name = parameter.wire_name();
            let is_valid = match parameter.location {
                ParameterLocation::Header => is_allowed_header(name),
                ParameterLocation::Cookie => is_token(name),
                ParameterLocation::Path | ParameterLocation::Query => !name.is_empty(),
            };
            if !is_valid {
                return Err(format!(
                    "the parameter `{}` has a name that cannot be sent",
                    text::visible(name)
                ));
            }
        }
        let in_path = |name: &str| {
            let mut all = self.parameters.iter();
            all.any(|parameter| {
                parameter.location == ParameterLocation::Path && parameter.wire_name() == name
            })
        };
        if let Some(name) = path_variables(path).into_iter().find(|name| !in_path(name)) {
            return Err(format!(
                "the path has `{{{}}}`, but no parameter of that name",
                text::visible(name)
            ));
        }
        if let Some(body) = &self.body {
            if !arguments.insert(body.argument.as_str()) {
                return Err("the argument of `body` is used twice".to_owned());
            }
            let mut kinds = body
                .fields
                .values()
                .filter_map(|field| field.media_type.as_ref());
            if let Some(kind) = kinds.find(|kind| !is_media_type(kind)) {
                return Err(format!("`{}` is not a media type", text::visible(kind)));
            }
            if !is_media_type(&body.media_type) {
                return Err(format!(
                    "`{}` is not a media type",
                    text::visible(&body.media_type)
                ));
            }
        }
        if self
            .accept
            .as_ref()
            .is_some_and(|accept| !is_media_type(accept))
        {
            return Err("`accept` is not a media type".to_owned());
        }
        let is_unknown = |name: &&String| secrets.iter().all(|secret| secret.name != **name);
        if let Some(name) = self.secrets.iter().find(is_unknown) {
            return Err(format!(
                "the secret `{}` is not listed in `secrets`",
                text::visible(name)
            ));
        }
        if self.schema["type"] != "object" {
            return Err(
                "`schema` does not describe an object: begin it with `type: object`".to_owned(),
            );
        }
        Ok(())
    }
}

impl ApiFile {
    /// Parses a file. `file_name` is used in messages.
    pub(crate) fn parse(file_name: &str, content: &str) -> Result<Self, ToolError> {
        Self::parse_content(content)
            .map_err(|why| ToolError::invalid_input(format!("{file_name}: {why}")))
    }

    /// Parses the content of a file. The error is the message without the name of the file.
    pub(crate) fn parse_content(content: &str) -> Result<Self, String> {
        yaml::check_yaml(content).map_err(|rejection| rejection.to_string())?;
        let file: Self = serde_yaml::from_str(content)
            .map_err(|error| text::visible(text::prefix(&error.to_string(), 300)))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        if self.openapi != FILE_VERSION {
            return Err(format!(
                "format {} is not supported: expected `openapi: {FILE_VERSION}`; `mimir tools import openapi` writes such files from OpenAPI documents",
                self.openapi
            ));
        }
        ServerUrl::parse(&self.server).map_err(|error| error.message)?;
        if self.operations.len() > MAX_OPERATIONS {
            return Err(format!("more than {MAX_OPERATIONS} operations"));
        }
        for secret in &self.secrets {
            let name = text::visible(&secret.name);
            if !is_secret_name(&secret.name) {
                return Err(format!(
                    "`{name}` is not a valid name of a secret: use letters, digits and _"
                ));
            }
            if !is_allowed_header(&secret.header) && !secret.header.eq_ignore_ascii_case("cookie") {
                return Err(format!("the secret `{name}` cannot be sent in this header"));
            }
            let has_placeholder = secret.value.matches(SECRET).count() == 1;
            if !has_placeholder || secret.value.contains(|c: char| !matches!(c, ' '..='~')) {
                return Err(format!(
                    "the value of the secret `{name}` must contain `{SECRET}` once, and only ASCII"
                ));
            }
        }
        let mut names = HashSet::new();
        for operation in &self.operations {
            let shown = text::visible(text::prefix(&operation.name, 100));
            operation
                .check(&self.secrets)
                .map_err(|why| format!("operation `{shown}`: {why}"))?;
            if !names.insert(operation.name.as_str()) {
                return Err(format!("operation `{shown}`: the name is used twice"));
            }
        }
        Ok(())
    }

    /// Compiles the schemas of all operations.
    pub(crate) fn check_schemas(&self, file_name: &str) -> Result<(), ToolError> {
        for operation in &self.operations {
            Schema::parse(&operation.schema.to_string()).map_err(|error| {
                let name = &operation.name;
                ToolError::invalid_input(format!(
                    "{file_name}: operation `{name}`: `schema`: {error}"
                ))
            })?;
        }
        Ok(())
    }

    /// Returns the names of the tools.
    pub fn tool_names(&self) -> Vec<&str> {
        let operations = self.operations.iter();
        operations
            .map(|operation| operation.name.as_str())
            .collect()
    }

    /// Returns the name, description and schema of each tool, as models read them.
    pub fn definitions(&self) -> impl Iterator<Item = Value> {
        self.operations.iter().map(|operation| {
            serde_json::json!({
                "name": operation.name,
                "description": operation.description,
                "inputSchema": operation.schema,
            })
        })
    }

    /// Returns the server of the file.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the origins that differ from that of the file's server, each with the tools that send requests there.
    pub fn other_origins(&self) -> Vec<(String, Vec<&str>)> {
        let origin = |server: &str| {
            let server = ServerUrl::parse(server).ok()?;
            Some(server.target().origin().to_string())
        };
        let own = origin(&self.server);
        let mut found: Vec<(String, Vec<&str>)> = Vec::new();
        let mut positions: HashMap<String, usize> = HashMap::new();
        for operation in &self.operations {
            let Some(other) = operation.server.as_deref().and_then(origin) else {
                continue;
            };
            if own.as_ref() == Some(&other) {
                continue;
            }
            let at = *positions.entry(other.clone()).or_insert_with(|| {
                found.push((other, Vec::new()));
                found.len() - 1
            });
            found[at].1.push(&operation.name);
        }
        found
    }

    /// Returns the secrets that the operations use, each with an explanation of its value.
    pub fn secret_notes(&self) -> Vec<(&str, &str)> {
        let secrets = self.secrets.iter();
        secrets
            .map(|secret| (secret.name.as_str(), secret.note.as_str()))
            .collect()
    }
}

/// Returns true for a name of HTTP: letters, digits and some punctuation.
pub(crate) fn is_token(name: &str) -> bool {
    let is_token_byte = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    !name.is_empty() && name.len() <= 200 && name.bytes().all(is_token_byte)
}

/// Returns true for a header that a parameter or a secret can set.
pub(crate) fn is_allowed_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    is_token(&name) && name != "cookie" && !FORBIDDEN_HEADERS.contains(&name.as_str())
}

/// Returns true for the name of a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let is_name_byte = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_name_byte)
}

/// Returns true for a media type or a range of media types, possibly with parameters.
pub(crate) fn is_media_type(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is_valid = essence
        .split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    is_valid && media_type.len() <= 200 && media_type.bytes().all(|c| matches!(c, b' '..=b'~'))
}
