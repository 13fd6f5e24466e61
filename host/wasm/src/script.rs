//! Scripts: code that comes as text and runs on an engine that is itself a component.
//!
//! One engine serves all scripts of its language, and each call has a fresh instance of it. It starts in a state that
//! was computed once: see `warm`. The engine never waits. When a script has nothing left to compute, it returns what
//! it wishes for (a file, a command, a request), and is resumed with each answer as it comes, so that what a script
//! asks for at once is done at once. Every wish goes through the gates that the imports of a plugin go through.
//!
//! Never here: the languages, the files that scripts are kept in, and what a tool may do.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use mimir_core::backend::{BoxFuture, Raw};
use mimir_core::outcome::{Content, Output};
use mimir_core::{Access, Approved, Code, Limits, ToolError};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use wasmtime::Store;

use crate::backend;
use crate::call::{self, Ended};
use crate::error::HostError;
use crate::guest::{Guest, Start};
use crate::host::WasmHost;
use crate::http::{Clients, Network};

mod files;
mod outside;
mod turn;
mod warm;

use outside::Outside;
use turn::{Fault, Kind, Other, Told, Turn, Wish};
use warm::Ready;

/// The parts of an engine that a program carries.
#[derive(Debug, Clone, Copy)]
pub struct EngineParts {
    /// What people call it.
    pub name: &'static str,
    /// The linked component.
    pub component: &'static [u8],
    /// What it runs once, before the state that calls start in is kept.
    pub prelude: &'static str,
}

/// An engine for one language. Made ready when the first script runs, and kept.
pub struct ScriptEngine {
    host: Arc<WasmHost>,
    parts: EngineParts,
    ready: OnceCell<Arc<Ready>>,
}

/// A script, ready to be run by an engine.
#[derive(Debug, Clone)]
pub struct Script {
    /// What the engine evaluates.
    pub code: String,
}

/// What a script of its own keeps between calls: connections.
#[derive(Default)]
pub struct ScriptState(Arc<Clients>);

/// The detail of a failure that has the stack, as the engine wrote it.
pub const STACK: &str = "stack";

/// Wishes of one script under way at a time, as many as calls of one plugin. More wait for their turn.
const AT_ONCE: usize = 8;

/// Failures of wishes that are kept, to say what is behind the failure of the script.
const FAILURES: usize = 64;

impl ScriptEngine {
    /// An engine that has done nothing yet.
    pub fn new(host: Arc<WasmHost>, parts: EngineParts) -> Arc<Self> {
        Arc::new(Self {
            host,
            parts,
            ready: OnceCell::new(),
        })
    }

    /// Makes the engine ready, so that the first call does not wait for that.
    pub async fn prepare(&self) -> Result<(), HostError> {
        self.ready().await.map(|_| ())
    }

    async fn ready(&self) -> Result<&Arc<Ready>, HostError> {
        let make = || async { Ok(Arc::new(warm::ready(&self.host, &self.parts).await?)) };
        self.ready.get_or_try_init(make).await
    }

    /// The host that it runs in.
    pub fn host(&self) -> &Arc<WasmHost> {
        &self.host
    }

    /// Runs a call of a script to its end or to its bounds.
    pub fn run<'a>(
        &'a self,
        call: &'a Approved,
        script: &'a Script,
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
        script: &Script,
        state: &ScriptState,
    ) -> Result<Raw, ToolError> {
        let ready = match self.ready.get() {
            Some(ready) => ready,
            None => {
                // Compiling is the host's work, not the script's: its time does not count.
                let _paused = call.deadline().pause();
                Box::pin(self.ready()).await?
            }
        };
        let rights = call.rights();
        let limits = *call.limits();
        let fs = backend::files(
            &self.host,
            false,
            rights,
            Access::ReadWrite,
            call.paths(),
            &limits,
        )?;
        let network = (!rights.hosts.is_empty())
            .then(|| Network::of(Arc::clone(&state.0), Arc::clone(&self.host), call));
        let outside = Outside {
            commands: (!rights.commands.is_empty()).then(|| call.effects()),
            nested: (!rights.tools.is_empty()).then(|| call.nested()),
            network: network.map(Arc::new),
        };
        let start = Start {
            observer: Arc::clone(call.observer()),
            ..Start::alone(fs, limits)
        };
        let mut store = ready.store(start)?;
        let ended = {
            let work = pin!(talk(&mut store, ready, call, script, &outside));
            call.deadline().bound(work).await
        };
        Ok(call::close(store, call, ended))
    }
}

/// What a script is started with.
fn input(call: &Approved) -> Value {
    let context = call.context();
    let id = context.conversation_id.as_ref();
    json!({
        "args": call.arguments(),
        "context": {
            "config": { "workingDirectory": "." },
            "conversation": {
                "id": id.unwrap_or(&context.session_id),
                "workingDirectory": ".",
            },
        },
        "seed": seed(),
        "most": call.limits().output_bytes,
    })
}

/// Two numbers that no other call has. Nothing secret depends on them.
fn seed() -> [u32; 2] {
    use std::hash::{BuildHasher as _, RandomState};
    let number = RandomState::new().hash_one(0);
    [number as u32, (number >> 32) as u32]
}

/// Runs the script turn by turn.
async fn talk(
    store: &mut Store<Guest>,
    ready: &Ready,
    call: &Approved,
    script: &Script,
    outside: &Outside,
) -> wasmtime::Result<Ended> {
    let limits = call.limits();
    let mut engine = ready.instantiate(store).await?;
    let mut text = engine
        .start(store, &script.code, &input(call).to_string())
        .await?;
    let mut waiting: VecDeque<(u32, Kind)> = VecDeque::new();
    let mut under_way = FuturesUnordered::new();
    let mut busy = 0;
    let mut failures: HashMap<u32, ToolError> = HashMap::new();
    // What the host holds for wishes that are not fulfilled yet.
    let mut held = 0_u64;
    loop {
        let turn: Turn = match serde_json::from_str(&text) {
            Ok(turn) => turn,
            Err(error) => return Ok((Err(garbled(&error)), false)),
        };
        match turn {
            Turn::Done(told) => return Ok((result(told, &failures, limits), false)),
            Turn::Wishes(wishes) => {
                held += text.len() as u64;
                for Wish { id, kind } in wishes {
                    match kind {
                        // Timers cost nothing, and must not keep others waiting.
                        Kind::Other(sleep @ Other::Sleep { .. }) => {
                            under_way.push(outside.fulfil(id, sleep));
                        }
                        kind => waiting.push_back((id, kind)),
                    }
                }
            }
        }
        if held > limits.memory {
            let message = "the script wishes for more at once than limits.memoryMb allows";
            let error = ToolError::new(Code::LimitExceeded, message);
            return Ok((Err(error), false));
        }
        let mut answer = None;
        // What a file holds is handed over before the next one is read.
        while answer.is_none()
            && busy < AT_ONCE
            && let Some((id, kind)) = waiting.pop_front()
        {
            match kind {
                Kind::Files(wish) => {
                    let done = files::fulfil(store.data_mut(), wish, limits).await;
                    answer = Some((id, done));
                }
                Kind::Other(wish) => {
                    busy += 1;
                    under_way.push(outside.fulfil(id, wish));
                }
            }
        }
        let answer = match answer {
            Some(answer) => Some(answer),
            None => under_way.next().await.map(|done| {
                busy -= usize::from(done.counts);
                (done.id, done.answer)
            }),
        };
        let Some((id, answer)) = answer else {
            let message = "`execute` never ends: it waits for a promise that nothing will settle";
            let error = ToolError::new(Code::ExecutionError, message);
            return Ok((Err(error), false));
        };
        if waiting.is_empty() && under_way.is_empty() {
            held = 0;
        }
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

/// What a call came to, as the script tells it.
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
    // A failure of the host that the script has not caught keeps its code, and what would help.
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
