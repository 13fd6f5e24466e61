//! Tools for the operations of an HTTP API that an OpenAPI document describes.
//!
//! [`import`] converts a document into one file, `NAME.openapi.yml`, which a person can read and edit. The tools of such
//! a file send requests through the effect gate of their call, like the requests of any other tool. The document is
//! untrusted: it can request hosts and secrets, which a person grants, and nothing else.
//!
//! Out of scope: reading documents, writing files, and questions to the user.

use mimir_core::ToolError;

mod api_backend;
mod api_file;
mod api_request;
mod api_response;
mod body_encoding;
mod document;
mod exact_numbers;
mod file_text;
mod import;
mod operations;
mod parameter_encoding;
mod parameters;
mod schema_conversion;
mod schema_values;
mod security;
mod selection;
mod server_url;

pub(crate) use api_backend::api_tools;
pub use api_file::{ApiFile, ApiSource};
pub use document::MAX_DOCUMENT_BYTES;
pub use import::{ImportOptions, ImportedApi, import};

/// End of the name of a file with the tools of an API.
pub const FILE_SUFFIX: &str = mimir_core::tool::API_FILE_SUFFIX;

/// Maximum size of such a file in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of operations in a file.
pub(crate) const MAX_OPERATIONS: usize = 2_000;

/// Returns true for the name of a file with the tools of an API.
pub fn is_api_file(name: &str) -> bool {
    name.ends_with(FILE_SUFFIX)
}

/// Parses a file with the tools of an API, and compiles the schemas of all tools. `file_name` is used in messages.
pub fn check_api_file(file_name: &str, content: &str) -> Result<ApiFile, ToolError> {
    let file = ApiFile::parse(file_name, content)?;
    file.check_schemas(file_name)?;
    Ok(file)
}
