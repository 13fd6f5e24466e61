//! Programs in Python and bash, each run by a language engine that is a component.
//!
//! A program has the interface of a process: arguments, environment, stdin, stdout and an exit code. Its root is an
//! overlay of files in memory (the code, the standard library), in which `/workspace` and `/tmp` are directories of the
//! host, guarded like a plugin's files. Each program runs in a fresh instance, unless it belongs to a session.
//!
//! Out of scope: permission to run the code.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mimir_core::backend::ResourceUsage;
use mimir_core::command::{CommandOutput, CommandStream};
use mimir_core::paths::obeyed_note;
use mimir_core::{Approved, ToolError, ToolErrorCode, text};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};
use wasmtime_wasi::I32Exit;

use crate::backend;
use crate::call;
use crate::compile::{CompileLane, CompileRequest, run_blocking};
use crate::digest::Sha256Digest;
use crate::engine::EngineMode;
use crate::error::WasmHostError;
use crate::fs::{GuardedFs, MountTracking, RecordedChanges, UndoCopies};
use crate::host::WasmHost;
use crate::output_pipes::OutputTarget as _;
use crate::packed::PackedComponent;
use crate::script::ScriptState;
use crate::store_state::{GuestStreams, ProgramInput, StoreOptions, StoreState};
use crate::trap_errors::trap_error;

mod one_shot_program;
mod program_host;
mod program_output;
mod program_session;
mod temporary_folder;

pub(crate) use program_host::ProgramHost;
pub(crate) use program_output::ProgramOutput;
pub use program_session::CodeSession;
use temporary_folder::TemporaryFolder;

/// Path of the workspace in programs.
pub const WORKSPACE: &str = "/workspace";

/// Path of the temporary folder in programs, which is created for a call and removed after it.
pub(crate) const TEMPORARY: &str = "/tmp";

/// The parts of a language engine, which an executable embeds.
#[derive(Debug, Clone, Copy)]
pub struct ProgramParts {
    /// Display name of the engine.
    pub name: &'static str,
    /// The component.
    pub component: PackedComponent,
    /// sha256 of the component, uncompressed.
    pub sha256: [u8; 32],
    /// Files that every program sees, by path relative to `/`.
    pub files: &'static [(&'static str, &'static [u8])],
    /// Path of the file with the code of a program, relative to `/`.
    pub main: &'static str,
    /// argv before the program's own arguments.
    pub argv: &'static [&'static str],
    /// Words added to `argv` for a program that may import modules of the workspace.
    pub imports: &'static [&'static str],
    /// True if requests to the host are encoded as CPython records, false if they are JSON.
    pub records: bool,
}

/// A program and its input.
#[derive(Debug, Clone, Default)]
pub struct ProgramRequest {
    /// The code.
    pub code: String,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// Data for stdin.
    pub stdin: Vec<u8>,
    /// Initial working directory, relative to the workspace root; `None` is the root.
    pub directory: Option<String>,
    /// Files in addition to those of the engine, by path relative to `/`.
    pub files: Vec<(String, Bytes)>,
    /// Time limit; the limit of the call applies as well.
    pub timeout: Option<Duration>,
    /// True if the program may import modules of the workspace. False for tools: a tool may have been granted more than
    /// the author of a file in the workspace should get.
    pub imports: bool,
    /// The copies for `mimir undo` that changes in the workspace need.
    pub undo: UndoCopies,
}

impl ProgramRequest {
    /// Returns the path of the working directory in the guest.
    fn working_directory(&self) -> String {
        let directory = self.directory.as_deref().unwrap_or_default();
        match directory.trim_matches('/') {
            "" | "." => WORKSPACE.to_owned(),
            directory => format!("{WORKSPACE}/{directory}"),
        }
    }
}

/// The outcome of a program.
#[derive(Debug)]
pub struct ProgramOutcome {
    /// The output, or an error. If the program was stopped, the error details contain its output so far under `output`.
    pub result: Result<CommandOutput, ToolError>,
    /// The value that the program returned in addition to its streams, if any.
    pub returned: Option<ReturnedValue>,
    /// The resources that the program used.
    pub usage: ResourceUsage,
}

/// A value that a program returned.
#[derive(Debug)]
pub struct ReturnedValue {
    /// The value. The program can return anything.
    pub value: Value,
    /// The failures that the program received from the host, without details: at most 64, the newest first.
    pub failures: VecDeque<ToolError>,
}

impl From<ToolError> for ProgramOutcome {
    fn from(error: ToolError) -> Self {
        Self {
            result: Err(error),
            returned: None,
            usage: ResourceUsage::default(),
        }
    }
}

/// Key of the output so far in the error details of a stopped program.
const OUTPUT_DETAIL: &str = "output";

/// An engine for the programs of one language. It is prepared when the first program runs, and cached.
pub struct ProgramEngine {
    host: Arc<WasmHost>,
    parts: ProgramParts,
    ready: OnceCell<ReadyProgram>,
    /// The engine that runs Python for programs of this engine.
    python: Option<Arc<ProgramEngine>>,
    sessions: program_session::ProgramSessions,
}

/// An engine that can be instantiated.
struct ReadyProgram {
    pre: InstancePre<StoreState>,
    run: ComponentExportIndex,
}

impl ProgramEngine {
    /// Creates an engine; nothing is initialized yet. Its programs can run Python with the engine `python`.
    pub fn new(host: Arc<WasmHost>, parts: ProgramParts, python: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            host,
            parts,
            ready: OnceCell::new(),
            python,
            sessions: program_session::ProgramSessions::default(),
        })
    }

    /// Prepares the engine in advance, so that the first call does not have to wait.
    pub async fn prepare(&self) -> Result<(), WasmHostError> {
        self.ready().await.map(|_| ())
    }

    /// Returns true if the engine is prepared.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.get().is_some()
    }

    /// Returns the host of the engine.
    pub fn host(&self) -> &Arc<WasmHost> {
        &self.host
    }

    async fn ready(&self) -> Result<&ReadyProgram, WasmHostError> {
        if let Some(ready) = self.ready.get() {
            return Ok(ready);
        }
        let (parts, digest) = (self.parts, self.parts.digest());
        let request = CompileRequest {
            digest,
            name: parts.name.to_owned(),
            lane: CompileLane::BuiltIn,
            mode: EngineMode::Sequential,
            limits: self.host.compile_limits(),
        };
        let unpack = move || parts.component.unpack();
        let component = self.host.component(request, unpack).await;
        let component = component.map_err(|error| error.at(parts.name))?;
        let prepare = || async {
            let host = Arc::clone(&self.host);
            run_blocking(move || {
                temporary_folder::remove_stale_folders();
                prepare_engine(&host, &parts, &component)
            })
            .await
        };
        self.ready.get_or_try_init(prepare).await
    }

    /// Prepares the engine for a call. Compiling is work of the host, not of the program: its time does not count.
    async fn ready_for(&self, call: &Approved) -> Result<&ReadyProgram, ToolError> {
        if let Some(ready) = self.ready.get() {
            return Ok(ready);
        }
        let _paused = call.deadline().pause();
        Ok(Box::pin(self.ready()).await?)
    }

    /// Runs a program until it ends or reaches a limit.
    pub async fn run(
        &self,
        call: &Approved,
        program: ProgramRequest,
        state: &ScriptState,
    ) -> ProgramOutcome {
        let outcome = self.run_program(call, program, state).await;
        outcome.unwrap_or_else(ProgramOutcome::from)
    }

    async fn run_program(
        &self,
        call: &Approved,
        program: ProgramRequest,
        state: &ScriptState,
    ) -> Result<ProgramOutcome, ToolError> {
        let ready = self.ready_for(call).await?;
        let limits = *call.limits();
        let timeout = program.timeout;
        let (start, deadline) = (Instant::now(), call.deadline().with_limit(timeout));
        let sink = ProgramOutput::new(Arc::clone(call.observer()), &limits);
        let tmp = TemporaryFolder::new()?;
        // Dropped after the store, because the program can change files until then.
        let (tracking, scope) = backend::record_call(&self.host, call, program.undo);
        let program_host = ProgramHost::for_call(call, &self.host, &state.0);
        let guest =
            self.call_options(call, program_host, program, sink.clone(), (&tmp, &tracking))?;
        let mut store = ready.store(guest)?;
        let outcome = {
            let work = pin!(ready.run_to_end(&mut store));
            sink.show_while(deadline.run_until(work)).await
        };
        let usage = call::resource_usage(&store, &limits);
        if tmp.quota().was_full() {
            temporary_folder::report_full(&sink);
        }
        report_quota(&tracking, &sink);
        report_not_recorded(store.data_mut(), &sink);
        sink.flush_lines();
        let changes = scope.finish(&deadline).await;
        let returned = store
            .data_mut()
            .program_host
            .as_mut()
            .and_then(ProgramHost::take_result);
        let result = match outcome {
            Ok(Ok(code)) => Ok(sink.finish(code, start.elapsed())),
            Ok(Err(error)) => Err(with_output(trap_error(&error, store.data()), &sink)),
            Err(_) => Err(with_output(timeout_error(&limits, timeout), &sink)),
        };
        Ok(ProgramOutcome {
            result: report_changes(call, result, changes),
            returned,
            usage,
        })
    }

    /// Returns the store options of a program with the access of a call: to the granted part of the workspace, to a
    /// temporary folder, and to the host.
    fn call_options(
        &self,
        call: &Approved,
        mut program_host: ProgramHost,
        program: ProgramRequest,
        sink: ProgramOutput,
        (tmp, tracking): (&TemporaryFolder, &MountTracking),
    ) -> Result<StoreOptions, ToolError> {
        let (rights, paths, limits) = (call.rights(), call.paths(), *call.limits());
        let own = (tmp.path(), tmp.quota());
        let fs = backend::program_files(&self.host, rights, paths, &limits, own, tracking)
            .map_err(|error| backend::name_tool(error, call))?;
        program_host.records = self.parts.records;
        program_host.python = self.python.clone();
        program_host.nested = Some(program_host::NestedRights {
            rights: rights.clone(),
            paths: paths.clone(),
            tmp: (tmp.path().to_owned(), tmp.quota().clone()),
            limits,
            imports: program.imports,
            tracking: tracking.clone(),
        });
        Ok(StoreOptions {
            observer: Arc::clone(call.observer()),
            program_host: Some(program_host),
            ..self.store_options(fs, limits, program, sink)
        })
    }

    /// Returns the store options of a program without access to the host.
    fn store_options(
        &self,
        fs: GuardedFs,
        limits: mimir_core::Limits,
        program: ProgramRequest,
        sink: ProgramOutput,
    ) -> StoreOptions {
        let parts = &self.parts;
        let directory = program.working_directory();
        let mut files = program.files;
        files.push((parts.main.to_owned(), Bytes::from(program.code)));
        let shared = parts.files.iter();
        files.extend(shared.map(|(path, bytes)| ((*path).to_owned(), Bytes::from_static(bytes))));
        let mut variables = vec![
            ("HOME".to_owned(), TEMPORARY.to_owned()),
            ("TMPDIR".to_owned(), TEMPORARY.to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        variables.retain(|(name, _)| !program.environment.iter().any(|(given, _)| given == name));
        variables.extend(program.environment);
        variables.retain(|(name, _)| name != "PWD");
        variables.push(("PWD".to_owned(), directory));
        let imports: &[&str] = if program.imports { parts.imports } else { &[] };
        let argv = parts.argv.iter().chain(imports);
        let argv = argv.map(|word| (*word).to_owned());
        StoreOptions {
            variables,
            command: Some(ProgramInput {
                argv: argv.chain(program.arguments).collect(),
                stdin: program.stdin,
                streams: GuestStreams::Program(sink),
            }),
            ..StoreOptions::isolated(fs.with_overlay(files), limits)
        }
    }
}

/// Writes a message to stderr if the workspace quota was exceeded.
pub(crate) fn report_quota(tracking: &MountTracking, sink: &ProgramOutput) {
    let Some(quota) = tracking.quota.as_ref().filter(|quota| quota.was_full()) else {
        return;
    };
    let (bytes, files) = quota.limits();
    let message = format!(
        "mimir: {}; write less, or raise the limits in the settings\n",
        backend::new_files_limit_message(bytes, files)
    );
    sink.stream(CommandStream::Stderr).take(message.as_bytes());
}

/// Reports the changes of a program. Adds a note to the result, and an entry to the audit log, if it created or changed
/// files that agents or build tools load by themselves.
pub(crate) fn report_changes(
    call: &Approved,
    result: Result<CommandOutput, ToolError>,
    changes: RecordedChanges,
) -> Result<CommandOutput, ToolError> {
    call.report_changed_files(&changes.paths, changes.has_record);
    let obeyed = changes.auto_run_files;
    if obeyed.is_empty() {
        return result;
    }
    call.effects().record_auto_run_files(&obeyed)?;
    let note = obeyed_note(&obeyed);
    match result {
        Ok(mut finished) => {
            for stream in [&mut finished.stderr, &mut finished.combined] {
                let at_line_start = stream.bytes.last().is_none_or(|last| *last == b'\n');
                let end = if at_line_start { "" } else { "\n" };
                let note = format!("{end}[{note}]\n");
                stream.bytes.extend_from_slice(note.as_bytes());
            }
            finished.changed_auto_run_files = obeyed;
            Ok(finished)
        }
        Err(mut error) => {
            error.message = format!("{}; {note}", error.message);
            Err(error)
        }
    }
}

/// Writes a message to stderr if a file was not changed because the change could not be recorded.
fn report_not_recorded(guest: &mut StoreState, sink: &ProgramOutput) {
    if let Some(why) = guest.fs.take_not_recorded() {
        let message = format!("mimir: {}\n", text::visible(&why));
        sink.stream(CommandStream::Stderr).take(message.as_bytes());
    }
}

/// Returns the error for a timeout.
pub(crate) fn timeout_error(limits: &mimir_core::Limits, timeout: Option<Duration>) -> ToolError {
    let (millis, setting) = match timeout {
        Some(timeout) if timeout < limits.wall => (timeout.as_millis(), "timeout"),
        _ => (limits.wall.as_millis(), limits.wall_setting.key()),
    };
    let message = format!("the program was stopped after {millis} ms ({setting})");
    ToolError::new(ToolErrorCode::Timeout, message)
}

/// Adds the output so far to the error of a stopped program.
pub(crate) fn with_output(error: ToolError, sink: &ProgramOutput) -> ToolError {
    let finished = sink.finish(0, Duration::ZERO);
    let output = String::from_utf8_lossy(&finished.combined.bytes).into_owned();
    let error = ToolError {
        message: error.message.replacen("the tool", "the program", 1),
        ..error
    };
    if output.is_empty() {
        return error;
    }
    let mut details = match error.details.clone() {
        Some(Value::Object(details)) => Value::Object(details),
        _ => json!({}),
    };
    details[OUTPUT_DETAIL] = output.into();
    error.with_details(details)
}

impl ProgramParts {
    /// Returns the digest under which the engine's code is cached.
    fn digest(&self) -> Sha256Digest {
        Sha256Digest::of_bytes(format!("program {}", Sha256Digest(self.sha256)).as_bytes())
    }
}

/// Links an engine and finds its export `run`.
fn prepare_engine(
    host: &WasmHost,
    parts: &ProgramParts,
    component: &Component,
) -> Result<ReadyProgram, WasmHostError> {
    let running = host.running(EngineMode::Sequential)?;
    let engine_error = |error: wasmtime::Error| {
        WasmHostError::Engine(format!("{} is broken: {error:#}", parts.name))
    };
    let mut linker = running.linker.clone();
    program_host::add_to_linker(&mut linker).map_err(engine_error)?;
    let pre = linker.instantiate_pre(component).map_err(engine_error)?;
    let run = component
        .get_export_index(None, "run")
        .ok_or_else(|| WasmHostError::Engine(format!("{} does not export `run`", parts.name)))?;
    Ok(ReadyProgram { pre, run })
}

impl ReadyProgram {
    fn store(&self, options: StoreOptions) -> Result<Store<StoreState>, ToolError> {
        call::engine_store(self.pre.engine(), options)
    }

    /// Runs the program to its end and returns its exit code.
    async fn run_to_end(&self, store: &mut Store<StoreState>) -> wasmtime::Result<i32> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let run = instance.get_typed_func::<(), (i32,)>(&mut *store, self.run)?;
        match run.call_async(&mut *store, ()).await {
            Ok((code,)) => Ok(code),
            Err(error) => match error.downcast_ref::<I32Exit>() {
                Some(exit) => Ok(exit.0),
                None => Err(error),
            },
        }
    }
}
