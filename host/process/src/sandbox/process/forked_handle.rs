//! Handle to a command: the pidfd of the first process of its namespace. When that process ends, the kernel kills all
//! others in the namespace, and reports the end once they have ended.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use mimir_core::backend::BoxFuture;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tokio::net::unix::pipe;

use super::KILLED;
use super::child_plan::{SetupStage, StatusRecord};
use super::session_namespaces::ListenerGuard;
use super::start::{CgroupHandle, check_started, read_record};
use crate::sandbox::loopback_proxy::ProxyTask;
use crate::sandbox::{CommandExit, CommandHandle, SandboxError, sys};

/// A running command and all its descendants.
pub(super) struct ForkedHandle {
    process: Arc<OwnedFd>,
    status: StatusPipe,
    /// Closing this descriptor ends the first process. The kernel also closes it if this process dies.
    _life: OwnedFd,
    exit: Option<CommandExit>,
    /// Removed when all processes in the groups have ended.
    groups: Option<CgroupHandle>,
    /// The proxy of the command, stopped when the handle is dropped.
    proxy: Option<(ProxyTask, ListenerGuard)>,
}

enum StatusPipe {
    Raw(Option<OwnedFd>),
    Async(pipe::Receiver),
}

impl ForkedHandle {
    pub(super) fn new(
        process: OwnedFd,
        status: OwnedFd,
        life: OwnedFd,
        groups: CgroupHandle,
    ) -> io::Result<Self> {
        Ok(Self {
            process: Arc::new(process),
            status: StatusPipe::Raw(Some(status)),
            _life: life,
            exit: None,
            groups: Some(groups),
            proxy: None,
        })
    }

    /// Runs the proxy until the handle is dropped.
    pub(super) fn attach_proxy(&mut self, proxy: ProxyTask, listener: ListenerGuard) {
        self.proxy = Some((proxy, listener));
    }

    /// Waits until the program runs or has failed to start.
    pub(super) async fn wait_until_started(&mut self) -> Result<(), (SetupStage, io::Error)> {
        check_started(match self.status() {
            Ok(status) => read_record(status).await,
            Err(error) => return Err((SetupStage::Fork, error)),
        })
    }

    /// Blocking variant of [`wait_until_started`](Self::wait_until_started), for use outside an async runtime.
    pub(super) fn started_blocking(&mut self) -> Result<(), (SetupStage, io::Error)> {
        let mut bytes = [0; StatusRecord::BYTES];
        let read = match &mut self.status {
            StatusPipe::Raw(status) => match status.take() {
                Some(status) => File::from(status).read_exact(&mut bytes),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
            StatusPipe::Async(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        check_started(read.ok().and_then(|()| StatusRecord::read(bytes)))
    }

    fn status(&mut self) -> io::Result<&mut pipe::Receiver> {
        if let StatusPipe::Raw(raw) = &mut self.status {
            let raw = raw.take().ok_or(io::ErrorKind::BrokenPipe)?;
            self.status = StatusPipe::Async(pipe::Receiver::from_owned_fd(raw)?);
        }
        match &mut self.status {
            StatusPipe::Async(status) => Ok(status),
            StatusPipe::Raw(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    async fn wait_for_exit(&mut self) -> io::Result<CommandExit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let process = sys::exit_watcher(&self.process)?;
        // The pidfd becomes readable when the first process has ended, after all others.
        let _ = process.readable().await?;
        drop(process);
        let reaped = reap(&self.process);
        let record = match self.status() {
            Ok(status) => read_record(status).await,
            Err(_) => None,
        };
        let out_of_memory = self
            .groups
            .as_ref()
            .is_some_and(CgroupHandle::out_of_memory);
        let exit = CommandExit {
            code: match record {
                Some(StatusRecord::Exited(code)) => code,
                _ => reaped,
            },
            out_of_memory,
        };
        self.exit = Some(exit);
        self.groups = None;
        self.proxy = None;
        Ok(exit)
    }
}

/// Collects the exit status of the first process.
fn reap(process: &OwnedFd) -> i32 {
    match waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED) {
        Ok(Some(status)) => {
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            status.exit_status().or(signal).unwrap_or(KILLED)
        }
        // Another part of this program has already collected the status.
        _ => KILLED,
    }
}

impl CommandHandle for ForkedHandle {
    fn wait(&mut self) -> BoxFuture<'_, Result<CommandExit, SandboxError>> {
        Box::pin(async {
            self.wait_for_exit()
                .await
                .map_err(SandboxError::io_error("cannot wait for a command"))
        })
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        // The first process forwards the signal to all others.
        let _ = pidfd_send_signal(&self.process, Signal::TERM);
        Box::pin(std::future::ready(()))
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        Box::pin(std::future::ready(()))
    }
}

impl Drop for ForkedHandle {
    fn drop(&mut self) {
        if self.exit.is_some() {
            return;
        }
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        // The process ends within moments, but it stays a zombie until it is waited for, and its groups stay in use
        // until then.
        let (process, groups) = (Arc::clone(&self.process), self.groups.take());
        std::thread::spawn(move || {
            reap(&process);
            drop(groups);
        });
    }
}
