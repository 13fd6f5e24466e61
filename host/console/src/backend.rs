//! The interface of the data behind the console.

use futures::stream::BoxStream;
use mimir_core::{BoxFuture, ToolError};
use serde_json::Value;

use crate::event::ConsoleEvents;
use crate::request::{ConsoleRequest, RecordFilter};
use crate::user::ConsoleUser;

/// Lines of the audit record, without line breaks.
pub type RecordLines = BoxStream<'static, Result<String, ToolError>>;

/// Source of the console's data, which also carries out its changes.
///
/// Roles are checked before a request arrives here. Texts of strangers must already be masked and visible, see
/// [`mimir_core::text::visible`].
pub trait ConsoleBackend: Send + Sync + 'static {
    /// Answers a request with the JSON of its response. [`Value::Null`] is sent as `204 No Content`.
    ///
    /// The status of an error follows from its code: `NOT_FOUND` is 404, or 409 for an answer to a question, `UNAVAILABLE`
    /// is 409, `PERMISSION_DENIED` and `POLICY_DENIED` are 403, `LIMIT_EXCEEDED` is 413, `INTERNAL` is 500, and all others
    /// are 400.
    fn handle<'a>(
        &'a self,
        user: &'a ConsoleUser,
        request: ConsoleRequest,
    ) -> BoxFuture<'a, Result<Value, ToolError>>;

    /// Reads the audit record for an export: lines of JSON without line breaks, newest last. The stream is read as slowly
    /// as the client takes it.
    ///
    /// # Errors
    /// The filter is not valid.
    fn export_record(&self, filter: RecordFilter) -> Result<RecordLines, ToolError>;

    /// Returns the events from now on. Called once, when the first page connects.
    fn events(&self) -> ConsoleEvents;
}
