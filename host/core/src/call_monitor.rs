//! The port to consoles, which show the calls of a pipeline while they run.
//!
//! The pipeline creates a [`CallReport`] at each step of a call, while a console watches. A report still contains raw
//! arguments, so that a call does not wait until they are masked: only [`CallReport::into_event`] gives access to the
//! content, and masks it. A [`LiveCallEvent`] is masked, bounded and free of control characters, and is what other
//! processes and pages receive.
//!
//! [`RunningCalls`] lists the calls that wait or run, and cancels them.

mod live_event;
mod monitored_call;
mod report;
mod running_calls;
mod shown_arguments;

pub use live_event::{
    LiveCallEnd, LiveCallEvent, LiveCallState, LiveEffect, LiveProcess, LiveStream, StartedCall,
};
pub(crate) use monitored_call::{
    CallCancelled, CallFacts, CalledTool, MonitoredCall, until_cancelled,
};
pub use report::CallReport;
pub(crate) use running_calls::CallTracker;
pub use running_calls::RunningCalls;
pub(crate) use shown_arguments::ReportedArguments;

/// Receives reports about running calls.
pub trait CallMonitor: Send + Sync {
    /// Returns true if a console watches. Called for each call, so it must cost no more than an atomic load.
    fn is_watched(&self) -> bool;

    /// Returns true if a call that has just arrived should be reported. A monitor that cannot keep up returns false, and
    /// counts the call, so that calls take no time for reports that would be dropped.
    fn takes_call(&self) -> bool {
        self.is_watched()
    }

    /// Receives a report. Must not block. Reports that cannot be handled are dropped: they never fail a call.
    fn report(&self, report: CallReport);
}
