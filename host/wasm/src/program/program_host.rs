//! Synchronous requests of a program to the host: commands, HTTP requests, other tools, Python. The policy checks each
//! request, as it does for scripts.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use mimir_core::call::{CallProgress, LogLevel, NoObserver};
use mimir_core::clock::Deadline;
use mimir_core::needs::Needs;
use mimir_core::paths::PathRules;
use mimir_core::{Approved, Limits, ToolError, ToolErrorCode, text};
use serde::Deserialize;
use serde_json::{Value, json};
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::program_session::SessionInput;
use super::{ProgramEngine, ProgramRequest, ReturnedValue};
use crate::fs::{MountQuota, MountTracking};
use crate::http::HttpClients;
use crate::script::script_effects::{EffectResult, ScriptEffects};
use crate::script::script_protocol::AsyncRequest;
use crate::store_state::StoreState;

mod cpython_records;

/// The interface with the functions `ask` and `take`.
const INTERFACE: &str = "mimir:code/outside@1.0.0";

/// Maximum number of failures stored to find the cause of a program's failure: the newest ones.
const MAX_FAILURES: usize = 64;

/// Bit position of the status in the return value of `ask`, above the length of the reply.
const STATUS_SHIFT: u32 = 32;

/// The access of one program to the host.
#[derive(Default)]
pub(crate) struct ProgramHost {
    effects: Option<ScriptEffects>,
    /// The last reply, until the program fetches it.
    reply: Vec<u8>,
    /// The value that the program returned as its result.
    returned: Option<Value>,
    /// The newest failures that the program received.
    failures: VecDeque<ToolError>,
    /// The engine for nested Python programs.
    pub(super) python: Option<Arc<ProgramEngine>>,
    pub(super) nested: Option<NestedRights>,
    pub(super) records: bool,
    /// The source of code for the program of a session.
    pub(super) session_input: Option<SessionInput>,
}

/// The access of nested programs.
pub(crate) struct NestedRights {
    pub(super) rights: Needs,
    pub(super) paths: PathRules,
    pub(super) tmp: (PathBuf, MountQuota),
    pub(super) limits: Limits,
    /// True if nested programs may import modules of the workspace, as the outer program may.
    pub(super) imports: bool,
    /// The quota and the undo recorder of the workspace.
    pub(super) tracking: MountTracking,
}

/// Requests that scripts do not have.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum ProgramOnlyRequest {
    /// Run another program, in Python.
    Run {
        code: String,
        args: Vec<String>,
        stdin: String,
        env: Vec<(String, String)>,
        cwd: String,
    },
    /// Set the result of the program.
    Result { value: Value },
    /// Write a line to the log.
    Log { level: String, message: String },
    /// Fetch the next code of a session; `done` is the exit code of the previous code, if any.
    Next { done: Option<i32> },
    /// Report progress.
    Progress {
        done: u64,
        total: Option<u64>,
        message: Option<String>,
    },
}

/// Status of a reply, as passed to CPython.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum ReplyStatus {
    Success = 0,
    Network = 1,
    Timeout = 2,
    Refused = 3,
}

impl ProgramHost {
    /// Returns the access that a call was granted. `clients` holds the connections reused between calls.
    pub(crate) fn for_call(
        call: &Approved,
        host: &Arc<crate::WasmHost>,
        clients: &Arc<HttpClients>,
    ) -> Self {
        Self {
            effects: Some(ScriptEffects::for_call(call, host, clients)),
            ..Self::default()
        }
    }

    /// Takes the result that the program returned.
    pub(super) fn take_result(&mut self) -> Option<ReturnedValue> {
        Some(ReturnedValue {
            value: self.returned.take()?,
            failures: std::mem::take(&mut self.failures),
        })
    }

    /// Stores a failure without its details, which may be large.
    fn record_failure(&mut self, error: &ToolError) {
        let failure = ToolError::new(error.code, error.message.clone());
        self.failures.truncate(MAX_FAILURES - 1);
        self.failures
            .push_front(failure.with_remedies(error.remedies.iter().cloned()));
    }
}

/// Links the functions through which an engine sends requests.
pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(INTERFACE)?;
    interface.func_wrap_async(
        "ask",
        |store: StoreContextMut<'_, StoreState>, (request, millis): (Vec<u8>, i64)| {
            Box::new(async move { Ok((perform_request(store, request, millis).await,)) })
        },
    )?;
    interface.func_wrap(
        "take",
        |mut store: StoreContextMut<'_, StoreState>, (): ()| -> wasmtime::Result<(Vec<u8>,)> {
            let host = store.data_mut().program_host.as_mut();
            Ok((host
                .map(|host| std::mem::take(&mut host.reply))
                .unwrap_or_default(),))
        },
    )
}

async fn perform_request(
    mut store: StoreContextMut<'_, StoreState>,
    request: Vec<u8>,
    millis: i64,
) -> u64 {
    // Taken out, because the store is needed during the request. It is not put back if the request is cancelled, but
    // then the program ends as well.
    let Some(mut host) = store.data_mut().program_host.take() else {
        return 0;
    };
    let limit = u64::try_from(millis).ok().map(Duration::from_millis);
    let effects = host.effects.as_ref();
    // The time for which a person is asked does not count.
    let deadline = limit.and(effects.map(|effects| effects.deadline.with_limit(limit)));
    let result = {
        let work = pin!(reply_to(&mut store, &mut host, &request));
        match deadline {
            Some(deadline) => deadline.run_until(work).await,
            None => Ok(work.await),
        }
    };
    let (status, bytes) = result.unwrap_or((ReplyStatus::Timeout, b"timed out".to_vec()));
    let encoded = u64::from(status as u32) << STATUS_SHIFT | bytes.len() as u64;
    host.reply = bytes;
    store.data_mut().program_host = Some(host);
    encoded
}

async fn reply_to(
    store: &mut StoreContextMut<'_, StoreState>,
    host: &mut ProgramHost,
    request: &[u8],
) -> (ReplyStatus, Vec<u8>) {
    if !host.records {
        return match perform_json_request(store, host, request).await {
            Ok(reply) => (ReplyStatus::Success, encode_json(reply)),
            Err(error) => (ReplyStatus::Network, encode_error(&error)),
        };
    }
    let Some(request) = cpython_records::RecordRequest::parse(request) else {
        return (ReplyStatus::Refused, b"the request is not valid".to_vec());
    };
    if request.method == cpython_records::HOST_REQUEST_METHOD {
        return match perform_json_request(store, host, &request.body).await {
            Ok(reply) => (
                ReplyStatus::Success,
                cpython_records::encode_response(200, &[], &encode_json(reply)),
            ),
            Err(error) => (ReplyStatus::Refused, encode_error(&error)),
        };
    }
    let fetch = request.into_fetch();
    match perform_effect(host, fetch).await {
        Ok((reply, bytes)) => {
            let status = reply["status"].as_u64().unwrap_or_default();
            let headers = reply["headers"].as_array().cloned().unwrap_or_default();
            let text = reply["text"].as_str().map(str::as_bytes);
            let status = u32::try_from(status).unwrap_or_default();
            let body = text.unwrap_or(&bytes);
            (
                ReplyStatus::Success,
                cpython_records::encode_response(status, &headers, body),
            )
        }
        Err(error) if error.code == ToolErrorCode::Timeout => {
            (ReplyStatus::Timeout, error.message.into_bytes())
        }
        Err(error) => (ReplyStatus::Network, error.message.into_bytes()),
    }
}

fn encode_json((mut reply, bytes): (Value, Vec<u8>)) -> Vec<u8> {
    if !bytes.is_empty() {
        reply["base64"] = base64::engine::general_purpose::STANDARD
            .encode(bytes)
            .into();
    }
    reply.to_string().into_bytes()
}

fn encode_error(error: &ToolError) -> Vec<u8> {
    let error = json!({ "code": error.code, "message": error.message, "details": error.details });
    error.to_string().into_bytes()
}

async fn perform_effect(host: &ProgramHost, request: AsyncRequest) -> EffectResult {
    match &host.effects {
        Some(effects) => effects.perform(request).await,
        None => Err(ToolError::new(
            ToolErrorCode::PermissionDenied,
            "the program has access to its files only",
        )),
    }
}

/// Performs a request that is a JSON document, and records its failure.
async fn perform_json_request(
    store: &mut StoreContextMut<'_, StoreState>,
    host: &mut ProgramHost,
    request: &[u8],
) -> EffectResult {
    let result = perform_json(store, host, request).await;
    result.inspect_err(|error| host.record_failure(error))
}

async fn perform_json(
    store: &mut StoreContextMut<'_, StoreState>,
    host: &mut ProgramHost,
    request: &[u8],
) -> EffectResult {
    let invalid_request = |error: serde_json::Error| {
        let message = format!("the request is not valid: {error}");
        ToolError::new(ToolErrorCode::InvalidInput, message)
    };
    let request: Value = serde_json::from_slice(request).map_err(invalid_request)?;
    let kind = request["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "run" | "result" | "log" | "progress" | "next") {
        return perform_effect(
            host,
            serde_json::from_value(request).map_err(invalid_request)?,
        )
        .await;
    }
    match serde_json::from_value(request).map_err(invalid_request)? {
        ProgramOnlyRequest::Run {
            code,
            args,
            stdin,
            env,
            cwd,
        } => {
            let (Some(python), Some(nested)) = (&host.python, &host.nested) else {
                let message = "Python is not available in this program";
                return Err(ToolError::new(ToolErrorCode::Unavailable, message));
            };
            let program = ProgramRequest {
                code,
                arguments: args,
                environment: env,
                stdin: stdin.into_bytes(),
                directory: cwd.strip_prefix(super::WORKSPACE).map(str::to_owned),
                imports: nested.imports,
                ..ProgramRequest::default()
            };
            if !python.is_ready() {
                // Compiling the engine is work of the host, not of the program, and has its own limits.
                let deadline = host.effects.as_ref().map(|effects| &effects.deadline);
                let _paused = deadline.map(Deadline::pause);
                Box::pin(python.prepare()).await?;
            }
            let fuel = store.get_fuel().unwrap_or_default();
            let (finished, used) = Box::pin(python.run_nested(nested, program, fuel)).await;
            // The nested program's fuel counts as the outer program's.
            store.set_fuel(fuel.saturating_sub(used)).ok();
            let finished = finished?;
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let reply = json!({
                "exitCode": finished.exit_code,
                "stdout": shown(&finished.stdout.bytes),
                "stderr": shown(&finished.stderr.bytes),
            });
            Ok((reply, Vec::new()))
        }
        ProgramOnlyRequest::Result { value } => {
            host.returned = Some(value);
            Ok((Value::Null, Vec::new()))
        }
        ProgramOnlyRequest::Next { done } => {
            let used = (
                store.get_fuel().unwrap_or_default(),
                store.data().limiter.peak_memory(),
            );
            if let Some(session_input) = &host.session_input {
                if let Some(nested) = &host.nested {
                    super::report_quota(&nested.tracking, &session_input.sink);
                }
                super::report_not_recorded(store.data_mut(), &session_input.sink);
            }
            // Between calls, a session keeps neither the effects nor the observer of the previous call.
            host.effects = None;
            store.data_mut().set_observer(Arc::new(NoObserver));
            let next = match &mut host.session_input {
                Some(session_input) => session_input.next_job(done, used).await,
                None => None,
            };
            let Some((code, effects, observer, fuel)) = next else {
                let message = "the session has ended: no more code follows";
                return Err(ToolError::new(ToolErrorCode::Cancelled, message));
            };
            host.effects = Some(effects);
            store.set_fuel(fuel).ok();
            store.data_mut().set_observer(observer);
            Ok((code, Vec::new()))
        }
        ProgramOnlyRequest::Log { level, message } => {
            let level = match level.as_str() {
                "debug" => LogLevel::Debug,
                "warn" | "warning" => LogLevel::Warn,
                "error" => LogLevel::Error,
                _ => LogLevel::Info,
            };
            store.data().logs.write_line(level, &message);
            Ok((Value::Null, Vec::new()))
        }
        ProgramOnlyRequest::Progress {
            done,
            total,
            message,
        } => {
            let guest = store.data_mut();
            if guest.progress_reports_left > 0 {
                guest.progress_reports_left -= 1;
                guest.observer.progress(CallProgress {
                    done,
                    total,
                    message: message.map(text::sanitize),
                });
            }
            Ok((Value::Null, Vec::new()))
        }
    }
}
