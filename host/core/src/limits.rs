//! Resource limits of calls. By default, all apply except for the rate limit.

use std::time::Duration;

/// The setting that determines the wall clock of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WallClockSetting {
    /// `limits.timeMs`, of the tool or of all tools, or its default.
    #[default]
    TimeMs,
    /// `tools.NAME.execution.timeout`
    ExecutionTimeout,
    /// `tools.maxExecutionTime`
    MaxExecutionTime,
}

impl WallClockSetting {
    /// Returns the key of the setting, for messages.
    pub const fn key(self) -> &'static str {
        match self {
            Self::TimeMs => "limits.timeMs",
            Self::ExecutionTimeout => "execution.timeout",
            Self::MaxExecutionTime => "tools.maxExecutionTime",
        }
    }
}

/// The resource limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock of the call, including host calls, excluding time spent on approvals.
    pub wall: Duration,
    /// The setting that determines `wall`, for messages.
    pub wall_setting: WallClockSetting,
    /// Units of fuel: roughly one per WebAssembly instruction.
    pub fuel: u64,
    /// Bytes of linear memory, over all memories.
    pub memory: u64,
    /// Table elements, over all tables.
    pub table_elements: u64,
    /// Core instances.
    pub instances: u32,
    /// Bytes of a component's raw output.
    pub output_bytes: u64,
    /// Characters of the result's text for the model.
    pub output_chars: usize,
    /// Log lines stored per call.
    pub log_lines: usize,
    /// Bytes stored per log line.
    pub log_line_bytes: usize,
    /// Files and directories open at once.
    pub open_files: usize,
    /// Bytes by which the files of the workspace may grow in one call.
    pub new_file_bytes: u64,
    /// Files, directories and links that one call may add to the workspace.
    pub new_files: u64,
    /// Time of one network request, excluding time spent on approvals.
    pub http_time: Duration,
    /// Bytes of a request body, and of a response body.
    pub http_body: u64,
    /// Wall clock of compiling a component, which does not count towards `wall`.
    pub compile_time: Duration,
    /// Bytes of memory for compiling a component.
    pub compile_memory: u64,
    /// Concurrent calls of one plugin. Further calls are queued.
    pub concurrent_per_plugin: usize,
    /// The limit of concurrent calls of one plugin that the settings set, which holds for all processes of a deployment
    /// together. `None` if they set none: then the default holds for each process.
    pub concurrent_setting: Option<usize>,
    /// Calls per minute of one tool. `None` is unlimited.
    pub calls_per_minute: Option<u32>,
}

impl Limits {
    /// Maximum number of concurrent calls of all plugins. Each uses a memory slot of the engine's pool.
    pub const CONCURRENT_TOTAL: usize = 64;
    /// Default wall clock for tools that run commands, because builds take long.
    pub const WALL_WITH_COMMANDS: Duration = Duration::from_secs(600);
    /// Fuel per second of wall clock if `limits.fuel` is not set: more than any processor spends, so that the wall clock
    /// limit is reached first. Six instructions per cycle at 5 GHz are 30 billion; ordinary code spends 2 to 10 billion.
    pub const FUEL_PER_SECOND: u64 = 50_000_000_000;
    /// Maximum depth of nested calls, so that cycles end before the stack overflows.
    pub const CALL_DEPTH: u32 = 8;
    /// Upper bound of `memory`, in bytes: the size of one 32-bit memory, for which the engine reserves address space.
    pub const MEMORY_MAX: u64 = 4 << 30;
    /// Upper bound of `table_elements`: the slot size of the engine's pool.
    pub const TABLE_ELEMENTS_MAX: u64 = 100_000;
    /// Upper bound of `instances`: the slot size of the engine's pool.
    pub const INSTANCES_MAX: u32 = 64;

    /// Returns the default fuel for a wall clock limit.
    pub fn fuel_for_wall_time(wall: Duration) -> u64 {
        let seconds = wall.as_millis().div_ceil(1_000);
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX).max(1);
        // The engine uses signed numbers.
        seconds
            .saturating_mul(Self::FUEL_PER_SECOND)
            .min(i64::MAX as u64)
    }

    /// No limits, the neutral element of [`tightest`](Self::tightest). Never used for a call.
    pub(crate) const NONE: Self = Self {
        wall: Duration::MAX,
        wall_setting: WallClockSetting::TimeMs,
        fuel: u64::MAX,
        memory: u64::MAX,
        table_elements: u64::MAX,
        instances: u32::MAX,
        output_bytes: u64::MAX,
        output_chars: usize::MAX,
        log_lines: usize::MAX,
        log_line_bytes: usize::MAX,
        open_files: usize::MAX,
        new_file_bytes: u64::MAX,
        new_files: u64::MAX,
        http_time: Duration::MAX,
        http_body: u64::MAX,
        compile_time: Duration::MAX,
        compile_memory: u64::MAX,
        concurrent_per_plugin: usize::MAX,
        concurrent_setting: None,
        calls_per_minute: None,
    };

    /// Lowers the wall clock limit to `wall`, which `setting` sets, if that is lower.
    pub(crate) fn cap_wall(&mut self, wall: Duration, setting: WallClockSetting) {
        if wall < self.wall {
            (self.wall, self.wall_setting) = (wall, setting);
        }
    }

    /// Returns the tighter of each pair of limits.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            wall_setting: if other.wall < self.wall {
                other.wall_setting
            } else {
                self.wall_setting
            },
            fuel: self.fuel.min(other.fuel),
            memory: self.memory.min(other.memory),
            table_elements: self.table_elements.min(other.table_elements),
            instances: self.instances.min(other.instances),
            output_bytes: self.output_bytes.min(other.output_bytes),
            output_chars: self.output_chars.min(other.output_chars),
            log_lines: self.log_lines.min(other.log_lines),
            log_line_bytes: self.log_line_bytes.min(other.log_line_bytes),
            open_files: self.open_files.min(other.open_files),
            new_file_bytes: self.new_file_bytes.min(other.new_file_bytes),
            new_files: self.new_files.min(other.new_files),
            http_time: self.http_time.min(other.http_time),
            http_body: self.http_body.min(other.http_body),
            compile_time: self.compile_time.min(other.compile_time),
            compile_memory: self.compile_memory.min(other.compile_memory),
            concurrent_per_plugin: self.concurrent_per_plugin.min(other.concurrent_per_plugin),
            concurrent_setting: smaller_limit(self.concurrent_setting, other.concurrent_setting),
            calls_per_minute: smaller_limit(self.calls_per_minute, other.calls_per_minute),
        }
    }

    /// Raises each limit to that of `least`, where it is lower.
    #[must_use]
    pub fn raised_to(self, least: Self) -> Self {
        Self {
            wall: self.wall.max(least.wall),
            wall_setting: if self.wall < least.wall {
                least.wall_setting
            } else {
                self.wall_setting
            },
            fuel: self.fuel.max(least.fuel),
            memory: self.memory.max(least.memory),
            table_elements: self.table_elements.max(least.table_elements),
            instances: self.instances.max(least.instances),
            output_bytes: self.output_bytes.max(least.output_bytes),
            output_chars: self.output_chars.max(least.output_chars),
            log_lines: self.log_lines.max(least.log_lines),
            log_line_bytes: self.log_line_bytes.max(least.log_line_bytes),
            open_files: self.open_files.max(least.open_files),
            new_file_bytes: self.new_file_bytes.max(least.new_file_bytes),
            new_files: self.new_files.max(least.new_files),
            http_time: self.http_time.max(least.http_time),
            http_body: self.http_body.max(least.http_body),
            compile_time: self.compile_time.max(least.compile_time),
            compile_memory: self.compile_memory.max(least.compile_memory),
            concurrent_per_plugin: self.concurrent_per_plugin.max(least.concurrent_per_plugin),
            concurrent_setting: least
                .concurrent_setting
                .and_then(|other| self.concurrent_setting.map(|one| one.max(other))),
            calls_per_minute: match (self.calls_per_minute, least.calls_per_minute) {
                (Some(one), Some(other)) => Some(one.max(other)),
                _ => None,
            },
        }
    }
}

/// Returns the smaller of two optional limits.
pub(crate) fn smaller_limit<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(60),
            wall_setting: WallClockSetting::TimeMs,
            fuel: Self::fuel_for_wall_time(Duration::from_secs(60)),
            memory: 256 << 20,
            table_elements: Self::TABLE_ELEMENTS_MAX,
            instances: Self::INSTANCES_MAX,
            output_bytes: 16 << 20,
            output_chars: 100_000,
            log_lines: 1_000,
            log_line_bytes: 4 << 10,
            open_files: 64,
            // More than a legitimate call writes, but too little to fill a disk.
            new_file_bytes: 1 << 30,
            new_files: 10_000,
            http_time: Duration::from_secs(30),
            http_body: 10 << 20,
            // Language engines compile in up to half a minute on a slow machine, and several times that under load.
            compile_time: Duration::from_secs(120),
            compile_memory: 2 << 30,
            concurrent_per_plugin: 8,
            concurrent_setting: None,
            calls_per_minute: None,
        }
    }
}
