//! Handle to a command started by bubblewrap. It covers bubblewrap itself and the first process of the namespace, whose
//! end kills all others.

use std::io;
use std::sync::Arc;

use mimir_core::backend::BoxFuture;
use mimir_net::Proxy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process, pidfd_open, pidfd_send_signal, prlimit,
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;

use super::super::KILLED;
use super::super::cgroup::CommandCgroups;
use crate::sandbox::loopback_proxy::ProxyTask;
use crate::sandbox::loopback_proxy::network_namespace::NetworkNamespace;
use crate::sandbox::{CommandExit, CommandHandle, SandboxError, procfs, sys};

/// Status reports of bubblewrap, one JSON object per line.
pub(super) struct BubblewrapReport(Lines<BufReader<pipe::Receiver>>);

impl BubblewrapReport {
    pub(super) fn new(from: pipe::Receiver) -> Self {
        Self(BufReader::new(from).lines())
    }

    /// Reads lines until one has a number with this name.
    async fn number(&mut self, name: &str) -> Option<i32> {
        while let Ok(Some(line)) = self.0.next_line().await {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(number) = line.get(name).and_then(serde_json::Value::as_i64) {
                return i32::try_from(number).ok();
            }
        }
        None
    }

    /// Returns the first process of the namespace.
    pub(super) async fn process(&mut self) -> Option<Pid> {
        self.number("child-pid").await.and_then(Pid::from_raw)
    }

    /// Returns the exit code of the command, or `None` if it has not started.
    async fn exit(&mut self) -> Option<i32> {
        self.number("exit-code").await
    }
}

/// A running command and all its descendants.
pub(super) struct BubblewrapHandle {
    bwrap: tokio::process::Child,
    first: Pid,
    process: Arc<OwnedFd>,
    report: BubblewrapReport,
    exit: Option<CommandExit>,
    /// The proxy of the command, if it has one.
    pub(super) proxy_task: Option<ProxyTask>,
    /// Removed when all processes in the groups have ended.
    groups: Option<CommandCgroups>,
}

impl BubblewrapHandle {
    pub(super) fn new(
        bwrap: tokio::process::Child,
        first: Pid,
        report: BubblewrapReport,
        groups: CommandCgroups,
    ) -> Result<Self, SandboxError> {
        let failed = |error: rustix::io::Errno| {
            SandboxError::io_error("cannot wait for a command")(error.into())
        };
        // The process waits for permission to start, so its number cannot have been reused.
        let process = pidfd_open(first, PidfdFlags::empty()).map_err(failed)?;
        groups
            .admit(first.as_raw_nonzero().get())
            .map_err(SandboxError::io_error(
                "cannot move a command into its control groups",
            ))?;
        Ok(Self {
            bwrap,
            first,
            process: Arc::new(process),
            report,
            exit: None,
            proxy_task: None,
            groups: Some(groups),
        })
    }

    /// Sets the resource limits that all processes of the command inherit.
    pub(super) fn set_limits(&self, limits: &[(Resource, Rlimit)]) -> Result<(), SandboxError> {
        for (resource, limit) in limits {
            prlimit(Some(self.first), *resource, *limit).map_err(|error| {
                SandboxError::io_error("cannot set the limits of a command")(error.into())
            })?;
        }
        Ok(())
    }

    /// Connects the network of the command to the proxy.
    pub(super) async fn open_proxy(&self, proxy: &Proxy) -> io::Result<ProxyTask> {
        let network = NetworkNamespace::of_process(self.first.as_raw_nonzero().get())?;
        let mut ended = [PollFd::new(&*self.process, PollFlags::IN)];
        // If the process has ended, its number may have been reused.
        match poll(&mut ended, Some(&Timespec::default()))? {
            0 => network.serve(proxy).await,
            _ => Err(io::Error::other("bubblewrap has ended")),
        }
    }

    async fn wait_for_exit(&mut self) -> io::Result<CommandExit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let status = self.bwrap.wait().await?;
        // Bubblewrap reports the exit code and exits; the rest of the namespace ends a moment later.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        let process = sys::exit_watcher(&self.process)?;
        let _ = process.readable().await?;
        drop(process);
        let reported_code = self.report.exit().await;
        let killed = !status.success() && status.code().is_none();
        let code = match reported_code {
            Some(code) => code,
            None if killed => KILLED,
            None => {
                return Err(io::Error::other(
                    "bubblewrap did not start it; see its output for the reason",
                ));
            }
        };
        let out_of_memory = self
            .groups
            .as_ref()
            .is_some_and(CommandCgroups::out_of_memory);
        let exit = CommandExit {
            code,
            out_of_memory,
        };
        self.exit = Some(exit);
        self.groups = None;
        self.proxy_task = None;
        Ok(exit)
    }
}

impl CommandHandle for BubblewrapHandle {
    fn wait(&mut self) -> BoxFuture<'_, Result<CommandExit, SandboxError>> {
        Box::pin(async {
            self.wait_for_exit()
                .await
                .map_err(SandboxError::io_error("cannot wait for a command"))
        })
    }

    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        // The first process of the namespace is a shell, which forwards no signals.
        for process in procfs::descendants(self.first) {
            let _ = kill_process(process, Signal::TERM);
        }
        Box::pin(std::future::ready(()))
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        let _ = self.bwrap.start_kill();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for BubblewrapHandle {
    fn drop(&mut self) {
        if self.exit.is_some() {
            return;
        }
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        let _ = self.bwrap.start_kill();
        // The groups are in use until the process has ended.
        let (process, groups) = (Arc::clone(&self.process), self.groups.take());
        std::thread::spawn(move || {
            let mut polled = [PollFd::new(&*process, PollFlags::IN)];
            let _ = poll(&mut polled, None);
            drop(groups);
        });
    }
}
