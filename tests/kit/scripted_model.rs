//! A scripted model on a local port, which records its requests. It supports three protocols: OpenAI's Chat Completions
//! and Responses APIs, and Anthropic's Messages API.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// The model's response to one request.
#[derive(Debug, Clone)]
pub enum Step {
    /// Streams these chunks of text, then calls tools, given as name and raw JSON arguments.
    Says(Vec<&'static str>, Vec<(&'static str, String)>),
    /// Streams this text, and reports that 80 of the 100 sent tokens came from the provider's cache, and in Anthropic's
    /// protocol that 10 were written to it.
    Cached(&'static str),
    /// Sends this text and closes the connection.
    Cut(&'static str),
    /// Responds with a status, headers and a body.
    Status(u16, Vec<(&'static str, &'static str)>, &'static str),
    /// Reports an overload in the middle of its response.
    Overloaded,
    /// Reports in its response, after these chunks of text, that the conversation is too long.
    TooLong(Vec<&'static str>),
    /// Sends this text and then keeps the connection open without sending more.
    Hangs(&'static str),
    /// Responds with an HTML page.
    Page,
}

/// Returns a step that streams text.
pub fn says(words: &'static str) -> Step {
    Step::Says(vec![words], vec![])
}

/// Returns a step that calls one tool.
pub fn calls(name: &'static str, arguments: Value) -> Step {
    Step::Says(vec![], vec![(name, arguments.to_string())])
}

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The path of the request.
    pub path: String,
    /// The headers, in lower case.
    pub head: String,
    /// The body.
    pub body: Value,
}

impl Asked {
    /// Returns the texts of the tool results in the request, in order, for each protocol.
    pub fn results(&self) -> Vec<String> {
        let list = |key: &str| self.body[key].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut results = Vec::new();
        for message in list("messages").iter().chain(&list("input")) {
            if message["role"] == "tool" {
                results.push(text(&message["content"]));
            }
            if message["type"] == "function_call_output" {
                results.push(text(&message["output"]));
            }
            for block in message["content"].as_array().into_iter().flatten() {
                if block["type"] == "tool_result" {
                    results.push(text(&block["content"][0]["text"]));
                }
            }
        }
        results
    }
}

/// A running model.
pub struct Script {
    /// The URL, with a `/` at the end.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    /// Starts a model with these steps, one per request; the last one is repeated.
    pub fn start(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let recorded = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (steps, recorded) = (steps.clone(), Arc::clone(&recorded));
                std::thread::spawn(move || {
                    let _ = serve(stream, &steps, &recorded);
                });
            }
        });
        Self { url, asked }
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    steps: &[Step],
    recorded: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let asked = Asked {
            path: path.clone(),
            head: head.to_ascii_lowercase(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let at = {
            let mut all = recorded.lock();
            all.push(asked);
            all.len() - 1
        };
        let step = steps.get(at).or(steps.last()).unwrap();
        if !answer(&mut stream, &path, step, at)? {
            return Ok(());
        }
    }
}

/// Sends a response. Returns true if the connection stays open.
fn answer(to: &mut TcpStream, path: &str, step: &Step, at: usize) -> std::io::Result<bool> {
    let whole = |status: &str, kind: &str, more: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    match step {
        Step::Status(status, headers, body) => {
            let more: String = headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .collect();
            let status = format!("{status} So");
            to.write_all(whole(&status, "application/json", &more, body).as_bytes())?;
            return Ok(true);
        }
        Step::Page => {
            to.write_all(whole("200 OK", "text/html", "", "<p>Hello</p>").as_bytes())?;
            return Ok(true);
        }
        _ => {}
    }
    to.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let mut send = |event: Value| {
        let name = match (path.ends_with("/chat/completions"), event["type"].as_str()) {
            (false, Some(name)) => format!("event: {name}\n"),
            _ => String::new(),
        };
        let text = format!("{name}data: {event}\n\n");
        write!(to, "{:x}\r\n{text}\r\n", text.len())
    };
    let (words, calls_to_make, ends) = match step {
        Step::Says(words, calls_to_make) => (words.clone(), calls_to_make.clone(), true),
        Step::Cached(words) => (vec![*words], vec![], true),
        Step::Cut(words) | Step::Hangs(words) => (vec![*words], vec![], false),
        Step::TooLong(words) => (words.clone(), vec![], false),
        Step::Overloaded => (vec!["Well"], vec![], false),
        _ => (vec![], vec![], false),
    };
    let events = if path.ends_with("/messages") {
        anthropic(&words, &calls_to_make, ends, at)
    } else if path.ends_with("/responses") {
        responses(&words, &calls_to_make, ends, at)
    } else {
        chat(&words, &calls_to_make, ends, at)
    };
    for mut event in events {
        if let Step::Cached(_) = step {
            report_cached(&mut event);
        }
        send(event)?;
    }
    match step {
        Step::Overloaded => {
            let message = "there is too much to do";
            send(if path.ends_with("/messages") {
                json!({"type": "error", "error": {"type": "overloaded_error", "message": message}})
            } else {
                json!({"type": "error", "error": {"message": message}})
            })?;
        }
        Step::TooLong(_) => {
            let message = "Your input exceeds the context window of this model.";
            send(
                json!({"type": "error", "error": {"code": "context_length_exceeded", "message": message}}),
            )?;
        }
        Step::Hangs(_) => std::thread::sleep(Duration::from_secs(600)),
        Step::Cut(_) => return Ok(false),
        _ => {}
    }
    to.write_all(b"0\r\n\r\n")?;
    Ok(true)
}

/// Adds the cached tokens to the usage in an event, in the form of its protocol.
fn report_cached(event: &mut Value) {
    if event["usage"]["prompt_tokens"].is_u64() {
        event["usage"]["prompt_tokens_details"] = json!({"cached_tokens": 80});
    }
    if event["response"]["usage"].is_object() {
        event["response"]["usage"]["input_tokens_details"] = json!({"cached_tokens": 80});
    }
    if event["message"]["usage"].is_object() {
        event["message"]["usage"] = json!({"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 10, "output_tokens": 1});
    }
}

/// Splits a call's arguments into two chunks for streaming.
fn halves(arguments: &str) -> (&str, &str) {
    arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2))
}

fn chat(
    words: &[&str],
    calls_to_make: &[(&'static str, String)],
    ends: bool,
    at: usize,
) -> Vec<Value> {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let mut events = vec![chunk(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    events.extend(
        words
            .iter()
            .map(|words| chunk(json!({"content": words}), Value::Null)),
    );
    for (index, (name, arguments)) in calls_to_make.iter().enumerate() {
        let (one, two) = halves(arguments);
        let part = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
        let id = format!("call_{at}_{index}");
        events.push(part(json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": one}})));
        events.push(part(
            json!({"index": index, "function": {"arguments": two}}),
        ));
    }
    if ends {
        let why = if calls_to_make.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        events.push(chunk(json!({}), why.into()));
        events
            .push(json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}));
    }
    events
}

fn responses(
    words: &[&str],
    calls_to_make: &[(&'static str, String)],
    ends: bool,
    at: usize,
) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "response.created", "response": {"status": "in_progress"}})];
    events.extend(words.iter().map(
        |words| json!({"type": "response.output_text.delta", "output_index": 0, "delta": words}),
    ));
    for (index, (name, arguments)) in calls_to_make.iter().enumerate() {
        let id = format!("call_{at}_{index}");
        let item = |arguments: &str| json!({"type": "function_call", "id": "fc", "call_id": id, "name": name, "arguments": arguments});
        let (one, two) = halves(arguments);
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": item("")}),
        );
        for part in [one, two] {
            events.push(json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": part}));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item(arguments)}));
    }
    if ends {
        let usage = json!({"input_tokens": 100, "output_tokens": 10});
        events.push(json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}}));
    }
    events
}

fn anthropic(
    words: &[&str],
    calls_to_make: &[(&'static str, String)],
    ends: bool,
    at: usize,
) -> Vec<Value> {
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}}),
        json!({"type": "ping"}),
    ];
    let delta = |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    if !words.is_empty() {
        let block = json!({"type": "text", "text": ""});
        events.push(json!({"type": "content_block_start", "index": 0, "content_block": block}));
        events.extend(
            words
                .iter()
                .map(|words| delta(0, json!({"type": "text_delta", "text": words}))),
        );
    }
    for (index, (name, arguments)) in calls_to_make.iter().enumerate() {
        let id = format!("toolu_{at}_{index}");
        let index = index + 1;
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        let (one, two) = halves(arguments);
        for part in [one, two] {
            events.push(delta(
                index,
                json!({"type": "input_json_delta", "partial_json": part}),
            ));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    if ends {
        let why = if calls_to_make.is_empty() {
            "end_turn"
        } else {
            "tool_use"
        };
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": why}, "usage": {"output_tokens": 10}}));
        events.push(json!({"type": "message_stop"}));
    }
    events
}
