//! The operations of a document as tools.

use std::collections::HashSet;

use mimir_core::{ToolError, text};
use serde_json::Value;

use super::api_file::{ApiOperation, ApiSecret, is_media_type};
use super::api_request::{is_usable_path, path_variables};
use super::document::{ApiDocument, METHODS};
use super::import::snake_case;
use super::parameters::ArgumentDrafts;
use super::schema_conversion::SchemaConverter;
use super::schema_values::shorten;
use super::selection::OperationLabels;
use super::server_url::ServerUrl;

/// Maximum length of the description of a tool in characters. The descriptions of documents are often whole manuals.
const MAX_DESCRIPTION_CHARS: usize = 800;

/// Maximum length of a tool's name.
const MAX_NAME_LENGTH: usize = 64;

/// Maximum number of operations that a document may describe, of which an import selects some. The largest public
/// documents describe 20,000.
const MAX_LISTED: usize = 100_000;

/// Maximum number of tags, responses and media types of an operation that are read.
const MAX_LABELS: usize = 100;

/// Methods of the specification that are not supported. `trace` echoes secrets, and few servers know `query`.
const UNSUPPORTED_METHODS: [&str; 2] = ["trace", "query"];

/// An operation in a document.
#[derive(Debug)]
pub(crate) struct OperationEntry<'a> {
    /// The method in upper case; empty for a path whose operations cannot be read.
    pub(crate) method: String,
    pub(crate) path: &'a str,
    pub(crate) path_item: &'a Value,
    pub(crate) operation: &'a Value,
    /// The reason why the operation is not supported, if that is known without its arguments.
    pub(crate) fault: Option<String>,
}

/// Returns all operations of a document, in its order. Fails if they are too many.
pub(crate) fn operation_entries(
    document: &ApiDocument,
) -> Result<Vec<OperationEntry<'_>>, ToolError> {
    let mut entries = Vec::new();
    let paths = document.root["paths"].as_object().into_iter().flatten();
    // Names with `x-` are extensions of the document.
    for (path, listed) in paths.filter(|(path, _)| !path.starts_with("x-")) {
        if entries.len() > MAX_LISTED {
            return Err(ToolError::limit_exceeded(format!(
                "the document describes more than {MAX_LISTED} operations"
            )));
        }
        match document.resolve(listed) {
            Some(path_item) => push_operations(path, path_item, &mut entries),
            None => entries.push(OperationEntry {
                method: String::new(),
                path,
                path_item: listed,
                operation: &Value::Null,
                fault: Some(unresolved_path(listed)),
            }),
        }
    }
    Ok(entries)
}

fn push_operations<'a>(path: &'a str, path_item: &'a Value, entries: &mut Vec<OperationEntry<'a>>) {
    for method in METHODS.into_iter().chain(UNSUPPORTED_METHODS) {
        let operation = path_item.get(method);
        let Some(operation) = operation.filter(|operation| operation.is_object()) else {
            continue;
        };
        let fault = if !path.starts_with('/') {
            Some("its path does not begin with `/`".to_owned())
        } else if UNSUPPORTED_METHODS.contains(&method) {
            Some(format!("the method `{method}` is not supported"))
        } else {
            None
        };
        entries.push(OperationEntry {
            method: method.to_ascii_uppercase(),
            path,
            path_item,
            operation,
            fault,
        });
    }
}

/// Returns the reason why the operations of a path cannot be read.
fn unresolved_path(path_item: &Value) -> String {
    let reference = path_item["$ref"].as_str().unwrap_or_default();
    let shown = text::visible(text::prefix(reference, 100));
    if reference.starts_with('#') {
        format!("it refers to `{shown}`, which the document does not have")
    } else {
        format!(
            "it refers to `{shown}`, which is outside of the document: bundle the document into one file"
        )
    }
}

impl<'a> OperationEntry<'a> {
    /// Returns what patterns match. An operation without an id has its method and path as the id.
    pub(crate) fn labels(&self) -> OperationLabels<'_> {
        let tags = self.operation["tags"].as_array().into_iter().flatten();
        OperationLabels {
            id: self.operation["operationId"].as_str().unwrap_or_default(),
            method: &self.method,
            path: self.path,
            tags: tags.filter_map(Value::as_str).take(MAX_LABELS).collect(),
        }
    }

    /// Returns the name for messages: the id, or method and path.
    pub(crate) fn shown(&self) -> String {
        let shown = match self.operation["operationId"].as_str() {
            Some(id) => text::prefix(id, 100).to_owned(),
            None => format!("{} {}", self.method, text::prefix(self.path, 100)),
        };
        text::visible(shown.trim_start())
    }

    /// Returns the servers of the operation or its path, if it has any of its own.
    pub(crate) fn own_servers(&self) -> Option<&'a Vec<Value>> {
        let servers = [self.operation.get("servers"), self.path_item.get("servers")];
        let mut lists = servers.into_iter().flatten().filter_map(Value::as_array);
        lists.find(|list| !list.is_empty())
    }

    /// Converts the operation. The error is the reason why it is left out.
    pub(crate) fn convert(
        &self,
        document: &'a ApiDocument,
        name: String,
        server: Option<&ServerUrl>,
        secrets: &[ApiSecret],
    ) -> Result<ApiOperation, String> {
        if !is_usable_path(self.path) {
            return Err("its path has characters that are not allowed in paths".to_owned());
        }
        let arguments = ArgumentDrafts::read(document, self.path_item, self.operation)?;
        let has_parameter = |name: &&str| {
            let mut parameters = arguments.parameters.iter();
            parameters.any(|draft| draft.parameter.wire_name() == *name)
        };
        if let Some(missing) = path_variables(self.path)
            .iter()
            .find(|name| !has_parameter(name))
        {
            let missing = text::visible(text::prefix(missing, 60));
            return Err(format!(
                "its path has `{{{missing}}}`, but no such parameter"
            ));
        }
        let schema = SchemaConverter::fit(document, |converter| arguments.schema(converter))?;
        Ok(ApiOperation {
            name,
            description: self.description(),
            request: format!("{} {}", self.method, self.path),
            server: server.map(|server| server.base().to_owned()),
            secrets: secrets.iter().map(|secret| secret.name.clone()).collect(),
            accept: self.accept(document),
            parameters: arguments
                .parameters
                .into_iter()
                .map(|draft| draft.parameter)
                .collect(),
            body: arguments.body.map(|draft| draft.body),
            schema,
        })
    }

    fn description(&self) -> String {
        let text = |key: &str| {
            let whole = self.operation[key].as_str().unwrap_or_default();
            text::prefix(whole, 4 * MAX_DESCRIPTION_CHARS).trim()
        };
        let (summary, description) = (text("summary"), text("description"));
        let mut all = String::new();
        if self.operation["deprecated"] == true {
            all.push_str("Deprecated. ");
        }
        all.push_str(summary);
        if !description.is_empty() && description != summary {
            if !summary.is_empty() {
                all.push('\n');
            }
            all.push_str(description);
        }
        let request = text::visible(&format!("{} {}", self.method, self.path));
        let all = shorten(&all.replace("\r\n", "\n"), MAX_DESCRIPTION_CHARS);
        if all.is_empty() {
            request
        } else {
            format!("{all}\n{request}")
        }
    }

    /// Returns the media type to request, if JSON is not among those of the responses.
    fn accept(&self, document: &ApiDocument) -> Option<String> {
        let responses = self.operation["responses"].as_object()?;
        let mut successes = responses
            .iter()
            .take(MAX_LABELS)
            .filter(|(status, _)| status.starts_with('2'));
        let (_, response) = successes.next()?;
        let content = document.resolve(response)?["content"].as_object()?;
        let types = content.keys().take(MAX_LABELS);
        let types: Vec<&String> = types.filter(|name| is_media_type(name)).collect();
        let is_json = |name: &&&String| name.as_str() == "application/json" || name.contains('*');
        match types.iter().find(is_json) {
            Some(_) => None,
            None => types.first().map(|name| (*name).clone()),
        }
    }
}

/// Gives operations unique names of tools.
#[derive(Debug, Default)]
pub(crate) struct OperationNames(HashSet<String>);

impl OperationNames {
    /// Returns the name of an operation's tool, which begins with the name of the API.
    pub(crate) fn add(&mut self, api_name: &str, entry: &OperationEntry<'_>) -> String {
        let id = match entry.operation["operationId"].as_str().map(snake_case) {
            Some(id) if !id.is_empty() => id,
            _ => snake_case(&format!(
                "{} {}",
                entry.method.to_ascii_lowercase(),
                entry.path
            )),
        };
        let own = format!("{api_name}_");
        let whole = if id.starts_with(&own) {
            id
        } else {
            format!("{own}{id}")
        };
        let mut name = bounded(&whole, MAX_NAME_LENGTH);
        let mut count = 2;
        while !self.0.insert(name.clone()) {
            name = format!("{}_{count}", bounded(&whole, MAX_NAME_LENGTH - 6));
            count += 1;
        }
        name
    }
}

/// Shortens a name, with a hash of the whole name at the end.
fn bounded(name: &str, max: usize) -> String {
    if name.len() <= max {
        return name.to_owned();
    }
    // FNV-1a: names must be the same in every release.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let begin = text::prefix_bytes(name, max - 9).trim_end_matches('_');
    format!("{begin}_{hash:08x}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry<'a>(operation: &'a Value, path: &'a str) -> OperationEntry<'a> {
        OperationEntry {
            method: "GET".to_owned(),
            path,
            path_item: &Value::Null,
            operation,
            fault: None,
        }
    }

    #[test]
    fn openapi_tool_names_are_unique_and_valid() {
        let mut names = OperationNames::default();
        let long = json!({"operationId": "x".repeat(200)});
        let list = json!({"operationId": "pets/listAll"});
        let shop = json!({"operationId": "shop_list"});
        let none = json!({});
        let odd = json!({"operationId": "…\u{202e}\n"});
        let mut add = |operation: &Value, path: &str| names.add("shop", &entry(operation, path));
        assert_eq!(add(&list, "/a"), "shop_pets_list_all");
        assert_eq!(add(&list, "/a"), "shop_pets_list_all_2");
        assert_eq!(add(&shop, "/a"), "shop_list");
        assert_eq!(
            add(&none, "/users/{userId}/files"),
            "shop_get_users_user_id_files"
        );
        assert_eq!(add(&odd, "/a"), "shop_get_a");
        let (one, two) = (add(&long, "/a"), add(&long, "/a"));
        assert_ne!(one, two);
        for name in [one, two] {
            assert!(mimir_core::tool::ToolName::new(&name).is_ok(), "{name}");
        }
    }
}
