//! A single call of a component: a fresh store and instance, the limits, and the result.

use std::pin::pin;

use serde_json::Value;
use wasmtime::component::{Accessor, Component, ComponentExportIndex, InstancePre, Val};
use wasmtime::{Engine, Store, Trap};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p3::bindings::CommandPre as AsyncCommandPre;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p3::bindings::ServicePre;

use mimir_core::backend::{RawResult, ResourceUsage};
use mimir_core::clock::DeadlineElapsed;
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::tool::ToolSource;
use mimir_core::{Approved, CallContext, Limits, ToolError, ToolErrorCode, grants};

use crate::agent_tool::AgentTool;
use crate::backend;
use crate::bindings::{assessor, toolset, types};
use crate::convert;
use crate::describe::ComponentKind;
use crate::error::WasmHostError;
use crate::family::WasiGeneration;
use crate::fs::RefusalCause;
use crate::http_handler;
use crate::lift::{self, LiftError, LiftedOutput, LiftedTool, ToolIndex};
use crate::output_pipes::StdoutCapture;
use crate::store_state::{StoreOptions, StoreState};
use crate::trap_errors::{TOO_MANY_FILES, trap_error};
use crate::yielding::YieldHook;

/// Fuel between two yields: about a millisecond of computing. Each yield costs about a microsecond, a thousandth of
/// that time.
const YIELD_FUEL: u64 = 1_000_000;

/// Maximum number of tasks, streams, futures and handles of them in a call. Each may keep a stack.
const MAX_CONCURRENT: usize = 1_000;

/// Bytes that a result may have in addition to its payload, for names, codes and the list itself.
const OUTPUT_OVERHEAD: usize = 1 << 20;

/// The exported interface of a toolset. A lookup by this name also finds a later, compatible version.
const TOOLSET: &str = "mimir:tool/toolset@1.0.0";

/// Fuel that a call uses at most if it does little but wait: that of a hundredth of a second.
const IDLE_FUEL: u64 = 10_000_000;

/// The end of the message about such a call of a concurrent component.
const WAITING: &str =
    ": it was not computing but waiting, for the host or for a stream or function that never ends";

/// Config key of the limit for results, as named in messages.
pub(crate) const OUTPUT_LIMIT: &str = "limits.outputBytes";

/// A component ready to be instantiated, with the exports that will be called.
pub(crate) enum PreparedComponent {
    Toolset {
        pre: InstancePre<StoreState>,
        toolset: toolset::GuestIndices,
        /// The export `call`. Looking up all exports for each call, and comparing their types, would take as long as
        /// some calls.
        call: ComponentExportIndex,
        assessor: Option<assessor::GuestIndices>,
    },
    Lifted {
        pre: InstancePre<StoreState>,
        tools: Vec<(LiftedTool, ToolIndex)>,
    },
    AgentTool(AgentTool),
    HttpHandler(ProxyPre<StoreState>),
    AsyncHttpHandler(ServicePre<StoreState>),
    Command(CommandPre<StoreState>),
    AsyncCommand(AsyncCommandPre<StoreState>),
}

impl PreparedComponent {
    pub(crate) fn new(
        pre: InstancePre<StoreState>,
        kind: &ComponentKind,
    ) -> Result<Self, WasmHostError> {
        let kind_mismatch = |error: wasmtime::Error| {
            let message = format!("it does not match its detected kind: {error:#}");
            WasmHostError::Component(message, ToolErrorCode::InvalidInput)
        };
        Ok(match kind {
            ComponentKind::Toolset { assessor } => PreparedComponent::Toolset {
                call: find_call_export(pre.component())
                    .ok_or_else(|| kind_mismatch(wasmtime::format_err!("it exports no `call`")))?,
                toolset: toolset::GuestIndices::new(&pre).map_err(kind_mismatch)?,
                assessor: if *assessor {
                    Some(assessor::GuestIndices::new(&pre).map_err(kind_mismatch)?)
                } else {
                    None
                },
                pre,
            },
            ComponentKind::Lifted(lifted) => {
                let component = pre.component();
                let tools = lifted.tools.iter().filter_map(|tool| {
                    let index = tool.resolve(component)?;
                    Some((tool.clone(), index))
                });
                PreparedComponent::Lifted {
                    tools: tools.collect(),
                    pre,
                }
            }
            ComponentKind::AgentTool => PreparedComponent::AgentTool(
                AgentTool::new(pre)
                    .ok_or_else(|| kind_mismatch(wasmtime::format_err!("it exports no tool")))?,
            ),
            ComponentKind::HttpHandler(WasiGeneration::Preview2) => {
                PreparedComponent::HttpHandler(ProxyPre::new(pre).map_err(kind_mismatch)?)
            }
            ComponentKind::HttpHandler(WasiGeneration::Preview3) => {
                PreparedComponent::AsyncHttpHandler(ServicePre::new(pre).map_err(kind_mismatch)?)
            }
            ComponentKind::Command(WasiGeneration::Preview2) => {
                PreparedComponent::Command(CommandPre::new(pre).map_err(kind_mismatch)?)
            }
            ComponentKind::Command(WasiGeneration::Preview3) => {
                let pre = AsyncCommandPre::new(pre).map_err(kind_mismatch)?;
                PreparedComponent::AsyncCommand(pre)
            }
        })
    }

    fn pre(&self) -> &InstancePre<StoreState> {
        match self {
            PreparedComponent::Toolset { pre, .. } | PreparedComponent::Lifted { pre, .. } => pre,
            PreparedComponent::AgentTool(tool) => &tool.pre,
            PreparedComponent::HttpHandler(pre) => pre.instance_pre(),
            PreparedComponent::AsyncHttpHandler(pre) => pre.instance_pre(),
            PreparedComponent::Command(pre) => pre.instance_pre(),
            PreparedComponent::AsyncCommand(pre) => pre.instance_pre(),
        }
    }

    /// Creates a store with the limits of one call.
    pub(crate) fn new_store(&self, options: StoreOptions) -> wasmtime::Result<Store<StoreState>> {
        let (max_bytes, limit) = self.transfer_limit(&options.limits);
        store(self.pre().engine(), options, max_bytes, limit)
    }

    /// Returns the limit for the data that a guest passes at once, in bytes of host memory, and the config key that
    /// defines it.
    ///
    /// A byte of a toolset's result takes a byte of host memory. The result of a foreign component is converted value
    /// by value, unless its function is called [directly](lift), and each element of a list, even a single byte, takes
    /// a whole [`Val`]. So the limit allows a value per byte of the allowed result, but never more memory than the
    /// guest itself may use.
    fn transfer_limit(&self, limits: &Limits) -> (usize, &'static str) {
        let bytes = |max_bytes: u64| usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let output = bytes(limits.output_bytes);
        let (values, memory) = (
            output.saturating_mul(size_of::<Val>()),
            bytes(limits.memory),
        );
        match self {
            PreparedComponent::Lifted { .. } if values <= memory => (values, OUTPUT_LIMIT),
            PreparedComponent::Lifted { .. } if memory > output => (memory, "limits.memoryMb"),
            _ => (output, OUTPUT_LIMIT),
        }
    }
}

/// Creates a store with the limits of one call. A guest may pass at most `max_bytes` at once; `limit` is the config key
/// of that limit.
pub(crate) fn store(
    engine: &Engine,
    options: StoreOptions,
    max_bytes: usize,
    limit: &'static str,
) -> wasmtime::Result<Store<StoreState>> {
    let fuel = options.limits.fuel;
    let mut store = Store::new(engine, StoreState::new(options));
    store.limiter(|guest| &mut guest.limiter);
    store.call_hook_async(YieldHook);
    store.set_fuel(fuel)?;
    store.fuel_async_yield_interval(Some(YIELD_FUEL))?;
    if let Some(table) = store.concurrent_resource_table() {
        table.set_max_capacity(MAX_CONCURRENT);
    }
    store.set_hostcall_fuel(max_bytes.saturating_add(OUTPUT_OVERHEAD));
    store.data_mut().transfer_setting = limit;
    Ok(store)
}

/// Creates a store for one call of a language engine, which may pass as much data at once as a result may have.
pub(crate) fn engine_store(
    engine: &Engine,
    options: StoreOptions,
) -> Result<Store<StoreState>, ToolError> {
    let max_bytes = usize::try_from(options.limits.output_bytes).unwrap_or(usize::MAX);
    store(engine, options, max_bytes, OUTPUT_LIMIT)
        .map_err(|error| ToolError::new(ToolErrorCode::Internal, format!("{error:#}")))
}

/// Runs a call until it ends or reaches a limit. `capture` holds the output of a command.
pub(crate) async fn run_call(
    mut store: Store<StoreState>,
    callee: &PreparedComponent,
    call: &Approved,
    capture: Option<StdoutCapture>,
) -> RawResult {
    let tool = call.tool().own_name();
    let outcome = {
        let (arguments, context) = (call.arguments(), call.context());
        let work = pin!(invoke(
            &mut store,
            callee,
            tool,
            arguments,
            context,
            capture.as_ref()
        ));
        call.deadline().run_until(work).await
    };
    let changes_ended = store.data().fs.changes_ended();
    // Drops the store, and with it the changes that wait for their turn: nothing polls them any more, so they would
    // never end.
    let result = finish_call(store, call, outcome);
    changes_ended.await;
    result
}

/// Returns a hint for a call of a built-in tool that could use the cheaper argument `format: raw`.
fn cheaper_format_hint(call: &Approved) -> Option<&'static str> {
    let (tool, arguments) = (call.tool(), call.arguments());
    let formats = &tool.definition.input_schema.to_value()["properties"]["format"]["enum"];
    let mut formats = formats.as_array().into_iter().flatten();
    let has_raw_format = formats.any(|format| format == "raw");
    let is_built_in = tool.source == ToolSource::BuiltIn;
    (has_raw_format && is_built_in && arguments["format"] != "raw")
        .then_some("`format: raw` returns the body as it was sent, with less computing")
}

/// Returns the resources that a store with these limits has used so far.
pub(crate) fn resource_usage(store: &Store<StoreState>, limits: &Limits) -> ResourceUsage {
    let left = store.get_fuel().ok();
    ResourceUsage {
        fuel: left.map(|left| limits.fuel.saturating_sub(left)),
        peak_memory: Some(store.data().limiter.peak_memory()),
    }
}

/// Returns the result of a call that has finished or timed out.
pub(crate) fn finish_call(
    mut store: Store<StoreState>,
    call: &Approved,
    outcome: Result<wasmtime::Result<GuestCallResult>, DeadlineElapsed>,
) -> RawResult {
    let limits = call.limits();
    let tool = call.tool().name().as_str();
    let usage = resource_usage(&store, limits);
    let is_concurrent = store.concurrent_resource_table().is_some();
    let guest = store.data();
    guest.flush_logs();
    let (result, truncated) = match outcome {
        Ok(Ok((result, truncated))) => (
            result.and_then(|output| check_size(output, limits)),
            truncated,
        ),
        Ok(Err(error)) => {
            let mut host_error = trap_error(&error, guest);
            if let (Some(Trap::OutOfFuel), Some(hint)) =
                (error.downcast_ref(), cheaper_format_hint(call))
            {
                host_error.message = format!("{}; {hint}", host_error.message);
            }
            (Err(host_error), false)
        }
        Err(_) => {
            let (millis, key) = (limits.wall.as_millis(), limits.wall_setting.key());
            let mut message = format!("`{tool}` was stopped after {millis} ms ({key})");
            // The engine does not report that all functions of a component wait for one another.
            if is_concurrent && usage.fuel.is_some_and(|fuel| fuel < IDLE_FUEL) {
                message.push_str(WAITING);
            }
            (Err(ToolError::new(ToolErrorCode::Timeout, message)), false)
        }
    };
    RawResult {
        result: result
            .map_err(|error| explain_failure(error, guest, limits))
            .map_err(|error| add_missing_folder(error, guest))
            .map_err(|error| add_files_hint(error, call)),
        usage,
        truncated,
    }
}

/// The result type of a toolset's `call`.
type ToolsetResult = (Result<types::Output, types::Error>,);

/// Looks up the function `call` of a toolset.
fn find_call_export(component: &Component) -> Option<ComponentExportIndex> {
    let toolset = component.get_export_index(None, TOOLSET)?;
    component.get_export_index(Some(&toolset), "call")
}

/// A result, and true if a command's output was truncated.
pub(crate) type GuestCallResult = (Result<ToolOutput, ToolError>, bool);

async fn invoke(
    store: &mut Store<StoreState>,
    callee: &PreparedComponent,
    tool: &str,
    arguments: &Value,
    context: &CallContext,
    capture: Option<&StdoutCapture>,
) -> wasmtime::Result<GuestCallResult> {
    match callee {
        PreparedComponent::Toolset { pre, call, .. } => {
            let instance = pre.instantiate_async(&mut *store).await?;
            let call = instance.get_typed_func::<_, ToolsetResult>(&mut *store, call)?;
            let (arguments, context) = (arguments.to_string(), convert::context(context));
            let parameters = (tool, arguments.as_str(), &context);
            let (result,) = call.call_async(&mut *store, parameters).await?;
            if let Err(error) = &result {
                store.data_mut().claimed_code = convert::reserved_code(&error.code);
            }
            let result = result.map_err(convert::error).and_then(convert::output);
            Ok((result, false))
        }
        PreparedComponent::Lifted { pre, tools } => {
            let Some((lifted, index)) = tools
                .iter()
                .find(|(lifted, _)| lifted.name.as_str() == tool)
            else {
                let message = format!("the component has no export for `{tool}`");
                return Ok((Err(ToolError::new(ToolErrorCode::NotFound, message)), false));
            };
            let instance = pre.instantiate_async(&mut *store).await?;
            let max_bytes = store.data().max_output;
            let called = lift::call(&mut *store, &instance, lifted, index, arguments, max_bytes);
            let result = match called.await {
                Ok(LiftedOutput::Ok(value)) => Ok(lifted_output(value)),
                Ok(LiftedOutput::Failure { message, details }) => Err(ToolError {
                    code: ToolErrorCode::ExecutionError,
                    message,
                    details,
                    remedies: Box::default(),
                }),
                Err(LiftError::Trap(error)) => return Err(error),
                Err(LiftError::TooLarge) => Err(result_too_large(max_bytes as u64)),
                Err(error @ LiftError::Missing(_)) => {
                    Err(ToolError::new(ToolErrorCode::Internal, error.to_string()))
                }
                Err(error) => Err(ToolError::new(
                    ToolErrorCode::InvalidInput,
                    error.to_string(),
                )),
            };
            Ok((result, false))
        }
        PreparedComponent::AgentTool(tool) => Ok((tool.call(store, arguments).await?, false)),
        PreparedComponent::HttpHandler(pre) => {
            // On the heap: the future of a call should not be as large as its rarest kinds.
            let called = Box::pin(http_handler::call(store, pre, arguments));
            Ok((called.await?, false))
        }
        PreparedComponent::AsyncHttpHandler(pre) => {
            let called = Box::pin(http_handler::call_async(store, pre, arguments));
            Ok((called.await?, false))
        }
        PreparedComponent::Command(pre) => {
            let command = pre.instantiate_async(&mut *store).await?;
            let run = command.wasi_cli_run().call_run(&mut *store).await;
            command_result(store, run, capture)
        }
        PreparedComponent::AsyncCommand(pre) => {
            let command = pre.instantiate_async(&mut *store).await?;
            let run = async |accessor: &Accessor<StoreState>| {
                command.wasi_cli_run().call_run(accessor).await
            };
            let run = Box::pin(store.run_concurrent(run)).await.flatten();
            command_result(store, run, capture)
        }
    }
}

/// Returns the result of a program that has returned or trapped.
fn command_result(
    store: &Store<StoreState>,
    run: wasmtime::Result<Result<(), ()>>,
    capture: Option<&StdoutCapture>,
) -> wasmtime::Result<GuestCallResult> {
    let code = match run {
        Ok(Ok(())) => 0,
        Ok(Err(())) => 1,
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(exit) => exit.0,
            None => return Err(error),
        },
    };
    let (stdout, truncated) = capture.map(StdoutCapture::finish).unwrap_or_default();
    Ok((command_output(store.data(), stdout, code), truncated))
}

/// Returns the result of a lifted function, structured and as text: a single string as it is, anything else as JSON.
fn lifted_output(value: Option<Value>) -> ToolOutput {
    let text = match &value {
        None => String::new(),
        Some(Value::Object(map))
            if map.len() == 1 && map.get("result").is_some_and(Value::is_string) =>
        {
            map["result"].as_str().unwrap_or_default().to_owned()
        }
        Some(value) => value.to_string(),
    };
    ToolOutput {
        content: vec![Content::text(text)],
        structured: value,
        exit_code: None,
    }
}

/// Returns the output of a command. An exit code other than 0 is a failure.
fn command_output(guest: &StoreState, stdout: Vec<u8>, code: i32) -> Result<ToolOutput, ToolError> {
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    if code == 0 {
        return Ok(ToolOutput {
            content: vec![Content::text(stdout)],
            structured: None,
            exit_code: Some(0),
        });
    }
    let stderr = guest.logs.tail();
    let message = match stderr.trim_end().lines().next_back() {
        Some(last) => format!("the program ended with exit code {code}: {last}"),
        None => format!("the program ended with exit code {code}"),
    };
    let details = serde_json::json!({ "exitCode": code, "stdout": stdout, "stderr": stderr });
    Err(ToolError::new(ToolErrorCode::ExecutionError, message).with_details(details))
}

/// Messages of several standard libraries about a refused operation.
const REFUSAL_PHRASES: [&str; 5] = [
    "not permitted",
    "not-permitted",
    "notpermitted",
    "permission denied",
    "eperm",
];

/// Messages of several standard libraries about a missing file where no folder is preopened.
const MISSING_FILE_PHRASES: [&str; 8] = [
    "os error 44",
    "os error 76",
    "no such file",
    "enoent",
    "capabilities insufficient",
    "pre-opened",
    "preopen",
    "not-permitted",
];

/// Returns true if an error has one of these phrases, in lower case, in its message or details.
fn mentions(error: &ToolError, phrases: &[&str]) -> bool {
    let details = error.details.as_ref().map(Value::to_string);
    let text = format!("{} {}", error.message, details.unwrap_or_default()).to_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// Adds facts known to the host to a tool's own failure: the rule behind a refusal, the cause of a failed request or
/// command, a response timeout, and a write that failed for lack of space.
fn explain_failure(mut error: ToolError, guest: &StoreState, limits: &Limits) -> ToolError {
    // A component that was not written for mimir has no code for it.
    let is_refusal = error.code == ToolErrorCode::PermissionDenied
        || (error.code == ToolErrorCode::ExecutionError && mentions(&error, &REFUSAL_PHRASES));
    if is_refusal && let Some(refusal) = guest.fs.refusals().last() {
        error.message = format!("{} ({refusal})", error.message);
        // Code that a model wrote keeps the error of its own language's file functions.
        if let RefusalCause::NotRecorded { code, .. } = refusal.cause
            && guest.console.is_none()
        {
            error.code = code;
        }
    }
    if let Some(host_error) = guest.original_failure(&error) {
        // The guest's error type has fewer codes and no remedies, so a failure that the guest passes on gets back those
        // of the host's error.
        if guest.claimed_code == Some(host_error.code) {
            error.details = convert::own_details(&error);
        }
        error.code = host_error.code;
        error.remedies = host_error.remedies.clone();
        return error;
    }
    if matches!(
        error.code,
        ToolErrorCode::ExecutionError | ToolErrorCode::Network | ToolErrorCode::PermissionDenied
    ) && let Some(failure) = guest.network.failure()
    {
        error.code = failure.code;
        error.message = format!("{} ({})", error.message, failure.message);
        error.details = merge_details(error.details, failure.details);
        error.remedies = failure.remedies;
    }
    if error.code == ToolErrorCode::ExecutionError
        && guest.claimed_code == Some(ToolErrorCode::Timeout)
        && guest.network.was_answered()
    {
        error.code = ToolErrorCode::Timeout;
        error.details = convert::own_details(&error);
    }
    let may_be_full = matches!(
        error.code,
        ToolErrorCode::ExecutionError
            | ToolErrorCode::LimitExceeded
            | ToolErrorCode::PermissionDenied
    );
    if error.code == ToolErrorCode::ExecutionError && guest.fs.limit_hit() {
        error.code = ToolErrorCode::LimitExceeded;
        error.message = format!("{TOO_MANY_FILES} ({})", error.message);
    } else if may_be_full && guest.fs.was_quota_exceeded() {
        let reason = backend::new_files_limit_message(limits.new_file_bytes, limits.new_files);
        error.code = ToolErrorCode::LimitExceeded;
        error.message = format!("{} ({reason})", error.message);
    } else if error.code == ToolErrorCode::ExecutionError
        && let Some(exhausted) = guest.fs.exhausted()
    {
        error.code = ToolErrorCode::LimitExceeded;
        error.message = format!("{exhausted} ({})", error.message);
    }
    error
}

/// Adds to a failure that a granted folder does not exist, if it probably is the cause: the tool saw no folder there.
fn add_missing_folder(mut error: ToolError, guest: &StoreState) -> ToolError {
    let can_be_cause = matches!(
        error.code,
        ToolErrorCode::ExecutionError
            | ToolErrorCode::PermissionDenied
            | ToolErrorCode::FileNotFound
            | ToolErrorCode::InvalidPath
    );
    if can_be_cause
        && let Some(folder) = guest.fs.missing_folders().first()
        && (mentions(&error, &MISSING_FILE_PHRASES) || mentions(&error, &REFUSAL_PHRASES))
    {
        error.message = format!(
            "{} (the folder `{folder}`, which the tool may read, does not exist)",
            error.message
        );
        let remedy = format!("create the folder `{folder}` in the workspace");
        error.remedies = error.remedies.into_iter().chain([remedy]).collect();
    }
    error
}

/// Adds a hint on how to grant files to the failure of a tool that was granted none and probably needed one.
fn add_files_hint(mut error: ToolError, call: &Approved) -> ToolError {
    if error.code != ToolErrorCode::ExecutionError
        || !grants::lacks_files(call.tool(), call.rights())
    {
        return error;
    }
    if mentions(&error, &MISSING_FILE_PHRASES) {
        let remedy = grants::files_remedy(call.tool());
        error.message = format!("{}: {remedy}", error.message);
    }
    error
}

/// Merges a tool's failure details with the host's; the host's take precedence.
fn merge_details(tool: Option<Value>, host: Option<Value>) -> Option<Value> {
    match (tool, host) {
        (Some(Value::Object(mut tool)), Some(Value::Object(host))) => {
            tool.extend(host);
            Some(Value::Object(tool))
        }
        (tool, host) => host.or(tool),
    }
}

/// Checks the total size of the content against the limit. The structured part was limited when the guest passed it.
fn check_size(output: ToolOutput, limits: &Limits) -> Result<ToolOutput, ToolError> {
    let size: usize = output.content.iter().map(Content::len).sum();
    if size as u64 > limits.output_bytes {
        return Err(result_too_large(limits.output_bytes));
    }
    Ok(output)
}

/// Returns the error for a result that exceeds the limit.
pub(crate) fn result_too_large(max_bytes: u64) -> ToolError {
    let max_bytes = mimir_core::text::bytes(max_bytes);
    let message = format!("the result is larger than {max_bytes} ({OUTPUT_LIMIT})");
    ToolError::new(ToolErrorCode::LimitExceeded, message)
}

/// Queries the description of a plugin; `None` for other kinds of components.
pub(crate) async fn describe(
    store: &mut Store<StoreState>,
    callee: &PreparedComponent,
) -> wasmtime::Result<Option<convert::ToolsetManifest>> {
    let (pre, toolset) = match callee {
        PreparedComponent::Toolset { pre, toolset, .. } => (pre, toolset),
        PreparedComponent::AgentTool(tool) => {
            let described = tool.describe(store).await?;
            return Ok(Some(convert::agent_manifest(described)));
        }
        _ => return Ok(None),
    };
    let instance = pre.instantiate_async(&mut *store).await?;
    let guest = toolset.load(&mut *store, &instance)?;
    guest.call_describe(store).await.map(Some)
}

/// Queries a plugin's assessment of a call; `None` if the plugin exports no assessor.
pub(crate) async fn assess(
    store: &mut Store<StoreState>,
    callee: &PreparedComponent,
    tool: &str,
    arguments: &Value,
    context: types::CallContext,
) -> wasmtime::Result<Option<assessor::Assessment>> {
    let PreparedComponent::Toolset {
        pre,
        assessor: Some(assessor),
        ..
    } = callee
    else {
        return Ok(None);
    };
    let instance = pre.instantiate_async(&mut *store).await?;
    let guest = assessor.load(&mut *store, &instance)?;
    guest
        .call_assess(store, tool, &arguments.to_string(), &context)
        .await
        .map(Some)
}
