//! Synchronous requests of the JavaScript engine: the import `host` of its world, during which the script waits. Files
//! are accessed through the same file system as in asynchronous requests; the rest only computes.
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

/// The import with this function.
const INTERFACE: &str = "mimir:script/host@1.0.0";

/// Maximum number of random bytes per request; Node has the same limit for `getRandomValues`.
const RANDOM: usize = 65_536;

/// Maximum number of files that one program may load. Each has its own lines in the stacks of the engine.
const MODULES: usize = 1_000;

/// The origin of code that a program loads while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LateCode {
    /// A file of the workspace that is required or imported.
    Module,
    /// The argument of `eval`.
    Eval,
}

/// Compiled code, and a map of positions in it to positions in the file: line and column each, all from 1.
pub type CompiledScript = (String, Vec<[u32; 4]>);

/// Compiles such code. The error is a sentence with the position in front.
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

/// The reason of a failure: an errno code, and a message.
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

/// Adds the import.
pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(INTERFACE)?;
    type CompileReply = (Result<(String, Vec<u8>), String>,);
    interface.func_wrap_async(
        "perform",
        |mut store: StoreContextMut<'_, StoreState>, (request, bytes): (String, Vec<u8>)| {
            Box::new(async move {
                let done = match serde_json::from_str(&request) {
                    Ok(request) => perform(store.data_mut(), request, bytes).await,
                    Err(error) => Err(ErrnoError::new("EINVAL", error.to_string())),
                };
                let told: wasmtime::Result<CompileReply> = Ok((done
                    .map(|(value, bytes)| (value.to_string(), bytes))
                    .map_err(|ErrnoError { code, why }| {
                        json!({ "code": code, "why": why }).to_string()
                    }),));
                told
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
            let mut bytes = vec![0; count.min(RANDOM)];
            let filled = SystemRandom::new().fill(&mut bytes);
            filled.map_err(|_| ErrnoError::new("EIO", "the system returned no random numbers"))?;
            Ok((Value::Null, bytes))
        }
        SyncRequest::Zlib { how } => {
            let most = guest.max_output;
            let work = tokio::task::spawn_blocking(move || zlib(how, &bytes, most));
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

/// Hashes a chunk: a hash of several chunks begins with the first and ends with the last.
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
    let begun = if first { None } else { guest.hash.take() };
    let mut context = begun.unwrap_or_else(|| digest::Context::new(algorithm));
    context.update(bytes);
    if last {
        return Ok((Value::Null, context.finish().as_ref().to_vec()));
    }
    guest.hash = Some(context);
    Ok((Value::Null, Vec::new()))
}

fn zlib(how: ZlibFormat, bytes: &[u8], most: usize) -> Result<Vec<u8>, ErrnoError> {
    let level = Compression::default();
    let packed = |done: std::io::Result<Vec<u8>>| {
        done.map_err(|error| ErrnoError::new("EIO", error.to_string()))
    };
    match how {
        ZlibFormat::Gzip => {
            let mut all = write::GzEncoder::new(Vec::new(), level);
            packed(all.write_all(bytes).and_then(|()| all.finish()))
        }
        ZlibFormat::Deflate => {
            let mut all = write::ZlibEncoder::new(Vec::new(), level);
            packed(all.write_all(bytes).and_then(|()| all.finish()))
        }
        ZlibFormat::DeflateRaw => {
            let mut all = write::DeflateEncoder::new(Vec::new(), level);
            packed(all.write_all(bytes).and_then(|()| all.finish()))
        }
        ZlibFormat::Gunzip => unpacked(bufread::MultiGzDecoder::new(bytes), most),
        ZlibFormat::Inflate => unpacked(bufread::ZlibDecoder::new(bytes), most),
        ZlibFormat::InflateRaw => unpacked(bufread::DeflateDecoder::new(bytes), most),
    }
}

/// Reads the output of a decoder, up to the limit for data handed over.
fn unpacked(decoder: impl std::io::Read, most: usize) -> Result<Vec<u8>, ErrnoError> {
    let mut all = Vec::new();
    let read = decoder.take(most as u64 + 1).read_to_end(&mut all);
    read.map_err(|error| ErrnoError::new("Z_DATA_ERROR", error.to_string()))?;
    if all.len() > most {
        let most = mimir_core::text::bytes(most as u64);
        let why = format!("it decompresses to more than {most} (limits.outputBytes)");
        return Err(ErrnoError::new("ERR_BUFFER_TOO_LARGE", why));
    }
    Ok(all)
}

/// Compiles code loaded at run time. Its lines begin where no other code of the program has any.
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
    if guest.loaded.len() >= MODULES {
        let why = format!("a program may load at most {MODULES} files and texts");
        return Err(ErrnoError::new("EMFILE", why));
    }
    let code = String::from_utf8_lossy(&bytes).into_owned();
    let work = tokio::task::spawn_blocking(move || compiler(&code, late));
    let done = work.await;
    let done = done.map_err(|error| ErrnoError::new("EIO", error.to_string()))?;
    let (code, map) = done.map_err(|why| ErrnoError::new("SYNTAX", why))?;
    let one = LoadedCode::loaded_after(&guest.loaded, path, &code, map);
    let base = one.base;
    guest.loaded.push(one);
    Ok((json!({ "code": code, "base": base }), Vec::new()))
}
