//! Sends exactly the requests in its arguments, one after the other, through `wasi:http`.
//!
//! `{"steps": [{"url", "method", "headers", "chunks", "length", "trailers", "secret"}, …]}` returns for each step
//! `{"status", "headers", "body", "bytes", "trailers"}`, or `{"error"}` with the code that it got. With `"strict":
//! true` the first error is the tool's own. `"fails": {"code", "details"}` makes the tool fail after the last step. With
//! `"dots": true` in a step its `body` and the values of its `headers` and `trailers` are returned in hexadecimal with
//! dots between the bytes. `chunks` texts of 64 KB each are sent as the body. There are two tools: one that may GET and
//! POST, and one that needs nothing.

#![expect(clippy::unwrap_used, reason = "a panic here is a failed test there")]

use mimir_guests::{
    Answer, Error, ErrorCode, HostNeed, Hostile, Manifest, Named, SecretNeed, hostile, manifest,
    structured, tool,
};
use serde_json::{Map, Value, json};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode as Http, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::StreamError;

/// More than the host accepts in a single write.
const CHUNK: usize = 64 << 10;

struct Fetch;

impl Hostile for Fetch {
    fn describe() -> Manifest {
        let mut all = tool(Self::NAME);
        let need = |host: &str| HostNeed {
            host: host.into(),
            methods: vec!["GET".into(), "POST".into()],
            reason: "to fetch from there".into(),
        };
        let secret = |name: &str, host: &str, header: &str| SecretNeed {
            name: name.into(),
            host: host.into(),
            header: header.into(),
            reason: "to be let in".into(),
        };
        all.needs.hosts = ["127.0.0.1", "site.example", "inside.example"]
            .map(need)
            .to_vec();
        all.needs.secrets = vec![
            secret("SITE_KEY", "127.0.0.1", "authorization"),
            secret("OTHER_KEY", "site.example", "x-key"),
        ];
        manifest(vec![all, tool("fetch_nothing")])
    }

    fn call(arguments: String) -> Answer {
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let mut results = vec![];
        for step in arguments["steps"].as_array().unwrap() {
            results.push(match fetch(step) {
                Ok(result) => result,
                Err(error) if arguments["strict"] == true => {
                    return Err(Error {
                        code: ErrorCode::Network,
                        message: format!("not fetched: {error}"),
                        details: None,
                    });
                }
                Err(error) => json!({ "error": error }),
            });
        }
        if let Some(failure) = arguments.get("fails") {
            let is_timeout = failure["code"] == "TIMEOUT";
            return Err(Error {
                code: if is_timeout {
                    ErrorCode::Timeout
                } else {
                    ErrorCode::Execution
                },
                message: "it failed".into(),
                details: failure.get("details").map(Value::to_string),
            });
        }
        structured(json!({ "results": results }).to_string())
    }
}

fn fetch(step: &Value) -> Result<Value, String> {
    let url = known(step["url"].as_str().unwrap());
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let headers = fields(&step["headers"])?;
    let request = OutgoingRequest::new(headers);
    let method = match step["method"].as_str() {
        None => Method::Get,
        Some("POST") => Method::Post,
        Some(other) => Method::Other(other.into()),
    };
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.into()),
    };
    let refused = |what: &str| format!("refused: {what}");
    request
        .set_method(&method)
        .map_err(|()| refused("method"))?;
    request
        .set_scheme(Some(&scheme))
        .map_err(|()| refused("scheme"))?;
    request
        .set_authority(Some(authority))
        .map_err(|()| refused("authority"))?;
    let path = if path.is_empty() { "/" } else { path };
    request
        .set_path_with_query(Some(path))
        .map_err(|()| refused("path"))?;
    let body = step["chunks"]
        .as_u64()
        .map(|chunks| (request.body().unwrap(), chunks));
    let options = RequestOptions::new();
    if let Some(millis) = step["firstByteMs"].as_u64() {
        options
            .set_first_byte_timeout(Some(millis * 1_000_000))
            .unwrap();
    }
    let answer = handle(request, Some(options)).map_err(|e| name(&e))?;
    if let Some((body, chunks)) = body {
        upload(body, chunks, &step["trailers"]);
    }
    answer.subscribe().block();
    let response = answer.get().unwrap().unwrap().map_err(|e| name(&e))?;
    let shown = match step["dots"] == true {
        true => dotted,
        false => |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned(),
    };
    read(&response, shown)
}

/// Bytes in hexadecimal, with a dot after each.
fn dotted(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}.")).collect()
}

/// Replaces the placeholders of secrets in a text: `$SITE_KEY`.
fn known(text: &str) -> String {
    std::env::vars().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${name}"), &value)
    })
}

/// The first word of a code.
fn name(code: &Http) -> String {
    let name = format!("{code:?}");
    let end = name.find("::").map_or(0, |at| at + 2);
    let rest = &name[end..];
    rest[..rest.find(['(', ' ', '{']).unwrap_or(rest.len())].to_owned()
}

fn fields(pairs: &Value) -> Result<Fields, String> {
    let fields = Fields::new();
    for (name, value) in pairs.as_object().into_iter().flatten() {
        let value = known(value.as_str().unwrap());
        let set = fields.append(name, value.as_bytes());
        set.map_err(|error| format!("{name}: {error:?}"))?;
    }
    Ok(fields)
}

/// Sends the body while the server reads it. A server that rejects the rest ends the upload.
fn upload(body: OutgoingBody, chunks: u64, trailers: &Value) {
    let stream = body.write().unwrap();
    let chunk = vec![b'x'; CHUNK];
    'all: for _ in 0..chunks {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            stream.subscribe().block();
            let Ok(room) = stream.check_write() else {
                break 'all;
            };
            let now = rest.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            if stream.write(&rest[..now]).is_err() {
                break 'all;
            }
            rest = &rest[now..];
        }
    }
    drop(stream);
    let trailers = trailers.is_object().then(|| fields(trailers).unwrap());
    let _ = OutgoingBody::finish(body, trailers);
}

fn read(response: &IncomingResponse, shown: fn(&[u8]) -> String) -> Result<Value, String> {
    let body = response.consume().unwrap();
    let stream = body.stream().unwrap();
    let mut all = vec![];
    let failed = loop {
        match stream.blocking_read(CHUNK as u64) {
            Ok(bytes) => all.extend(bytes),
            Err(StreamError::Closed) => break None,
            Err(StreamError::LastOperationFailed(error)) => {
                let code = wasip2::http::types::http_error_code(&error);
                break Some(code.map_or("broken".to_owned(), |code| name(&code)));
            }
        }
    };
    drop(stream);
    if let Some(code) = failed {
        return Err(code);
    }
    let future = IncomingBody::finish(body);
    future.subscribe().block();
    let trailers = match future.get() {
        Some(Ok(Ok(Some(trailers)))) => map(&trailers, shown),
        _ => Map::new(),
    };
    let bytes = all.len();
    all.truncate(CHUNK);
    Ok(json!({
        "status": response.status(),
        "headers": map(&response.headers(), shown),
        "body": shown(&all),
        "bytes": bytes,
        "trailers": trailers,
    }))
}

fn map(fields: &Fields, shown: fn(&[u8]) -> String) -> Map<String, Value> {
    let entries = fields.entries().into_iter();
    entries
        .map(|(name, value)| (name, shown(&value).into()))
        .collect()
}

hostile!(Fetch);
