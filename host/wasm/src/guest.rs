//! What the host keeps for one call: everything that the guest could reach.

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

/// Handles of all kinds that one call may hold: files, streams, pollables. Far more than an honest
/// guest has, far less than would hurt the host.
const MOST_HANDLES: usize = 10_000;

/// Progress reports passed on of one call; a client redraws at each.
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
    /// Its way to the language model, if it was granted that.
    pub(crate) model: Option<Effects>,
    /// What its plugin keeps between calls.
    pub(crate) storage: Option<Storage>,
    /// The values of `wasi:config/store`.
    pub(crate) config: Vec<(String, String)>,
    /// The last failure of a command or of another tool that it was told.
    told: Option<ToolError>,
    pub(crate) reports: u32,
    /// The setting that bounds what it hands over at once.
    pub(crate) handed_over: &'static str,
    /// Bytes that its result may have.
    pub(crate) most_output: usize,
    /// When it last let others run, as far as host calls go.
    pub(crate) gave_way: Instant,
    stdout: Option<Lines>,
    stderr: Lines,
    /// What a program may ask; nothing else has any.
    pub(crate) asks: Option<Asks>,
    /// Where the console of a script goes that is a program; that of a tool goes to the log.
    pub(crate) console: Option<Sink>,
    /// What compiles code that a program in JavaScript comes by while it runs.
    pub(crate) compiler: Option<Compiler>,
    /// The code that such a program has loaded.
    pub(crate) loaded: Vec<Loaded>,
    /// A hash that is under way.
    pub(crate) hash: Option<ring::digest::Context>,
}

/// How a guest is started.
pub(crate) struct Start {
    /// The files that it can reach.
    pub fs: GuardedFs,
    /// Its bounds.
    pub limits: Limits,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// Its way to other tools.
    pub nested: Option<Nested>,
    /// Its way to the network.
    pub network: Network,
    /// Its way to commands.
    pub commands: Option<Effects>,
    /// Its way to the language model.
    pub model: Option<Effects>,
    /// What its plugin keeps between calls.
    pub storage: Option<Storage>,
    /// Settings that it may see.
    pub variables: Vec<(String, String)>,
    /// The values of `wasi:config/store`.
    pub config: Vec<(String, String)>,
    /// argv and streams of a command; a toolset has none.
    pub command: Option<Command>,
    /// What a program may ask.
    pub asks: Option<Asks>,
}

impl Start {
    /// For a component that is asked something by the host itself: it sees these files, and reaches nothing.
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

/// What a program is given.
pub(crate) struct Command {
    pub argv: Vec<String>,
    pub stdin: Vec<u8>,
    pub streams: Streams,
}

/// Where what a program writes ends up.
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
            // It is sent in place of the placeholder, and only where a person has said.
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

    /// What a stream ended with.
    pub(crate) fn stream_error(
        &self,
        error: &Resource<wasmtime::Error>,
    ) -> wasmtime::Result<&wasmtime::Error> {
        Ok(self.table.get(error)?)
    }

    /// What the host did for the guest, in the guest's terms.
    pub(crate) fn hand_on<T>(&mut self, done: Result<T, ToolError>) -> Result<T, types::Error> {
        done.map_err(|error| {
            let told = convert::error_to_guest(&error);
            self.told = Some(error);
            told
        })
    }

    /// The failure behind a guest's own, if it repeats what it was told.
    pub(crate) fn behind(&self, error: &ToolError) -> Option<&ToolError> {
        let told = self.told.as_ref()?;
        error.message.contains(&told.message).then_some(told)
    }

    /// Tells another one from now on.
    pub(crate) fn watch(&mut self, observer: Arc<dyn Observer>) {
        self.logs.watch(Arc::clone(&observer));
        self.observer = observer;
        self.reports = MOST_REPORTS;
    }

    /// Passes on the last words of the guest.
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
