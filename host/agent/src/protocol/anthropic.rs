//! Anthropic's Messages API.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ReplyError, TextCallback, check_call_limit, error_text, number, text};
use crate::image::MessageImage;
use crate::message::{Message, ToolCall};
use crate::model::{ModelReply, ModelRequest, StopReason, TokenUsage};

/// Builds the body of a request. The parts that the next request repeats are marked for the provider's cache.
pub(super) fn build_request(model: &str, request: &ModelRequest<'_>) -> Value {
    let cache_control = json!({ "type": "ephemeral" });
    let mut messages: Vec<Value> = Vec::new();
    for message in request.messages {
        let (role, blocks) = content_blocks(message);
        match messages.last_mut() {
            // Consecutive messages of a role are merged, such as results and the user message after them.
            Some(last) if last["role"] == role => {
                if let Some(list) = last["content"].as_array_mut() {
                    list.extend(blocks);
                }
            }
            _ => messages.push(json!({ "role": role, "content": blocks })),
        }
    }
    // The end of this request, which the next one reads, and the end of the previous request: the provider only looks
    // a limited number of blocks back from a mark.
    let mut ends = messages.iter_mut().rev();
    let last = ends.next();
    let previous = ends.find(|message| message["role"] == "user");
    for message in last.into_iter().chain(previous) {
        if let Some(block) = message["content"]
            .as_array_mut()
            .and_then(|list| list.last_mut())
        {
            block["cache_control"] = cache_control.clone();
        }
    }
    let mut body = json!({
        "model": model,
        "max_tokens": request.max_tokens,
        "system": [{ "type": "text", "text": request.system, "cache_control": &cache_control }],
        "messages": messages,
        "stream": true,
    });
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema })
        });
        body["tools"] = tools.collect();
        if let Some(last) = body["tools"]
            .as_array_mut()
            .and_then(|list| list.last_mut())
        {
            last["cache_control"] = cache_control;
        }
    }
    body
}

/// Converts a message to its role and its content blocks.
fn content_blocks(message: &Message) -> (&'static str, Vec<Value>) {
    match message {
        Message::User { text, images } => {
            let mut blocks: Vec<Value> = images.iter().map(image_block).collect();
            blocks.push(text_block(text));
            ("user", blocks)
        }
        Message::Assistant { text, calls } => {
            let mut blocks = Vec::new();
            if !text.trim().is_empty() {
                blocks.push(text_block(text));
            }
            blocks.extend(calls.iter().map(|call| {
                json!({ "type": "tool_use", "id": allowed_id(&call.id), "name": call.name, "input": call.arguments_object() })
            }));
            if blocks.is_empty() {
                blocks.push(text_block("(nothing)"));
            }
            ("assistant", blocks)
        }
        Message::Tool {
            id: call,
            text,
            failed,
            images,
            ..
        } => {
            let mut content = vec![text_block(text)];
            content.extend(images.iter().map(image_block));
            let block = json!({
                "type": "tool_result", "tool_use_id": allowed_id(call),
                "content": content, "is_error": failed,
            });
            ("user", vec![block])
        }
    }
}

/// Builds a text block. The API rejects blank text.
fn text_block(text: &str) -> Value {
    let text = if text.trim().is_empty() {
        "(nothing)"
    } else {
        text
    };
    json!({ "type": "text", "text": text })
}

fn image_block(image: &MessageImage) -> Value {
    json!({
        "type": "image",
        "source": { "type": "base64", "media_type": image.mime_type, "data": image.data },
    })
}

/// Replaces characters that this API does not accept in ids. Ids from other providers may have them.
fn allowed_id(id: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    id.chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .collect()
}

/// Parses the events of a reply.
#[derive(Default)]
pub(super) struct AnthropicReader {
    reply: ModelReply,
    /// Index of each call in `reply.calls`, by the index of its content block.
    calls: BTreeMap<u64, usize>,
    usage: TokenUsage,
    ended: bool,
}

impl AnthropicReader {
    pub(super) fn read_event(
        &mut self,
        event: &Value,
        on_text: TextCallback<'_>,
    ) -> Result<(), ReplyError> {
        let at = number(event, "/index").unwrap_or_default();
        match text(event, "/type") {
            "message_start" => self.update_usage(event.pointer("/message/usage")),
            "content_block_start" if text(event, "/content_block/type") == "tool_use" => {
                check_call_limit(&self.reply)?;
                self.calls.insert(at, self.reply.calls.len());
                let input = event.pointer("/content_block/input");
                let initial_input =
                    input.filter(|input| input.as_object().is_some_and(|o| !o.is_empty()));
                self.reply.calls.push(ToolCall {
                    id: text(event, "/content_block/id").to_owned(),
                    name: text(event, "/content_block/name").to_owned(),
                    arguments: initial_input.map(Value::to_string).unwrap_or_default(),
                    extra: None,
                });
            }
            "content_block_delta" => match text(event, "/delta/type") {
                "text_delta" => {
                    let delta = text(event, "/delta/text");
                    self.reply.text.push_str(delta);
                    on_text(delta);
                }
                "input_json_delta" => {
                    if let Some(&call) = self.calls.get(&at) {
                        let more = text(event, "/delta/partial_json");
                        self.reply.calls[call].arguments.push_str(more);
                    }
                }
                _ => {}
            },
            "message_delta" => {
                self.update_usage(event.get("usage"));
                self.reply.stop = match text(event, "/delta/stop_reason") {
                    "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
                    "refusal" => StopReason::Withheld,
                    _ => StopReason::Finished,
                };
            }
            "message_stop" => self.ended = true,
            "error" => {
                let kind = text(event, "/error/type");
                return Err(ReplyError::Reported {
                    message: error_text(event).unwrap_or_default(),
                    transient: matches!(
                        kind,
                        "overloaded_error" | "api_error" | "rate_limit_error"
                    ),
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Updates the token counts, which each event reports as totals. Tokens read from the cache count as sent.
    fn update_usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let tokens_at = |pointer: &str| number(usage, pointer);
        if let Some(input) = tokens_at("/input_tokens") {
            let write = tokens_at("/cache_creation_input_tokens").unwrap_or_default();
            let read = tokens_at("/cache_read_input_tokens").unwrap_or_default();
            let total = input.saturating_add(write).saturating_add(read);
            if total > self.usage.input {
                self.usage.input = total;
                (self.usage.cache_read, self.usage.cache_write) = (read, write);
            }
        }
        if let Some(output) = tokens_at("/output_tokens") {
            self.usage.output = self.usage.output.max(output);
        }
        self.reply.usage = Some(self.usage);
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended
    }

    pub(super) fn finish(self) -> Result<ModelReply, ReplyError> {
        if self.ended {
            Ok(self.reply)
        } else {
            Err(ReplyError::Truncated)
        }
    }
}
