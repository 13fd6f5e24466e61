//! `near:agent/host`: the host interface of ironclaw's tools, mapped to the rights of the tool: network, folders, other
//! tools and the log.
//!
//! The host adds the granted secrets to requests, because the interface gives no secrets to tools.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use mimir_core::call::LogLevel;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Map, Value};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use crate::script;
use crate::store_state::StoreState;

/// The linked interface. It also serves components that were built for an earlier patch version.
const INTERFACE: &str = "near:agent/host@0.4.1";

/// Time limit of a request that has none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "guests create the values")]
enum AgentLogLevel {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

/// The category of a failure, of a request or of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum AgentErrorKind {
    #[component(name = "auth-required")]
    #[expect(dead_code, reason = "only guests create the value")]
    AuthRequired,
    #[component(name = "input")]
    Input,
    #[component(name = "output-too-large")]
    OutputTooLarge,
    #[component(name = "executor")]
    Executor,
    #[component(name = "network-denied")]
    NetworkDenied,
    #[component(name = "client")]
    Client,
    #[component(name = "operation-failed")]
    OperationFailed,
}

#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct AgentResponse {
    status: u16,
    #[component(name = "headers-json")]
    headers_json: String,
    body: Vec<u8>,
}

#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct AgentHttpFailure {
    kind: AgentErrorKind,
    code: Option<String>,
    message: Option<String>,
    #[component(name = "request-sent")]
    request_sent: bool,
}

type ImportStore<'a> = StoreContextMut<'a, StoreState>;
type ImportFuture<'a, T> = Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>;
type HttpArguments = (String, String, String, Option<Vec<u8>>, Option<u32>);

impl From<ToolError> for AgentHttpFailure {
    fn from(error: ToolError) -> Self {
        let kind = match error.code {
            ToolErrorCode::InvalidInput => AgentErrorKind::Input,
            ToolErrorCode::PermissionDenied | ToolErrorCode::ApprovalDenied => {
                AgentErrorKind::NetworkDenied
            }
            ToolErrorCode::LimitExceeded => AgentErrorKind::OutputTooLarge,
            ToolErrorCode::Network | ToolErrorCode::Timeout => AgentErrorKind::Client,
            ToolErrorCode::Internal | ToolErrorCode::Unavailable => AgentErrorKind::Executor,
            _ => AgentErrorKind::OperationFailed,
        };
        Self {
            kind,
            code: Some(error.code.to_string()),
            message: Some(error.message),
            request_sent: kind == AgentErrorKind::Client,
        }
    }
}

/// Links the interface.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut host = linker.instance(INTERFACE)?;
    host.func_wrap(
        "log",
        |guest: ImportStore<'_>, (level, message): (AgentLogLevel, String)| {
            let level = match level {
                AgentLogLevel::Trace | AgentLogLevel::Debug => LogLevel::Debug,
                AgentLogLevel::Info => LogLevel::Info,
                AgentLogLevel::Warn => LogLevel::Warn,
                AgentLogLevel::Error => LogLevel::Error,
            };
            guest.data().logs.write_line(level, &message);
            Ok(())
        },
    )?;
    host.func_wrap("now-millis", |_: ImportStore<'_>, (): ()| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = now.map_or(0, |now| now.as_millis());
        Ok((u64::try_from(millis).unwrap_or(u64::MAX),))
    })?;
    host.func_wrap(
        "secret-exists",
        |guest: ImportStore<'_>, (name,): (String,)| {
            let mut secrets = guest.data().network.placeholders();
            Ok((secrets.any(|(secret, _)| secret == name),))
        },
    )?;
    host.func_wrap_async(
        "workspace-read",
        |mut guest: ImportStore<'_>, (path,): (String,)| {
            Box::new(async move {
                let bytes = script::read_file(guest.data_mut(), path).await;
                Ok((bytes.and_then(|bytes| String::from_utf8(bytes).ok()),))
            }) as ImportFuture<'_, (Option<String>,)>
        },
    )?;
    host.func_wrap_async(
        "tool-invoke",
        |mut guest: ImportStore<'_>, (name, arguments): (String, String)| {
            Box::new(async move { Ok((invoke_tool(guest.data_mut(), &name, &arguments).await,)) })
                as ImportFuture<'_, (Result<String, String>,)>
        },
    )?;
    host.func_wrap_async(
        "http-request",
        |mut guest: ImportStore<'_>, arguments: HttpArguments| {
            Box::new(async move {
                let response = send_request(guest.data_mut(), arguments).await;
                Ok((response.map_err(AgentHttpFailure::from),))
            }) as ImportFuture<'_, (Result<AgentResponse, AgentHttpFailure>,)>
        },
    )
}

/// Calls another tool, under the same policy as any other call.
async fn invoke_tool(
    guest: &mut StoreState,
    name: &str,
    arguments: &str,
) -> Result<String, String> {
    let Some(nested) = &guest.nested else {
        let name = mimir_core::text::visible(name);
        return Err(format!("the tool was not granted calls of `{name}`"));
    };
    let arguments = serde_json::from_str(arguments)
        .map_err(|error| format!("the arguments are not JSON: {error}"))?;
    let outcome = nested.call(name, arguments).await;
    let outcome = outcome.map_err(|error| error.message)?;
    match outcome.result() {
        Ok(output) => Ok(match &output.structured {
            Some(value) => value.to_string(),
            None => Value::from(outcome.text()).to_string(),
        }),
        Err(error) => Err(error.message.clone()),
    }
}

/// Returns the value of a header with a secret. Tools of ironclaw use bearer tokens.
fn credential(header: &str, placeholder: String) -> String {
    if header.eq_ignore_ascii_case("authorization") {
        format!("Bearer {placeholder}")
    } else {
        placeholder
    }
}

async fn send_request(
    guest: &mut StoreState,
    (method, url, headers, body, timeout): HttpArguments,
) -> Result<AgentResponse, ToolError> {
    let invalid = |message: String| ToolError::new(ToolErrorCode::InvalidInput, message);
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
        .map_err(|error| invalid(error.to_string()))?;
    let mut request = Request::builder()
        .method(method)
        .uri(&url)
        .body(Bytes::from(body.unwrap_or_default()))
        .map_err(|error| invalid(error.to_string()))?;
    let headers = if headers.trim().is_empty() {
        Map::new()
    } else {
        serde_json::from_str(&headers)
            .map_err(|error| invalid(format!("the headers are not a JSON object: {error}")))?
    };
    for (name, value) in headers {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let name = HeaderName::from_bytes(name.as_bytes());
        let name = name.map_err(|error| invalid(error.to_string()))?;
        let value = HeaderValue::from_str(&value).map_err(|error| invalid(error.to_string()))?;
        request.headers_mut().append(name, value);
    }
    for (header, placeholder) in guest.network.declared_headers(&url) {
        let value = credential(&header, placeholder);
        let name = HeaderName::from_bytes(header.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            request.headers_mut().entry(name).or_insert(value);
        }
    }
    let timeout = timeout.map_or(DEFAULT_TIMEOUT, |millis| {
        Duration::from_millis(u64::from(millis))
    });
    let fetched = tokio::time::timeout(timeout, guest.network.fetch(request)).await;
    let fetched = fetched.unwrap_or_else(|_| {
        let millis = timeout.as_millis();
        let message = format!("the request was not answered within {millis} ms");
        Err(ToolError::new(ToolErrorCode::Timeout, message))
    })?;
    let mut headers = Map::new();
    for name in fetched.headers.keys() {
        let values = fetched.headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        headers.insert(name.to_string(), values.join(", ").into());
    }
    Ok(AgentResponse {
        status: fetched.status.as_u16(),
        headers_json: Value::Object(headers).to_string(),
        body: fetched.body.into(),
    })
}
