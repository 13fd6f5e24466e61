//! Context of a call: ids, the user and the workspace.

use std::path::{Path, PathBuf};

use crate::bindings::mimir::tool::types as wit;

/// The context of one call. It contains no secrets.
#[derive(Debug, Clone)]
pub struct Context {
    request_id: String,
    session_id: String,
    conversation_id: Option<String>,
    user: Option<String>,
    workspace: PathBuf,
}

impl Context {
    /// Creates a context for tests, with the given directory as the workspace.
    pub fn at(workspace: impl Into<PathBuf>) -> Self {
        Self {
            request_id: "test-request".into(),
            session_id: "test-session".into(),
            conversation_id: None,
            user: None,
            workspace: workspace.into(),
        }
    }

    /// Sets the request id, so that tests can tell calls apart.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = id.into();
        self
    }

    /// Unique id of this call.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Id of the session, shared by all calls of the session.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Id of the conversation that the call belongs to, if the caller gave one.
    pub fn conversation_id(&self) -> Option<&str> {
        self.conversation_id.as_deref()
    }

    /// The user on whose behalf the call runs, if known.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The workspace root as this tool sees it. Files that were not granted do not exist there.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }
}

impl From<wit::CallContext> for Context {
    fn from(context: wit::CallContext) -> Self {
        Self {
            request_id: context.request_id,
            session_id: context.session_id,
            conversation_id: context.conversation_id,
            user: context.user,
            workspace: context.workspace.into(),
        }
    }
}
