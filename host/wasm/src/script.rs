//! Scripts: code in the form of text that runs on an engine which is itself a component.
//!
//! One engine serves all scripts of its language, and each call has a fresh instance of it, in a state that was
//! computed once: see `warm`. The engine never waits. When a script has nothing left to compute, it returns its
//! requests (a file, a command, an HTTP request), and is resumed with each result as it arrives, so that concurrent
//! requests run concurrently. Every request passes the same policy checks as the imports of a plugin.
//!
//! Out of scope: the languages, the files of scripts, and the permissions of a tool.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::{AbortHandle, abortable};
use futures::stream::FuturesUnordered;
use mimir_core::backend::{BoxFuture, Raw};
use mimir_core::clock::Elapsed;
use mimir_core::command::Stream;
use mimir_core::outcome::{Content, Output};
use mimir_core::{Access, Approved, Code, Limits, ToolError};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use wasmtime::Store;

use crate::backend;
use crate::call::{self, Ended};
use crate::error::HostError;
use crate::fs::{UndoRecorder, Watch};
use crate::guest::{Guest, Start};
use crate::host::WasmHost;
use crate::http::Clients;
use crate::pipes::Take as _;
use crate::program::{self, Done, Sink};

mod alone;
mod files;
mod link;
pub(crate) mod outside;
mod perform;
mod plugin;
mod timers;
pub mod trace;
pub(crate) mod turn;
mod warm;

pub use perform::{Compiled, Compiler, Late};
pub use plugin::{PluginParts, Reach, make};
pub use trace::Loaded;

use outside::Outside;
use timers::Timers;
use turn::{Fault, Kind, Told, Turn, Wish};
use warm::Ready;

/// The parts of an engine that a program embeds.
#[derive(Debug, Clone, Copy)]
pub struct EngineParts {
    /// Its display name.
    pub name: &'static str,
    /// The linked component.
    pub component: &'static [u8],
    /// The code to run once, before the initial state of calls is saved.
    pub prelude: &'static str,
}

/// An engine for one language. Prepared when the first script runs, and cached.
pub struct ScriptEngine {
    host: Arc<WasmHost>,
    parts: EngineParts,
    compiler: Compiler,
    ready: OnceCell<Arc<Ready>>,
}

/// The state of a script between calls: connections.
#[derive(Default)]
pub struct ScriptState(pub(crate) Arc<Clients>);

/// The detail of a failure that contains the stack, as written by the engine.
pub const STACK: &str = "stack";

/// Maximum number of concurrent requests of one script, the same as for calls of one plugin. More wait for their turn.
const AT_ONCE: usize = 8;

/// Maximum number of stored request failures, for finding the cause of a script's failure.
const FAILURES: usize = 64;

impl ScriptEngine {
    /// Creates an engine; nothing is initialized yet. `compiler` compiles code that programs load and scripts
    /// evaluate.
    pub fn new(host: Arc<WasmHost>, parts: EngineParts, compiler: Compiler) -> Arc<Self> {
        Arc::new(Self {
            host,
            parts,
            compiler,
            ready: OnceCell::new(),
        })
    }

    /// Prepares the engine, so that the first call does not have to wait.
    pub async fn prepare(&self) -> Result<(), HostError> {
        self.ready().await.map(|_| ())
    }

    async fn ready(&self) -> Result<&Arc<Ready>, HostError> {
        let make = || async { Ok(Arc::new(warm::ready(&self.host, &self.parts).await?)) };
        self.ready.get_or_try_init(make).await
    }

    /// Returns its host.
    pub fn host(&self) -> &Arc<WasmHost> {
        &self.host
    }

    /// Runs a call of a script to its end or to one of its limits.
    pub fn run<'a>(
        &'a self,
        call: &'a Approved,
        script: &'a str,
        state: &'a ScriptState,
    ) -> BoxFuture<'a, Raw> {
        Box::pin(async move {
            let ran = self.attempt(call, script, state).await;
            ran.unwrap_or_else(Raw::failed)
        })
    }

    async fn attempt(
        &self,
        call: &Approved,
        script: &str,
        state: &ScriptState,
    ) -> Result<Raw, ToolError> {
        let ready = match self.ready.get() {
            Some(ready) => ready,
            None => {
                // Compiling is work of the host, not of the script: its time does not count.
                let _paused = call.deadline().pause();
                Box::pin(self.ready()).await?
            }
        };
        let (mut store, outside) = open(&self.host, ready, call, state, (None, None))?;
        store.data_mut().compiler = Some(self.compiler);
        let ended = {
            let input = input(call, call.arguments(), false).to_string();
            let work = pin!(talk(&mut store, ready, call, script, &input, &outside));
            call.deadline().bound(work).await
        };
        Ok(call::close(store, call, ended))
    }

    /// Runs a script that is a whole program: its console is its stdout and stderr, and the number returned by
    /// `execute` is its exit code. An uncaught error is written to stderr, with its frames in `loaded` and in files
    /// loaded later.
    pub async fn program(
        &self,
        call: &Approved,
        script: &str,
        (arguments, timeout): (&Value, Option<Duration>),
        state: &ScriptState,
        loaded: Loaded,
    ) -> Done {
        let done = self.attempt_program(call, script, (arguments, timeout), state, loaded);
        done.await.unwrap_or_else(Done::from)
    }

    async fn attempt_program(
        &self,
        call: &Approved,
        script: &str,
        (arguments, timeout): (&Value, Option<Duration>),
        state: &ScriptState,
        loaded: Loaded,
    ) -> Result<Done, ToolError> {
        let ready = match self.ready.get() {
            Some(ready) => ready,
            None => {
                let _paused = call.deadline().pause();
                Box::pin(self.ready()).await?
            }
        };
        let start = Instant::now();
        let sink = Sink::new(Arc::clone(call.observer()), call.limits());
        let undo = UndoRecorder::default();
        let scope = undo.begin(backend::undo_target(&self.host, call));
        let watch = backend::watch(call.limits(), Some(undo));
        let watched = (Some(sink.clone()), Some(&watch));
        let (mut store, outside) = open(&self.host, ready, call, state, watched)?;
        store.data_mut().compiler = Some(self.compiler);
        let base = loaded.base;
        store.data_mut().loaded.push(loaded);
        let ended = {
            let mut input = input(call, arguments, true);
            input["base"] = base.into();
            let input = input.to_string();
            let work = talk(&mut store, ready, call, script, &input, &outside);
            let work = pin!(program::bounded(timeout, work));
            call.deadline().bound(work).await
        };
        let ended = match ended {
            Ok(Some(ended)) => Ok(ended),
            Ok(None) | Err(_) => Err(Elapsed),
        };
        let loaded = std::mem::take(&mut store.data_mut().loaded);
        let raw = call::close(store, call, ended);
        program::tell_full(&watch, &sink);
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        let obeyed = scope.finish(call.deadline(), left).await;
        let code = match raw.result {
            Ok(output) => output.content.iter().find_map(|part| match part {
                Content::Text { text } => text.parse().ok(),
                _ => None,
            }),
            Err(error) if error.code == Code::ExecutionError => {
                let shown = trace::uncaught(&loaded, &error);
                sink.half(Stream::Stderr).take(shown.as_bytes());
                Some(1)
            }
            Err(error) => {
                sink.end();
                let error = match error.code {
                    Code::Timeout => program::stopped(call.limits(), timeout),
                    _ => error,
                };
                return Ok(Done {
                    result: program::report_obeyed(call, Err(program::said(error, &sink)), obeyed),
                    returned: None,
                    usage: raw.usage,
                });
            }
        };
        sink.end();
        Ok(Done {
            result: program::report_obeyed(
                call,
                Ok(sink.finish(code.unwrap_or_default(), start.elapsed())),
                obeyed,
            ),
            returned: None,
            usage: raw.usage,
        })
    }
}

/// Creates a store for a call with the access that it was granted.
fn open(
    host: &Arc<WasmHost>,
    ready: &Ready,
    call: &Approved,
    state: &ScriptState,
    (sink, watch): (Option<Sink>, Option<&Watch>),
) -> Result<(Store<Guest>, Outside), ToolError> {
    let rights = call.rights();
    let limits = *call.limits();
    let fs = match watch {
        Some(watch) => backend::script_files(host, call, watch)?,
        None => backend::files(
            host,
            backend::OwnFolders::default(),
            rights,
            Access::ReadWrite,
            call.paths(),
            &limits,
        )?,
    };
    let outside = Outside::of(call, host, &state.0);
    let start = Start {
        observer: Arc::clone(call.observer()),
        ..Start::alone(fs, limits)
    };
    let mut store = ready.store(start)?;
    store.data_mut().console = sink;
    Ok((store, outside))
}

/// Returns the input of a script.
fn input(call: &Approved, arguments: &Value, program: bool) -> Value {
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
        "seed": seed(),
        "program": program,
        "most": call.limits().output_bytes,
    })
}

/// Returns two numbers unique to the call. They are not secret.
fn seed() -> [u32; 2] {
    use std::hash::{BuildHasher as _, RandomState};
    let number = RandomState::new().hash_one(0);
    [number as u32, (number >> 32) as u32]
}

/// Requests that wait for their turn.
#[derive(Default)]
struct Waiting {
    /// Their numbers, and the bytes that the host holds for each, including cancelled ones.
    order: VecDeque<(u32, u64)>,
    kinds: HashMap<u32, Kind>,
}

impl Waiting {
    fn push(&mut self, id: u32, cost: u64, kind: Kind) {
        self.order.push_back((id, cost));
        self.kinds.insert(id, kind);
    }

    fn pop(&mut self) -> Option<(u32, u64, Option<Kind>)> {
        let (id, cost) = self.order.pop_front()?;
        Some((id, cost, self.kinds.remove(&id)))
    }
}

/// Runs the script turn by turn.
async fn talk(
    store: &mut Store<Guest>,
    ready: &Ready,
    call: &Approved,
    script: &str,
    input: &str,
    outside: &Outside,
) -> wasmtime::Result<Ended> {
    let limits = call.limits();
    let mut engine = ready.instantiate(store).await?;
    let mut text = engine.start(store, script, input).await?;
    let mut waiting = Waiting::default();
    let mut under_way = FuturesUnordered::new();
    let mut stops: HashMap<u32, AbortHandle> = HashMap::new();
    let mut timers = Timers::default();
    let mut failures: HashMap<u32, ToolError> = HashMap::new();
    // Bytes held by the host for pending requests.
    let mut held = 0_u64;
    loop {
        let turn: Turn = match serde_json::from_str(&text) {
            Ok(turn) => turn,
            Err(error) => return Ok((Err(garbled(&error)), false)),
        };
        match turn {
            Turn::Done(told) => return Ok((result(told, &failures, limits), false)),
            Turn::Wishes(wishes) => {
                // Approximate share of a request in the text that contained it.
                let share = text.len().checked_div(wishes.len()).unwrap_or_default();
                let cost = (size_of::<(u32, u64, u32, Kind)>() + share) as u64;
                for Wish { id, kind } in wishes {
                    match kind {
                        // Timers cost little, and must not delay other requests.
                        Kind::Sleep { millis } => {
                            if let Err(error) = timers.add(id, outside::millis(millis)) {
                                return Ok((Err(error), false));
                            }
                        }
                        Kind::Wake => {
                            timers.remove(id);
                            waiting.kinds.remove(&id);
                            if let Some(stop) = stops.remove(&id) {
                                stop.abort();
                            }
                        }
                        kind => {
                            held += cost;
                            waiting.push(id, cost, kind);
                        }
                    }
                }
            }
        }
        if held > limits.memory {
            let message = "the pending requests of the script exceed limits.memoryMb";
            let error = ToolError::new(Code::LimitExceeded, message);
            return Ok((Err(error), false));
        }
        let answer = loop {
            let mut answer = None;
            // The content of a file is handed over before the next one is read.
            while answer.is_none()
                && under_way.len() < AT_ONCE
                && let Some((id, cost, kind)) = waiting.pop()
            {
                match kind {
                    Some(Kind::Files(wish)) => {
                        let done = files::fulfil(store.data_mut(), wish, limits).await;
                        held = held.saturating_sub(cost);
                        answer = Some((id, done));
                    }
                    Some(Kind::Other(wish)) => {
                        let (work, handle) = abortable(outside.answer(wish));
                        stops.insert(id, handle);
                        under_way.push(Box::pin(async move { (id, cost, work.await) }));
                    }
                    // The script has cancelled it.
                    _ => held = held.saturating_sub(cost),
                }
            }
            if answer.is_some() {
                break answer;
            }
            tokio::select! {
                Some((id, cost, done)) = under_way.next(), if !under_way.is_empty() => {
                    held = held.saturating_sub(cost);
                    // A number that was reused in the meantime does not prevent that.
                    if let Ok(answer) = done {
                        stops.remove(&id);
                        break Some((id, answer));
                    }
                }
                Some(id) = timers.next(), if !timers.is_empty() => {
                    break Some((id, Ok((Value::Null, Vec::new()))));
                }
                else => break None,
            }
        };
        let Some((id, answer)) = answer else {
            let message = "`execute` never ends: it waits for a promise that will never be settled";
            let error = ToolError::new(Code::ExecutionError, message);
            return Ok((Err(error), false));
        };
        if let Err(error) = &answer
            && failures.len() < FAILURES
        {
            failures.insert(id, error.clone());
        }
        text = engine.resume(store, id, answer).await?;
    }
}

fn garbled(error: &serde_json::Error) -> ToolError {
    let message = format!("the script has broken the engine that runs it: {error}");
    ToolError::new(Code::ExecutionError, message)
}

/// Returns the outcome of a call as reported by the script.
fn result(
    told: Told,
    failures: &HashMap<u32, ToolError>,
    limits: &Limits,
) -> Result<Output, ToolError> {
    let fault = match told {
        Told::Text(text) => {
            return Ok(Output {
                content: vec![Content::text(text)],
                structured: None,
                exit_code: None,
            });
        }
        Told::TooLarge {} => return Err(call::too_large(limits.output_bytes)),
        Told::Error(fault) => fault,
    };
    // A host failure that the script did not catch keeps its code and remedies.
    if let Some(error) = fault.wish.and_then(|wish| failures.get(&wish)) {
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
    Err(failed(fault))
}

fn failed(fault: Fault) -> ToolError {
    let Fault {
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
    let error = ToolError::new(Code::ExecutionError, message);
    match stack {
        Some(stack) if !stack.is_empty() => error.with_details(json!({ STACK: stack })),
        _ => error,
    }
}
