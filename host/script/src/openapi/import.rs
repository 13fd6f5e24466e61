//! Import of a document into the file of an API.

use mimir_core::{ToolError, text};
use mimir_wasm::Sha256Digest;
use serde_json::{Value, json};

use super::api_file::{ApiFile, ApiOperation, ApiSecret, ApiSource, FILE_VERSION, is_secret_name};
use super::document::ApiDocument;
use super::file_text::file_text;
use super::operations::{OperationEntry, OperationNames, operation_entries};
use super::security::SecretFinder;
use super::selection::OperationSelection;
use super::server_url::ServerUrl;
use super::{MAX_FILE_BYTES, MAX_OPERATIONS};

/// Maximum length of the name of an API.
const MAX_API_NAME: usize = 24;

/// Maximum number of servers that are tried until one has a valid URL.
const MAX_SERVERS: usize = 20;

/// Words of a title that say nothing about the API.
const FILLER_WORDS: [&str; 14] = [
    "api",
    "apis",
    "rest",
    "restful",
    "openapi",
    "swagger",
    "specification",
    "spec",
    "the",
    "http",
    "reference",
    "public",
    "documentation",
    "web",
];

/// First words of names that belong to other tools.
const RESERVED_NAMES: [&str; 4] = ["mcp", "mimir", "browser", "memory"];

/// Options of an import.
#[derive(Debug, Default)]
pub struct ImportOptions {
    /// The document and the choices of the user. The digest is computed.
    pub source: ApiSource,
    /// Name of the API, which begins the names of its tools. By default, it is derived from the title.
    pub name: Option<String>,
}

/// An imported API.
#[derive(Debug)]
pub struct ImportedApi {
    /// Name of the API.
    pub name: String,
    /// The text of its file.
    pub text: String,
    /// The parsed file.
    pub file: ApiFile,
    /// Operations that were left out, each with the reason.
    pub skipped: Vec<String>,
    /// Choices that the import has made, for the user.
    pub notes: Vec<String>,
}

/// Converts a document. It grants nothing: the hosts and secrets of the tools are needs, which a person grants.
///
/// # Errors
///
/// Returns an error if the document is not valid or too large, if it names no usable server, or if no operation is left.
pub fn import(bytes: &[u8], options: &ImportOptions) -> Result<ImportedApi, ToolError> {
    let source = &options.source;
    let shown = text::visible(text::prefix(&source.document, 300));
    let document = ApiDocument::parse(&shown, bytes)?;
    let title = document.root["info"]["title"].as_str().unwrap_or_default();
    let title = text::visible(text::prefix(title, 100)).trim().to_owned();
    let name = api_name(options.name.as_deref(), &title)?;
    if let Some(bearer) = source.bearer.as_ref().filter(|name| !is_secret_name(name)) {
        return Err(ToolError::invalid_input(format!(
            "`{}` is not a valid name of a secret: use letters, digits and _",
            text::visible(bearer)
        )));
    }
    let entries = operation_entries(&document)?;
    let selection = OperationSelection {
        include: &source.include,
        exclude: &source.exclude,
    };
    let labels: Vec<_> = entries.iter().map(OperationEntry::labels).collect();
    selection.check_use(&labels)?;
    let selected: Vec<&OperationEntry<'_>> = entries
        .iter()
        .filter(|entry| selection.selects(&entry.labels()))
        .collect();
    let supported = selected.iter().filter(|entry| entry.fault.is_none());
    let count = supported.count();
    if count > MAX_OPERATIONS {
        return Err(ToolError::limit_exceeded(format!(
            "{count} operations are too many: expected at most {MAX_OPERATIONS}; choose some with `--include`, such as `--include tag:NAME`"
        )));
    }
    let chosen = source.server.as_deref().map(ServerUrl::parse).transpose()?;
    let document_url = source
        .document
        .contains("://")
        .then_some(source.document.as_str());
    let servers = DocumentServers {
        chosen,
        document: &document,
        document_url,
    };
    let main = servers.main();
    let finder = SecretFinder::new(&document, &name, source.bearer.as_deref());
    let mut imported = Operations::default();
    let mut names = OperationNames::default();
    for entry in selected {
        let added = match &entry.fault {
            Some(fault) => Err(fault.clone()),
            None => {
                let tool_name = names.add(&name, entry);
                imported.add(&document, entry, tool_name, (&servers, &main), &finder)
            }
        };
        if let Err(reason) = added {
            imported
                .skipped
                .push(format!("{}: {reason}", entry.shown()));
        }
        if imported.bytes > MAX_FILE_BYTES {
            return Err(too_large());
        }
    }
    let server = match (
        &main,
        imported
            .operations
            .iter()
            .find_map(|operation| operation.server.as_deref()),
    ) {
        (Ok(server), _) => server.base().to_owned(),
        (Err(_), Some(server)) => server.to_owned(),
        (Err(error), None) => return Err(error.clone()),
    };
    if imported.operations.is_empty() {
        let reason = match imported.skipped.first() {
            Some(reason) => format!("all operations were left out, such as {reason}"),
            None => format!("{shown} describes no operation"),
        };
        return Err(ToolError::invalid_input(format!(
            "nothing was imported: {reason}"
        )));
    }
    let file = ApiFile {
        openapi: FILE_VERSION,
        title,
        source: ApiSource {
            sha256: Sha256Digest::of_bytes(bytes).to_string(),
            ..source.clone()
        },
        server,
        secrets: imported.secrets,
        operations: imported.operations,
    };
    let text = file_text(&name, &file);
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large());
    }
    // The loader must accept the text that is written.
    let file = ApiFile::parse(&format!("{name}{}", super::FILE_SUFFIX), &text)?;
    Ok(ImportedApi {
        name,
        text,
        file,
        skipped: imported.skipped,
        notes: imported.notes,
    })
}

/// The converted operations, and the secrets that they use.
#[derive(Default)]
struct Operations {
    operations: Vec<ApiOperation>,
    secrets: Vec<ApiSecret>,
    skipped: Vec<String>,
    notes: Vec<String>,
    /// Size of the text of the operations.
    bytes: u64,
}

impl Operations {
    fn add<'a>(
        &mut self,
        document: &'a ApiDocument,
        entry: &OperationEntry<'a>,
        tool_name: String,
        (servers, main): (&DocumentServers<'_>, &Result<ServerUrl, ToolError>),
        finder: &SecretFinder<'_>,
    ) -> Result<(), String> {
        let own = servers.own(entry).map_err(|error| error.message)?;
        let own = match (own, main) {
            (Some(own), Ok(main)) if own == *main => None,
            (None, Err(error)) => return Err(error.message.clone()),
            (own, _) => own,
        };
        let (secrets, note) = finder.secrets_of(entry.operation);
        let secrets = secrets?;
        let operation = entry.convert(document, tool_name, own.as_ref(), &secrets)?;
        let operation = self.check_alone(operation, &secrets)?;
        for secret in secrets {
            if !self.secrets.contains(&secret) {
                self.secrets.push(secret);
            }
        }
        if let Some(note) = note.filter(|note| !self.notes.contains(note)) {
            self.notes.push(note);
        }
        self.operations.push(operation);
        Ok(())
    }

    /// Checks that the loader accepts the file of this operation alone, so that one odd operation does not make the
    /// whole import fail.
    fn check_alone(
        &mut self,
        operation: ApiOperation,
        secrets: &[ApiSecret],
    ) -> Result<ApiOperation, String> {
        let mut file = ApiFile {
            openapi: FILE_VERSION,
            title: String::new(),
            source: ApiSource::default(),
            server: "https://localhost".to_owned(),
            secrets: secrets.to_vec(),
            operations: Vec::new(),
        };
        let head = file_text("", &file).len();
        file.operations.push(operation);
        let text = file_text("", &file);
        ApiFile::parse_content(&text).map_err(|why| format!("its tool is not valid: {why}"))?;
        self.bytes += (text.len() - head) as u64;
        let operation = file.operations.pop();
        operation.ok_or_else(|| "its tool is not valid".to_owned())
    }
}

fn too_large() -> ToolError {
    ToolError::limit_exceeded(format!(
        "the tools would need a file of more than {}: choose fewer operations with `--include`",
        text::bytes(MAX_FILE_BYTES)
    ))
}

/// The servers of a document.
struct DocumentServers<'a> {
    /// The server that the user has chosen, which replaces all others.
    chosen: Option<ServerUrl>,
    document: &'a ApiDocument,
    document_url: Option<&'a str>,
}

impl DocumentServers<'_> {
    /// Returns the server of the whole document.
    fn main(&self) -> Result<ServerUrl, ToolError> {
        if let Some(chosen) = &self.chosen {
            return Ok(chosen.clone());
        }
        let root = &self.document.root;
        if self.document.is_swagger() {
            return self.first_valid(&swagger_servers(root));
        }
        let default = vec![json!({ "url": "/" })];
        let listed = root["servers"]
            .as_array()
            .filter(|servers| !servers.is_empty());
        self.first_valid(listed.unwrap_or(&default))
    }

    /// Returns the server of an operation, if it has one of its own.
    fn own(&self, entry: &OperationEntry<'_>) -> Result<Option<ServerUrl>, ToolError> {
        match entry.own_servers() {
            Some(servers) if self.chosen.is_none() => self.first_valid(servers).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the first entry with a valid URL, or the error of the first entry.
    fn first_valid(&self, entries: &[Value]) -> Result<ServerUrl, ToolError> {
        let mut first = None;
        for entry in entries.iter().take(MAX_SERVERS) {
            match ServerUrl::from_entry(entry, self.document_url) {
                Ok(server) => return Ok(server),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| {
            ToolError::invalid_input("the document names no server: name it with `--server URL`")
        }))
    }
}

/// Returns the servers of a Swagger 2.0 document, https first.
fn swagger_servers(root: &Value) -> Vec<Value> {
    let path = root["basePath"].as_str().unwrap_or_default();
    let Some(host) = root["host"].as_str() else {
        let path = if path.is_empty() { "/" } else { path };
        return vec![json!({ "url": path })];
    };
    let listed = root["schemes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let mut schemes: Vec<&str> = listed
        .filter(|scheme| matches!(*scheme, "http" | "https"))
        .collect();
    schemes.sort_unstable_by_key(|scheme| *scheme != "https");
    if schemes.is_empty() {
        schemes.push("https");
    }
    let servers = schemes
        .iter()
        .map(|scheme| json!({ "url": format!("{scheme}://{host}{path}") }));
    servers.collect()
}

/// Returns the name of an API: the one that the user gives, or one from the title.
fn api_name(given: Option<&str>, title: &str) -> Result<String, ToolError> {
    let name = match given {
        Some(name) => name.to_owned(),
        None => name_from_title(title),
    };
    let is_name_byte = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    let is_valid = name.len() <= MAX_API_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('_')
        && name.bytes().all(is_name_byte);
    let first = name.split('_').next().unwrap_or_default();
    if name.is_empty() && given.is_none() {
        return Err(ToolError::invalid_input(
            "the document has no title to name its tools after: name the API with `--name NAME`",
        ));
    }
    if !is_valid || RESERVED_NAMES.contains(&first) {
        return Err(ToolError::invalid_input(format!(
            "`{}` is not a valid name of an API: expected at most {MAX_API_NAME} characters of a-z, 0-9 and _, beginning with a letter and not with {}; name it with `--name NAME`",
            text::visible(text::prefix(&name, 100)),
            RESERVED_NAMES.join(", ")
        )));
    }
    Ok(name)
}

fn name_from_title(title: &str) -> String {
    let lower = title.to_ascii_lowercase();
    let words = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let is_version = |word: &str| {
        word.strip_prefix('v')
            .unwrap_or(word)
            .bytes()
            .all(|c| c.is_ascii_digit())
    };
    let mut name = String::new();
    for word in
        words.filter(|word| word.len() > 1 && !FILLER_WORDS.contains(word) && !is_version(word))
    {
        if name.len() + word.len() + 1 > MAX_API_NAME {
            break;
        }
        if !name.is_empty() {
            name.push('_');
        }
        name.push_str(word);
    }
    name
}

/// Converts a name such as `listAllPets` or `pets/list-all` to `list_all_pets` or `pets_list_all`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let mut previous = ' ';
    let mut rest = name.chars().take(400).peekable();
    while let Some(c) = rest.next() {
        if c.is_ascii_uppercase() {
            let ends_acronym =
                previous.is_ascii_uppercase() && rest.peek().is_some_and(char::is_ascii_lowercase);
            if previous.is_ascii_lowercase() || previous.is_ascii_digit() || ends_acronym {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
        } else if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        previous = c;
    }
    out.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests;
