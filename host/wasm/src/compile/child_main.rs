//! The compiler process: reads a component from stdin, compiles it and writes the code to stdout.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use mimir_core::platform;

use super::compiler::{self, CompileError};
use crate::engine::{EngineMode, MemoryAddressing};
use crate::plugin::MAX_FILE_SIZE;

/// The argument that turns the program into a compiler. The engine's mode, the addressing mode and the memory limit in
/// bytes follow.
pub(super) const ARGUMENT: &str = "__compile-component";

/// Maximum number of compiler threads of the process.
pub(super) const MAX_THREADS: usize = 8;

/// Exit code of a compiler process whose host has ended.
const ABANDONED: i32 = 3;

/// The first byte of each kind of reply.
const CODE: u8 = b'C';
const INVALID: u8 = b'I';
const FAILED: u8 = b'F';

/// The message that the process writes to stdout.
pub(super) enum CompilerReply {
    Code(Vec<u8>),
    Invalid(String),
    Failed(String),
}

impl CompilerReply {
    /// Parses a reply, or returns `None` if it is not valid.
    pub(super) fn parse(mut bytes: Vec<u8>) -> Option<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match bytes.split_first()? {
            (&INVALID, reason) => Some(Self::Invalid(text(reason))),
            (&FAILED, reason) => Some(Self::Failed(text(reason))),
            (&CODE, _) => {
                bytes.remove(0);
                Some(Self::Code(bytes))
            }
            _ => None,
        }
    }

    fn write(&self) -> io::Result<()> {
        let (kind, content) = match self {
            Self::Code(code) => (CODE, code.as_slice()),
            Self::Invalid(reason) => (INVALID, reason.as_bytes()),
            Self::Failed(reason) => (FAILED, reason.as_bytes()),
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(&[kind])?;
        stdout.write_all(content)?;
        stdout.flush()
    }
}

/// Compiles a component and returns the exit code, if a [`ChildCompiler`](super::ChildCompiler) started this process;
/// `None` otherwise. Call it first in `main`:
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     if let Some(exit) = mimir_wasm::run_if_child() {
///         return exit;
///     }
///     // The program itself.
///     std::process::ExitCode::SUCCESS
/// }
/// ```
pub fn run_if_child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let reply = match serve(arguments) {
        Ok(code) => CompilerReply::Code(code),
        Err(CompileError::Invalid(reason)) => CompilerReply::Invalid(reason),
        Err(CompileError::Failed(reason)) => CompilerReply::Failed(reason),
        Err(error) => CompilerReply::Failed(error.to_string()),
    };
    Some(match reply.write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn serve(mut arguments: impl Iterator<Item = OsString>) -> Result<Vec<u8>, CompileError> {
    let failed = |reason: String| CompileError::Failed(reason);
    let mut next = || arguments.next().and_then(|word| word.into_string().ok());
    let mode = next().and_then(|word| EngineMode::parse(&word));
    let addressing = next().and_then(|word| MemoryAddressing::parse(&word));
    let memory = next().and_then(|word| word.parse().ok());
    let (Some(mode), Some(addressing), Some(memory)) = (mode, addressing, memory) else {
        return Err(failed(
            "the process was started with unexpected arguments".to_owned(),
        ));
    };
    // `mimir doctor` names the systems that have no such limit.
    platform::limit_own_memory(memory)
        .map_err(|error| failed(format!("cannot limit the memory: {error}")))?;
    let bytes = read_component().map_err(|error| failed(error.to_string()))?;
    std::thread::spawn(exit_with_host);
    compiler::compile(mode, addressing, &bytes)
}

fn read_component() -> io::Result<Vec<u8>> {
    let mut stdin = io::stdin().lock();
    let mut length = [0; 8];
    stdin.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_FILE_SIZE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    stdin.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Ends the process when its host ends, which closes stdin. The host sends nothing after the component.
fn exit_with_host() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    std::process::exit(ABANDONED);
}
