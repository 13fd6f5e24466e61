//! File requests of scripts. They use the same file system as components, with its mounts, protected paths and limits.

use mimir_core::{Limits, ToolError, ToolErrorCode, text};
use serde::Deserialize;
use serde_json::{Value, json};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as _;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, HostDescriptor,
    HostDirectoryEntryStream, OpenFlags, PathFlags,
};

use super::script_effects::{EffectResult, not_granted};
use super::script_protocol::FileRequest;
use super::sync_requests::{ErrnoError, SyncRequest, SyncResult};
use crate::fs::{FsCtxView, FsView};
use crate::store_state::StoreState;

/// Number of bytes read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Maximum depth of a folder tree that can be removed: far more than real projects have.
const MAX_DEPTH: usize = 256;

/// The mode of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WriteMode {
    /// Replaces the content.
    Replace,
    /// Appends to the content.
    Append,
    /// Creates the file; fails if it exists.
    Create,
}

impl WriteMode {
    fn flags(self) -> OpenFlags {
        match self {
            Self::Replace => OpenFlags::CREATE | OpenFlags::TRUNCATE,
            Self::Append => OpenFlags::CREATE,
            Self::Create => OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
        }
    }
}

/// Performs a file request synchronously.
pub(super) async fn perform_sync(
    state: &mut StoreState,
    request: SyncRequest,
    bytes: Vec<u8>,
) -> SyncResult {
    let max_bytes = state.max_output as u64;
    let mut view = ScriptFiles {
        view: state.fs(),
        max_bytes,
    };
    let done = view.perform(request, bytes).await;
    done.map_err(|fault| match fault {
        ScriptFileError::Reported(error) => ErrnoError {
            code: match error.code {
                ToolErrorCode::LimitExceeded => "EFBIG",
                ToolErrorCode::PermissionDenied => "EACCES",
                _ => "EIO",
            },
            why: error.message,
        },
        ScriptFileError::Code(_, code) => {
            let refusal = state.fs.refusals().last();
            let refusal = refusal.filter(|_| code == ErrorCode::NotPermitted);
            ErrnoError {
                code: errno(code),
                why: refusal.map_or_else(String::new, ToString::to_string),
            }
        }
    })
}

/// Reads a file of the workspace that the call was granted. `None` if there is no such file, or no grant.
pub(crate) async fn read_file(state: &mut StoreState, path: String) -> Option<Vec<u8>> {
    let read = perform_sync(state, SyncRequest::Read { path }, Vec::new());
    Some(read.await.ok()?.1)
}

/// Returns the errno name of a code.
fn errno(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NoEntry => "ENOENT",
        ErrorCode::Exist => "EEXIST",
        ErrorCode::NotPermitted => "EPERM",
        ErrorCode::Access => "EACCES",
        ErrorCode::ReadOnly => "EROFS",
        ErrorCode::IsDirectory => "EISDIR",
        ErrorCode::NotDirectory => "ENOTDIR",
        ErrorCode::NotEmpty => "ENOTEMPTY",
        ErrorCode::NameTooLong => "ENAMETOOLONG",
        ErrorCode::Loop => "ELOOP",
        ErrorCode::InsufficientSpace => "ENOSPC",
        ErrorCode::Quota => "EDQUOT",
        ErrorCode::CrossDevice => "EXDEV",
        ErrorCode::Invalid => "EINVAL",
        _ => "EIO",
    }
}

/// Performs a file request.
pub(super) async fn perform_request(
    state: &mut StoreState,
    request: FileRequest,
    limits: &Limits,
) -> EffectResult {
    let mut view = ScriptFiles {
        view: state.fs(),
        max_bytes: limits.output_bytes,
    };
    let done = view.perform_request(request).await;
    done.map_err(|fault| match fault {
        ScriptFileError::Reported(error) => error,
        ScriptFileError::Code(path, code) => {
            let mut error = file_error(&path, code);
            // The file system returns only a code, and stores the reason of a refusal.
            if code == ErrorCode::NotPermitted
                && let Some(refusal) = state.fs.refusals().last()
            {
                error.message = format!("{} ({refusal})", error.message);
            }
            error
        }
    })
}

enum ScriptFileError {
    Reported(ToolError),
    Code(String, ErrorCode),
}

struct ScriptFiles<'a> {
    view: FsCtxView<'a>,
    max_bytes: u64,
}

/// Returns the path in the form that the file system expects: relative to the workspace.
fn relative(path: &str) -> String {
    let mut rest = path;
    while let Some(shorter) = rest.strip_prefix("./").or_else(|| rest.strip_prefix('/')) {
        rest = shorter;
    }
    let rest = rest.trim_end_matches('/');
    if rest.is_empty() { "." } else { rest }.to_owned()
}

fn file_error(path: &str, code: ErrorCode) -> ToolError {
    let path = text::visible(path);
    let (code, problem) = match code {
        ErrorCode::NoEntry => (ToolErrorCode::FileNotFound, "does not exist".to_owned()),
        ErrorCode::Exist => (ToolErrorCode::AlreadyExists, "exists already".to_owned()),
        ErrorCode::NotPermitted | ErrorCode::Access => {
            let problem = "is not accessible for this tool, or read-only";
            (ToolErrorCode::PermissionDenied, problem.to_owned())
        }
        ErrorCode::ReadOnly => (
            ToolErrorCode::PermissionDenied,
            "can only be read".to_owned(),
        ),
        ErrorCode::IsDirectory => (ToolErrorCode::InvalidPath, "is a directory".to_owned()),
        ErrorCode::NotDirectory => (ToolErrorCode::InvalidPath, "is not a directory".to_owned()),
        ErrorCode::NotEmpty => {
            let problem = "is not empty; use `{recursive: true}` to remove its contents as well";
            (ToolErrorCode::InvalidInput, problem.to_owned())
        }
        ErrorCode::Invalid | ErrorCode::NameTooLong | ErrorCode::Loop => {
            (ToolErrorCode::InvalidPath, "is not a valid path".to_owned())
        }
        ErrorCode::InsufficientSpace => (
            ToolErrorCode::LimitExceeded,
            "cannot be written: the disk is full".to_owned(),
        ),
        ErrorCode::Quota => {
            let problem = "cannot be written: the call has reached its limit for new data in the workspace \
                (limits.newFileBytes, limits.newFiles)";
            (ToolErrorCode::LimitExceeded, problem.to_owned())
        }
        other => (
            ToolErrorCode::ExecutionError,
            format!("cannot be used ({other:?})"),
        ),
    };
    ToolError::new(code, format!("`{path}` {problem}"))
}

fn without_bytes(value: Value) -> (Value, Vec<u8>) {
    (value, Vec::new())
}

fn kind(descriptor: DescriptorType) -> &'static str {
    match descriptor {
        DescriptorType::RegularFile => "file",
        DescriptorType::Directory => "directory",
        DescriptorType::SymbolicLink => "link",
        _ => "other",
    }
}

impl ScriptFiles<'_> {
    async fn perform_request(
        &mut self,
        request: FileRequest,
    ) -> Result<(Value, Vec<u8>), ScriptFileError> {
        match request {
            FileRequest::Read { path, text } => {
                let bytes = self.read(&path).await?;
                Ok(if text {
                    without_bytes(String::from_utf8_lossy(&bytes).into())
                } else {
                    (Value::Null, bytes)
                })
            }
            FileRequest::Write { path, data } => {
                let bytes = data.bytes().map_err(ScriptFileError::Reported)?;
                self.write(&path, &bytes, WriteMode::Replace).await?;
                Ok(without_bytes(Value::Null))
            }
            FileRequest::Exists { path } => match self.stat(&path, true).await {
                Ok(_) => Ok(without_bytes(true.into())),
                Err(ScriptFileError::Code(_, ErrorCode::NoEntry | ErrorCode::NotDirectory)) => {
                    Ok(without_bytes(false.into()))
                }
                Err(fault) => Err(fault),
            },
            FileRequest::List { path } => {
                let mut entries = self.list(&path).await?;
                entries.sort_by(|one, other| one.0.cmp(&other.0));
                let entries = entries.into_iter();
                let entries =
                    entries.map(|(name, entry)| json!({ "name": name, "type": kind(entry) }));
                Ok(without_bytes(entries.collect()))
            }
            FileRequest::Stat { path } => {
                let stat = self.stat(&path, true).await?;
                let modified = stat.data_modification_timestamp;
                Ok(without_bytes(json!({
                    "type": kind(stat.type_),
                    "size": stat.size,
                    "modified": modified.map_or(0, |time| time.seconds * 1000),
                })))
            }
            FileRequest::Remove { path, recursive } => {
                self.remove(&path, recursive).await?;
                Ok(without_bytes(Value::Null))
            }
            FileRequest::Mkdir { path } => {
                self.make_dirs(&path).await?;
                Ok(without_bytes(Value::Null))
            }
        }
    }

    async fn perform(
        &mut self,
        request: SyncRequest,
        bytes: Vec<u8>,
    ) -> Result<(Value, Vec<u8>), ScriptFileError> {
        match request {
            SyncRequest::Read { path } => return Ok((Value::Null, self.read(&path).await?)),
            SyncRequest::Write { path, mode } => self.write(&path, &bytes, mode).await?,
            SyncRequest::List { path } => {
                return self.perform_request(FileRequest::List { path }).await;
            }
            SyncRequest::Stat { path, follow } => {
                let stat = self.stat(&path, follow).await?;
                let millis =
                    |seconds: u64, nanos: u32| seconds as f64 * 1e3 + f64::from(nanos) / 1e6;
                let times = [
                    stat.data_access_timestamp,
                    stat.data_modification_timestamp,
                    stat.status_change_timestamp,
                ];
                let [accessed, modified, changed] =
                    times.map(|time| time.map(|time| millis(time.seconds, time.nanoseconds)));
                return Ok(without_bytes(json!({
                    "type": kind(stat.type_),
                    "size": stat.size,
                    "links": stat.link_count,
                    "accessed": accessed,
                    "modified": modified,
                    "changed": changed,
                })));
            }
            SyncRequest::Remove { path, recursive } => self.remove(&path, recursive).await?,
            SyncRequest::Mkdir { path } => {
                let root = self.root()?;
                let handle = borrowed(&root);
                let done = self.view.create_directory_at(handle, relative(&path)).await;
                self.close(root)?;
                done.map_err(|error| self.fault(&path, error))?;
            }
            SyncRequest::Rename { path, to } => {
                let (from, into) = (self.root()?, self.root()?);
                let (old, new) = (borrowed(&from), borrowed(&into));
                let names = (relative(&path), relative(&to));
                let done = self.view.rename_at(old, names.0, new, names.1).await;
                self.close(from)?;
                self.close(into)?;
                done.map_err(|error| self.fault(&path, error))?;
            }
            _ => return Err(ScriptFileError::Code(String::new(), ErrorCode::Invalid)),
        }
        Ok(without_bytes(Value::Null))
    }

    /// Returns the root of the workspace.
    fn root(&mut self) -> Result<Resource<Descriptor>, ScriptFileError> {
        let roots = self.view.get_directories();
        let mut roots = roots.map_err(internal)?.into_iter();
        let root = roots.find(|(_, path)| path == "/");
        let (root, _) = root.ok_or_else(|| ScriptFileError::Reported(not_granted("files")))?;
        Ok(root)
    }

    fn fault(&mut self, path: &str, error: FsError) -> ScriptFileError {
        match error.downcast() {
            Ok(code) => ScriptFileError::Code(path.to_owned(), code),
            Err(error) => internal(error),
        }
    }

    async fn open(
        &mut self,
        path: &str,
        open_flags: OpenFlags,
        access: DescriptorFlags,
    ) -> Result<Resource<Descriptor>, ScriptFileError> {
        let root = self.root()?;
        let (follow, name) = (PathFlags::SYMLINK_FOLLOW, relative(path));
        let handle = borrowed(&root);
        let opened = self
            .view
            .open_at(handle, follow, name, open_flags, access)
            .await;
        self.close(root)?;
        opened.map_err(|error| self.fault(path, error))
    }

    fn close(&mut self, handle: Resource<Descriptor>) -> Result<(), ScriptFileError> {
        HostDescriptor::drop(&mut self.view, handle).map_err(internal)
    }

    async fn stat(&mut self, path: &str, follow: bool) -> Result<DescriptorStat, ScriptFileError> {
        let root = self.root()?;
        let flags = if follow {
            PathFlags::SYMLINK_FOLLOW
        } else {
            PathFlags::empty()
        };
        let (handle, name) = (borrowed(&root), relative(path));
        let stat = self.view.stat_at(handle, flags, name).await;
        self.close(root)?;
        stat.map_err(|error| self.fault(path, error))
    }

    async fn read(&mut self, path: &str) -> Result<Vec<u8>, ScriptFileError> {
        let (open_flags, access) = (OpenFlags::empty(), DescriptorFlags::READ);
        let file = self.open(path, open_flags, access).await?;
        let read = self.contents(path, &file).await;
        self.close(file)?;
        read
    }

    async fn contents(
        &mut self,
        path: &str,
        file: &Resource<Descriptor>,
    ) -> Result<Vec<u8>, ScriptFileError> {
        let mut content = Vec::new();
        loop {
            let at = content.len() as u64;
            let read = self.view.read(borrowed(file), CHUNK_BYTES, at).await;
            let (chunk, end) = read.map_err(|error| self.fault(path, error))?;
            if at + chunk.len() as u64 > self.max_bytes {
                let max_bytes = text::bytes(self.max_bytes);
                let path = text::visible(path);
                let message = format!(
                    "`{path}` is larger than {max_bytes}, the limit for one read of a script (limits.outputBytes)"
                );
                return Err(ScriptFileError::Reported(ToolError::new(
                    ToolErrorCode::LimitExceeded,
                    message,
                )));
            }
            let is_end = end || chunk.is_empty();
            content.extend(chunk);
            if is_end {
                return Ok(content);
            }
        }
    }

    async fn write(
        &mut self,
        path: &str,
        bytes: &[u8],
        mode: WriteMode,
    ) -> Result<(), ScriptFileError> {
        let access = DescriptorFlags::WRITE;
        let file = self.open(path, mode.flags(), access).await?;
        let start = match mode {
            WriteMode::Append => match self.stat(path, true).await {
                Ok(stat) => stat.size,
                Err(fault) => {
                    self.close(file)?;
                    return Err(fault);
                }
            },
            WriteMode::Replace | WriteMode::Create => 0,
        };
        let mut at = 0;
        let written = loop {
            let chunk = &bytes[at..bytes.len().min(at + CHUNK_BYTES as usize)];
            if chunk.is_empty() {
                break Ok(());
            }
            let to = start + at as u64;
            match self.view.write(borrowed(&file), chunk.to_vec(), to).await {
                Ok(0) => break Err(ScriptFileError::Code(path.to_owned(), ErrorCode::Io)),
                Ok(count) => {
                    at += usize::try_from(count)
                        .unwrap_or(chunk.len())
                        .min(chunk.len())
                }
                Err(error) => break Err(self.fault(path, error)),
            }
        };
        self.close(file)?;
        written
    }

    async fn list(&mut self, path: &str) -> Result<Vec<(String, DescriptorType)>, ScriptFileError> {
        let (open_flags, access) = (OpenFlags::DIRECTORY, DescriptorFlags::READ);
        let folder = self.open(path, open_flags, access).await?;
        let opened = self.view.read_directory(borrowed(&folder)).await;
        let mut entries = Vec::new();
        let read = match opened {
            Err(error) => Err(self.fault(path, error)),
            Ok(stream) => {
                let read = loop {
                    let handle = Resource::new_borrow(stream.rep());
                    match self.view.read_directory_entry(handle).await {
                        Ok(Some(entry)) => entries.push((entry.name, entry.type_)),
                        Ok(None) => break Ok(()),
                        Err(error) => break Err(self.fault(path, error)),
                    }
                };
                HostDirectoryEntryStream::drop(&mut self.view, stream).map_err(internal)?;
                read
            }
        };
        self.close(folder)?;
        read.map(|()| entries)
    }

    /// Creates a folder, and its missing parents.
    async fn make_dirs(&mut self, path: &str) -> Result<(), ScriptFileError> {
        let full_path = relative(path);
        let mut created = String::new();
        for name in full_path.split('/').filter(|name| !name.is_empty()) {
            if !created.is_empty() {
                created.push('/');
            }
            created.push_str(name);
            let root = self.root()?;
            let done = self
                .view
                .create_directory_at(borrowed(&root), created.clone())
                .await;
            self.close(root)?;
            match done.map_err(|error| self.fault(&created, error)) {
                Ok(()) => {}
                Err(ScriptFileError::Code(_, ErrorCode::Exist))
                    if self.stat(&created, true).await?.type_ == DescriptorType::Directory => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    async fn remove(&mut self, path: &str, recursive: bool) -> Result<(), ScriptFileError> {
        let full_path = relative(path);
        if self.stat(&full_path, false).await?.type_ != DescriptorType::Directory {
            return self.remove_one(&full_path, false).await;
        }
        if !recursive {
            return self.remove_one(&full_path, true).await;
        }
        let depth = |path: &str| path.split('/').count();
        let top = depth(&full_path);
        let mut folders = vec![full_path];
        let mut emptied = Vec::new();
        while let Some(folder) = folders.pop() {
            if depth(&folder) - top > MAX_DEPTH {
                return Err(ScriptFileError::Code(folder, ErrorCode::NameTooLong));
            }
            for (name, kind) in self.list(&folder).await? {
                let path = format!("{folder}/{name}");
                match kind {
                    DescriptorType::Directory => folders.push(path),
                    _ => self.remove_one(&path, false).await?,
                }
            }
            emptied.push(folder);
        }
        // In reverse order, so that a folder is removed after its subfolders.
        for folder in emptied.iter().rev() {
            self.remove_one(folder, true).await?;
        }
        Ok(())
    }

    async fn remove_one(&mut self, path: &str, folder: bool) -> Result<(), ScriptFileError> {
        let root = self.root()?;
        let (handle, name) = (borrowed(&root), path.to_owned());
        let done = if folder {
            self.view.remove_directory_at(handle, name).await
        } else {
            self.view.unlink_file_at(handle, name).await
        };
        self.close(root)?;
        done.map_err(|error| self.fault(path, error))
    }
}

fn borrowed(handle: &Resource<Descriptor>) -> Resource<Descriptor> {
    Resource::new_borrow(handle.rep())
}

fn internal(error: wasmtime::Error) -> ScriptFileError {
    ScriptFileError::Reported(ToolError::new(
        ToolErrorCode::Internal,
        format!("{error:#}"),
    ))
}
