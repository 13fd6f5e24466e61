//! Backend of all tools that are components.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::{Assessment, Backend, BoxFuture, Raw, RealPath};
use mimir_core::needs::{Access, Needs};
use mimir_core::paths::PathRules;
use mimir_core::pipeline::{Approved, Checked, Storage};
use mimir_core::tool::Trust;
use mimir_core::{Code, Limits, ToolError};

use crate::call::{self, Callee};
use crate::convert;
use crate::describe::Kind;
use crate::faults::fault;
use crate::fs::{
    GuardedFs, Mount, Quota, UndoRecorder, UndoTarget, Watch, content, real_path, text,
};
use crate::guest::{Command, Start, Streams};
use crate::host::WasmHost;
use crate::http::Network;
use crate::lift::command;
use crate::pipes::Capture;
use crate::plugin::Plugin;

/// Folder, below the workspace, of the backups that the built-in file tools make.
const BACKUPS: &str = ".mimir/state/backups";

/// Folder of the memories, below the workspace.
const MEMORY: &str = ".mimir/memory";

/// Prefix of the import that sends requests.
const HTTP: &str = "wasi:http/outgoing-handler";

/// Prefix of the import that stores values.
const STORAGE: &str = "mimir:tool/storage";

/// Time limit for a plugin's own assessment of a call. After that the user is asked without it.
const ASSESS_TIME: Duration = Duration::from_secs(5);

/// Folders below `.mimir` that a built-in plugin may write to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnFolders {
    /// The backups, in addition to the grants.
    pub(crate) backups: bool,
    /// The memories, if granted.
    pub(crate) memory: bool,
}

/// Runs the calls of one plugin.
#[derive(Clone)]
pub(crate) struct WasmBackend(pub(crate) Arc<Plugin>);

impl WasmBackend {
    /// Opens the files of one call.
    fn files(
        &self,
        needs: &Needs,
        most: Access,
        rules: &PathRules,
        limits: &Limits,
    ) -> Result<GuardedFs, ToolError> {
        files(&self.0.host, self.0.own, needs, most, rules, limits)
    }

    /// Returns the component, compiled if necessary.
    async fn callee(&self, call: &Approved) -> Result<&Callee, ToolError> {
        if let Some(callee) = self.0.loaded() {
            return Ok(callee);
        }
        // Compiling is work of the host, not of the tool, and has its own limits. It ends with the call.
        let _paused = call.deadline().pause();
        Ok(Box::pin(self.0.callee(call.limits().into())).await?)
    }

    /// Returns everything that a call may reach and use, and the capture of a command's stdout.
    fn start(&self, call: &Approved) -> Result<(Start, Option<Capture>), ToolError> {
        let limits = *call.limits();
        let mut capture = None;
        let command = match &self.0.kind {
            Kind::Command => {
                let arguments = command::Arguments::parse(call.arguments())?;
                let stdout = Capture::new(&limits);
                capture = Some(stdout.clone());
                Some(Command {
                    argv: arguments.argv(call.tool().name().as_str()),
                    stdin: arguments.stdin(),
                    streams: Streams::Command(stdout),
                })
            }
            Kind::Toolset { .. } | Kind::Lifted(_) => None,
        };
        let start = Start {
            fs: self.files(call.rights(), Access::ReadWrite, call.paths(), &limits)?,
            limits,
            observer: Arc::clone(call.observer()),
            nested: (!call.rights().tools.is_empty()).then(|| call.nested()),
            network: self.network(call),
            commands: (!call.rights().commands.is_empty()).then(|| call.effects()),
            model: call.rights().model.then(|| call.effects()),
            storage: storage(call, &self.0.host),
            variables: variables(call),
            config: config(call),
            command,
            asks: None,
        };
        Ok((start, capture))
    }

    /// Returns the network access, for a component that imports it.
    fn network(&self, call: &Approved) -> Network {
        match imports(call, HTTP) {
            true => Network::of(Arc::clone(&self.0.clients), Arc::clone(&self.0.host), call),
            false => Network::none(),
        }
    }

    /// Runs a call in a new store. The store is created before the first await, so that its parts are not stored in
    /// the future as well.
    async fn attempt(&self, call: &Approved) -> Result<Raw, ToolError> {
        let callee = self.callee(call).await?;
        let (store, capture) = {
            let (start, capture) = self.start(call)?;
            (callee.store(start).map_err(internal)?, capture)
        };
        Ok(call::run(store, callee, call, capture).await)
    }

    async fn judge(&self, call: &Checked) -> Result<Option<Assessment>, ToolError> {
        let callee = self.0.callee(call.limits().into()).await?;
        let tool = call.tool();
        let limits = Limits {
            wall: ASSESS_TIME.min(call.limits().wall),
            log_lines: 10,
            ..*call.limits()
        };
        // The assessment runs before any approval: a plugin without a grant sees no files.
        let fs = match tool.trust {
            Trust::Trusted => {
                self.files(&tool.definition.needs, Access::Read, call.paths(), &limits)?
            }
            Trust::Harmless | Trust::Untrusted => GuardedFs::none(),
        };
        let mut store = callee.store(Start::alone(fs, limits)).map_err(internal)?;
        let context = convert::context(call.context());
        let name = tool.own_name();
        let asked = call::assess(&mut store, callee, name, call.arguments(), context);
        match tokio::time::timeout(limits.wall, asked).await {
            Ok(Ok(assessment)) => Ok(assessment.map(convert::assessment)),
            Ok(Err(error)) => Err(fault(&error, store.data())),
            Err(_) => Err(ToolError::new(
                Code::Timeout,
                "its assessment of the call timed out",
            )),
        }
    }
}

/// Returns true if the called component imports an interface whose name has this prefix.
fn imports(call: &Approved, interface: &str) -> bool {
    let mut imports = call.tool().origin.imports.iter();
    imports.any(|import| import.starts_with(interface))
}

/// Returns the environment of a call: settings that tools may see, and the user's settings for this call.
fn variables(call: &Approved) -> Vec<(String, String)> {
    let named = call.rights().environment.iter();
    let named = named.map(|(name, value)| (name.clone(), value.clone()));
    call.variables().iter().cloned().chain(named).collect()
}

/// Returns the values that the user has set for a call in `wasi:config/store`.
fn config(call: &Approved) -> Vec<(String, String)> {
    let config = call.rights().config.iter();
    config
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Returns the storage between calls, for a tool that imports it.
pub(crate) fn storage(call: &Approved, host: &WasmHost) -> Option<Storage> {
    imports(call, STORAGE).then(|| call.storage(host.workspace()))
}

/// Opens the files granted to a call.
pub(crate) fn files(
    host: &WasmHost,
    own: OwnFolders,
    needs: &Needs,
    most: Access,
    rules: &PathRules,
    limits: &Limits,
) -> Result<GuardedFs, ToolError> {
    let workspace = host.workspace();
    let mut mounts = granted(workspace, needs, most, rules);
    if own.memory {
        open_memory(workspace, &mut mounts, rules)?;
    }
    let mut backups = None;
    if own.backups && mounts.iter().any(|mount| mount.access == Access::ReadWrite) {
        let host = workspace.join(BACKUPS);
        make_backups(workspace, &host).map_err(|error| {
            let message = format!(
                "cannot create the backups folder {}: {error}",
                host.display()
            );
            ToolError::new(Code::PermissionDenied, message)
        })?;
        // Backup copies do not count as files added by the call.
        backups = Some(Mount {
            host,
            guest: format!("/{BACKUPS}"),
            prefix: BACKUPS.to_owned(),
            access: Access::ReadWrite,
            rules: PathRules::none(),
        });
    }
    let watch = watch(limits, None);
    let mounts = mounts.into_iter().map(|mount| (mount, watch.clone()));
    let backups = backups.map(|mount| (mount, Watch::default()));
    GuardedFs::watched(mounts.chain(backups).collect(), limits.open_files)
        .map_err(|error| ToolError::new(Code::PermissionDenied, error.to_string()))
}

/// Mounts the memories, the only part of `.mimir` that a plugin may write to, and this plugin only. Deny rules of the
/// user apply there, too. A read-only call does not create the folder: if it is missing, the plugin does not see one.
fn open_memory(
    workspace: &Path,
    mounts: &mut Vec<Mount>,
    rules: &PathRules,
) -> Result<(), ToolError> {
    let folder = workspace.join(MEMORY);
    let of_memory = |mount: &Mount| mount.prefix == MEMORY;
    let writes = |mount: &Mount| of_memory(mount) && mount.access == Access::ReadWrite;
    if mounts.iter().any(writes) {
        let made = mimir_core::files::no_links(workspace, &folder)
            .and_then(|()| std::fs::create_dir_all(&folder));
        made.map_err(|error| {
            let message = format!("cannot create the folder {MEMORY}: {error}");
            ToolError::new(Code::PermissionDenied, message)
        })?;
    }
    let there = folder.symlink_metadata().is_ok();
    mounts.retain(|mount| there || !of_memory(mount));
    for mount in mounts.iter_mut().filter(|mount| of_memory(mount)) {
        mount.rules = rules.of_person();
    }
    Ok(())
}

/// Returns the granted directories of the workspace.
fn granted(workspace: &Path, needs: &Needs, most: Access, rules: &PathRules) -> Vec<Mount> {
    let mounts = needs.files.iter().map(|need| {
        let root = need.path == ".";
        Mount {
            host: match root {
                true => workspace.to_owned(),
                false => workspace.join(&need.path),
            },
            guest: match root {
                true => convert::GUEST_ROOT.to_owned(),
                false => format!("/{}", need.path),
            },
            prefix: match root {
                true => String::new(),
                false => need.path.clone(),
            },
            access: need.access.min(most),
            rules: rules.clone(),
        }
    });
    mounts.collect()
}

/// Opens the files of a program: the granted part of the workspace, under `at`, and a temporary folder.
pub(crate) fn program_files(
    host: &WasmHost,
    needs: &Needs,
    rules: &PathRules,
    limits: &Limits,
    at: &str,
    (own, own_at, quota): (&Path, &str, &Quota),
    watch: &Watch,
) -> Result<GuardedFs, ToolError> {
    let mut mounts = Vec::new();
    for mut mount in granted(host.workspace(), needs, Access::ReadWrite, rules) {
        mount.guest = format!("{at}{}", mount.guest.trim_end_matches('/'));
        mounts.push((mount, watch.clone()));
    }
    let own = Mount {
        host: own.to_owned(),
        guest: own_at.to_owned(),
        prefix: String::new(),
        access: Access::ReadWrite,
        rules: PathRules::none(),
    };
    let own_watch = Watch {
        quota: Some(quota.clone()),
        undo: None,
    };
    mounts.push((own, own_watch));
    GuardedFs::watched(mounts, limits.open_files)
        .map_err(|error| ToolError::new(Code::PermissionDenied, error.to_string()))
}

/// Opens the files of a script that is a program.
pub(crate) fn script_files(
    host: &WasmHost,
    call: &Approved,
    watch: &Watch,
) -> Result<GuardedFs, ToolError> {
    let all = granted(
        host.workspace(),
        call.rights(),
        Access::ReadWrite,
        call.paths(),
    );
    let mounts = all.into_iter().map(|mount| (mount, watch.clone()));
    GuardedFs::watched(mounts.collect(), call.limits().open_files)
        .map_err(|error| ToolError::new(Code::PermissionDenied, error.to_string()))
}

/// Returns the quota and the undo recorder of a call in the workspace.
pub(crate) fn watch(limits: &Limits, undo: Option<UndoRecorder>) -> Watch {
    Watch {
        quota: Some(Quota::new(limits.new_file_bytes, limits.new_files)),
        undo,
    }
}

/// Formats the limit for new files of a call.
pub(crate) fn too_many_files(bytes: u64, files: u64) -> String {
    let bytes = mimir_core::text::bytes(bytes);
    format!(
        "one call may add {bytes} and {files} files to the workspace (limits.newFileBytes, limits.newFiles)"
    )
}

/// Returns the call whose changes are recorded.
pub(crate) fn undo_target(host: &WasmHost, call: &Approved) -> UndoTarget {
    UndoTarget {
        workspace: host.workspace().to_owned(),
        folder: host.workspace().join(BACKUPS),
        id: call.context().request_id.to_string(),
        tool: call.tool().name().to_string(),
    }
}

fn internal(error: wasmtime::Error) -> ToolError {
    ToolError::new(Code::Internal, format!("{error:#}"))
}

/// Creates the backups folder. In a checkout it may be a link, which could lead anywhere.
pub(crate) fn make_backups(workspace: &Path, backups: &Path) -> std::io::Result<()> {
    mimir_core::files::no_links(workspace, backups)?;
    if let Some(state) = backups.parent() {
        std::fs::create_dir_all(state)?;
    }
    #[cfg_attr(
        not(unix),
        expect(
            unused_mut,
            reason = "only changed by modes, which this platform does not have"
        )
    )]
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, PRIVATE);
    match builder.create(backups) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => close_to_others(backups),
        made => made,
    }
}

/// The originals may be readable by their owner only.
#[cfg(unix)]
const PRIVATE: u32 = 0o700;

/// Restricts a folder to its owner. A folder of another owner is left unchanged.
#[cfg(unix)]
fn close_to_others(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let meta = folder.metadata()?;
    if meta.permissions().mode() & 0o077 != 0 {
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(PRIVATE));
    }
    Ok(())
}

/// Access rights of a folder are inherited on this platform.
#[cfg(not(unix))]
fn close_to_others(_: &Path) -> std::io::Result<()> {
    Ok(())
}

impl Backend for WasmBackend {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let raw = self.attempt(&call).await;
            raw.unwrap_or_else(Raw::failed)
        })
    }

    fn assess<'a>(
        &'a self,
        call: &'a Checked,
    ) -> BoxFuture<'a, Result<Option<Assessment>, ToolError>> {
        Box::pin(self.judge(call))
    }

    fn real_path(&self, path: &str) -> RealPath {
        real_path(self.0.host.workspace(), path)
    }

    fn content(&self, path: &str) -> Option<String> {
        content(self.0.host.workspace(), path)
    }

    fn text(&self, path: &str, rules: &PathRules) -> Option<String> {
        text(self.0.host.workspace(), path, rules)
    }
}
