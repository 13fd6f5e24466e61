//! Synchronous requests of the JavaScript engine through the import `host`. File requests use the same file system as
//! asynchronous requests; all other requests only compute.
//!
//! Out of scope: permissions of a script.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::{bufread, write};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Deserialize;
use serde_json::{Value, json};
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::script_files::{self, WriteMode};
use super::stack_trace::LoadedCode;
use crate::store_state::StoreState;

/// Name of the imported interface.
const INTERFACE: &str = "mimir:script/host@1.0.0";

/// Maximum number of random bytes per request; Node has the same limit for `getRandomValues`.
const MAX_RANDOM_BYTES: usize = 65_536;

/// Maximum number of files that one program may load. Each takes a range of line numbers in stack traces.
const MAX_LOADED_FILES: usize = 1_000;

/// The origin of code that a program loads while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LateCode {
    /// A file of the workspace that is required or imported.
    Module,
    /// The argument of `eval`.
    Eval,
}

/// Compiled code and its source map: line and column in the compiled code, line and column in the file, all from 1.
pub type CompiledScript = (String, Vec<[u32; 4]>);

/// Compiles code that a program loads while it runs. The error is a sentence that begins with the position.
pub type ScriptCompiler = fn(code: &str, late: LateCode) -> Result<CompiledScript, String>;

/// A request that is performed synchronously.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) enum SyncRequest {
    Read {
        path: String,
    },
    Write {
        path: String,
        mode: WriteMode,
    },
    List {
        path: String,
    },
    Stat {
        path: String,
        follow: bool,
    },
    Remove {
        path: String,
        recursive: bool,
    },
    Mkdir {
        path: String,
    },
    Rename {
        path: String,
        to: String,
    },
    Hash {
        algorithm: String,
        first: bool,
        last: bool,
    },
    Random {
        count: usize,
    },
    Zlib {
        how: ZlibFormat,
    },
    Compile {
        path: String,
        late: LateCode,
    },
    Trace {
        stack: String,
    },
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ZlibFormat {
    Gzip,
    Gunzip,
    Deflate,
    Inflate,
    DeflateRaw,
    InflateRaw,
}

/// A failure with an errno code and a message.
#[derive(Debug)]
pub(super) struct ErrnoError {
    pub(super) code: &'static str,
    pub(super) why: String,
}

impl ErrnoError {
    fn new(code: &'static str, why: impl Into<String>) -> Self {
        Self {
            code,
            why: why.into(),
        }
    }
}

pub(super) type SyncResult = Result<(Value, Vec<u8>), ErrnoError>;

/// Links the interface.
pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(INTERFACE)?;
    type CompileReply = (Result<(String, Vec<u8>), String>,);
    interface.func_wrap_async(
        "perform",
        |mut store: StoreContextMut<'_, StoreState>, (request, bytes): (String, Vec<u8>)| {
            Box::new(async move {
                let result = match serde_json::from_str(&request) {
                    Ok(request) => perform(store.data_mut(), request, bytes).await,
                    Err(error) => Err(ErrnoError::new("EINVAL", error.to_string())),
                };
                let reply: wasmtime::Result<CompileReply> = Ok((result
                    .map(|(value, bytes)| (value.to_string(), bytes))
                    .map_err(|ErrnoError { code, why }| {
                        json!({ "code": code, "why": why }).to_string()
                    }),));
                reply
            })
        },
    )
}

async fn perform(guest: &mut StoreState, request: SyncRequest, bytes: Vec<u8>) -> SyncResult {
    match request {
        SyncRequest::Hash {
            algorithm,
            first,
            last,
        } => hash(guest, &algorithm, (first, last), &bytes),
        SyncRequest::Random { count } => {
            let mut bytes = vec![0; count.min(MAX_RANDOM_BYTES)];
            let filled = SystemRandom::new().fill(&mut bytes);
            filled.map_err(|_| ErrnoError::new("EIO", "the system returned no random numbers"))?;
            Ok((Value::Null, bytes))
        }
        SyncRequest::Zlib { how } => {
            let max_bytes = guest.max_output;
            let work = tokio::task::spawn_blocking(move || zlib(how, &bytes, max_bytes));
            let done = work.await;
            let done = done.map_err(|error| ErrnoError::new("EIO", error.to_string()))?;
            done.map(|bytes| (Value::Null, bytes))
        }
        SyncRequest::Compile { path, late } => compile(guest, path, late, bytes).await,
        SyncRequest::Trace { stack } => {
            let frames = super::stack_trace::stack_frames(&guest.loaded, &stack);
            Ok((frames.into(), Vec::new()))
        }
        request => script_files::perform_sync(guest, request, bytes).await,
    }
}

/// Hashes a chunk of data and returns the hash after the last chunk. `first` begins a new hash.
fn hash(
    guest: &mut StoreState,
    name: &str,
    (first, last): (bool, bool),
    bytes: &[u8],
) -> SyncResult {
    let algorithm = match name {
        "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => &digest::SHA256,
        "sha384" => &digest::SHA384,
        "sha512" => &digest::SHA512,
        "sha512-256" => &digest::SHA512_256,
        _ => {
            return Err(ErrnoError::new(
                "EINVAL",
                format!("the hash `{name}` is not supported"),
            ));
        }
    };
    let running = if first { None } else { guest.hash.take() };
    let mut context = running.unwrap_or_else(|| digest::Context::new(algorithm));
    context.update(bytes);
    if last {
        return Ok((Value::Null, context.finish().as_ref().to_vec()));
    }
    guest.hash = Some(context);
    Ok((Value::Null, Vec::new()))
}

fn zlib(format: ZlibFormat, bytes: &[u8], max_bytes: usize) -> Result<Vec<u8>, ErrnoError> {
    let level = Compression::default();
    let convert_error = |done: std::io::Result<Vec<u8>>| {
        done.map_err(|error| ErrnoError::new("EIO", error.to_string()))
    };
    match format {
        ZlibFormat::Gzip => {
            let mut encoder = write::GzEncoder::new(Vec::new(), level);
            convert_error(encoder.write_all(bytes).and_then(|()| encoder.finish()))
        }
        ZlibFormat::Deflate => {
            let mut encoder = write::ZlibEncoder::new(Vec::new(), level);
            convert_error(encoder.write_all(bytes).and_then(|()| encoder.finish()))
        }
        ZlibFormat::DeflateRaw => {
            let mut encoder = write::DeflateEncoder::new(Vec::new(), level);
            convert_error(encoder.write_all(bytes).and_then(|()| encoder.finish()))
        }
        ZlibFormat::Gunzip => decompress(bufread::MultiGzDecoder::new(bytes), max_bytes),
        ZlibFormat::Inflate => decompress(bufread::ZlibDecoder::new(bytes), max_bytes),
        ZlibFormat::InflateRaw => decompress(bufread::DeflateDecoder::new(bytes), max_bytes),
    }
}

/// Decompresses data. Fails if the output exceeds `max_bytes`.
fn decompress(decoder: impl std::io::Read, max_bytes: usize) -> Result<Vec<u8>, ErrnoError> {
    let mut bytes = Vec::new();
    let read = decoder.take(max_bytes as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| ErrnoError::new("Z_DATA_ERROR", error.to_string()))?;
    if bytes.len() > max_bytes {
        let max_bytes = mimir_core::text::bytes(max_bytes as u64);
        let why = format!("the data decompresses to more than {max_bytes} (limits.outputBytes)");
        return Err(ErrnoError::new("ERR_BUFFER_TOO_LARGE", why));
    }
    Ok(bytes)
}

/// Compiles code loaded at run time, and assigns it line numbers after those of all other code.
async fn compile(
    guest: &mut StoreState,
    path: String,
    late: LateCode,
    bytes: Vec<u8>,
) -> SyncResult {
    let Some(compiler) = guest.compiler else {
        return Err(ErrnoError::new(
            "ENOSYS",
            "code is loaded at run time only in programs",
        ));
    };
    if guest.loaded.len() >= MAX_LOADED_FILES {
        let why = format!("a program may load at most {MAX_LOADED_FILES} files and texts");
        return Err(ErrnoError::new("EMFILE", why));
    }
    let code = String::from_utf8_lossy(&bytes).into_owned();
    let work = tokio::task::spawn_blocking(move || compiler(&code, late));
    let result = work.await;
    let result = result.map_err(|error| ErrnoError::new("EIO", error.to_string()))?;
    let (code, map) = result.map_err(|why| ErrnoError::new("SYNTAX", why))?;
    let loaded = LoadedCode::loaded_after(&guest.loaded, path, &code, map);
    let base = loaded.base;
    guest.loaded.push(loaded);
    Ok((json!({ "code": code, "base": base }), Vec::new()))
}
