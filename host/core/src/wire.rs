//! Messages between pipelines of different processes: calls, outcomes, approval questions and tools as JSON.
//!
//! [`Card`](crate::Card) and [`ApprovalAnswer`](crate::ApprovalAnswer) are serializable themselves. Receivers ignore
//! unknown fields, so that processes of different versions can work together.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{Call, CallContext, CallObserver, SessionSharing};
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::{Content, ContentLabel, DataClass, Outcome, Receipt, ToolOutput, TrustLevel};
use crate::pipeline::ContentSource;

mod tools;

pub use tools::{ForwardingBackend, ToolMessage};

/// A call on its way to another process. Only top-level calls are sent: nested calls run in the process of the call
/// that makes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallMessage {
    /// The name or an alias of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// The origin of the call.
    pub context: CallContext,
    /// Id of the user on whose behalf the call is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The role of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The name of the program that made the call, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The trace context of the request that made the call, as W3C's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The state of tracing systems, as W3C's `tracestate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// The clients that share the session.
    #[serde(default, skip_serializing_if = "SessionSharing::is_one_client")]
    pub sharing: SessionSharing,
}

impl CallMessage {
    /// Describes a call for a user in this role. The observer stays in this process.
    pub fn new(call: &Call, role: Option<&str>) -> Self {
        let context = call.observer.trace_context();
        let state = context.and_then(|context| context.tracestate());
        Self {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            context: call.context.clone(),
            caller: call.caller.as_deref().map(str::to_owned),
            role: role.map(str::to_owned),
            client: call.observer.client_name().map(ToString::to_string),
            trace: call.observer.trace().map(str::to_owned),
            trace_state: state.map(str::to_owned),
            sharing: call.sharing,
        }
    }

    /// Returns the call, whose progress `observer` receives. Its trace is that of the observer.
    pub fn into_call(self, observer: Arc<dyn CallObserver>) -> Call {
        Call {
            tool: self.tool,
            arguments: self.arguments,
            context: self.context,
            observer,
            parent: None,
            caller: self.caller.map(Into::into),
            sharing: self.sharing,
        }
    }
}

/// An outcome on its way to the process whose client waits for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeMessage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<OutputMessage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorMessage>,
    label: ContentLabel,
    source: ContentSource,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(default)]
    redactions: u32,
    receipt: Receipt,
}

impl OutcomeMessage {
    /// Describes a call that ended with an error of mimir itself, and whose outcome another process has recorded.
    pub fn failed(error: ToolError) -> Self {
        Self {
            output: None,
            error: Some(error.into()),
            label: ContentLabel {
                trust: TrustLevel::System,
                data_class: DataClass::Public,
                origin: "mimir".to_owned(),
            },
            source: ContentSource::Other,
            truncated: false,
            redactions: 0,
            receipt: Receipt::default(),
        }
    }
}

/// The output of a successful call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputMessage {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    content: Vec<Content>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    structured: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// An error with its remedies, which the JSON form of [`ToolError`] omits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorMessage {
    code: ToolErrorCode,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remedies: Vec<String>,
}

impl From<ToolError> for ErrorMessage {
    fn from(error: ToolError) -> Self {
        Self {
            code: error.code,
            message: error.message,
            details: error.details,
            remedies: error.remedies.into_vec(),
        }
    }
}

impl From<ErrorMessage> for ToolError {
    fn from(message: ErrorMessage) -> Self {
        Self {
            code: message.code,
            message: message.message,
            details: message.details,
            remedies: message.remedies.into(),
        }
    }
}

impl From<Outcome> for OutcomeMessage {
    fn from(outcome: Outcome) -> Self {
        let (output, error) = match outcome.result {
            Ok(output) => {
                let output = OutputMessage {
                    content: output.content,
                    structured: output.structured,
                    exit_code: output.exit_code,
                };
                (Some(output), None)
            }
            Err(error) => (None, Some(error.into())),
        };
        Self {
            output,
            error,
            label: outcome.label,
            source: outcome.source,
            truncated: outcome.truncated,
            redactions: outcome.redactions,
            receipt: outcome.receipt,
        }
    }
}

impl From<OutcomeMessage> for Outcome {
    fn from(message: OutcomeMessage) -> Self {
        let result = match (message.output, message.error) {
            (_, Some(error)) => Err(error.into()),
            (Some(output), None) => Ok(ToolOutput {
                content: output.content,
                structured: output.structured,
                exit_code: output.exit_code,
            }),
            (None, None) => Err(ToolError::internal(
                "the message of the outcome has neither an output nor an error",
            )),
        };
        Self {
            result,
            label: message.label,
            source: message.source,
            truncated: message.truncated,
            redactions: message.redactions,
            receipt: message.receipt,
        }
    }
}

#[cfg(test)]
mod tests;
