//! Code sessions: a Python program that stays alive between calls, so that a call finds the state of the previous call.
//! The program waits for the next code in the middle of its run.
//!
//! Each call still has its own permissions and limits: fuel, time and access to the host are those of the call whose
//! code runs. A session is ended if its files differ from those granted to the call. The number of sessions is limited,
//! and an idle session ends by itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::call::CallObserver;
use mimir_core::command::CommandOutput;
use mimir_core::needs::Needs;
use mimir_core::paths::PathRules;
use mimir_core::{Approved, ToolError, ToolErrorCode};
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::program_host::ProgramHost;
use super::{
    ProgramEngine, ProgramOutcome, ProgramOutput, ProgramRequest, TEMPORARY, TemporaryFolder,
    report_changes, timeout_error, with_output,
};
use crate::backend;
use crate::fs::{MountTracking, RecordedChanges, UndoRecorder};
use crate::script::ScriptState;
use crate::script::script_effects::ScriptEffects;
use crate::trap_errors::trap_error;

/// A code session, in which code finds the state of earlier code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeSession {
    /// Its name.
    pub name: String,
    /// True if the session began with this call, without any earlier state.
    pub fresh: bool,
    /// True if the session ended with this call: the next one starts without state.
    pub ended: bool,
    /// The names of all open sessions of this client.
    pub open: Vec<String>,
}

/// Maximum number of sessions of one engine. Each session takes as much memory as a call may have.
const MAX_SESSIONS: usize = 4;

/// Time that a session waits for the next call before it ends.
const MAX_IDLE_TIME: Duration = Duration::from_secs(600);

/// The program that the engine runs for a session.
const SESSION_CODE: &str = "import mimir\nmimir.serve()\n";

/// The sessions of one engine, the most recently used one last.
#[derive(Default)]
pub(super) struct ProgramSessions(Arc<Mutex<VecDeque<ProgramSession>>>);

/// A waiting or running session.
struct ProgramSession {
    key: SessionKey,
    rights: Needs,
    paths: PathRules,
    jobs: mpsc::Sender<SessionJob>,
    task: AbortHandle,
    sink: ProgramOutput,
    last: ExitSlot,
    tracking: MountTracking,
    busy: bool,
}

impl ProgramSession {
    fn handle(&self) -> SessionHandle {
        let last = Arc::clone(&self.last);
        (
            self.jobs.clone(),
            self.sink.clone(),
            last,
            self.tracking.clone(),
        )
    }
}

/// Owner and name of a session.
type SessionKey = (String, String);

/// The parts of a session needed to run code in it.
type SessionHandle = (
    mpsc::Sender<SessionJob>,
    ProgramOutput,
    ExitSlot,
    MountTracking,
);

/// The result of a session's program, once the program has ended.
type ExitSlot = Arc<Mutex<Option<Result<i32, ToolError>>>>;

/// Code to run in a session.
struct SessionJob {
    document: Value,
    effects: ScriptEffects,
    observer: Arc<dyn CallObserver>,
    fuel: u64,
    reply: oneshot::Sender<JobOutcome>,
}

/// The outcome of a job.
struct JobOutcome {
    finished: CommandOutput,
    fuel: u64,
    memory: u64,
}

/// The source of code for the program of a session.
pub(super) struct SessionInput {
    jobs: mpsc::Receiver<SessionJob>,
    pub(super) sink: ProgramOutput,
    running: Option<RunningJob>,
}

/// The running job.
struct RunningJob {
    reply: oneshot::Sender<JobOutcome>,
    start: Instant,
    fuel: u64,
}

impl SessionInput {
    /// Reports the outcome of the last code and waits for the next code. `left` is the remaining fuel, `memory` the
    /// peak memory in bytes. Returns the code with its effects, observer and fuel, or `None` if the session has ended.
    pub(super) async fn next_job(
        &mut self,
        exit_code: Option<i32>,
        (left, memory): (u64, u64),
    ) -> Option<(Value, ScriptEffects, Arc<dyn CallObserver>, u64)> {
        if let (Some(running), Some(code)) = (self.running.take(), exit_code) {
            self.sink.flush_lines();
            self.sink.clear_observer();
            let finished = self.sink.finish(code, running.start.elapsed());
            let fuel = running.fuel.saturating_sub(left);
            // The caller may be gone.
            running
                .reply
                .send(JobOutcome {
                    finished,
                    fuel,
                    memory,
                })
                .ok();
        }
        let job = tokio::time::timeout(MAX_IDLE_TIME, self.jobs.recv())
            .await
            .ok()??;
        self.sink.reset(Arc::clone(&job.observer));
        self.running = Some(RunningJob {
            reply: job.reply,
            start: Instant::now(),
            fuel: job.fuel,
        });
        Some((job.document, job.effects, job.observer, job.fuel))
    }
}

impl ProgramSessions {
    fn lock(&self) -> MutexGuard<'_, VecDeque<ProgramSession>> {
        self.0.lock()
    }

    /// Ends and removes a session.
    fn end(&self, key: &SessionKey) {
        let mut sessions = self.lock();
        if let Some(index) = sessions.iter().position(|session| session.key == *key) {
            sessions
                .remove(index)
                .inspect(|session| session.task.abort());
        }
    }

    /// Returns the names of an owner's sessions.
    fn names(&self, owner: &str) -> Vec<String> {
        let sessions = self.lock();
        let owned = sessions
            .iter()
            .filter(|session| session.key.0 == owner && !session.jobs.is_closed());
        owned.map(|session| session.key.1.clone()).collect()
    }
}

/// Guard that ends the session on drop, unless the code ran to its end.
struct SessionGuard<'a> {
    sessions: &'a ProgramSessions,
    key: SessionKey,
    completed: bool,
}

impl Drop for SessionGuard<'_> {
    fn drop(&mut self) {
        if self.completed {
            let mut sessions = self.sessions.lock();
            if let Some(session) = sessions.iter_mut().find(|session| session.key == self.key) {
                session.busy = false;
            }
        } else {
            self.sessions.end(&self.key);
        }
    }
}

impl ProgramEngine {
    /// Runs code in the session with this name, and starts the session if it does not exist.
    pub async fn run_in_session(
        self: &Arc<Self>,
        call: &Approved,
        name: &str,
        program: ProgramRequest,
        state: &ScriptState,
    ) -> (ProgramOutcome, Option<CodeSession>) {
        match self.try_run_in_session(call, name, program, state).await {
            Ok(outcome) => outcome,
            Err(error) => (error.into(), None),
        }
    }

    async fn try_run_in_session(
        self: &Arc<Self>,
        call: &Approved,
        name: &str,
        program: ProgramRequest,
        state: &ScriptState,
    ) -> Result<(ProgramOutcome, Option<CodeSession>), ToolError> {
        self.ready_for(call).await?;
        let owner = call.context().session_id.clone();
        let key = (owner.clone(), name.to_owned());
        let ((jobs, sink, last, tracking), is_new) = self.take_session(call, &key, state)?;
        if let Some(quota) = &tracking.quota {
            quota.restart(call.limits().new_file_bytes, call.limits().new_files);
        }
        // Recording begins here. Between calls, the recorder refuses all changes.
        let target = backend::undo_target(&self.host, call, program.undo);
        let scope = tracking.undo.as_ref();
        let scope = scope.map(|undo| undo.begin(target, call.attempt_state()));
        let mut guard = SessionGuard {
            sessions: &self.sessions,
            key,
            completed: false,
        };
        let timeout = program.timeout;
        let (start, deadline) = (Instant::now(), call.deadline().with_limit(timeout));
        let (reply, receiver) = oneshot::channel();
        let job = SessionJob {
            document: job_document(&program),
            effects: ScriptEffects::for_call(call, &self.host, &state.0),
            observer: Arc::clone(call.observer()),
            fuel: call.limits().fuel,
            reply,
        };
        let work = std::pin::pin!(async {
            // If the job is not received, the reply channel is closed.
            jobs.send(job).await.ok();
            receiver.await
        });
        let outcome = sink.show_while(deadline.run_until(work)).await;
        let mut usage = mimir_core::backend::ResourceUsage::default();
        let result = match outcome {
            Ok(Ok(outcome)) => {
                guard.completed = true;
                usage.fuel = Some(outcome.fuel);
                usage.peak_memory = Some(outcome.memory);
                Ok(outcome.finished)
            }
            Ok(Err(_)) => {
                sink.flush_lines();
                let last = last.lock().take();
                match last {
                    Some(Ok(code)) => Ok(sink.finish(code, start.elapsed())),
                    Some(Err(error)) => Err(with_output(error, &sink)),
                    None => Err(session_ended(
                        "another session replaced it, or it was idle for too long",
                    )),
                }
            }
            Err(_) => Err(with_output(timeout_error(call.limits(), timeout), &sink)),
        };
        let completed = guard.completed;
        drop(guard);
        let changes = match scope {
            Some(scope) => scope.finish(&deadline).await,
            None => RecordedChanges::default(),
        };
        let result = report_changes(call, result, changes);
        let session = CodeSession {
            name: name.to_owned(),
            fresh: is_new,
            ended: !completed,
            open: self.sessions.names(&owner),
        };
        let outcome = ProgramOutcome {
            result,
            returned: None,
            usage,
        };
        Ok((outcome, Some(session)))
    }

    /// Returns the session of a key, marked as busy, and true if it was started now.
    fn take_session(
        self: &Arc<Self>,
        call: &Approved,
        key: &SessionKey,
        state: &ScriptState,
    ) -> Result<(SessionHandle, bool), ToolError> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| !session.jobs.is_closed());
        if let Some(index) = sessions.iter().position(|session| session.key == *key) {
            if sessions[index].busy {
                let message = format!(
                    "the session `{}` is running code; wait until it has finished",
                    key.1
                );
                return Err(ToolError::new(ToolErrorCode::Unavailable, message));
            }
            let has_same_access = sessions[index].rights == *call.rights()
                && sessions[index].paths.ptr_eq(call.paths());
            let existing = sessions.remove(index);
            if let Some(mut session) = existing {
                if has_same_access {
                    session.busy = true;
                    let handle = session.handle();
                    sessions.push_back(session);
                    return Ok((handle, false));
                }
                // The session has access to files that this call may not have.
                session.task.abort();
            }
        }
        if sessions.len() >= MAX_SESSIONS {
            let Some(index) = sessions.iter().position(|session| !session.busy) else {
                let message = format!(
                    "{MAX_SESSIONS} sessions are running code, which is the limit; wait until one has finished"
                );
                return Err(ToolError::new(ToolErrorCode::LimitExceeded, message));
            };
            sessions
                .remove(index)
                .inspect(|session| session.task.abort());
        }
        let session = self.begin_session(call, key, state)?;
        let handle = session.handle();
        sessions.push_back(session);
        Ok((handle, true))
    }

    fn begin_session(
        self: &Arc<Self>,
        call: &Approved,
        key: &SessionKey,
        state: &ScriptState,
    ) -> Result<ProgramSession, ToolError> {
        let limits = *call.limits();
        let sink = ProgramOutput::without_observer(&limits);
        let tmp = TemporaryFolder::new()?;
        let tracking = backend::workspace_tracking(&limits, UndoRecorder::default());
        let (jobs, job_receiver) = mpsc::channel(1);
        let mut host = ProgramHost::for_call(call, &self.host, &state.0);
        host.session_input = Some(SessionInput {
            jobs: job_receiver,
            sink: sink.clone(),
            running: None,
        });
        let program = ProgramRequest {
            code: SESSION_CODE.to_owned(),
            ..ProgramRequest::default()
        };
        let guest = self.call_options(call, host, program, sink.clone(), (&tmp, &tracking))?;
        let last = ExitSlot::default();
        let (engine, exit) = (Arc::clone(self), Arc::clone(&last));
        let task = tokio::spawn(async move {
            let _tmp = tmp;
            let Some(ready) = engine.ready.get() else {
                return;
            };
            let Ok(mut store) = ready.store(guest) else {
                return;
            };
            let result = ready.run_to_end(&mut store).await;
            let result = result.map_err(|error| trap_error(&error, store.data()));
            // Set before the store is dropped, which wakes the waiting caller.
            *exit.lock() = Some(result);
        });
        Ok(ProgramSession {
            key: key.clone(),
            rights: call.rights().clone(),
            paths: call.paths().clone(),
            jobs,
            task: task.abort_handle(),
            sink,
            last,
            tracking,
            busy: true,
        })
    }
}

fn session_ended(why: &str) -> ToolError {
    let message = format!("the session has ended: {why}; call again to start a new session");
    ToolError::new(ToolErrorCode::Unavailable, message)
}

/// Returns the JSON document for the session's program.
fn job_document(program: &ProgramRequest) -> Value {
    json!({
        "code": program.code,
        "args": program.arguments,
        "env": program.environment,
        "stdin": String::from_utf8_lossy(&program.stdin),
        "cwd": program.working_directory(),
        "tmp": TEMPORARY,
    })
}
