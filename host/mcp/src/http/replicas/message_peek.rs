//! The parts of a client's message that decide which replica answers it.

use rmcp::model::InitializeRequestParams;
use serde::Deserialize;
use serde_json::Value;

use super::session_messages::node_of;

/// The parts of a message that matter for its route.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessagePeek {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<ParamsPeek>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParamsPeek {
    #[serde(default)]
    request_state: Option<String>,
    #[serde(default)]
    task_id: Option<String>,
}

#[derive(Deserialize)]
struct HandshakeMessage {
    params: InitializeRequestParams,
}

impl MessagePeek {
    /// Reads a message. A message that is not valid has no parts, and is rejected by the replica that got it.
    pub(super) fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Returns the replica to whose request this message is the answer.
    pub(super) fn asking_node(&self) -> Option<&str> {
        match (&self.method, &self.id) {
            (None, Some(Value::String(id))) => node_of(id),
            _ => None,
        }
    }

    /// Returns the name of the pending call that the message resumes.
    pub(super) fn pending_call(&self) -> Option<&str> {
        self.params.as_ref()?.request_state.as_deref()
    }

    /// Returns the task of a request about a task.
    pub(super) fn task(&self) -> Option<&str> {
        let is_task_request = self.method.as_deref()?.starts_with("tasks/");
        let task = self.params.as_ref()?.task_id.as_deref();
        task.filter(|_| is_task_request)
    }

    /// Returns the id of a request that needs a response.
    pub(super) fn request_id(&self) -> Option<&Value> {
        self.method.as_ref()?;
        self.id.as_ref()
    }

    /// Returns true if the message only asks for something, so that sending it again changes nothing.
    pub(super) fn only_reads(&self) -> bool {
        let method = self.method.as_deref().unwrap_or_default();
        matches!(
            method,
            "tasks/get" | "resources/read" | "prompts/get" | "completion/complete" | "ping"
        ) || method.ends_with("/list")
    }

    /// Returns the params of a handshake.
    pub(super) fn handshake(&self, body: &[u8]) -> Option<InitializeRequestParams> {
        (self.method.as_deref() == Some("initialize"))
            .then(|| serde_json::from_slice::<HandshakeMessage>(body).ok())
            .flatten()
            .map(|message| message.params)
    }
}
