//! State of one call's store: everything that the guest can reach.

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};
use wasmtime_wasi_io::IoView;

use mimir_core::call::{Observer, Unobserved};
use mimir_core::command::Stream;
use mimir_core::needs::SECRET_VALUE;
use mimir_core::pipeline::{Effects, Nested, Storage};
use mimir_core::{Limits, ToolError};

use crate::bindings::types;
use crate::call::OUTPUT_LIMIT;
use crate::convert;
use crate::fs::{FsCtxView, FsView, GuardedFs};
use crate::http::Network;
use crate::limiter::Limiter;
use crate::logs::Logs;
use crate::pipes::{Capture, Lines, Pipe};
use crate::program::{Asks, Sink};
use crate::script::{Compiler, Loaded};

/// Maximum number of handles of all kinds in one call: files, streams, pollables. Far more than an honest guest has,
/// far less than would burden the host.
const MOST_HANDLES: usize = 10_000;

/// Maximum number of progress reports passed on from one call; a client redraws at each.
const MOST_REPORTS: u32 = 10_000;

/// The state of one call's store.
pub(crate) struct Guest {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    pub(crate) network: Network,
    table: ResourceTable,
    pub(crate) fs: GuardedFs,
    pub(crate) limiter: Limiter,
    pub(crate) logs: Logs,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) nested: Option<Nested>,
    pub(crate) commands: Option<Effects>,
    /// Its access to the language model, if granted.
    pub(crate) model: Option<Effects>,
    /// Its plugin's storage between calls.
    pub(crate) storage: Option<Storage>,
    /// The values of `wasi:config/store`.
    pub(crate) config: Vec<(String, String)>,
    /// The last failure of a command or of another tool that the guest received.
    told: Option<ToolError>,
    pub(crate) reports: u32,
    /// The setting that limits the data that it hands over at once.
    pub(crate) handed_over: &'static str,
    /// Maximum size of its result in bytes.
    pub(crate) most_output: usize,
    /// Time of its last yield in a host call.
    pub(crate) gave_way: Instant,
    stdout: Option<Lines>,
    stderr: Lines,
    /// A program's access to the host; `None` for other guests.
    pub(crate) asks: Option<Asks>,
    /// Destination of the console of a script that is a program; a tool's console goes to the log.
    pub(crate) console: Option<Sink>,
    /// Compiler for code that a JavaScript program loads while it runs.
    pub(crate) compiler: Option<Compiler>,
    /// The code that such a program has loaded.
    pub(crate) loaded: Vec<Loaded>,
    /// A hash in progress.
    pub(crate) hash: Option<ring::digest::Context>,
}

/// Options for starting a guest.
pub(crate) struct Start {
    /// The files that it can reach.
    pub fs: GuardedFs,
    /// Its limits.
    pub limits: Limits,
    /// The observer of the call.
    pub observer: Arc<dyn Observer>,
    /// Its access to other tools.
    pub nested: Option<Nested>,
    /// Its access to the network.
    pub network: Network,
    /// Its access to commands.
    pub commands: Option<Effects>,
    /// Its access to the language model.
    pub model: Option<Effects>,
    /// Its plugin's storage between calls.
    pub storage: Option<Storage>,
    /// Settings that it may see.
    pub variables: Vec<(String, String)>,
    /// The values of `wasi:config/store`.
    pub config: Vec<(String, String)>,
    /// argv and streams of a command; `None` for a toolset.
    pub command: Option<Command>,
    /// A program's access to the host.
    pub asks: Option<Asks>,
}

impl Start {
    /// Returns the options for a component that the host itself queries: it sees these files, and reaches nothing
    /// else.
    pub(crate) fn alone(fs: GuardedFs, limits: Limits) -> Self {
        Self {
            fs,
            limits,
            observer: Arc::new(Unobserved),
            nested: None,
            network: Network::none(),
            commands: None,
            model: None,
            storage: None,
            variables: Vec::new(),
            config: Vec::new(),
            command: None,
            asks: None,
        }
    }
}

/// The input of a program.
pub(crate) struct Command {
    pub argv: Vec<String>,
    pub stdin: Vec<u8>,
    pub streams: Streams,
}

/// Destinations of a program's output.
pub(crate) enum Streams {
    /// stdout is the result, stderr goes to the log.
    Command(Capture),
    /// Both are the result.
    Program(Sink),
}

impl Guest {
    pub(crate) fn new(start: Start) -> Self {
        let logs = Logs::new(Arc::clone(&start.observer), &start.limits);
        let stderr = Lines::stderr(&logs);
        let mut wasi = WasiCtx::builder();
        wasi.stderr(Pipe(stderr.clone()))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false);
        let stdout = match start.command {
            Some(command) => {
                wasi.args(&command.argv);
                wasi.stdin(wasmtime_wasi::p2::pipe::MemoryInputPipe::new(command.stdin));
                match command.streams {
                    Streams::Command(stdout) => {
                        wasi.stdout(Pipe(stdout));
                    }
                    Streams::Program(sink) => {
                        wasi.stdout(Pipe(sink.half(Stream::Stdout)));
                        wasi.stderr(Pipe(sink.half(Stream::Stderr)));
                    }
                }
                None
            }
            None => {
                let lines = Lines::stdout(&logs);
                wasi.stdout(Pipe(lines.clone()));
                Some(lines)
            }
        };
        wasi.envs(&start.variables);
        for (name, placeholder) in start.network.placeholders() {
            wasi.env(name, placeholder);
        }
        let mut config = start.config;
        for (_, value) in &mut config {
            // Sent in place of the placeholder, and only to hosts that the user has allowed.
            if let Some(secret) = value.strip_prefix(SECRET_VALUE) {
                let mut all = start.network.placeholders();
                let found = all.find(|(name, _)| *name == secret);
                *value = found.map_or_else(String::new, |(_, placeholder)| placeholder.to_owned());
            }
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MOST_HANDLES);
        Self {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            network: start.network,
            table,
            fs: start.fs,
            limiter: Limiter::new(&start.limits),
            logs,
            observer: start.observer,
            nested: start.nested,
            commands: start.commands,
            model: start.model,
            storage: start.storage,
            config,
            told: None,
            reports: MOST_REPORTS,
            handed_over: OUTPUT_LIMIT,
            most_output: usize::try_from(start.limits.output_bytes).unwrap_or(usize::MAX),
            gave_way: Instant::now(),
            stdout,
            stderr,
            asks: start.asks,
            console: None,
            compiler: None,
            loaded: Vec::new(),
            hash: None,
        }
    }

    /// Converts the error that ended a stream.
    pub(crate) fn stream_error(
        &self,
        error: &Resource<wasmtime::Error>,
    ) -> wasmtime::Result<&wasmtime::Error> {
        Ok(self.table.get(error)?)
    }

    /// Converts a result of the host into the guest's types.
    pub(crate) fn hand_on<T>(&mut self, done: Result<T, ToolError>) -> Result<T, types::Error> {
        done.map_err(|error| {
            let told = convert::error_to_guest(&error);
            self.told = Some(error);
            told
        })
    }

    /// Returns the original failure if the guest's own error repeats its message.
    pub(crate) fn behind(&self, error: &ToolError) -> Option<&ToolError> {
        let told = self.told.as_ref()?;
        error.message.contains(&told.message).then_some(told)
    }

    /// Replaces the observer.
    pub(crate) fn watch(&mut self, observer: Arc<dyn Observer>) {
        self.logs.watch(Arc::clone(&observer));
        self.observer = observer;
        self.reports = MOST_REPORTS;
    }

    /// Flushes the guest's remaining output.
    pub(crate) fn close(&self) {
        if let Some(stdout) = &self.stdout {
            stdout.flush();
        }
        self.stderr.flush();
        self.logs.close();
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl IoView for Guest {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: &mut self.network,
        }
    }
}

impl FsView for Guest {
    fn fs(&mut self) -> FsCtxView<'_> {
        FsCtxView {
            fs: &mut self.fs,
            table: &mut self.table,
        }
    }
}
