//! Store data of one call: everything that the guest can reach.

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};
use wasmtime_wasi_io::IoView;

use mimir_core::call::{CallObserver, NoObserver};
use mimir_core::command::CommandStream;
use mimir_core::needs::SECRET_PREFIX;
use mimir_core::pipeline::{EffectGate, NestedCaller, PluginStorage};
use mimir_core::{Limits, ToolError, ToolErrorCode};

use crate::bindings::types;
use crate::call::OUTPUT_LIMIT;
use crate::call_log::CallLog;
use crate::convert;
use crate::fs::{FsCtxView, FsView, GuardedFs};
use crate::http::GuestNetwork;
use crate::output_pipes::{LogLines, OutputPipe, StdoutCapture};
use crate::program::{ProgramHost, ProgramOutput};
use crate::script::{LoadedCode, ScriptCompiler};
use crate::store_limiter::StoreLimiter;

/// Maximum number of handles of all kinds in one call (files, streams, pollables): far more than a legitimate guest
/// has, far less than would burden the host.
pub(crate) const MAX_HANDLES: usize = 10_000;

/// Maximum number of progress reports passed on from one call. A client redraws at each report.
const MAX_PROGRESS_REPORTS: u32 = 10_000;

/// The store data of one call.
pub(crate) struct StoreState {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    pub(crate) network: GuestNetwork,
    table: ResourceTable,
    pub(crate) fs: GuardedFs,
    pub(crate) limiter: StoreLimiter,
    pub(crate) logs: CallLog,
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) nested: Option<NestedCaller>,
    pub(crate) commands: Option<EffectGate>,
    /// Access to the language model, if granted.
    pub(crate) model: Option<EffectGate>,
    /// The plugin's storage between calls.
    pub(crate) storage: Option<PluginStorage>,
    /// The values of `wasi:config/store`.
    pub(crate) config: Vec<(String, String)>,
    /// The last failure of a command or of another tool that the guest received.
    last_failure: Option<ToolError>,
    /// The code of the guest's own failure, if the code is reserved for the host.
    pub(crate) claimed_code: Option<ToolErrorCode>,
    /// Number of progress reports that may still be passed on.
    pub(crate) progress_reports_left: u32,
    /// Config key of the limit for data that the guest passes at once.
    pub(crate) transfer_setting: &'static str,
    /// Maximum size of the result in bytes.
    pub(crate) max_output: usize,
    /// Time of the last yield in a host call.
    pub(crate) last_yield: Instant,
    stdout: Option<LogLines>,
    stderr: LogLines,
    /// A program's access to the host; `None` for other guests.
    pub(crate) program_host: Option<ProgramHost>,
    /// Destination of the console of a script that is a program; a tool's console goes to the log.
    pub(crate) console: Option<ProgramOutput>,
    /// Compiler for code that a JavaScript program loads while it runs.
    pub(crate) compiler: Option<ScriptCompiler>,
    /// The code that a JavaScript program has loaded.
    pub(crate) loaded: Vec<LoadedCode>,
    /// Number of bytes that compare-and-swap operations in progress keep.
    pub(crate) swap_bytes: usize,
    /// A hash in progress.
    pub(crate) hash: Option<ring::digest::Context>,
}

/// Options of a store: the guest's access, limits and input.
pub(crate) struct StoreOptions {
    /// The files that the guest can reach.
    pub fs: GuardedFs,
    /// The limits of the call.
    pub limits: Limits,
    /// The observer of the call.
    pub observer: Arc<dyn CallObserver>,
    /// Access to other tools.
    pub nested: Option<NestedCaller>,
    /// Access to the network.
    pub network: GuestNetwork,
    /// Access to commands.
    pub commands: Option<EffectGate>,
    /// Access to the language model.
    pub model: Option<EffectGate>,
    /// The plugin's storage between calls.
    pub storage: Option<PluginStorage>,
    /// Environment variables of the guest.
    pub variables: Vec<(String, String)>,
    /// The values of `wasi:config/store`.
    pub config: Vec<(String, String)>,
    /// argv and streams of a command; `None` for a toolset.
    pub command: Option<ProgramInput>,
    /// A program's access to the host.
    pub program_host: Option<ProgramHost>,
}

impl StoreOptions {
    /// Returns the options for a guest that can reach these files and nothing else.
    pub(crate) fn isolated(fs: GuardedFs, limits: Limits) -> Self {
        Self {
            fs,
            limits,
            observer: Arc::new(NoObserver),
            nested: None,
            network: GuestNetwork::disabled(),
            commands: None,
            model: None,
            storage: None,
            variables: Vec::new(),
            config: Vec::new(),
            command: None,
            program_host: None,
        }
    }
}

/// The input of a program.
pub(crate) struct ProgramInput {
    pub argv: Vec<String>,
    pub stdin: Vec<u8>,
    pub streams: GuestStreams,
}

/// Destinations of a program's output.
pub(crate) enum GuestStreams {
    /// stdout is the result, stderr goes to the log.
    Command(StdoutCapture),
    /// Both are the result.
    Program(ProgramOutput),
}

impl StoreState {
    pub(crate) fn new(options: StoreOptions) -> Self {
        let logs = CallLog::new(Arc::clone(&options.observer), &options.limits);
        let stderr = LogLines::stderr(&logs);
        let mut wasi = WasiCtx::builder();
        wasi.stderr(OutputPipe(stderr.clone()))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false);
        let stdout = match options.command {
            Some(command) => {
                wasi.args(&command.argv);
                wasi.stdin(wasmtime_wasi::p2::pipe::MemoryInputPipe::new(command.stdin));
                match command.streams {
                    GuestStreams::Command(stdout) => {
                        wasi.stdout(OutputPipe(stdout));
                    }
                    GuestStreams::Program(sink) => {
                        wasi.stdout(OutputPipe(sink.stream(CommandStream::Stdout)));
                        wasi.stderr(OutputPipe(sink.stream(CommandStream::Stderr)));
                    }
                }
                None
            }
            None => {
                let lines = LogLines::stdout(&logs);
                wasi.stdout(OutputPipe(lines.clone()));
                Some(lines)
            }
        };
        wasi.envs(&options.variables);
        for (name, placeholder) in options.network.placeholders() {
            wasi.env(name, placeholder);
        }
        let mut config = options.config;
        for (_, value) in &mut config {
            // The guest gets a placeholder. The secret replaces it in requests to hosts that the user has allowed.
            if let Some(secret) = value.strip_prefix(SECRET_PREFIX) {
                let mut placeholders = options.network.placeholders();
                let placeholder = placeholders.find(|(name, _)| *name == secret);
                *value =
                    placeholder.map_or_else(String::new, |(_, placeholder)| placeholder.to_owned());
            }
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        Self {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            network: options.network,
            table,
            fs: options.fs,
            limiter: StoreLimiter::new(&options.limits),
            logs,
            observer: options.observer,
            nested: options.nested,
            commands: options.commands,
            model: options.model,
            storage: options.storage,
            config,
            last_failure: None,
            claimed_code: None,
            progress_reports_left: MAX_PROGRESS_REPORTS,
            transfer_setting: OUTPUT_LIMIT,
            max_output: usize::try_from(options.limits.output_bytes).unwrap_or(usize::MAX),
            last_yield: Instant::now(),
            stdout,
            stderr,
            program_host: options.program_host,
            console: None,
            compiler: None,
            loaded: Vec::new(),
            swap_bytes: 0,
            hash: None,
        }
    }

    /// Returns the error that ended a stream.
    pub(crate) fn stream_error(
        &self,
        error: &Resource<wasmtime::Error>,
    ) -> wasmtime::Result<&wasmtime::Error> {
        Ok(self.table.get(error)?)
    }

    /// Converts a result for the guest. An error is also stored: see [`original_failure`](Self::original_failure).
    pub(crate) fn record_guest_result<T>(
        &mut self,
        result: Result<T, ToolError>,
    ) -> Result<T, types::Error> {
        result.map_err(|error| {
            let guest_error = convert::error_to_guest(&error);
            self.last_failure = Some(error);
            guest_error
        })
    }

    /// Returns the last failure that the guest received from the host, if the guest's error repeats its message.
    pub(crate) fn original_failure(&self, error: &ToolError) -> Option<&ToolError> {
        let failure = self.last_failure.as_ref()?;
        error.message.contains(&failure.message).then_some(failure)
    }

    /// Replaces the observer and resets the number of progress reports.
    pub(crate) fn set_observer(&mut self, observer: Arc<dyn CallObserver>) {
        self.logs.set_observer(Arc::clone(&observer));
        self.observer = observer;
        self.progress_reports_left = MAX_PROGRESS_REPORTS;
    }

    /// Drops the host's side of all handles, for a guest that will not run again.
    pub(crate) fn drop_handles(&mut self) {
        self.table = ResourceTable::new();
    }

    /// Flushes the guest's remaining output.
    pub(crate) fn flush_logs(&self) {
        if let Some(stdout) = &self.stdout {
            stdout.flush();
        }
        self.stderr.flush();
        self.logs.report_dropped();
    }
}

impl WasiView for StoreState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl IoView for StoreState {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }
}

impl WasiHttpView for StoreState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: &mut self.network,
        }
    }
}

impl FsView for StoreState {
    fn fs(&mut self) -> FsCtxView<'_> {
        FsCtxView {
            fs: &mut self.fs,
            table: &mut self.table,
        }
    }
}
