//! OpenAI's Responses API, used without storage at the provider: each request contains the whole conversation.

use serde_json::{Value, json};

use super::{ReplyError, TextCallback, check_call_limit, error_text, number, text};
use crate::image::MessageImage;
use crate::message::{Message, ToolCall};
use crate::model::{ModelReply, ModelRequest, StopReason, TokenUsage};

/// Builds the body of a request. `is_openai` is true for OpenAI itself, which accepts a key of its cache.
pub(super) fn build_request(model: &str, request: &ModelRequest<'_>, is_openai: bool) -> Value {
    let mut input = Vec::new();
    for message in request.messages {
        push_items(message, &mut input);
    }
    let mut body = json!({
        "model": model,
        "instructions": request.system,
        "input": input,
        "max_output_tokens": request.max_tokens,
        "stream": true,
        "store": false,
    });
    if is_openai {
        body["prompt_cache_key"] = request.session.into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.schema,
                // Strict mode only accepts a subset of JSON Schema.
                "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn push_items(message: &Message, input: &mut Vec<Value>) {
    match message {
        Message::User { text, images } => {
            input.push(json!({ "role": "user", "content": content_parts(text, images) }));
        }
        Message::Assistant { text, calls } => {
            if !text.is_empty() {
                input.push(json!({ "role": "assistant", "content": text }));
            }
            input.extend(calls.iter().map(|call| {
                json!({
                    "type": "function_call", "call_id": call.id, "name": call.name,
                    "arguments": call.arguments_object().to_string(),
                })
            }));
        }
        Message::Tool {
            id, text, images, ..
        } => {
            let output = content_parts(text, images);
            input.push(json!({ "type": "function_call_output", "call_id": id, "output": output }));
        }
    }
}

/// Returns a text alone as a string, else the text and the images as a list of parts.
fn content_parts(text: &str, images: &[MessageImage]) -> Value {
    if images.is_empty() {
        return text.into();
    }
    let parts = images
        .iter()
        .map(|image| json!({ "type": "input_image", "image_url": image.data_url() }));
    std::iter::once(json!({ "type": "input_text", "text": text }))
        .chain(parts)
        .collect()
}

/// Parses the events of a reply.
#[derive(Default)]
pub(super) struct ResponsesReader {
    reply: ModelReply,
    ended: bool,
}

impl ResponsesReader {
    pub(super) fn read_event(
        &mut self,
        event: &Value,
        on_text: TextCallback<'_>,
    ) -> Result<(), ReplyError> {
        match text(event, "/type") {
            "response.output_text.delta" | "response.refusal.delta" => {
                let delta = text(event, "/delta");
                self.reply.text.push_str(delta);
                on_text(delta);
            }
            // Fragments of calls are ignored, because the complete item follows them.
            "response.output_item.done" if text(event, "/item/type") == "function_call" => {
                check_call_limit(&self.reply)?;
                self.reply.calls.push(ToolCall {
                    id: text(event, "/item/call_id").to_owned(),
                    name: text(event, "/item/name").to_owned(),
                    arguments: text(event, "/item/arguments").to_owned(),
                    extra: None,
                });
            }
            "response.completed" => self.end(event, StopReason::Finished),
            "response.incomplete" => {
                let filtered =
                    text(event, "/response/incomplete_details/reason") == "content_filter";
                self.end(
                    event,
                    if filtered {
                        StopReason::Withheld
                    } else {
                        StopReason::Length
                    },
                );
            }
            "response.failed" => {
                let code = text(event, "/response/error/code");
                return Err(ReplyError::Reported {
                    message: text(event, "/response/error/message").to_owned(),
                    transient: matches!(code, "server_error" | "rate_limit_exceeded"),
                });
            }
            "error" => {
                // Documented as `/code`, sent as `/error/code`.
                let code = match text(event, "/error/code") {
                    "" => text(event, "/code"),
                    code => code,
                };
                return Err(ReplyError::Reported {
                    message: error_text(event).unwrap_or_else(|| code.to_owned()),
                    transient: code != "context_length_exceeded",
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, event: &Value, stop: StopReason) {
        self.ended = true;
        self.reply.stop = stop;
        if let (Some(input), Some(output)) = (
            number(event, "/response/usage/input_tokens"),
            number(event, "/response/usage/output_tokens"),
        ) {
            let cached = number(event, "/response/usage/input_tokens_details/cached_tokens");
            self.reply.usage = Some(TokenUsage {
                cache_read: cached.unwrap_or_default().min(input),
                ..TokenUsage::new(input, output)
            });
        }
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
