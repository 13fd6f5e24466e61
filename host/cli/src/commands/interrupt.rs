//! Signals that end a command.

#[cfg(unix)]
use std::task::Poll;

use crate::exit::ExitReason;

/// Listener for Ctrl-C, SIGTERM and SIGHUP. From its installation on, they no longer end the process by themselves.
pub struct InterruptListener {
    #[cfg(unix)]
    signals: Vec<(tokio::signal::unix::Signal, ExitReason)>,
    #[cfg(windows)]
    ctrl_c: Option<tokio::signal::windows::CtrlC>,
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
        }
    }

    /// Installs the handler. If that fails, Ctrl-C ends the process as usual.
    #[cfg(windows)]
    pub fn install() -> Self {
        Self {
            ctrl_c: tokio::signal::windows::ctrl_c().ok(),
        }
    }

    /// Waits for a signal, and returns the reason to exit with. A signal that arrived since the installation counts.
    #[cfg(unix)]
    pub async fn wait(&mut self) -> ExitReason {
        std::future::poll_fn(|context| {
            for (signal, reason) in &mut self.signals {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*reason);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for Ctrl-C, and returns the reason to exit with.
    #[cfg(windows)]
    pub async fn wait(&mut self) -> ExitReason {
        match &mut self.ctrl_c {
            Some(ctrl_c) => {
                ctrl_c.recv().await;
                ExitReason::Interrupted
            }
            None => std::future::pending().await,
        }
    }
}

/// Waits for Ctrl-C, SIGTERM or SIGHUP, and returns the reason to exit with.
pub async fn wait_for_interrupt() -> ExitReason {
    InterruptListener::install().wait().await
}
