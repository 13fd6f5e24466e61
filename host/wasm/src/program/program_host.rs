//! Requests of a program to the host, during which it waits: commands, HTTP requests, other tools, Python. Each passes
//! the policy check of its kind, as a script's requests do.

use std::path::PathBuf;
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
use super::{ProgramEngine, ProgramRequest};
use crate::fs::{MountQuota, MountTracking};
use crate::http::HttpClients;
use crate::script::script_effects::{EffectResult, ScriptEffects};
use crate::script::script_protocol::AsyncRequest;
use crate::store_state::StoreState;

mod cpython_records;

/// The interface of the two functions.
const INTERFACE: &str = "mimir:code/outside@1.0.0";

/// Position of the status bits in the return value of `ask`, above the length of the reply.
const HOW: u32 = 32;

/// The access of one program to the host.
#[derive(Default)]
pub(crate) struct ProgramHost {
    outside: Option<ScriptEffects>,
    /// The reply that was not fetched yet.
    answer: Vec<u8>,
    /// The value that the program returned as its result.
    returned: Option<Value>,
    /// The engine that runs Python for it.
    pub(super) python: Option<Arc<ProgramEngine>>,
    pub(super) inner: Option<NestedRights>,
    pub(super) records: bool,
    /// The source of code for the program of a session.
    pub(super) seat: Option<SessionInput>,
}

/// The access of a program started by this one.
pub(crate) struct NestedRights {
    pub(super) rights: Needs,
    pub(super) paths: PathRules,
    pub(super) tmp: (PathBuf, MountQuota),
    pub(super) limits: Limits,
    /// True if it may import modules of the workspace, as the outer program may.
    pub(super) imports: bool,
    /// The quota and the undo recorder of the workspace.
    pub(super) watch: MountTracking,
}

/// Requests that only programs have.
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
    /// The result of the program.
    Result { value: Value },
    /// A line of the log.
    Log { level: String, message: String },
    /// Fetch the next code of a session; contains the exit code of the last one, if there was one.
    Next { done: Option<i32> },
    /// A progress report.
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
            outside: Some(ScriptEffects::for_call(call, host, clients)),
            ..Self::default()
        }
    }

    /// Takes the result that the program returned.
    pub(super) fn take_result(&mut self) -> Option<Value> {
        self.returned.take()
    }
}

/// Links the functions with which an engine sends requests.
pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut outside = linker.instance(INTERFACE)?;
    outside.func_wrap_async(
        "ask",
        |store: StoreContextMut<'_, StoreState>, (wish, millis): (Vec<u8>, i64)| {
            Box::new(async move { Ok((ask(store, wish, millis).await,)) })
        },
    )?;
    outside.func_wrap(
        "take",
        |mut store: StoreContextMut<'_, StoreState>, (): ()| -> wasmtime::Result<(Vec<u8>,)> {
            let asks = store.data_mut().program_host.as_mut();
            Ok((asks
                .map(|asks| std::mem::take(&mut asks.answer))
                .unwrap_or_default(),))
        },
    )
}

async fn ask(mut store: StoreContextMut<'_, StoreState>, wish: Vec<u8>, millis: i64) -> u64 {
    // The store is needed during the request. If no call waits for the reply any more, the program is gone, too.
    let Some(mut asks) = store.data_mut().program_host.take() else {
        return 0;
    };
    let work = answer(&mut store, &mut asks, &wish);
    let answered = match u64::try_from(millis) {
        Ok(millis) => tokio::time::timeout(Duration::from_millis(millis), work).await,
        Err(_) => Ok(work.await),
    };
    let (how, bytes) = answered.unwrap_or((ReplyStatus::Timeout, b"timed out".to_vec()));
    let told = u64::from(how as u32) << HOW | bytes.len() as u64;
    asks.answer = bytes;
    store.data_mut().program_host = Some(asks);
    told
}

async fn answer(
    store: &mut StoreContextMut<'_, StoreState>,
    asks: &mut ProgramHost,
    wish: &[u8],
) -> (ReplyStatus, Vec<u8>) {
    if !asks.records {
        return match document(store, asks, wish).await {
            Ok(answer) => (ReplyStatus::Success, json_of(answer)),
            Err(error) => (ReplyStatus::Network, encode_error(&error)),
        };
    }
    let Some(request) = cpython_records::RecordRequest::read(wish) else {
        return (ReplyStatus::Refused, b"the request is not valid".to_vec());
    };
    if request.method == cpython_records::WISH {
        return match document(store, asks, &request.body).await {
            Ok(answer) => (
                ReplyStatus::Success,
                cpython_records::encode_response(200, &[], &json_of(answer)),
            ),
            Err(error) => (ReplyStatus::Refused, encode_error(&error)),
        };
    }
    let fetch = request.into_fetch();
    match perform_effect(asks, fetch).await {
        Ok((answer, bytes)) => {
            let status = answer["status"].as_u64().unwrap_or_default();
            let headers = answer["headers"].as_array().cloned().unwrap_or_default();
            let text = answer["text"].as_str().map(str::as_bytes);
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

fn json_of((mut answer, bytes): (Value, Vec<u8>)) -> Vec<u8> {
    if !bytes.is_empty() {
        answer["base64"] = base64::engine::general_purpose::STANDARD
            .encode(bytes)
            .into();
    }
    answer.to_string().into_bytes()
}

fn encode_error(error: &ToolError) -> Vec<u8> {
    let told = json!({ "code": error.code, "message": error.message, "details": error.details });
    told.to_string().into_bytes()
}

async fn perform_effect(asks: &ProgramHost, wish: AsyncRequest) -> EffectResult {
    match &asks.outside {
        Some(outside) => outside.perform(wish).await,
        None => Err(ToolError::new(
            ToolErrorCode::PermissionDenied,
            "the program has access to its files only",
        )),
    }
}

/// Answers a request in the form of a JSON document.
async fn document(
    store: &mut StoreContextMut<'_, StoreState>,
    asks: &mut ProgramHost,
    wish: &[u8],
) -> EffectResult {
    let garbled = |error: serde_json::Error| {
        let message = format!("the request is not valid: {error}");
        ToolError::new(ToolErrorCode::InvalidInput, message)
    };
    let wish: Value = serde_json::from_slice(wish).map_err(garbled)?;
    let kind = wish["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "run" | "result" | "log" | "progress" | "next") {
        return perform_effect(asks, serde_json::from_value(wish).map_err(garbled)?).await;
    }
    match serde_json::from_value(wish).map_err(garbled)? {
        ProgramOnlyRequest::Run {
            code,
            args,
            stdin,
            env,
            cwd,
        } => {
            let (Some(python), Some(inner)) = (&asks.python, &asks.inner) else {
                let message = "Python is not available in this program";
                return Err(ToolError::new(ToolErrorCode::Unavailable, message));
            };
            let program = ProgramRequest {
                code,
                arguments: args,
                environment: env,
                stdin: stdin.into_bytes(),
                directory: cwd.strip_prefix(super::WORKSPACE).map(str::to_owned),
                imports: inner.imports,
                ..ProgramRequest::default()
            };
            if !python.is_ready() {
                // Compiling it is work of the host, not of the program, and has its own limits.
                let deadline = asks.outside.as_ref().map(|outside| &outside.deadline);
                let _paused = deadline.map(Deadline::pause);
                Box::pin(python.prepare()).await?;
            }
            let fuel = store.get_fuel().unwrap_or_default();
            let (finished, used) = Box::pin(python.run_nested(inner, program, fuel)).await;
            // The fuel that it used is spent.
            store.set_fuel(fuel.saturating_sub(used)).ok();
            let finished = finished?;
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let answer = json!({
                "exitCode": finished.exit_code,
                "stdout": shown(&finished.stdout.bytes),
                "stderr": shown(&finished.stderr.bytes),
            });
            Ok((answer, Vec::new()))
        }
        ProgramOnlyRequest::Result { value } => {
            asks.returned = Some(value);
            Ok((Value::Null, Vec::new()))
        }
        ProgramOnlyRequest::Next { done } => {
            let used = (
                store.get_fuel().unwrap_or_default(),
                store.data().limiter.peak_memory(),
            );
            if let Some(seat) = &asks.seat {
                if let Some(inner) = &asks.inner {
                    super::report_quota(&inner.watch, &seat.sink);
                }
                super::report_not_recorded(store.data_mut(), &seat.sink);
            }
            // Between calls a session holds neither the previous call nor its observer.
            asks.outside = None;
            store.data_mut().set_observer(Arc::new(NoObserver));
            let next = match &mut asks.seat {
                Some(seat) => seat.next_job(done, used).await,
                None => None,
            };
            let Some((code, outside, observer, fuel)) = next else {
                let message = "the session has ended: no more code follows";
                return Err(ToolError::new(ToolErrorCode::Cancelled, message));
            };
            asks.outside = Some(outside);
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
