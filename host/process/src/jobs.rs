//! Background commands. Each belongs to the session and plugin that started it, and ends with the session.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::command::{JobId, JobOwner, JobStatus, OutputChunk};
use mimir_core::text::prefix;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::run::{OutputTail, RunningCommand};
use crate::sandbox::{CommandSpec, Sandbox, SandboxError};
use crate::sessions::NamedPorts;

/// Maximum number of running commands of one owner, enough for the servers and watchers of a large project.
const MAX_RUNNING: usize = 16;

/// Maximum number of ended commands to remember.
const MAX_ENDED: usize = 32;

/// Maximum output stored for each command, in bytes; the most recent output is kept.
const MAX_OUTPUT: usize = 1 << 20;

/// Maximum length of a command in a list, in characters.
const MAX_COMMAND_LENGTH: usize = 1_000;

/// All background commands. Dropping this kills them.
#[derive(Default)]
pub(crate) struct BackgroundJobs {
    owners: Mutex<BTreeMap<JobOwner, OwnerJobs>>,
}

#[derive(Default)]
struct OwnerJobs {
    last: u32,
    jobs: VecDeque<JobEntry>,
}

struct JobEntry {
    id: JobId,
    command: String,
    started: Instant,
    state: Arc<JobState>,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

struct JobState {
    /// The end of the output.
    output: Mutex<OutputTail>,
    ended: watch::Sender<Option<(i32, Duration)>>,
}

impl BackgroundJobs {
    /// Starts a command, and returns once it runs.
    pub(crate) async fn start(
        &self,
        sandbox: &dyn Sandbox,
        spec: &CommandSpec,
        owner: &JobOwner,
        command: String,
        ports: Option<NamedPorts>,
    ) -> Result<JobId, SandboxError> {
        self.ensure_capacity(owner)?;
        let running = RunningCommand::begin(sandbox, spec).await?;
        let mut owners = self.owners.lock();
        let owned = owners.entry(owner.clone()).or_default();
        // Other commands may have been started meanwhile. On failure, dropping this command kills it.
        owned.ensure_capacity()?;
        owned.last += 1;
        let id = JobId(owned.last);
        let state = Arc::new(JobState {
            output: Mutex::new(OutputTail::new(MAX_OUTPUT)),
            ended: watch::Sender::new(None),
        });
        let stop = running.stop_signal();
        let task = tokio::spawn(collect_output(running, Arc::clone(&state), ports));
        owned.jobs.push_back(JobEntry {
            id,
            command: prefix(&command, MAX_COMMAND_LENGTH).to_owned(),
            started: Instant::now(),
            state,
            stop,
            task,
        });
        Ok(id)
    }

    fn ensure_capacity(&self, owner: &JobOwner) -> Result<(), SandboxError> {
        self.owners
            .lock()
            .get_mut(owner)
            .map_or(Ok(()), OwnerJobs::ensure_capacity)
    }

    pub(crate) fn list(&self, owner: &JobOwner) -> Vec<JobStatus> {
        let owners = self.owners.lock();
        let jobs = owners
            .get(owner)
            .map(|owned| owned.jobs.iter().map(JobEntry::status).collect());
        jobs.unwrap_or_default()
    }

    pub(crate) fn running(&self) -> Vec<(JobOwner, JobStatus)> {
        let owners = self.owners.lock();
        let jobs = owners.iter().flat_map(|(owner, owned)| {
            let statuses = owned.jobs.iter().map(JobEntry::status);
            statuses.map(|status| (owner.clone(), status))
        });
        jobs.filter(|(_, status)| status.exit_code.is_none())
            .collect()
    }

    pub(crate) fn output(
        &self,
        owner: &JobOwner,
        job: JobId,
        begin: u64,
    ) -> Result<OutputChunk, SandboxError> {
        let state = self.find(owner, job, |entry| Arc::clone(&entry.state))?;
        let mut output = state.output.lock();
        Ok(read_chunk(&mut output, begin))
    }

    /// Stops a command, and waits until it has exited. The command gets a short time to exit by itself.
    pub(crate) async fn stop(
        &self,
        owner: &JobOwner,
        job: JobId,
    ) -> Result<JobStatus, SandboxError> {
        let (state, stop) = self.find(owner, job, |entry| {
            (Arc::clone(&entry.state), Arc::clone(&entry.stop))
        })?;
        let mut ended = state.ended.subscribe();
        stop.notify_one();
        // If the sender is gone, the session and the command have ended.
        let _ = ended.wait_for(Option::is_some).await;
        self.find(owner, job, JobEntry::status)
    }

    pub(crate) fn end_session(&self, session: &str) {
        self.owners
            .lock()
            .retain(|owner, _| owner.session != session);
    }

    fn find<T>(
        &self,
        owner: &JobOwner,
        job: JobId,
        read: impl Fn(&JobEntry) -> T,
    ) -> Result<T, SandboxError> {
        let owners = self.owners.lock();
        let entries = owners.get(owner).into_iter().flat_map(|owned| &owned.jobs);
        let mut matches = entries.filter(|entry| entry.id == job).map(read);
        matches.next().ok_or(SandboxError::NoJob(job.0))
    }
}

impl OwnerJobs {
    /// Removes the oldest ended commands beyond the limit. Fails if too many commands are running.
    fn ensure_capacity(&mut self) -> Result<(), SandboxError> {
        let running = self
            .jobs
            .iter()
            .filter(|entry| entry.exit().is_none())
            .count();
        if running >= MAX_RUNNING {
            return Err(SandboxError::TooManyJobs(running));
        }
        while self.jobs.len() - running > MAX_ENDED {
            let oldest = self.jobs.iter().position(|entry| entry.exit().is_some());
            match oldest {
                Some(oldest) => drop(self.jobs.remove(oldest)),
                None => break,
            }
        }
        Ok(())
    }
}

impl JobEntry {
    fn exit(&self) -> Option<(i32, Duration)> {
        *self.state.ended.borrow()
    }

    fn status(&self) -> JobStatus {
        let ended = self.exit();
        JobStatus {
            id: self.id,
            command: self.command.clone(),
            exit_code: ended.map(|(code, _)| code),
            duration: ended.map_or_else(|| self.started.elapsed(), |(_, duration)| duration),
        }
    }
}

impl Drop for JobEntry {
    fn drop(&mut self) {
        // Aborting the task drops the command, which kills it.
        self.task.abort();
    }
}

/// Stores the output of a command until the command ends. Its ports stay registered that long.
async fn collect_output(running: RunningCommand, state: Arc<JobState>, ports: Option<NamedPorts>) {
    let store = |bytes: &[u8]| {
        let mut output = state.output.lock();
        output.add(bytes);
    };
    let started = Instant::now();
    let ended = match running.wait(&mut |_, bytes| store(bytes)).await {
        Ok(finished) => (finished.exit_code, finished.duration),
        Err(fault) => {
            store(format!("\n[{fault}]\n").as_bytes());
            (fault.exit_code(), started.elapsed())
        }
    };
    drop(ports);
    state.ended.send_replace(Some(ended));
}

/// Returns the stored output from offset `begin`.
fn read_chunk(tail: &mut OutputTail, begin: u64) -> OutputChunk {
    let before = tail.dropped_bytes();
    let bytes = tail.bytes();
    let next = before + bytes.len() as u64;
    let from = begin.clamp(before, next);
    let skip = usize::try_from(from - before).unwrap_or(usize::MAX);
    OutputChunk {
        bytes: bytes.get(skip..).unwrap_or_default().to_vec(),
        next,
        omitted_bytes: from.saturating_sub(begin),
    }
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]
mod tests;
