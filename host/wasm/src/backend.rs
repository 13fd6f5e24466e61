//! Backend of all tools that are components.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::{Backend, BoxFuture, RawResult, RealPath, ToolAssessment};
use mimir_core::needs::{DirectoryAccess, Needs};
use mimir_core::paths::{PathRules, obeyed_note};
use mimir_core::pipeline::{Approved, Checked, PluginStorage};
use mimir_core::platform;
use mimir_core::{Content, Limits, ToolError, ToolErrorCode};
use serde_json::Value;

use crate::call::{self, PreparedComponent};
use crate::convert;
use crate::describe::ComponentKind;
use crate::fs::{
    GuardedFs, GuestMount, MountError, MountQuota, MountTracking, TOOL_WITHOUT_UNDO, UndoCopies,
    UndoRecorder, UndoScope, UndoTarget, content_digest, read_files_state, read_text, real_path,
};
use crate::host::WasmHost;
use crate::http::GuestNetwork;
use crate::lift::command;
use crate::output_pipes::StdoutCapture;
use crate::plugin::WasmPlugin;
use crate::program::{TEMPORARY, WORKSPACE};
use crate::store_state::{GuestStreams, ProgramInput, StoreOptions};
use crate::trap_errors::trap_error;

/// Folder, below the workspace, of the undo records and their copies.
const BACKUPS_FOLDER: &str = ".mimir/state/backups";

/// Stands for the name of the tool in remedies until [`name_tool`].
const TOOL_NAME: &str = "NAME";

/// Folder of the memories, below the workspace.
const MEMORY_FOLDER: &str = ".mimir/memory";

/// Prefixes of the imports that send requests.
const HTTP_IMPORTS: [&str; 3] = [
    "wasi:http/outgoing-handler",
    "wasi:http/client",
    "near:agent/host",
];

/// Prefixes of the imports that store values.
const STORAGE_IMPORTS: [&str; 2] = ["mimir:tool/storage", "wasi:keyvalue/"];

/// Time limit for a plugin's own assessment of a call. After a timeout, the user is asked without the assessment.
const MAX_ASSESSMENT_TIME: Duration = Duration::from_secs(5);

/// Special rights and duties of a built-in plugin.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BuiltinTraits {
    /// True if changed files must be copied for undo, unless the argument `backup` of a call is false.
    pub(crate) requires_undo: bool,
    /// True if the plugin may be granted write access to the memories.
    pub(crate) memory: bool,
}

/// Runs the calls of one plugin.
#[derive(Clone)]
pub(crate) struct WasmBackend(pub(crate) Arc<WasmPlugin>);

impl WasmBackend {
    /// Opens the files of one call.
    fn call_files(
        &self,
        needs: &Needs,
        max_access: DirectoryAccess,
        rules: &PathRules,
        limits: &Limits,
        tracking: &MountTracking,
    ) -> Result<GuardedFs, ToolError> {
        let traits = self.0.traits;
        open_files(
            &self.0.host,
            traits,
            needs,
            max_access,
            rules,
            limits,
            tracking,
        )
    }

    /// Returns the undo copies that the changes of a call need.
    fn undo_copies(&self, call: &Approved) -> UndoCopies {
        match (self.0.traits.requires_undo, &call.arguments()["backup"]) {
            (true, Value::Bool(false)) => UndoCopies::Declined,
            (true, _) => UndoCopies::Required(TOOL_WITHOUT_UNDO),
            (false, _) => UndoCopies::Optional,
        }
    }

    /// Returns the component, compiled if necessary.
    async fn callee(&self, call: &Approved) -> Result<&PreparedComponent, ToolError> {
        if let Some(callee) = self.0.loaded() {
            return Ok(callee);
        }
        // Compiling is work of the host, not of the tool, and has its own limits. It is cancelled with the call.
        let _paused = call.deadline().pause();
        self.load(call.limits()).await
    }

    async fn load(&self, limits: &Limits) -> Result<&PreparedComponent, ToolError> {
        let loaded = Box::pin(self.0.load(limits.into())).await;
        Ok(loaded.map_err(|error| error.at(&self.0.location))?)
    }

    /// Returns the store options with everything that a call was granted, and for a command the capture of stdout.
    fn store_options(
        &self,
        call: &Approved,
        tracking: &MountTracking,
    ) -> Result<(StoreOptions, Option<StdoutCapture>), ToolError> {
        let limits = *call.limits();
        let mut capture = None;
        let command = match &self.0.kind {
            ComponentKind::Command(_) => {
                let arguments = command::CommandArguments::parse(call.arguments())?;
                let stdout = StdoutCapture::new(&limits);
                capture = Some(stdout.clone());
                Some(ProgramInput {
                    argv: arguments.argv(call.tool().name().as_str()),
                    stdin: arguments.stdin(),
                    streams: GuestStreams::Command(stdout),
                })
            }
            ComponentKind::Toolset { .. }
            | ComponentKind::AgentTool
            | ComponentKind::Lifted(_)
            | ComponentKind::HttpHandler(_) => None,
        };
        let options = StoreOptions {
            fs: self
                .call_files(
                    call.rights(),
                    DirectoryAccess::ReadWrite,
                    call.paths(),
                    &limits,
                    tracking,
                )
                .map_err(|error| name_tool(error, call))?,
            limits,
            observer: Arc::clone(call.observer()),
            nested: (!call.rights().tools.is_empty()).then(|| call.nested()),
            network: self.network(call),
            commands: (!call.rights().commands.is_empty()).then(|| call.effects()),
            model: call.rights().model.then(|| call.effects()),
            storage: call_storage(call, &self.0.host),
            variables: variables(call),
            config: config(call),
            command,
            program_host: None,
        };
        Ok((options, capture))
    }

    /// Returns the network access of a call; disabled for a component that does not import it.
    fn network(&self, call: &Approved) -> GuestNetwork {
        if imports_interface(call, &HTTP_IMPORTS) {
            GuestNetwork::for_call(Arc::clone(&self.0.clients), Arc::clone(&self.0.host), call)
        } else {
            GuestNetwork::disabled()
        }
    }

    /// Runs a call in a new store. The store is created in a block without awaits, so that the future does not store
    /// its parts as well.
    async fn run_in_new_store(&self, call: &Approved) -> Result<RawResult, ToolError> {
        let callee = self.callee(call).await?;
        // Dropped after the store, because the component can change files until then.
        let (tracking, scope) = record_call(&self.0.host, call, self.undo_copies(call));
        let (store, capture) = {
            let (options, capture) = self.store_options(call, &tracking)?;
            (callee.new_store(options).map_err(internal)?, capture)
        };
        let raw = call::run_call(store, callee, call, capture).await;
        finish_recording(call, scope, raw).await
    }

    async fn assess_call(&self, call: &Checked) -> Result<Option<ToolAssessment>, ToolError> {
        let callee = self.load(call.limits()).await?;
        let tool = call.tool();
        let limits = Limits {
            wall: MAX_ASSESSMENT_TIME.min(call.limits().wall),
            log_lines: 10,
            ..*call.limits()
        };
        // The assessment runs before any approval, so only permanent grants give access to files.
        let fs = match tool.rights().permanent() {
            Some(needs) => self.call_files(
                needs,
                DirectoryAccess::Read,
                call.paths(),
                &limits,
                &MountTracking::default(),
            )?,
            None => GuardedFs::empty(),
        };
        let mut store = callee
            .new_store(StoreOptions::isolated(fs, limits))
            .map_err(internal)?;
        let context = convert::context(call.context());
        let name = tool.own_name();
        let work = call::assess(&mut store, callee, name, call.arguments(), context);
        match tokio::time::timeout(limits.wall, work).await {
            Ok(Ok(assessment)) => Ok(assessment.map(convert::assessment)),
            Ok(Err(error)) => Err(trap_error(&error, store.data())),
            Err(_) => Err(ToolError::new(
                ToolErrorCode::Timeout,
                "the tool's assessment of the call timed out",
            )),
        }
    }
}

/// Writes the undo record of a call, and adds a note to the result if the call created or changed files that agents or
/// build tools load by themselves.
pub(crate) async fn finish_recording(
    call: &Approved,
    scope: UndoScope,
    mut raw: RawResult,
) -> Result<RawResult, ToolError> {
    let changes = scope.finish(call.deadline()).await;
    call.report_changed_files(&changes.paths, changes.has_record);
    let obeyed = changes.auto_run_files;
    if obeyed.is_empty() {
        return Ok(raw);
    }
    call.effects().record_auto_run_files(&obeyed)?;
    let note = obeyed_note(&obeyed);
    match &mut raw.result {
        Ok(output) => output.content.push(Content::text(note)),
        Err(error) => error.message.push_str(&format!("; {note}")),
    }
    Ok(raw)
}

/// Returns true if the called component imports an interface whose name has one of these prefixes.
fn imports_interface(call: &Approved, interfaces: &[&str]) -> bool {
    let mut imports = call.tool().origin.imports.iter();
    imports.any(|import| interfaces.iter().any(|prefix| import.starts_with(prefix)))
}

/// Returns the environment variables of a call: settings that tools may see, and the user's overrides for this tool.
fn variables(call: &Approved) -> Vec<(String, String)> {
    let overrides = call.rights().environment.iter();
    let overrides = overrides.map(|(name, value)| (name.clone(), value.clone()));
    call.variables().iter().cloned().chain(overrides).collect()
}

/// Returns the user's values for `wasi:config/store`.
fn config(call: &Approved) -> Vec<(String, String)> {
    let config = call.rights().config.iter();
    config
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Returns the plugin's storage, if the tool imports it.
pub(crate) fn call_storage(call: &Approved, host: &WasmHost) -> Option<PluginStorage> {
    imports_interface(call, &STORAGE_IMPORTS).then(|| call.storage(host.workspace()))
}

/// Opens the files granted to a call.
pub(crate) fn open_files(
    host: &WasmHost,
    traits: BuiltinTraits,
    needs: &Needs,
    max_access: DirectoryAccess,
    rules: &PathRules,
    limits: &Limits,
    tracking: &MountTracking,
) -> Result<GuardedFs, ToolError> {
    let workspace = host.workspace();
    let mut mounts = granted_mounts(workspace, needs, max_access, rules);
    if traits.memory {
        open_memory(workspace, &mut mounts, rules)?;
    }
    let mounts = mounts.into_iter().map(|mount| {
        let mut tracking = tracking.clone();
        if mount.prefix == MEMORY_FOLDER {
            // Undo restores nothing in `.mimir`.
            tracking.undo = None;
        }
        (mount, tracking)
    });
    GuardedFs::open_tracked(mounts.collect(), limits.open_files)
        .map_err(|error| mount_failure(&error))
}

/// Puts the name of the called tool into the remedies of [`open_files`] and [`program_files`].
pub(crate) fn name_tool(mut error: ToolError, call: &Approved) -> ToolError {
    let (placeholder, name) = (format!(" {TOOL_NAME} "), call.tool().name());
    for remedy in &mut error.remedies {
        *remedy = remedy.replace(&placeholder, &format!(" {name} "));
    }
    error
}

/// Returns the error of a call whose granted folders cannot be mounted, with the steps that a person can take.
fn mount_failure(error: &MountError) -> ToolError {
    let remedy = match error {
        MountError::Link { path } => {
            format!("replace the link in `{path}` with a folder of the workspace")
        }
        MountError::NotAFolder { path } => format!("rename the file `{path}`"),
        MountError::Create { path, .. } => format!("create the folder `{path}`"),
        // No person should create it either.
        MountError::Protected { .. } => {
            return ToolError::new(ToolErrorCode::PermissionDenied, error.to_string())
                .with_remedies([format!(
                    "grant the tool no files: `mimir tools trust {TOOL_NAME} --without files`"
                )]);
        }
        MountError::Open { path, .. } => format!("make the folder `{path}` accessible"),
        MountError::Prefix { .. } => "name a folder of the workspace".to_owned(),
    };
    let narrower =
        format!("or grant the tool no files: `mimir tools trust {TOOL_NAME} --without files`");
    ToolError::new(ToolErrorCode::PermissionDenied, error.to_string())
        .with_remedies([remedy, narrower])
}

/// Prepares the mounts of the memories folder, the only part of `.mimir` that a plugin can be granted to write. The
/// user's deny rules apply there as well. A read-only call does not create the folder; a missing folder is not mounted.
fn open_memory(
    workspace: &Path,
    mounts: &mut Vec<GuestMount>,
    rules: &PathRules,
) -> Result<(), ToolError> {
    let folder = workspace.join(MEMORY_FOLDER);
    let is_memory = |mount: &GuestMount| mount.prefix == MEMORY_FOLDER;
    let is_writable_memory =
        |mount: &GuestMount| is_memory(mount) && mount.access == DirectoryAccess::ReadWrite;
    if mounts.iter().any(is_writable_memory) {
        let created = mimir_core::files::reject_links(workspace, &folder)
            .and_then(|()| std::fs::create_dir_all(&folder));
        created.map_err(|error| {
            let message = format!("cannot create the folder {MEMORY_FOLDER}: {error}");
            ToolError::new(ToolErrorCode::PermissionDenied, message)
        })?;
    }
    let exists = folder.symlink_metadata().is_ok();
    mounts.retain(|mount| exists || !is_memory(mount));
    for mount in mounts.iter_mut().filter(|mount| is_memory(mount)) {
        mount.rules = rules.person_rules();
    }
    Ok(())
}

/// Returns the mounts of the granted directories, with at most `max_access`.
fn granted_mounts(
    workspace: &Path,
    needs: &Needs,
    max_access: DirectoryAccess,
    rules: &PathRules,
) -> Vec<GuestMount> {
    let mounts = needs.files.iter().map(|need| {
        let (host, guest, prefix) = if need.path == "." {
            let guest = convert::GUEST_ROOT.to_owned();
            (workspace.to_owned(), guest, String::new())
        } else {
            let guest = format!("/{}", need.path);
            (workspace.join(&need.path), guest, need.path.clone())
        };
        GuestMount {
            host,
            guest,
            prefix,
            access: need.access.min(max_access),
            rules: rules.clone(),
        }
    });
    mounts.collect()
}

/// Opens the files of a program: the granted part of the workspace at `/workspace`, and a temporary folder at `/tmp`.
pub(crate) fn program_files(
    host: &WasmHost,
    needs: &Needs,
    rules: &PathRules,
    limits: &Limits,
    (tmp, quota): (&Path, &MountQuota),
    tracking: &MountTracking,
) -> Result<GuardedFs, ToolError> {
    let mut mounts = Vec::new();
    for mut mount in granted_mounts(host.workspace(), needs, DirectoryAccess::ReadWrite, rules) {
        mount.guest = format!("{WORKSPACE}{}", mount.guest.trim_end_matches('/'));
        mounts.push((mount, tracking.clone()));
    }
    let own = GuestMount {
        host: tmp.to_owned(),
        guest: TEMPORARY.to_owned(),
        prefix: String::new(),
        access: DirectoryAccess::ReadWrite,
        rules: PathRules::none(),
    };
    let own_tracking = MountTracking {
        quota: Some(quota.clone()),
        undo: None,
    };
    mounts.push((own, own_tracking));
    GuardedFs::open_tracked(mounts, limits.open_files).map_err(|error| mount_failure(&error))
}

/// Returns the quota and the undo recorder of a call in the workspace.
pub(crate) fn workspace_tracking(limits: &Limits, undo: UndoRecorder) -> MountTracking {
    MountTracking {
        quota: Some(MountQuota::new(limits.new_file_bytes, limits.new_files)),
        undo: Some(undo),
    }
}

/// Returns a message about the limit for new files of a call.
pub(crate) fn new_files_limit_message(bytes: u64, files: u64) -> String {
    let bytes = mimir_core::text::bytes(bytes);
    format!(
        "one call may add {bytes} and {files} files to the workspace (limits.newFileBytes, limits.newFiles)"
    )
}

/// Begins to record the changes of a call in the workspace, in one record with those of its earlier attempts. Returns
/// the tracking for its mounts, and the scope that ends the recording.
pub(crate) fn record_call(
    host: &WasmHost,
    call: &Approved,
    copies: UndoCopies,
) -> (MountTracking, UndoScope) {
    let undo = UndoRecorder::default();
    let scope = undo.begin(undo_target(host, call, copies), call.attempt_state());
    (workspace_tracking(call.limits(), undo), scope)
}

/// Returns the undo target of a call: the record to write, and the copies that its changes need.
pub(crate) fn undo_target(host: &WasmHost, call: &Approved, copies: UndoCopies) -> UndoTarget {
    UndoTarget {
        workspace: host.workspace().to_owned(),
        folder: host.workspace().join(BACKUPS_FOLDER),
        id: call.context().request_id.to_string(),
        tool: call.tool().name().to_string(),
        copies,
    }
}

fn internal(error: wasmtime::Error) -> ToolError {
    ToolError::new(ToolErrorCode::Internal, format!("{error:#}"))
}

/// Creates the backups folder, readable by its owner only. Links in its path are refused: a checkout could contain a
/// link that leads anywhere.
pub(crate) fn create_backups_folder(workspace: &Path, backups: &Path) -> std::io::Result<()> {
    mimir_core::files::reject_links(workspace, backups)?;
    if let Some(state) = backups.parent() {
        std::fs::create_dir_all(state)?;
    }
    match platform::create_private_folder(backups, false) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            // It may contain copies of files that only their owner can read.
            match platform::restrict_to_owner(backups) {
                // The folder of another owner cannot be restricted and is left unchanged.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    tracing::warn!(folder = %backups.display(), "the backups belong to another user, who can read them");
                    Ok(())
                }
                restricted => restricted,
            }
        }
        result => result,
    }
}

impl Backend for WasmBackend {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let raw = self.run_in_new_store(&call).await;
            raw.unwrap_or_else(RawResult::failed)
        })
    }

    fn assess<'a>(
        &'a self,
        call: &'a Checked,
    ) -> BoxFuture<'a, Result<Option<ToolAssessment>, ToolError>> {
        Box::pin(self.assess_call(call))
    }

    fn resolve_path(&self, path: &str) -> RealPath {
        real_path(self.0.host.workspace(), path)
    }

    fn content_id(&self, path: &str) -> Option<String> {
        content_digest(self.0.host.workspace(), path)
    }

    fn files_state(&self, folders: Vec<String>) -> BoxFuture<'_, Option<String>> {
        let root = self.0.host.workspace().to_owned();
        Box::pin(read_files_state(root, folders))
    }

    fn read_text(&self, path: &str, rules: &PathRules) -> Option<String> {
        read_text(self.0.host.workspace(), path, rules)
    }
}
