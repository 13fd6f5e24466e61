//! Scripts: source code that runs on an engine, which is itself a component.
//!
//! One engine serves all scripts of a language. Each call has a fresh instance of the engine, in a state that was
//! computed once: see `snapshot`. The engine never waits. When a script cannot continue without results, it returns its
//! requests (a file, a command, an HTTP request) and is resumed with each result as it arrives, so requests run
//! concurrently. The policy checks every request, as it does for the imports of a plugin.
//!
//! Out of scope: the languages, the files of scripts, and the permissions of a tool.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::{AbortHandle, abortable};
use futures::stream::FuturesUnordered;
use mimir_core::backend::{BoxFuture, RawResult};
use mimir_core::command::CommandStream;
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::{Approved, DirectoryAccess, Limits, ToolError, ToolErrorCode};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use wasmtime::Store;

use crate::backend;
use crate::call::{self, GuestCallResult};
use crate::error::WasmHostError;
use crate::fs::{CODE_WITHOUT_UNDO, MountTracking, UndoCopies};
use crate::host::WasmHost;
use crate::http::HttpClients;
use crate::output_pipes::OutputTarget as _;
use crate::packed::PackedComponent;
use crate::program::{self, ProgramOutcome, ProgramOutput};
use crate::store_state::{StoreOptions, StoreState};

mod js_plugin;
mod one_shot_script;
mod runtime_link;
pub(crate) mod script_effects;
mod script_files;
pub(crate) mod script_protocol;
mod snapshot;
pub mod stack_trace;
mod sync_requests;
mod timers;

pub use js_plugin::{JsPluginParts, PluginImports, build_plugin};
pub(crate) use script_files::read_file;
pub use stack_trace::LoadedCode;
pub use sync_requests::{CompiledScript, LateCode, ScriptCompiler};

use script_effects::ScriptEffects;
use script_protocol::{ScriptError, ScriptRequest, ScriptRequestKind, ScriptResult, ScriptTurn};
use snapshot::WarmEngine;
use timers::TimerQueue;

/// The parts of a script engine, which an executable embeds.
#[derive(Debug, Clone, Copy)]
pub struct EngineParts {
    /// Display name of the engine.
    pub name: &'static str,
    /// The linked component.
    pub component: PackedComponent,
    /// The sha256 of the component, uncompressed.
    pub sha256: [u8; 32],
    /// Code that runs once, before the initial state of calls is saved.
    pub prelude: &'static str,
}

/// A script engine for one language. It is prepared when the first script runs, and cached.
pub struct ScriptEngine {
    host: Arc<WasmHost>,
    parts: EngineParts,
    compiler: ScriptCompiler,
    ready: OnceCell<Arc<WarmEngine>>,
}

/// The state of a script between calls: HTTP connections.
#[derive(Default)]
pub struct ScriptState(pub(crate) Arc<HttpClients>);

/// Key of the engine's stack trace in the details of a failure.
pub const STACK: &str = "stack";

/// Maximum number of concurrent requests of one script, the same as for calls of one plugin. Further requests wait.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Maximum number of request failures stored to find the cause of a script's failure: the newest ones.
const MAX_FAILURES: usize = 64;

impl ScriptEngine {
    /// Creates an engine; nothing is initialized yet. `compiler` compiles code that programs load and scripts
    /// evaluate.
    pub fn new(host: Arc<WasmHost>, parts: EngineParts, compiler: ScriptCompiler) -> Arc<Self> {
        Arc::new(Self {
            host,
            parts,
            compiler,
            ready: OnceCell::new(),
        })
    }

    /// Prepares the engine, so that the first call does not have to wait.
    pub async fn prepare(&self) -> Result<(), WasmHostError> {
        self.ready().await.map(|_| ())
    }

    async fn ready(&self) -> Result<&Arc<WarmEngine>, WasmHostError> {
        let load = || async {
            let ready = snapshot::load_or_snapshot(&self.host, &self.parts).await;
            ready
                .map(Arc::new)
                .map_err(|error| error.at(self.parts.name))
        };
        self.ready.get_or_try_init(load).await
    }

    /// Prepares the engine for a call. Compiling is work of the host, not of the script: its time does not count.
    async fn ready_for(&self, call: &Approved) -> Result<&Arc<WarmEngine>, ToolError> {
        if let Some(ready) = self.ready.get() {
            return Ok(ready);
        }
        let _paused = call.deadline().pause();
        Ok(Box::pin(self.ready()).await?)
    }

    /// Returns the host of the engine.
    pub fn host(&self) -> &Arc<WasmHost> {
        &self.host
    }

    /// Runs a call of a script until it ends or reaches a limit.
    pub fn run<'a>(
        &'a self,
        call: &'a Approved,
        script: &'a str,
        state: &'a ScriptState,
    ) -> BoxFuture<'a, RawResult> {
        Box::pin(async move {
            let result = self.run_script(call, script, state).await;
            result.unwrap_or_else(RawResult::failed)
        })
    }

    async fn run_script(
        &self,
        call: &Approved,
        script: &str,
        state: &ScriptState,
    ) -> Result<RawResult, ToolError> {
        let ready = self.ready_for(call).await?;
        // Dropped after the store, because the script can change files until then.
        let (tracking, scope) = backend::record_call(&self.host, call, UndoCopies::Optional);
        let (mut store, effects) = open_store(&self.host, ready, call, state, &tracking)?;
        store.data_mut().compiler = Some(self.compiler);
        let outcome = {
            let input = script_input(call, call.arguments(), false).to_string();
            let work = pin!(run_turns(&mut store, ready, call, script, &input, &effects));
            call.deadline().run_until(work).await
        };
        let raw = call::finish_call(store, call, outcome);
        backend::finish_recording(call, scope, raw).await
    }

    /// Runs a script as a program: the console is stdout and stderr, and the number returned by `execute` is the exit
    /// code. An uncaught error is written to stderr, with its stack frames in `loaded` and in files loaded later.
    pub async fn run_program(
        &self,
        call: &Approved,
        script: &str,
        (arguments, timeout): (&Value, Option<Duration>),
        state: &ScriptState,
        loaded: LoadedCode,
    ) -> ProgramOutcome {
        let outcome = self.run_script_program(call, script, (arguments, timeout), state, loaded);
        outcome.await.unwrap_or_else(ProgramOutcome::from)
    }

    async fn run_script_program(
        &self,
        call: &Approved,
        script: &str,
        (arguments, timeout): (&Value, Option<Duration>),
        state: &ScriptState,
        loaded: LoadedCode,
    ) -> Result<ProgramOutcome, ToolError> {
        let ready = self.ready_for(call).await?;
        let (start, deadline) = (Instant::now(), call.deadline().with_limit(timeout));
        let sink = ProgramOutput::new(Arc::clone(call.observer()), call.limits());
        let copies = UndoCopies::Required(CODE_WITHOUT_UNDO);
        let (tracking, scope) = backend::record_call(&self.host, call, copies);
        let (mut store, effects) = open_store(&self.host, ready, call, state, &tracking)?;
        store.data_mut().console = Some(sink.clone());
        store.data_mut().compiler = Some(self.compiler);
        let base = loaded.base;
        store.data_mut().loaded.push(loaded);
        let outcome = {
            let mut input = script_input(call, arguments, true);
            input["base"] = base.into();
            let input = input.to_string();
            let work = pin!(run_turns(&mut store, ready, call, script, &input, &effects));
            sink.show_while(deadline.run_until(work)).await
        };
        let timed_out = outcome.is_err();
        let loaded = std::mem::take(&mut store.data_mut().loaded);
        let raw = call::finish_call(store, call, outcome);
        program::report_quota(&tracking, &sink);
        let changes = scope.finish(&deadline).await;
        let result = match raw.result {
            Ok(output) => Ok(output.content.iter().find_map(|part| match part {
                Content::Text { text } => text.parse().ok(),
                _ => None,
            })),
            Err(_) if timed_out => Err(program::timeout_error(call.limits(), timeout)),
            Err(error) if error.code == ToolErrorCode::ExecutionError => {
                let shown = stack_trace::uncaught_error_text(&loaded, &error);
                sink.stream(CommandStream::Stderr).take(shown.as_bytes());
                Ok(Some(1))
            }
            Err(error) => Err(stack_trace::with_stack_frames(&loaded, error)),
        };
        sink.flush_lines();
        let result = match result {
            Ok(code) => Ok(sink.finish(code.unwrap_or_default(), start.elapsed())),
            Err(error) => Err(program::with_output(error, &sink)),
        };
        Ok(ProgramOutcome {
            result: program::report_changes(call, result, changes),
            returned: None,
            usage: raw.usage,
        })
    }
}

/// Creates a store with the access granted to a call.
fn open_store(
    host: &Arc<WasmHost>,
    ready: &WarmEngine,
    call: &Approved,
    state: &ScriptState,
    tracking: &MountTracking,
) -> Result<(Store<StoreState>, ScriptEffects), ToolError> {
    let rights = call.rights();
    let limits = *call.limits();
    let fs = backend::open_files(
        host,
        backend::BuiltinTraits::default(),
        rights,
        DirectoryAccess::ReadWrite,
        call.paths(),
        &limits,
        tracking,
    )
    .map_err(|error| backend::name_tool(error, call))?;
    let effects = ScriptEffects::for_call(call, host, &state.0);
    let options = StoreOptions {
        observer: Arc::clone(call.observer()),
        ..StoreOptions::isolated(fs, limits)
    };
    Ok((ready.store(options)?, effects))
}

/// Returns the arguments and the context of a call as JSON for scripts, in the same form for all languages.
pub fn call_input(call: &Approved, arguments: &Value) -> Value {
    let context = call.context();
    let id = context.conversation_id.as_ref();
    json!({
        "args": arguments,
        "context": {
            "config": { "workingDirectory": "." },
            "conversation": {
                "id": id.unwrap_or(&context.session_id),
                "workingDirectory": ".",
            },
        },
    })
}

/// Returns the input of a script.
fn script_input(call: &Approved, arguments: &Value, program: bool) -> Value {
    let mut input = call_input(call, arguments);
    input["seed"] = json!(random_seed());
    input["program"] = program.into();
    input["most"] = call.limits().output_bytes.into();
    input
}

/// Returns two numbers unique to the call. They are not secret.
fn random_seed() -> [u32; 2] {
    use std::hash::{BuildHasher as _, RandomState};
    let number = RandomState::new().hash_one(0);
    [number as u32, (number >> 32) as u32]
}

/// Requests that are not running yet.
#[derive(Default)]
struct PendingRequests {
    /// Numbers of the requests, and the bytes that the host holds for each; includes cancelled requests.
    order: VecDeque<(u32, u64)>,
    kinds: HashMap<u32, ScriptRequestKind>,
}

impl PendingRequests {
    fn push(&mut self, id: u32, cost: u64, kind: ScriptRequestKind) {
        self.order.push_back((id, cost));
        self.kinds.insert(id, kind);
    }

    fn pop(&mut self) -> Option<(u32, u64, Option<ScriptRequestKind>)> {
        let (id, cost) = self.order.pop_front()?;
        Some((id, cost, self.kinds.remove(&id)))
    }
}

/// Runs the script turn by turn.
async fn run_turns(
    store: &mut Store<StoreState>,
    ready: &WarmEngine,
    call: &Approved,
    script: &str,
    input: &str,
    effects: &ScriptEffects,
) -> wasmtime::Result<GuestCallResult> {
    let limits = call.limits();
    let mut engine = ready.instantiate(store).await?;
    let mut text = engine.start(store, script, input).await?;
    let mut waiting = PendingRequests::default();
    let mut running = FuturesUnordered::new();
    let mut abort_handles: HashMap<u32, AbortHandle> = HashMap::new();
    let mut timers = TimerQueue::default();
    let mut failures: VecDeque<(u32, ToolError)> = VecDeque::new();
    // Bytes held by the host for pending requests.
    let mut held_bytes = 0_u64;
    loop {
        let turn: ScriptTurn = match serde_json::from_str(&text) {
            Ok(turn) => turn,
            Err(error) => return Ok((Err(invalid_turn_error(&error)), false)),
        };
        match turn {
            ScriptTurn::Done(outcome) => {
                return Ok((script_output(outcome, &failures, limits), false));
            }
            ScriptTurn::Requests(requests) => {
                // Approximate size of one request in the text with all of them.
                let share = text.len().checked_div(requests.len()).unwrap_or_default();
                let cost = (size_of::<(u32, u64, u32, ScriptRequestKind)>() + share) as u64;
                for ScriptRequest { id, kind } in requests {
                    match kind {
                        // Timers cost little, and must not take the slots of other requests.
                        ScriptRequestKind::Sleep { millis } => {
                            if let Err(error) = timers.add(id, script_effects::millis(millis)) {
                                return Ok((Err(error), false));
                            }
                        }
                        ScriptRequestKind::Wake => {
                            timers.remove(id);
                            waiting.kinds.remove(&id);
                            if let Some(stop) = abort_handles.remove(&id) {
                                stop.abort();
                            }
                        }
                        kind => {
                            held_bytes += cost;
                            waiting.push(id, cost, kind);
                        }
                    }
                }
            }
        }
        if held_bytes > limits.memory {
            let message = "the pending requests of the script exceed limits.memoryMb";
            let error = ToolError::new(ToolErrorCode::LimitExceeded, message);
            return Ok((Err(error), false));
        }
        let reply = loop {
            let mut reply = None;
            // The content of a file is passed on before the next one is read.
            while reply.is_none()
                && running.len() < MAX_CONCURRENT_REQUESTS
                && let Some((id, cost, kind)) = waiting.pop()
            {
                match kind {
                    Some(ScriptRequestKind::Files(request)) => {
                        let done =
                            script_files::perform_request(store.data_mut(), request, limits).await;
                        held_bytes = held_bytes.saturating_sub(cost);
                        reply = Some((id, done));
                    }
                    Some(ScriptRequestKind::Other(request)) => {
                        let (work, handle) = abortable(effects.perform(request));
                        abort_handles.insert(id, handle);
                        running.push(Box::pin(async move { (id, cost, work.await) }));
                    }
                    // The script has cancelled it.
                    _ => held_bytes = held_bytes.saturating_sub(cost),
                }
            }
            if reply.is_some() {
                break reply;
            }
            tokio::select! {
                Some((id, cost, done)) = running.next(), if !running.is_empty() => {
                    held_bytes = held_bytes.saturating_sub(cost);
                    // An aborted request has no reply.
                    if let Ok(reply) = done {
                        abort_handles.remove(&id);
                        break Some((id, reply));
                    }
                }
                Some(id) = timers.next(), if !timers.is_empty() => {
                    break Some((id, Ok((Value::Null, Vec::new()))));
                }
                else => break None,
            }
        };
        let Some((id, reply)) = reply else {
            let message = "`execute` never ends: it waits for a promise that will never be settled";
            let error = ToolError::new(ToolErrorCode::ExecutionError, message);
            return Ok((Err(error), false));
        };
        if let Err(error) = &reply {
            failures.truncate(MAX_FAILURES - 1);
            failures.push_front((id, error.clone()));
        }
        text = engine.resume(store, id, reply).await?;
    }
}

fn invalid_turn_error(error: &serde_json::Error) -> ToolError {
    let message = format!("the script has broken the engine that runs it: {error}");
    ToolError::new(ToolErrorCode::ExecutionError, message)
}

/// Returns the outcome of a call as reported by the script.
fn script_output(
    outcome: ScriptResult,
    failures: &VecDeque<(u32, ToolError)>,
    limits: &Limits,
) -> Result<ToolOutput, ToolError> {
    let fault = match outcome {
        ScriptResult::Text(text) => {
            return Ok(ToolOutput {
                content: vec![Content::text(text)],
                structured: None,
                exit_code: None,
            });
        }
        ScriptResult::TooLarge {} => return Err(call::result_too_large(limits.output_bytes)),
        ScriptResult::Error(fault) => fault,
    };
    // A host failure that the script did not catch keeps its code and remedies.
    let is_cause = |(id, _): &&(u32, ToolError)| Some(*id) == fault.request;
    if let Some((_, error)) = failures.iter().find(is_cause) {
        let mut error = error.clone();
        if let Some(stack) = fault.stack {
            error.details = Some(match error.details {
                Some(Value::Object(mut details)) => {
                    details.insert(STACK.to_owned(), stack.into());
                    Value::Object(details)
                }
                _ => json!({ STACK: stack }),
            });
        }
        return Err(error);
    }
    Err(script_failure(fault))
}

fn script_failure(fault: ScriptError) -> ToolError {
    let ScriptError {
        name,
        message,
        stack,
        thrown,
        ..
    } = fault;
    let message = match (name, thrown) {
        (Some(name), _) if name != "Error" && message.is_empty() => name,
        (Some(name), _) if name != "Error" => format!("{name}: {message}"),
        (None, Some(thrown)) if thrown == "null" || thrown == "undefined" => {
            format!("the script threw {thrown}")
        }
        _ if message.is_empty() => "the script threw an error without a message".to_owned(),
        _ => message,
    };
    let error = ToolError::new(ToolErrorCode::ExecutionError, message);
    match stack {
        Some(stack) if !stack.is_empty() => error.with_details(json!({ STACK: stack })),
        _ => error,
    }
}
