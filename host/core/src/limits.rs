//! The bounds of a call. Every one is on by default and holds in every state of the guest.

use std::time::Duration;

/// The bounds of one call; DESIGN section 7 gives the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock round the whole call, host calls included, human time excluded.
    pub wall: Duration,
    /// Units of fuel; roughly one per WebAssembly instruction.
    pub fuel: u64,
    /// Bytes of linear memory over all memories of the call.
    pub memory: u64,
    /// Elements over all tables of the call.
    pub table_elements: u64,
    /// Core instances in one call.
    pub instances: u32,
    /// Bytes of raw output that leave a component.
    pub output_bytes: u64,
    /// Characters of text handed to the model.
    pub output_chars: usize,
    /// Log lines kept of one call.
    pub log_lines: usize,
    /// Bytes kept of one log line.
    pub log_line_bytes: usize,
    /// Files and directories open at once.
    pub open_files: usize,
    /// All of one request over the network, human time excluded.
    pub http_time: Duration,
    /// Bytes of the body of a request, and of its answer's.
    pub http_body: u64,
    /// Calls of one plugin at a time; more wait.
    pub concurrent_per_plugin: usize,
    /// Calls per minute of one tool; off unless set.
    pub calls_per_minute: Option<u32>,
}

impl Limits {
    /// Calls of all plugins at a time: each holds a memory slot of the engine's pool.
    pub const CONCURRENT_TOTAL: usize = 64;
    /// Wall clock of a call whose tool runs commands, where nobody has set one: a build takes longer than computing.
    pub const WALL_WITH_COMMANDS: Duration = Duration::from_secs(600);
    /// How deep tools may call tools. A cycle ends here and not at the end of the stack.
    pub const CALL_DEPTH: u32 = 8;
    /// Memory that any call can have: all that one 32-bit memory addresses. The engine reserves address
    /// space for it.
    pub const MEMORY_MOST: u64 = 4 << 30;
    /// Elements that any call can have in its tables, and instances that it can have: the engine's pool has
    /// slots of this size, and no setting can widen them.
    pub const TABLE_ELEMENTS_MOST: u64 = 100_000;
    /// See [`Self::TABLE_ELEMENTS_MOST`].
    pub const INSTANCES_MOST: u32 = 64;
}

impl Limits {
    /// No bound at all; for comparing, and never for a call.
    pub(crate) const NONE: Self = Self {
        wall: Duration::MAX,
        fuel: u64::MAX,
        memory: u64::MAX,
        table_elements: u64::MAX,
        instances: u32::MAX,
        output_bytes: u64::MAX,
        output_chars: usize::MAX,
        log_lines: usize::MAX,
        log_line_bytes: usize::MAX,
        open_files: usize::MAX,
        http_time: Duration::MAX,
        http_body: u64::MAX,
        concurrent_per_plugin: usize::MAX,
        calls_per_minute: None,
    };

    /// Of each bound the tighter one.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            fuel: self.fuel.min(other.fuel),
            memory: self.memory.min(other.memory),
            table_elements: self.table_elements.min(other.table_elements),
            instances: self.instances.min(other.instances),
            output_bytes: self.output_bytes.min(other.output_bytes),
            output_chars: self.output_chars.min(other.output_chars),
            log_lines: self.log_lines.min(other.log_lines),
            log_line_bytes: self.log_line_bytes.min(other.log_line_bytes),
            open_files: self.open_files.min(other.open_files),
            http_time: self.http_time.min(other.http_time),
            http_body: self.http_body.min(other.http_body),
            concurrent_per_plugin: self.concurrent_per_plugin.min(other.concurrent_per_plugin),
            calls_per_minute: least(self.calls_per_minute, other.calls_per_minute),
        }
    }
}

/// The tighter of two bounds, of which either may not be set.
pub(crate) fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(60),
            // One second of the tightest loop and about ten of ordinary code: above any honest tool, below the
            // wall clock.
            fuel: 20_000_000_000,
            memory: 256 << 20,
            table_elements: Self::TABLE_ELEMENTS_MOST,
            instances: Self::INSTANCES_MOST,
            output_bytes: 16 << 20,
            output_chars: 100_000,
            log_lines: 1_000,
            log_line_bytes: 4 << 10,
            open_files: 64,
            http_time: Duration::from_secs(30),
            http_body: 10 << 20,
            concurrent_per_plugin: 8,
            calls_per_minute: None,
        }
    }
}
