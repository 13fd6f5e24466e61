//! Conversion of a server's response to a tool result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::backend::RawResult;
use mimir_core::limits::Limits;
use mimir_core::outcome::{ToolOutput, json_len};
use mimir_core::{Content, ToolError};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult};

/// Converts the response to a call to a result, within the limits of the call.
pub(super) fn call_result(result: ServerResult, limits: &Limits) -> RawResult {
    let failure = |message: &str| RawResult::failed(ToolError::execution(message));
    match result {
        ServerResult::CallToolResult(result) => convert_tool_result(result, limits),
        ServerResult::CreateTaskResult(_) => {
            failure("the server returned a task, without declaring that it supports tasks")
        }
        // A result with neither text nor structured content.
        ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => {
            convert_tool_result(CallToolResult::success(Vec::new()), limits)
        }
        _ => failure("the server's response is not a tool result"),
    }
}

fn convert_tool_result(result: CallToolResult, limits: &Limits) -> RawResult {
    let failed = result.is_error == Some(true);
    let mut remaining = usize::try_from(limits.output_bytes).unwrap_or(usize::MAX);
    let mut truncated = false;
    let mut content = Vec::new();
    if let Some(structured) = &result.structured_content {
        // Structured content is not truncated: the rest might not match the tool's schema.
        let Some(rest) = remaining.checked_sub(json_len(structured)) else {
            let limit = mimir_core::text::bytes(limits.output_bytes);
            let message = format!(
                "the server's structured result is larger than {limit} (limits.outputBytes): request less at a time"
            );
            return RawResult::failed(ToolError::limit_exceeded(message));
        };
        remaining = rest;
    }
    for block in result.content {
        let part = match convert_block(block) {
            Ok(part) => part,
            Err(error) => return RawResult::failed(error),
        };
        if part.len() > remaining {
            truncated = true;
            // Truncated text is still useful; a truncated image is not.
            if let Content::Text { text } = part {
                let text = mimir_core::text::prefix_bytes(&text, remaining);
                content.push(Content::text(text));
            }
            break;
        }
        remaining -= part.len();
        content.push(part);
    }
    let result = if failed {
        Err(ToolError::execution(joined_text(&content)))
    } else {
        Ok(ToolOutput {
            content,
            structured: result.structured_content,
            exit_code: None,
        })
    };
    RawResult {
        truncated,
        ..result.into()
    }
}

fn joined_text(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    if texts.is_empty() {
        "the server's tool failed without giving a reason".to_owned()
    } else {
        texts.join("\n")
    }
}

fn convert_block(block: ContentBlock) -> Result<Content, ToolError> {
    let bytes = |data: &str| {
        STANDARD.decode(data.trim()).map_err(|_| {
            ToolError::execution("the server's response contains data that is not valid base64")
        })
    };
    Ok(match block {
        ContentBlock::Text(text) => Content::text(text.text),
        ContentBlock::Image(image) => Content::Image {
            data: bytes(&image.data)?,
            mime_type: image.mime_type,
        },
        ContentBlock::Audio(audio) => Content::Audio {
            data: bytes(&audio.data)?,
            mime_type: audio.mime_type,
        },
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents {
                uri,
                mime_type,
                text,
                ..
            } => Content::File {
                data: text.into_bytes(),
                mime_type: mime_type.unwrap_or_else(|| "text/plain".to_owned()),
                name: last_segment(&uri),
            },
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => Content::File {
                data: bytes(&blob)?,
                mime_type: mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
                name: last_segment(&uri),
            },
            _ => return Err(unknown_part()),
        },
        ContentBlock::ResourceLink(link) => Content::text(format!("{}: {}", link.name, link.uri)),
        _ => return Err(unknown_part()),
    })
}

fn unknown_part() -> ToolError {
    ToolError::execution("the server's response has a part of an unknown kind")
}

/// Returns the last segment of a URI.
fn last_segment(uri: &str) -> String {
    let name = uri.rsplit(['/', '\\']).find(|part| !part.is_empty());
    let name = name.unwrap_or("resource");
    mimir_core::text::visible(mimir_core::text::prefix(name, 128))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::ToolErrorCode;
    use serde_json::json;

    #[test]
    fn result_structured_content_counts_against_the_limit() {
        let limits = Limits {
            output_bytes: 1_000,
            ..Limits::default()
        };
        let answer = |items: usize, text: usize| {
            let mut result = CallToolResult::success(vec![ContentBlock::text("x".repeat(text))]);
            result.structured_content = Some(json!({ "a": vec![json!([]); items] }));
            call_result(ServerResult::CallToolResult(result), &limits)
        };
        let error = answer(400, 1).result.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded);
        assert!(error.message.contains("limits.outputBytes"), "{error}");
        let fits = answer(100, 100);
        assert!(!fits.truncated && fits.result.is_ok());
        // Both together exceed the limit: the text is truncated.
        let shortened = answer(300, 500);
        assert!(shortened.truncated);
        assert!(shortened.result.unwrap().content[0].len() < 100);
    }
}
