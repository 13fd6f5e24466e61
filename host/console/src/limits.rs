//! Limits of a console, with their defaults.

use std::time::Duration;

/// Limits of a console. The defaults suit one person with some browsers.
#[derive(Debug, Clone)]
pub struct ConsoleLimits {
    /// Maximum size of a request body in bytes.
    pub body: usize,
    /// Requests per second of one session.
    pub requests_per_second: u32,
    /// Requests of one session that may come at once.
    pub request_burst: u32,
    /// Attempts to log in per second, of the clients at one address.
    pub logins_per_second: u32,
    /// Attempts to log in per second, of each client that a reverse proxy at that address names.
    pub forwarded_logins_per_second: u32,
    /// Maximum number of sessions. Beyond it, the one that was unused for the longest time ends.
    pub sessions: usize,
    /// Maximum number of one-time links that were not used yet.
    pub links: usize,
    /// Maximum number of event streams, and of those of one session.
    pub streams: usize,
    /// Maximum number of event streams of one session.
    pub session_streams: usize,
    /// Maximum number of exports of the record at the same time.
    pub exports: usize,
    /// Maximum number of exports of one person.
    pub user_exports: usize,
    /// Time after which an export ends if its client reads nothing.
    pub export_stalled: Duration,
    /// Refused logins per second that are recorded.
    pub recorded_refusals_per_second: u32,
    /// Maximum number of requests that the backend handles at the same time.
    pub concurrent: usize,
    /// Maximum number of requests of one person that the backend handles at the same time.
    pub user_concurrent: usize,
    /// Maximum number of requests of one person that wait or are handled.
    pub user_requests: usize,
    /// Maximum number of evaluations of rules at the same time. Each person has one.
    pub evaluations: usize,
    /// Maximum time for a request, including its body.
    pub request_time: Duration,
    /// Time for which a one-time link is valid.
    pub link_lifetime: Duration,
    /// Time without requests after which a session ends.
    pub idle: Duration,
    /// Time after which a session ends in any case.
    pub lifetime: Duration,
    /// Time after which a client that does not read its events is dropped.
    pub stalled: Duration,
    /// Time between two signs of life on an event stream.
    pub ping: Duration,
    /// Time for which events of calls are collected.
    pub batch: Duration,
    /// Number of messages on the event stream that are kept for clients that reconnect.
    pub kept_messages: usize,
    /// Size in bytes of the messages that are kept.
    pub kept_bytes: usize,
}

impl Default for ConsoleLimits {
    fn default() -> Self {
        Self {
            body: 1 << 20,
            requests_per_second: 50,
            request_burst: 200,
            logins_per_second: 5,
            forwarded_logins_per_second: 5,
            sessions: 32,
            links: 16,
            streams: 16,
            session_streams: 8,
            exports: 8,
            user_exports: 2,
            export_stalled: Duration::from_secs(30),
            recorded_refusals_per_second: 1,
            concurrent: 32,
            user_concurrent: 12,
            user_requests: 32,
            evaluations: 2,
            request_time: Duration::from_secs(60),
            link_lifetime: Duration::from_secs(10 * 60),
            idle: Duration::from_secs(24 * 60 * 60),
            lifetime: Duration::from_secs(7 * 24 * 60 * 60),
            stalled: Duration::from_secs(10),
            ping: Duration::from_secs(15),
            batch: Duration::from_millis(25),
            kept_messages: 1000,
            kept_bytes: 16 << 20,
        }
    }
}

impl ConsoleLimits {
    /// Returns the limits of a console of a team.
    pub fn of_team() -> Self {
        Self {
            sessions: 1024,
            logins_per_second: 50,
            streams: 256,
            exports: 48,
            concurrent: 64,
            user_concurrent: 8,
            idle: Duration::from_secs(8 * 60 * 60),
            lifetime: Duration::from_secs(12 * 60 * 60),
            ..Self::default()
        }
    }
}
