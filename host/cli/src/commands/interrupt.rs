//! Signals that end a command.

use std::task::{Context, Poll};

use mimir_core::BoxFuture;

use crate::exit::ExitReason;

/// Listener for Ctrl-C, SIGTERM and SIGHUP. From its installation on, they no longer end the process by themselves.
pub struct InterruptListener {
    #[cfg(unix)]
    signals: Vec<(tokio::signal::unix::Signal, ExitReason)>,
    #[cfg(windows)]
    ctrl_c: Option<tokio::signal::windows::CtrlC>,
    /// Completes when the program has to start again.
    restart: Option<BoxFuture<'static, ()>>,
}

impl InterruptListener {
    /// Installs the handlers. A signal for which that fails ends the process as usual.
    #[cfg(unix)]
    pub fn install() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [
            (SignalKind::interrupt(), ExitReason::Interrupted),
            (SignalKind::terminate(), ExitReason::Terminated),
            // The terminal has closed: its user does not see the result, but the audit log records the call.
            (SignalKind::hangup(), ExitReason::Terminated),
        ];
        let signals = kinds.into_iter();
        let signals = signals.filter_map(|(kind, reason)| Some((signal(kind).ok()?, reason)));
        Self {
            signals: signals.collect(),
            restart: None,
        }
    }

    /// Installs the handler. If that fails, Ctrl-C ends the process as usual.
    #[cfg(windows)]
    pub fn install() -> Self {
        Self {
            ctrl_c: tokio::signal::windows::ctrl_c().ok(),
            restart: None,
        }
    }

    /// Also ends the command when `restart` completes, so that the program starts again.
    #[must_use]
    pub fn with_restart(mut self, restart: impl Future<Output = ()> + Send + 'static) -> Self {
        self.restart = Some(Box::pin(restart));
        self
    }

    /// Waits for a signal or the restart, and returns the reason to exit with. A signal that arrived since the installation
    /// counts.
    pub async fn wait(&mut self) -> ExitReason {
        std::future::poll_fn(|context| {
            if let Poll::Ready(signal) = self.poll_signal(context) {
                return Poll::Ready(signal);
            }
            let restart = self.restart.as_mut();
            if restart.is_some_and(|restart| restart.as_mut().poll(context).is_ready()) {
                self.restart = None;
                return Poll::Ready(ExitReason::Restart);
            }
            Poll::Pending
        })
        .await
    }

    #[cfg(unix)]
    fn poll_signal(&mut self, context: &mut Context<'_>) -> Poll<ExitReason> {
        for (signal, reason) in &mut self.signals {
            if signal.poll_recv(context).is_ready() {
                return Poll::Ready(*reason);
            }
        }
        Poll::Pending
    }

    #[cfg(windows)]
    fn poll_signal(&mut self, context: &mut Context<'_>) -> Poll<ExitReason> {
        match &mut self.ctrl_c {
            Some(ctrl_c) => ctrl_c.poll_recv(context).map(|_| ExitReason::Interrupted),
            None => Poll::Pending,
        }
    }
}

/// Installs the listener at once, and returns a future that waits for Ctrl-C, SIGTERM or SIGHUP. Its output is the reason to
/// exit with.
///
/// An `async fn` would install it only when it is first polled: in a `select!`, that can be after the work has begun.
pub fn wait_for_interrupt() -> impl Future<Output = ExitReason> {
    let mut listener = InterruptListener::install();
    async move { listener.wait().await }
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn signal_before_the_first_poll_counts() {
        let interrupt = wait_for_interrupt();
        kill_process(getpid(), Signal::HUP).unwrap();
        assert_eq!(interrupt.await, ExitReason::Terminated);
    }
}
