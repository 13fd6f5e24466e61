use serde_json::json;

use super::*;
use crate::message::{Message, ToolCall, ToolSpec};
use crate::model::{StopReason, TokenUsage};

/// Parses the events of an answer. Returns the reply and the streamed text.
fn read(api: ProviderApi, events: &[Value]) -> (Result<ModelReply, ReplyError>, String) {
    let streamed = parking_lot::Mutex::new(String::new());
    let on = |chunk: &str| streamed.lock().push_str(chunk);
    let mut reader = ProviderProtocol::new(api, "http://127.0.0.1/").new_reader();
    let read = events
        .iter()
        .try_for_each(|event| reader.read_event(&event.to_string(), &on));
    let read = read.and_then(|()| reader.finish());
    (read, streamed.into_inner())
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        extra: None,
    }
}

#[test]
fn chat_chunks_are_joined_into_a_reply() {
    let part =
        |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let events = [
        part(json!({"role": "assistant", "content": "Let me "})),
        part(json!({"content": "see."})),
        part(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": ""}}]}),
        ),
        part(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path\":"}}]})),
        part(
            json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "git", "arguments": "{}"}}]}),
        ),
        part(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"x\"}"}}]})),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}),
    ];
    let (reply, streamed) = read(ProviderApi::Openai, &events);
    let reply = reply.unwrap();
    assert_eq!(streamed, "Let me see.");
    assert_eq!(reply.text, streamed);
    assert_eq!(
        reply.calls,
        [
            call("a", "read_file", "{\"path\":\"x\"}"),
            call("b", "git", "{}")
        ]
    );
    assert_eq!(reply.usage, Some(TokenUsage::new(9, 4)));
    // An answer without an end marker was cut.
    assert_eq!(
        read(ProviderApi::Openai, &events[..6]).0,
        Err(ReplyError::Truncated)
    );
}

#[test]
fn chat_calls_with_equal_index_are_separated_by_id() {
    let part = |id: &str, name: &str| {
        json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": id, "extra_content": {"google": {"thought_signature": id}},
             "function": {"name": name, "arguments": {"a": 1}}}]}}]})
    };
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let (reply, _) = read(
        ProviderApi::Gemini,
        &[part("x", "one"), part("y", "two"), end],
    );
    let calls = reply.unwrap().calls;
    let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(calls[0].arguments, "{\"a\":1}");
    // The provider's opaque data is sent back.
    let messages = [Message::Assistant {
        text: String::new(),
        calls,
    }];
    let body =
        ProviderProtocol::new(ProviderApi::Gemini, "").build_request("m", &ask(&messages, &[]));
    let sent = &body["messages"][1]["tool_calls"][1];
    assert_eq!(sent["extra_content"]["google"]["thought_signature"], "y");
}

#[test]
fn chat_call_name_that_is_repeated_is_added_once() {
    let part = |name: &str, arguments: &str| {
        json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "a", "function": {"name": name, "arguments": arguments}}]}}]})
    };
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    for events in [
        [part("git", "{\"x\":"), part("git", "1"), part("git", "}")],
        [part("gi", "{\"x\":"), part("t", "1"), part("", "}")],
    ] {
        let events: Vec<Value> = events.into_iter().chain([end.clone()]).collect();
        let (reply, _) = read(ProviderApi::Openai, &events);
        assert_eq!(reply.unwrap().calls, [call("a", "git", "{\"x\":1}")]);
    }
}

#[test]
fn responses_error_about_a_long_conversation_is_not_transient() {
    let message = "Your input exceeds the context window of this model.";
    let code = "context_length_exceeded";
    for (event, message, transient) in [
        (
            json!({"type": "error", "error": {"code": code, "message": message}}),
            message,
            false,
        ),
        (
            json!({"type": "error", "code": code, "message": message}),
            message,
            false,
        ),
        (
            json!({"type": "error", "error": {"code": code}}),
            code,
            false,
        ),
        (
            json!({"type": "error", "code": "server_error", "message": "later"}),
            "later",
            true,
        ),
    ] {
        let expected = ReplyError::Reported {
            message: message.into(),
            transient,
        };
        assert_eq!(
            read(ProviderApi::Responses, std::slice::from_ref(&event)).0,
            Err(expected),
            "{event}"
        );
    }
}

#[test]
fn responses_events_are_joined_into_a_reply() {
    let item = json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": "git", "arguments": "{}"});
    let events = [
        json!({"type": "response.created"}),
        json!({"type": "response.output_text.delta", "delta": "Hm. "}),
        json!({"type": "response.function_call_arguments.delta", "delta": "{"}),
        json!({"type": "response.output_item.done", "item": item}),
        json!({"type": "response.completed", "response": {"usage": {"input_tokens": 7, "output_tokens": 2}}}),
    ];
    let (reply, streamed) = read(ProviderApi::Responses, &events);
    let reply = reply.unwrap();
    assert_eq!(
        (streamed.as_str(), &reply.calls),
        ("Hm. ", &vec![call("c1", "git", "{}")])
    );
    assert_eq!(reply.usage, Some(TokenUsage::new(7, 2)));
    assert_eq!(
        read(ProviderApi::Responses, &events[..4]).0,
        Err(ReplyError::Truncated)
    );
    let failed = json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "later"}}});
    let expected = ReplyError::Reported {
        message: "later".into(),
        transient: true,
    };
    assert_eq!(read(ProviderApi::Responses, &[failed]).0, Err(expected));
    let long = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}});
    assert_eq!(
        read(ProviderApi::Responses, &[long]).0.unwrap().stop,
        StopReason::Length
    );
}

#[test]
fn anthropic_events_are_joined_into_a_reply() {
    let events = [
        json!({"type": "message_start", "message": {"usage":
            {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "So."}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 1, "content_block":
            {"type": "tool_use", "id": "t1", "name": "git", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ":1}"}}),
        json!({"type": "content_block_start", "index": 2, "content_block":
            {"type": "tool_use", "id": "t2", "name": "none", "input": {}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}}),
        json!({"type": "message_stop"}),
    ];
    let (reply, streamed) = read(ProviderApi::Anthropic, &events);
    let reply = reply.unwrap();
    assert_eq!(streamed, "So.");
    assert_eq!(
        reply.calls,
        [call("t1", "git", "{\"a\":1}"), call("t2", "none", "")]
    );
    assert_eq!(reply.calls[1].parse_arguments().unwrap(), json!({}));
    assert_eq!(
        reply.usage,
        Some(TokenUsage {
            cache_read: 90,
            ..TokenUsage::new(95, 30)
        })
    );
    assert_eq!(
        read(ProviderApi::Anthropic, &events[..8]).0,
        Err(ReplyError::Truncated)
    );
    let busy =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let expected = ReplyError::Reported {
        message: "Overloaded".into(),
        transient: true,
    };
    assert_eq!(read(ProviderApi::Anthropic, &[busy]).0, Err(expected));
}

#[test]
fn reply_that_is_invalid_or_cut_is_an_error() {
    for api in ProviderApi::ALL {
        let mut reader = ProviderProtocol::new(api, "").new_reader();
        assert!(reader.read_event("", &|_| {}).is_ok());
        assert!(matches!(
            reader.read_event("<html>", &|_| {}),
            Err(ReplyError::Unexpected(_))
        ));
        assert_eq!(
            ProviderProtocol::new(api, "").new_reader().finish(),
            Err(ReplyError::Truncated)
        );
    }
    assert_eq!(
        error_text(&json!({"error": {"message": "m"}})).as_deref(),
        Some("m")
    );
    assert_eq!(error_text(&json!({"error": "m"})).as_deref(), Some("m"));
    assert_eq!(
        error_text(&json!([{"error": {"message": "m"}}])).as_deref(),
        Some("m")
    );
    assert_eq!(error_text(&json!({"message": "m"})).as_deref(), Some("m"));
    assert_eq!(error_text(&json!({"ok": true})), None);
}

#[test]
fn chat_done_marker_ends_the_reply_without_finish_reason() {
    let mut reader = ProviderProtocol::new(ProviderApi::Ollama, "").new_reader();
    let words = json!({"choices": [{"delta": {"content": "so"}, "finish_reason": null}]});
    reader.read_event(&words.to_string(), &|_| {}).unwrap();
    assert!(!reader.is_done());
    reader.read_event("[DONE]", &|_| {}).unwrap();
    assert!(reader.is_done());
    assert_eq!(reader.finish().unwrap().text, "so");
}

#[test]
fn chat_calls_per_reply_are_limited() {
    let part = |at: usize| json!({"choices": [{"delta": {"tool_calls": [{"index": at, "id": format!("c{at}"), "function": {"name": "git"}}]}}]});
    let events: Vec<Value> = (0..=MAX_CALLS).map(part).collect();
    assert!(matches!(
        read(ProviderApi::Openai, &events).0,
        Err(ReplyError::Unexpected(_))
    ));
}

fn ask<'a>(messages: &'a [Message], tools: &'a [ToolSpec]) -> ModelRequest<'a> {
    ModelRequest {
        system: "be brief",
        messages,
        tools,
        max_tokens: 77,
        session: "s",
    }
}

#[test]
fn request_body_follows_the_provider_api() {
    let tools = [ToolSpec {
        name: "git".into(),
        description: "runs git".into(),
        schema: json!({"type": "object"}),
    }];
    let messages = [
        Message::user("hello"),
        Message::Assistant {
            text: String::new(),
            calls: vec![call("a.1", "git", "{\"x\":1}"), call("b", "git", "{broken")],
        },
        Message::Tool {
            id: "a.1".into(),
            name: "git".into(),
            text: "fine".into(),
            failed: false,
            images: Vec::new(),
        },
        Message::Tool {
            id: "b".into(),
            name: "git".into(),
            text: "no JSON".into(),
            failed: true,
            images: Vec::new(),
        },
        Message::user("go on"),
    ];
    let ask = ask(&messages, &tools);

    let chat = ProviderProtocol::new(ProviderApi::Openai, "http://h/").build_request("m", &ask);
    assert_eq!(chat["max_tokens"], 77);
    assert_eq!(chat["messages"][0]["content"], "be brief");
    assert_eq!(chat["messages"][2]["content"], Value::Null);
    let calls = &chat["messages"][2]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], "{\"x\":1}");
    assert_eq!(
        calls[1]["function"]["arguments"], "{}",
        "invalid arguments are not sent back"
    );
    assert_eq!(chat["messages"][3]["tool_call_id"], "a.1");
    assert_eq!(chat["tools"][0]["function"]["name"], "git");
    for (url, limit_key) in [
        ("https://api.openai.com/v1/", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1/", "max_completion_tokens"),
        ("https://EU.API.OpenAI.com:443/v1/", "max_completion_tokens"),
        ("https://myapi.openai.com/v1/", "max_tokens"),
        ("https://api.openai.com.example/v1/", "max_tokens"),
        ("http://127.0.0.1/api.openai.com/", "max_tokens"),
    ] {
        let body = ProviderProtocol::new(ProviderApi::Openai, url).build_request("m", &ask);
        let keys = ["max_completion_tokens", "max_tokens"];
        let sent: Vec<&str> = keys.into_iter().filter(|key| body[key] == 77).collect();
        assert_eq!(sent, [limit_key], "{url}");
    }

    let responses = ProviderProtocol::new(ProviderApi::Responses, "").build_request("m", &ask);
    assert_eq!(responses["instructions"], "be brief");
    assert_eq!(responses["store"], false);
    assert_eq!(responses["input"][1]["call_id"], "a.1");
    assert_eq!(responses["input"][3]["type"], "function_call_output");

    let anthropic = ProviderProtocol::new(ProviderApi::Anthropic, "").build_request("m", &ask);
    let list = anthropic["messages"].as_array().unwrap();
    assert_eq!(
        list.len(),
        3,
        "results and the next user message are merged"
    );
    assert_eq!(list[1]["content"][0]["id"], "a_1");
    assert_eq!(list[2]["content"][0]["tool_use_id"], "a_1");
    assert_eq!(list[2]["content"][1]["is_error"], true);
    assert_eq!(list[2]["content"][2]["text"], "go on");
    assert!(list[2]["content"][2]["cache_control"].is_object());
}

#[test]
fn request_body_has_images_in_the_form_of_the_api() {
    let image = crate::image::MessageImage::new(&crate::image::tests::png(9, 9)).unwrap();
    let result = |id: &str| Message::Tool {
        id: id.into(),
        name: "read_file".into(),
        text: "[an image]".into(),
        failed: false,
        images: vec![image.clone()],
    };
    let messages = [
        Message::user_with_images("what is it?", vec![image.clone()]),
        Message::Assistant {
            text: String::new(),
            calls: vec![call("a", "read_file", "{}"), call("b", "read_file", "{}")],
        },
        result("a"),
        result("b"),
        Message::user("and now?"),
    ];
    let ask = ask(&messages, &[]);
    let url = format!("data:image/png;base64,{}", image.data);

    let chat = ProviderProtocol::new(ProviderApi::Ollama, "").build_request("m", &ask);
    let list = chat["messages"].as_array().unwrap();
    assert_eq!(list[1]["content"][0]["image_url"]["url"], url);
    assert_eq!(list[1]["content"][1]["text"], "what is it?");
    // The results follow their calls directly; their images come after all of them.
    let roles: Vec<&Value> = list.iter().map(|one| &one["role"]).collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "tool",
            "tool",
            "user",
            "user"
        ]
    );
    let shown = &list[5]["content"];
    assert!(shown[0]["text"].as_str().unwrap().contains("they are data"));
    assert_eq!(
        (&shown[1]["image_url"]["url"], &shown[2]["type"]),
        (&json!(url), &json!("image_url"))
    );

    let responses = ProviderProtocol::new(ProviderApi::Responses, "").build_request("m", &ask);
    assert_eq!(responses["input"][0]["content"][1]["image_url"], url);
    assert_eq!(responses["input"][3]["output"][0]["text"], "[an image]");
    assert_eq!(responses["input"][3]["output"][1]["image_url"], url);

    let anthropic = ProviderProtocol::new(ProviderApi::Anthropic, "").build_request("m", &ask);
    let list = anthropic["messages"].as_array().unwrap();
    assert_eq!(list[0]["content"][0]["source"]["data"], image.data);
    let content = &list[2]["content"][0]["content"];
    assert_eq!(content[0]["text"], "[an image]");
    assert_eq!(content[1]["source"]["media_type"], "image/png");
}

#[test]
fn request_prefix_is_marked_for_the_cache_and_stays_stable() {
    let tools = ["b", "a"].map(|name| ToolSpec {
        name: name.into(),
        description: "does it".into(),
        schema: json!({"type": "object"}),
    });
    let mut messages = Vec::new();
    let mut requests = Vec::new();
    for words in ["one", "two", "three"] {
        messages.push(Message::user(words));
        let anthropic = ProviderProtocol::new(ProviderApi::Anthropic, "");
        requests.push(anthropic.build_request("m", &ask(&messages, &tools)));
        messages.push(Message::Assistant {
            text: "so".into(),
            calls: Vec::new(),
        });
    }
    let marks = |value: &Value| value.to_string().matches("cache_control").count();
    // One for the tools, one for the system prompt, and two for the last messages: the API allows four.
    assert_eq!(requests.iter().map(marks).collect::<Vec<_>>(), [3, 4, 4]);
    let marked = |request: &Value, at: usize| marks(&request["messages"][at]) == 1;
    assert!(marked(&requests[2], 4) && marked(&requests[2], 2) && !marked(&requests[2], 0));
    assert!(marked(&requests[1], 2), "the previous end is the same");
    for pair in requests.windows(2) {
        assert_eq!(pair[0]["tools"].to_string(), pair[1]["tools"].to_string());
        assert_eq!(pair[0]["system"].to_string(), pair[1]["system"].to_string());
    }
    for (api, url, key) in [
        (
            ProviderApi::Openai,
            "https://api.openai.com/v1/",
            json!("s"),
        ),
        (
            ProviderApi::Responses,
            "https://api.openai.com/v1/",
            json!("s"),
        ),
        (ProviderApi::Openai, "http://127.0.0.1/v1/", Value::Null),
        (ProviderApi::Responses, "http://127.0.0.1/v1/", Value::Null),
    ] {
        let body = ProviderProtocol::new(api, url).build_request("m", &ask(&messages, &tools));
        assert_eq!(body["prompt_cache_key"], key, "{url}");
    }
}

#[test]
fn cached_tokens_are_read_from_each_api() {
    let chat = [
        json!({"choices": [{"delta": {"content": "so"}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 8}}}),
        json!({"type": "ignored"}),
    ];
    let usage = |api, events: &[Value]| read(api, events).0.unwrap().usage.unwrap();
    assert_eq!(usage(ProviderApi::Gemini, &chat).cache_read, 8);
    // A count above the total is not believed.
    let odd = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 99}});
    assert_eq!(
        usage(ProviderApi::Openai, &[chat[0].clone(), odd]).cache_read,
        9
    );
    let responses = json!({"type": "response.completed", "response": {"usage":
        {"input_tokens": 7, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 6}}}});
    assert_eq!(usage(ProviderApi::Responses, &[responses]).cache_read, 6);
    let start = json!({"type": "message_start", "message": {"usage":
        {"input_tokens": 5, "cache_creation_input_tokens": 20, "output_tokens": 1}}});
    let end = json!({"type": "message_stop"});
    let anthropic = usage(ProviderApi::Anthropic, &[start, end]);
    assert_eq!((anthropic.input, anthropic.cache_write), (25, 20));
}

#[test]
fn request_headers_have_the_key_per_provider() {
    let headers = |api: ProviderApi| ProviderProtocol::new(api, "").headers(Some("k"));
    assert_eq!(
        headers(ProviderApi::Openai),
        [("authorization", "Bearer k".to_owned())]
    );
    assert_eq!(
        headers(ProviderApi::Anthropic)[0],
        ("x-api-key", "k".to_owned())
    );
    assert_eq!(
        ProviderProtocol::new(ProviderApi::Ollama, "").headers(None),
        []
    );
}
