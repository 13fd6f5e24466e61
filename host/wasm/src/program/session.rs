//! Sessions: a Python program that continues between calls, so that a call finds the state of the previous one. It
//! waits in the middle of its run for the next code.
//!
//! Each call still has its own permissions and limits: fuel, time and access to the host are those of the call whose
//! code runs, and a session whose files differ from those that a call may see is ended. Their number is limited, and
//! an idle session ends by itself.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::call::Observer;
use mimir_core::code::Session;
use mimir_core::command::Finished;
use mimir_core::needs::Needs;
use mimir_core::paths::PathRules;
use mimir_core::{Approved, Code, ToolError};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::asks::{Asks, Inner};
use super::{
    Done, Program, ProgramEngine, Sink, TEMPORARY, Temporary, WORKSPACE, bounded, report_obeyed,
    said, stopped,
};
use crate::backend;
use crate::faults::fault;
use crate::fs::{UndoRecorder, Watch};
use crate::script::ScriptState;
use crate::script::outside::Outside;

/// Maximum number of sessions of one engine: each holds as much memory as a call may have.
const MOST: usize = 4;

/// Time that a session waits for the next call.
const IDLE: Duration = Duration::from_secs(600);

/// The program that the engine runs for a session.
const LOOP: &str = "import mimir\nmimir.serve()\n";

/// The sessions of one engine, the most recently used one last.
#[derive(Default)]
pub(super) struct Sessions(Arc<Mutex<VecDeque<Kept>>>);

/// A session that waits or runs.
struct Kept {
    key: Key,
    rights: Needs,
    paths: PathRules,
    jobs: mpsc::Sender<Job>,
    task: AbortHandle,
    sink: Sink,
    last: Last,
    watch: Watch,
    busy: bool,
}

impl Kept {
    fn handed(&self) -> Handed {
        let last = Arc::clone(&self.last);
        (
            self.jobs.clone(),
            self.sink.clone(),
            last,
            self.watch.clone(),
        )
    }
}

/// The owner of a session, and its name for the owner.
type Key = (String, String);

/// The parts of a session needed to run code in it.
type Handed = (mpsc::Sender<Job>, Sink, Last, Watch);

/// The result of a session's program.
type Last = Arc<Mutex<Option<Result<i32, ToolError>>>>;

/// Code to run in a session.
struct Job {
    document: Value,
    outside: Outside,
    observer: Arc<dyn Observer>,
    fuel: u64,
    reply: oneshot::Sender<Ended>,
}

/// The outcome of such code.
struct Ended {
    finished: Finished,
    fuel: u64,
    memory: u64,
}

/// The source of code for the program of a session.
pub(super) struct Seat {
    jobs: mpsc::Receiver<Job>,
    pub(super) sink: Sink,
    now: Option<Now>,
}

/// The running code.
struct Now {
    reply: oneshot::Sender<Ended>,
    start: Instant,
    fuel: u64,
}

impl Seat {
    /// Reports the outcome of the last code and waits for the next one. `left` is the remaining fuel, `memory` the
    /// peak memory use. Returns the code, with its limits and observer, or `None` if the session is over.
    pub(super) async fn next(
        &mut self,
        done: Option<i32>,
        (left, memory): (u64, u64),
    ) -> Option<(Value, Outside, Arc<dyn Observer>, u64)> {
        if let (Some(now), Some(code)) = (self.now.take(), done) {
            self.sink.end();
            self.sink.unwatch();
            let finished = self.sink.finish(code, now.start.elapsed());
            let fuel = now.fuel.saturating_sub(left);
            // The caller may be gone.
            now.reply
                .send(Ended {
                    finished,
                    fuel,
                    memory,
                })
                .ok();
        }
        let job = tokio::time::timeout(IDLE, self.jobs.recv()).await.ok()??;
        self.sink.renew(Arc::clone(&job.observer));
        self.now = Some(Now {
            reply: job.reply,
            start: Instant::now(),
            fuel: job.fuel,
        });
        Some((job.document, job.outside, job.observer, job.fuel))
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.0.lock()
    }

    fn end(&self, key: &Key) {
        let mut all = self.lock();
        if let Some(at) = all.iter().position(|kept| kept.key == *key) {
            all.remove(at).inspect(|kept| kept.task.abort());
        }
    }

    /// Returns the names of an owner's sessions.
    fn names(&self, whose: &str) -> Vec<String> {
        let all = self.lock();
        let own = all
            .iter()
            .filter(|kept| kept.key.0 == whose && !kept.jobs.is_closed());
        own.map(|kept| kept.key.1.clone()).collect()
    }
}

/// Ends a session whose code was interrupted.
struct Guard<'a> {
    sessions: &'a Sessions,
    key: Key,
    whole: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.whole {
            let mut all = self.sessions.lock();
            if let Some(kept) = all.iter_mut().find(|kept| kept.key == self.key) {
                kept.busy = false;
            }
        } else {
            self.sessions.end(&self.key);
        }
    }
}

impl ProgramEngine {
    /// Runs code in the session of this name, which is started if it does not exist.
    pub async fn in_session(
        self: &Arc<Self>,
        call: &Approved,
        name: &str,
        program: Program,
        state: &ScriptState,
    ) -> (Done, Option<Session>) {
        match self.attempt_in_session(call, name, program, state).await {
            Ok(done) => done,
            Err(error) => (error.into(), None),
        }
    }

    async fn attempt_in_session(
        self: &Arc<Self>,
        call: &Approved,
        name: &str,
        program: Program,
        state: &ScriptState,
    ) -> Result<(Done, Option<Session>), ToolError> {
        if self.ready.get().is_none() {
            let _paused = call.deadline().pause();
            Box::pin(self.ready()).await?;
        }
        let whose = call.context().session_id.clone();
        let key = (whose.clone(), name.to_owned());
        let ((jobs, sink, last, watch), fresh) = self.take(call, &key, state)?;
        if let Some(quota) = &watch.quota {
            quota.renew(call.limits().new_file_bytes, call.limits().new_files);
        }
        // Between calls nothing is recorded, so no changes are allowed.
        let scope = watch.undo.as_ref();
        let scope = scope.map(|undo| undo.begin(backend::undo_target(&self.host, call)));
        let mut guard = Guard {
            sessions: &self.sessions,
            key,
            whole: false,
        };
        let start = Instant::now();
        let timeout = program.timeout;
        let (reply, answer) = oneshot::channel();
        let job = Job {
            document: document(&program),
            outside: Outside::of(call, &self.host, &state.0),
            observer: Arc::clone(call.observer()),
            fuel: call.limits().fuel,
            reply,
        };
        let work = std::pin::pin!(bounded(timeout, async {
            // If it is not received, no reply will come.
            jobs.send(job).await.ok();
            answer.await
        }));
        let ended = call.deadline().bound(work).await;
        let mut usage = mimir_core::backend::Usage::default();
        let result = match ended {
            Ok(Some(Ok(ended))) => {
                guard.whole = true;
                usage.fuel = Some(ended.fuel);
                usage.peak_memory = Some(ended.memory);
                Ok(ended.finished)
            }
            Ok(Some(Err(_))) => {
                sink.end();
                let last = last.lock().take();
                match last {
                    Some(Ok(code)) => Ok(sink.finish(code, start.elapsed())),
                    Some(Err(error)) => Err(said(error, &sink)),
                    None => Err(over(
                        "it was ended to start another one, or was idle for too long",
                    )),
                }
            }
            Ok(None) | Err(_) => Err(said(stopped(call.limits(), timeout), &sink)),
        };
        let whole = guard.whole;
        drop(guard);
        let obeyed = match scope {
            Some(scope) => {
                let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
                scope.finish(call.deadline(), left).await
            }
            None => Vec::new(),
        };
        let result = report_obeyed(call, result, obeyed);
        let session = Session {
            name: name.to_owned(),
            fresh,
            ended: !whole,
            open: self.sessions.names(&whose),
        };
        let done = Done {
            result,
            returned: None,
            usage,
        };
        Ok((done, Some(session)))
    }

    /// Returns the session of a key, marked as busy, and true if it was started now.
    fn take(
        self: &Arc<Self>,
        call: &Approved,
        key: &Key,
        state: &ScriptState,
    ) -> Result<(Handed, bool), ToolError> {
        let mut all = self.sessions.lock();
        all.retain(|kept| !kept.jobs.is_closed());
        if let Some(at) = all.iter().position(|kept| kept.key == *key) {
            if all[at].busy {
                let message = format!(
                    "the session `{}` is running code; wait until it has finished",
                    key.1
                );
                return Err(ToolError::new(Code::Unavailable, message));
            }
            let same = all[at].rights == *call.rights() && all[at].paths.is(call.paths());
            let found = all.remove(at);
            if let Some(mut kept) = found {
                if same {
                    kept.busy = true;
                    let handed = kept.handed();
                    all.push_back(kept);
                    return Ok((handed, false));
                }
                // It could still access files that this call may not.
                kept.task.abort();
            }
        }
        if all.len() >= MOST {
            let Some(at) = all.iter().position(|kept| !kept.busy) else {
                let message = format!(
                    "{MOST} sessions are running code, which is the limit; wait until one has finished"
                );
                return Err(ToolError::new(Code::LimitExceeded, message));
            };
            all.remove(at).inspect(|kept| kept.task.abort());
        }
        let kept = self.begin_session(call, key, state)?;
        let handed = kept.handed();
        all.push_back(kept);
        Ok((handed, true))
    }

    fn begin_session(
        self: &Arc<Self>,
        call: &Approved,
        key: &Key,
        state: &ScriptState,
    ) -> Result<Kept, ToolError> {
        let limits = *call.limits();
        let sink = Sink::unwatched(&limits);
        let tmp = Temporary::new()?;
        let watch = backend::watch(&limits, Some(UndoRecorder::default()));
        let fs = self.files(call, &tmp, &watch)?;
        let (jobs, seats) = mpsc::channel(1);
        let mut asks = Asks::of(call, &self.host, &state.0);
        asks.records = self.parts.records;
        asks.inner = Some(Inner {
            rights: call.rights().clone(),
            paths: call.paths().clone(),
            tmp: (tmp.path().to_owned(), tmp.quota().clone()),
            limits,
            imports: true,
            watch: watch.clone(),
        });
        asks.seat = Some(Seat {
            jobs: seats,
            sink: sink.clone(),
            now: None,
        });
        let program = Program {
            code: LOOP.to_owned(),
            ..Program::default()
        };
        let guest = self.start(fs, limits, program, sink.clone(), asks, call);
        let last = Last::default();
        let (engine, ending) = (Arc::clone(self), Arc::clone(&last));
        let task = tokio::spawn(async move {
            let _tmp = tmp;
            let Some(ready) = engine.ready.get() else {
                return;
            };
            let Ok(mut store) = ready.store(guest) else {
                return;
            };
            let ended = ready.go(&mut store).await;
            let ended = ended.map_err(|error| fault(&error, store.data()));
            // Before the store is dropped, which wakes the waiting caller.
            *ending.lock() = Some(ended);
        });
        Ok(Kept {
            key: key.clone(),
            rights: call.rights().clone(),
            paths: call.paths().clone(),
            jobs,
            task: task.abort_handle(),
            sink,
            last,
            watch,
            busy: true,
        })
    }
}

fn over(why: &str) -> ToolError {
    let message = format!("the session is over: {why}; call again to start a new one");
    ToolError::new(Code::Unavailable, message)
}

/// Returns the code in the form that the session's program expects.
fn document(program: &Program) -> Value {
    let directory = program
        .directory
        .as_deref()
        .unwrap_or_default()
        .trim_matches('/');
    let directory = match directory {
        "" | "." => WORKSPACE.to_owned(),
        directory => format!("{WORKSPACE}/{directory}"),
    };
    json!({
        "code": program.code,
        "args": program.arguments,
        "env": program.environment,
        "stdin": String::from_utf8_lossy(&program.stdin),
        "cwd": directory,
        "tmp": TEMPORARY,
    })
}
