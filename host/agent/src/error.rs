//! Errors of model requests.

use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode};

use crate::retry;

/// Error of a model request.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider answered with an HTTP error status.
    #[error("{provider} answered {status}: {message}{}", requested_wait(*.after))]
    Status {
        /// The provider's name.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message, masked.
        message: String,
        /// The requested wait before a retry.
        after: Option<Duration>,
    },
    /// The provider reported an error in the middle of its reply.
    #[error("{provider} stopped its answer with an error: {message}")]
    Failed {
        /// The provider's name.
        provider: String,
        /// The provider's message, masked.
        message: String,
        /// True if a retry may succeed.
        transient: bool,
    },
    /// The connection ended before the reply did.
    #[error("the connection to {provider} broke in the middle of its answer{}", in_parentheses(.why))]
    Cut {
        /// The provider's name.
        provider: String,
        /// The cause; empty if unknown.
        why: String,
    },
    /// A network error, or a request that the network policy blocks.
    #[error("{0}")]
    Net(mimir_net::Error),
    /// The reply does not follow the protocol.
    #[error(
        "{provider} sent an unexpected answer ({why}); check `providers.{provider}.api` and `url`"
    )]
    Protocol {
        /// The provider's name.
        provider: String,
        /// The violation of the protocol.
        why: String,
    },
    /// The API key is not available.
    #[error("{0}")]
    Key(ToolError),
    /// The request could not be recorded in the audit log, so it was not sent.
    #[error("the request was not sent, because it could not be recorded in the audit log: {0}")]
    Unrecorded(String),
    /// The reply took longer than the time left for the task.
    #[error("{provider} did not answer within the task's remaining time (`agent.maxTimeMs`)")]
    Late {
        /// The model, as `PROVIDER/MODEL`.
        provider: String,
    },
}

/// Formats the wait that the provider asks for, if it is too long for a retry. Returns an empty text for a shorter one,
/// because retries observe it.
fn requested_wait(after: Option<Duration>) -> String {
    match after.filter(|after| retry::backoff(0, Some(*after)).is_none()) {
        Some(after) => format!(
            "; it asks to wait {} s before the next request",
            after.as_secs()
        ),
        None => String::new(),
    }
}

fn in_parentheses(why: &str) -> String {
    match why {
        "" => String::new(),
        why => format!(" ({why})"),
    }
}

/// Phrases, in lower case, by which messages about a conversation that is too long are recognized.
const TOO_LONG_PHRASES: [&str; 7] = [
    // OpenAI and many compatible servers.
    "context_length",
    "context length",
    "context window",
    // Anthropic.
    "prompt is too long",
    "exceed context limit",
    // Gemini.
    "input token count",
    // llama.cpp.
    "exceeds the available context size",
];

/// A phrase of messages about a conversation that is too long, and also of messages about throttling, so it is only
/// recognized with the status 400.
const TOO_MANY_TOKENS: &str = "too many tokens";

/// HTTP statuses of overloaded providers and failing gateways.
const RETRYABLE_STATUSES: [u16; 8] = [408, 409, 425, 429, 500, 502, 503, 504];

impl ModelError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            // Statuses from 520 up come from providers' front ends, such as 529 for overload.
            Self::Status { status, .. } => RETRYABLE_STATUSES.contains(status) || *status >= 520,
            // A retry sends as many tokens.
            Self::Failed { transient, .. } => *transient && !self.is_too_long(),
            Self::Cut { .. } => true,
            Self::Net(error) => is_transient(error),
            Self::Protocol { .. } | Self::Key(_) | Self::Unrecorded(_) | Self::Late { .. } => false,
        }
    }

    /// Returns the wait before a retry that the provider asks for.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Self::Status { after, .. } => *after,
            _ => None,
        }
    }

    /// Returns true if the provider rejected the request as too long.
    pub fn is_too_long(&self) -> bool {
        let (message, is_status) = match self {
            Self::Status { status: 413, .. } => return true,
            Self::Status {
                status: 400,
                message,
                ..
            } => (message.to_ascii_lowercase(), true),
            Self::Failed { message, .. } => (message.to_ascii_lowercase(), false),
            _ => return false,
        };
        let mut phrases = TOO_LONG_PHRASES.iter();
        phrases.any(|phrase| message.contains(phrase))
            || is_status && message.contains(TOO_MANY_TOKENS)
    }

    /// Returns true if the provider may have rejected the request because of its images.
    pub(crate) fn is_about_images(&self) -> bool {
        let message = match self {
            Self::Status {
                status: 400 | 404 | 415 | 422,
                message,
                ..
            }
            | Self::Failed { message, .. } => message.to_ascii_lowercase(),
            _ => return false,
        };
        // Whole words: "vision" is also in "revision" and "provisioned".
        message
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| matches!(word, "image" | "images" | "vision" | "multimodal"))
    }

    /// Returns the matching error code of a tool.
    pub fn code(&self) -> ToolErrorCode {
        match self {
            Self::Status { status, .. } => match status {
                401 | 403 => ToolErrorCode::PermissionDenied,
                404 => ToolErrorCode::NotFound,
                402 | 429 => ToolErrorCode::LimitExceeded,
                400 | 413 | 422 => ToolErrorCode::InvalidInput,
                _ => ToolErrorCode::Network,
            },
            Self::Failed { .. } | Self::Cut { .. } | Self::Protocol { .. } => {
                ToolErrorCode::Network
            }
            Self::Net(error) => error.code(),
            Self::Key(error) => error.code,
            Self::Unrecorded(_) => ToolErrorCode::Unavailable,
            Self::Late { .. } => ToolErrorCode::Timeout,
        }
    }
}

fn is_transient(error: &mimir_net::Error) -> bool {
    use mimir_net::Error;
    matches!(
        error,
        Error::Dns { .. }
            | Error::Refused { .. }
            | Error::Unreachable { .. }
            | Error::Timeout { .. }
            | Error::TooMany(_)
            | Error::Protocol(_)
    )
}

impl From<ModelError> for ToolError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Key(error) => error,
            ModelError::Net(error) => error.into(),
            error => {
                let remedy: Option<String> = match &error {
                    ModelError::Status {
                        status: 401 | 403,
                        provider,
                        ..
                    } => Some(format!(
                        "{provider} rejected the key: store a valid key with `mimir secrets set NAME`, using the name in `providers.{provider}.key`"
                    )),
                    ModelError::Status { status: 404, .. } => Some(
                        "check the model's name, and `url` of its provider in the settings"
                            .to_owned(),
                    ),
                    _ => None,
                };
                Self::new(error.code(), error.to_string()).with_remedies(remedy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, message: &str) -> ModelError {
        ModelError::Status {
            provider: "p".into(),
            status,
            message: message.into(),
            after: None,
        }
    }

    #[test]
    fn error_status_decides_whether_to_retry() {
        for busy in [408, 429, 500, 502, 503, 504, 529] {
            assert!(status(busy, "").is_transient(), "{busy}");
        }
        for wrong in [400, 401, 402, 403, 404, 413, 422] {
            assert!(!status(wrong, "").is_transient(), "{wrong}");
        }
    }

    #[test]
    fn error_about_a_long_conversation_is_recognized() {
        for message in [
            "This model's maximum context length is 8192 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "context_length_exceeded",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
            "The input token count (134123) exceeds the maximum number of tokens allowed (131072).",
            "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
        ] {
            assert!(status(400, message).is_too_long(), "{message}");
            assert!(!status(429, message).is_too_long(), "{message}");
            let failed = ModelError::Failed {
                provider: "p".into(),
                message: message.into(),
                transient: true,
            };
            assert!(failed.is_too_long() && !failed.is_transient(), "{message}");
        }
        let throttled = ModelError::Failed {
            provider: "p".into(),
            message: "Too many tokens, please wait before trying again.".into(),
            transient: true,
        };
        assert!(!throttled.is_too_long() && throttled.is_transient());
        assert!(status(400, "Too many tokens in the request").is_too_long());
        assert!(!status(400, "max_tokens: the limit is 8192").is_too_long());
        assert!(status(413, "").is_too_long());
    }

    #[test]
    fn error_about_images_is_recognized_by_whole_words() {
        for message in [
            "This model does not support image input.",
            "unknown variant `image_url`, expected `text`",
            "No endpoints support vision.",
            "Images are not supported",
        ] {
            assert!(status(400, message).is_about_images(), "{message}");
            assert!(!status(500, message).is_about_images(), "{message}");
        }
        for message in ["the model is not provisioned", "unknown revision", ""] {
            assert!(!status(400, message).is_about_images(), "{message}");
        }
    }

    #[test]
    fn error_message_names_a_long_retry_delay() {
        let after = |seconds| ModelError::Status {
            provider: "p".into(),
            status: 429,
            message: "slow down".into(),
            after: Some(Duration::from_secs(seconds)),
        };
        assert_eq!(
            after(3_600).to_string(),
            "p answered 429: slow down; it asks to wait 3600 s before the next request"
        );
        assert_eq!(after(3).to_string(), "p answered 429: slow down");
    }

    #[test]
    fn error_codes_and_remedies_follow_the_status() {
        let error = ToolError::from(status(401, "no"));
        assert_eq!(error.code, ToolErrorCode::PermissionDenied);
        assert!(error.remedies[0].contains("mimir secrets set"));
        assert_eq!(
            ToolError::from(status(429, "slow")).code,
            ToolErrorCode::LimitExceeded
        );
        let cut = ModelError::Cut {
            provider: "p".into(),
            why: String::new(),
        };
        assert_eq!(
            cut.to_string(),
            "the connection to p broke in the middle of its answer"
        );
        assert_eq!(cut.code(), ToolErrorCode::Network);
    }
}
