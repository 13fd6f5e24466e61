//! The WebAssembly engines of the languages of `run_code`.
//!
//! Python and bash have engines for whole programs. JavaScript runs on the script engine, as a script whose console is
//! its stdout.
//!
//! Out of scope: the choice of the sandbox, and the permission to run the code.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::{BoxFuture, ResourceUsage};
use mimir_core::code_language::CodeLanguage;
use mimir_core::command::{CapturedOutput, CommandOutput};
use mimir_core::{Approved, ToolError, ToolErrorCode, text};
use mimir_wasm::fs::{CODE_WITHOUT_UNDO, UndoCopies};
use mimir_wasm::program::{ProgramEngine, ProgramOutcome, ProgramParts, ProgramRequest};
use mimir_wasm::script::{EngineParts, LoadedCode, ScriptEngine, ScriptState};
use mimir_wasm::{WasmHost, WasmHostError};
use serde_json::json;

use crate::compile::{self, CodeFault, CompiledCode};
use crate::run_code::{CodeEngine, CodeResult, CodeSnippet};

/// File name of JavaScript code in messages.
const FILE_NAME: &str = "main.js";

/// The parts of the engines, which are embedded in the binary.
#[derive(Debug, Clone, Copy)]
pub struct LanguageEngineParts {
    /// Parts of the script engine.
    pub javascript: EngineParts,
    /// Parts of the Python engine.
    pub python: ProgramParts,
    /// Parts of the bash engine.
    pub bash: ProgramParts,
}

/// The engines of all languages, each prepared on first use.
pub struct CodeEngines {
    pub(crate) python: Arc<ProgramEngine>,
    pub(crate) bash: Arc<ProgramEngine>,
    javascript: Arc<ScriptEngine>,
    state: ScriptState,
}

impl CodeEngines {
    /// Creates the engines from their parts.
    pub fn new(host: Arc<WasmHost>, engines: LanguageEngineParts) -> Arc<Self> {
        let python = ProgramEngine::new(Arc::clone(&host), engines.python, None);
        let bash = ProgramEngine::new(Arc::clone(&host), engines.bash, Some(Arc::clone(&python)));
        Arc::new(Self {
            python,
            bash,
            javascript: ScriptEngine::new(host, engines.javascript, compile::compile_late),
            state: ScriptState::default(),
        })
    }

    /// Returns the script engine.
    pub(crate) fn scripts(&self) -> &Arc<ScriptEngine> {
        &self.javascript
    }

    /// Prepares the engine of a language, so that the first call does not wait for it.
    pub async fn prepare(&self, language: CodeLanguage) -> Result<(), WasmHostError> {
        match language {
            CodeLanguage::Python => self.python.prepare().await,
            CodeLanguage::Bash => self.bash.prepare().await,
            CodeLanguage::Javascript => self.javascript.prepare().await,
        }
    }

    /// Returns the path of the workspace without links.
    pub(crate) fn workspace_root(&self) -> Result<PathBuf, ToolError> {
        let root = self.javascript.host().workspace().canonicalize();
        root.map_err(|error| {
            let message = format!("the workspace cannot be found: {error}");
            ToolError::new(ToolErrorCode::Unavailable, message)
        })
    }

    /// Rejects a working directory that does not exist, because the code would start in another one.
    fn check_folder(&self, snippet: &CodeSnippet) -> Result<(), ToolError> {
        let Some(directory) = &snippet.directory else {
            return Ok(());
        };
        let root = self.workspace_root()?;
        let folder = root.join(directory.trim_start_matches('/')).canonicalize();
        match folder {
            Ok(folder) if folder.is_dir() && folder.starts_with(&root) => Ok(()),
            _ => {
                let directory = text::visible(directory);
                let message =
                    format!("`workdir`: `{directory}` is not a directory in the workspace");
                Err(ToolError::new(ToolErrorCode::InvalidInput, message))
            }
        }
    }

    async fn run_javascript(&self, call: &Approved, snippet: &CodeSnippet) -> ProgramOutcome {
        let compiled = match compile_in_time(call, &snippet.code).await {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(fault)) => {
                let (at, message) = (fault.position(), &fault.message);
                return match fault.code {
                    ToolErrorCode::InvalidInput => {
                        syntax_error_outcome(&format!("{FILE_NAME}:{at}\nSyntaxError: {message}\n"))
                    }
                    code => ToolError::new(code, format!("{FILE_NAME}:{at}: {message}")).into(),
                };
            }
            Err(error) => return error.into(),
        };
        let given = json!({
            "args": snippet.arguments,
            "env": snippet.environment.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "stdin": String::from_utf8_lossy(&snippet.stdin),
            "folder": snippet.directory.as_deref().unwrap_or_default(),
            "main": FILE_NAME,
        });
        let given = (&given, Some(snippet.timeout));
        let CompiledCode { code, map, .. } = compiled;
        let loaded = LoadedCode::entry_file(FILE_NAME, &code, map);
        let engine = &self.javascript;
        engine
            .run_program(call, &code, given, &self.state, loaded)
            .await
    }
}

impl CodeEngine for CodeEngines {
    fn languages(&self) -> &[CodeLanguage] {
        &CodeLanguage::ALL
    }

    fn lacks(&self, language: CodeLanguage) -> &'static str {
        match language {
            CodeLanguage::Python => {
                "only the standard library, no packages (without curses, ensurepip, fcntl, grp, idlelib, lzma, mmap, \
                 multiprocessing, pty, pwd, readline, resource, ssl, syslog, termios, tkinter, tty, turtle, turtledemo and \
                 venv; bz2 and ctypes can be imported and fail when used), no processes or sockets, threads run one after \
                 the other, sqlite3 without WAL and with a file locked for one connection at a time, errno has the numbers \
                 of WASI"
            }
            CodeLanguage::Bash => {
                "only the built-in commands (coreutils, grep, sed, awk, jq, find, tar, python3), no programs of the machine"
            }
            CodeLanguage::Javascript => {
                "Node's assert, buffer, crypto (hashes, HMAC, random), events, fs, os, path, process, querystring, readline, \
                 stream, string_decoder, timers, url, util and zlib, and the workspace's own files by import or require; \
                 no npm packages, no http, net, child_process or worker_threads (fetch where a tool was granted hosts)"
            }
        }
    }

    fn run<'a>(
        &'a self,
        call: &'a Approved,
        snippet: &'a CodeSnippet,
    ) -> BoxFuture<'a, CodeResult> {
        Box::pin(async move {
            if let Err(error) = self.check_folder(snippet) {
                return error.into();
            }
            let engine = match snippet.language {
                CodeLanguage::Python => &self.python,
                CodeLanguage::Bash => &self.bash,
                CodeLanguage::Javascript => {
                    let outcome = self.run_javascript(call, snippet).await;
                    return CodeResult {
                        result: outcome.result,
                        usage: outcome.usage,
                        session: None,
                    };
                }
            };
            let program = ProgramRequest {
                code: snippet.code.clone(),
                arguments: snippet.arguments.clone(),
                environment: snippet.environment.clone(),
                stdin: snippet.stdin.clone(),
                directory: snippet.directory.clone(),
                timeout: Some(snippet.timeout),
                imports: true,
                undo: UndoCopies::Required(CODE_WITHOUT_UNDO),
                ..ProgramRequest::default()
            };
            let (outcome, session) = match &snippet.session {
                // Only Python has sessions, as checked before.
                Some(name) => {
                    engine
                        .run_in_session(call, name, program, &self.state)
                        .await
                }
                None => (engine.run(call, program, &self.state).await, None),
            };
            CodeResult {
                result: outcome.result,
                usage: outcome.usage,
                session,
            }
        })
    }
}

/// Compiles a program within the deadline of its call, on a blocking thread so that it delays no other task.
async fn compile_in_time(
    call: &Approved,
    code: &str,
) -> Result<Result<CompiledCode, CodeFault>, ToolError> {
    let code = code.to_owned();
    let work = std::pin::pin!(tokio::task::spawn_blocking(move || {
        // Node would also report only the first fault.
        compile::compile_program(&code).map_err(|mut faults| faults.swap_remove(0))
    }));
    match call.deadline().run_until(work).await {
        Ok(Ok(compiled)) => Ok(compiled),
        Ok(Err(error)) => {
            let message = format!("the code could not be compiled: {error}");
            Err(ToolError::new(ToolErrorCode::Internal, message))
        }
        Err(_) => {
            let limits = call.limits();
            let (millis, key) = (limits.wall.as_millis(), limits.wall_setting.key());
            let message = format!("compilation exceeded its time limit of {millis} ms ({key})");
            Err(ToolError::new(ToolErrorCode::Timeout, message))
        }
    }
}

/// Returns the outcome for code that does not compile, in the form of an interpreter's error.
fn syntax_error_outcome(message: &str) -> ProgramOutcome {
    let output = CapturedOutput {
        bytes: message.as_bytes().to_vec(),
        omitted_bytes: 0,
    };
    ProgramOutcome {
        result: Ok(CommandOutput {
            exit_code: 1,
            stdout: CapturedOutput::default(),
            stderr: output.clone(),
            combined: output,
            duration: Duration::ZERO,
            changed_auto_run_files: Vec::new(),
        }),
        returned: None,
        usage: ResourceUsage::default(),
    }
}
