//! Source code that runs in WebAssembly: the languages of `run_code`, each with the engine that runs it.
//!
//! Python and bash are engines for whole programs. JavaScript runs on the script engine, as a script whose console is
//! its stdout.
//!
//! Out of scope: the choice of the sandbox, and the permission to run the code.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::backend::{BoxFuture, Usage};
use mimir_core::code::{Engine, Language, Ran, Snippet};
use mimir_core::command::{Captured, Finished};
use mimir_core::{Approved, Code, ToolError, text};
use mimir_wasm::program::{Done, Program, ProgramEngine, ProgramParts};
use mimir_wasm::script::{EngineParts, Loaded, ScriptEngine, ScriptState};
use mimir_wasm::{HostError, WasmHost};
use serde_json::json;

use crate::compile::{self, Compiled, Fault};

/// The file name of the code in messages.
const PLACE: &str = "main.js";

/// The engine parts that the binary ships with.
#[derive(Debug, Clone, Copy)]
pub struct Engines {
    /// Parts of the script engine.
    pub javascript: EngineParts,
    /// Parts of the Python engine.
    pub python: ProgramParts,
    /// Parts of the bash engine.
    pub bash: ProgramParts,
}

/// The engines of all languages, each created on first use.
pub struct CodeEngines {
    pub(crate) python: Arc<ProgramEngine>,
    pub(crate) bash: Arc<ProgramEngine>,
    javascript: Arc<ScriptEngine>,
    state: ScriptState,
}

impl CodeEngines {
    /// Creates the engines from their parts.
    pub fn new(host: Arc<WasmHost>, engines: Engines) -> Arc<Self> {
        let python = ProgramEngine::new(Arc::clone(&host), engines.python);
        let shell =
            ProgramEngine::with_python(Arc::clone(&host), engines.bash, Arc::clone(&python));
        Arc::new(Self {
            python,
            bash: shell,
            javascript: ScriptEngine::new(host, engines.javascript, compile::late),
            state: ScriptState::default(),
        })
    }

    /// Returns the script engine.
    pub(crate) fn scripts(&self) -> &Arc<ScriptEngine> {
        &self.javascript
    }

    /// Prepares the engine of a language, so that the first call does not wait for it.
    pub async fn prepare(&self, language: Language) -> Result<(), HostError> {
        match language {
            Language::Python => self.python.prepare().await,
            Language::Bash => self.bash.prepare().await,
            Language::Javascript => self.javascript.prepare().await,
        }
    }

    /// Rejects a working directory that does not exist: the code would start elsewhere.
    fn is_there(&self, snippet: &Snippet) -> Result<(), ToolError> {
        let Some(directory) = &snippet.directory else {
            return Ok(());
        };
        let root = self.javascript.host().workspace().canonicalize();
        let root = root.map_err(|error| {
            let message = format!("the workspace cannot be found: {error}");
            ToolError::new(Code::Unavailable, message)
        })?;
        let folder = root.join(directory.trim_start_matches('/')).canonicalize();
        match folder {
            Ok(folder) if folder.is_dir() && folder.starts_with(&root) => Ok(()),
            _ => {
                let directory = text::visible(directory);
                let message =
                    format!("`workdir`: `{directory}` is not a directory in the workspace");
                Err(ToolError::new(Code::InvalidInput, message))
            }
        }
    }

    async fn javascript(&self, call: &Approved, snippet: &Snippet) -> Done {
        let compiled = match compiled(call, &snippet.code).await {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(fault)) if fault.code == Code::InvalidInput => {
                let Fault {
                    message,
                    line,
                    column,
                    ..
                } = fault;
                let said = format!("{PLACE}:{line}:{column}\nSyntaxError: {message}\n");
                return faulty(&said);
            }
            Ok(Err(fault)) => {
                let Fault {
                    message,
                    line,
                    column,
                    code,
                } = fault;
                let message = format!("{PLACE}:{line}:{column}: {message}");
                return ToolError::new(code, message).into();
            }
            Err(error) => return error.into(),
        };
        let given = json!({
            "args": snippet.arguments,
            "env": snippet.environment.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "stdin": String::from_utf8_lossy(&snippet.stdin),
            "folder": snippet.directory.as_deref().unwrap_or_default(),
            "main": PLACE,
        });
        let given = (&given, Some(snippet.timeout));
        let Compiled { code, map, .. } = compiled;
        let loaded = Loaded::first(PLACE, &code, map);
        let engine = &self.javascript;
        engine
            .program(call, &code, given, &self.state, loaded)
            .await
    }
}

impl Engine for CodeEngines {
    fn languages(&self) -> &[Language] {
        &Language::ALL
    }

    fn lacks(&self, language: Language) -> &'static str {
        match language {
            Language::Python => {
                "only the standard library, no packages (without curses, ensurepip, fcntl, grp, idlelib, lzma, mmap, \
                 multiprocessing, pty, pwd, readline, resource, ssl, syslog, termios, tkinter, tty, turtle, turtledemo and \
                 venv; bz2 and ctypes can be imported and fail when used), no processes or sockets, threads run one after \
                 the other, sqlite3 without WAL and with a file locked for one connection at a time, errno has the numbers \
                 of WASI"
            }
            Language::Bash => {
                "only the built-in commands (coreutils, grep, sed, awk, jq, find, tar, python3), no programs of the machine"
            }
            Language::Javascript => {
                "Node's assert, buffer, crypto (hashes, HMAC, random), events, fs, os, path, process, querystring, readline, \
                 stream, string_decoder, timers, url, util and zlib, and the workspace's own files by import or require; \
                 no npm packages, no http, net, child_process or worker_threads (fetch where a tool was granted hosts)"
            }
        }
    }

    fn run<'a>(&'a self, call: &'a Approved, snippet: &'a Snippet) -> BoxFuture<'a, Ran> {
        Box::pin(async move {
            if let Err(error) = self.is_there(snippet) {
                return error.into();
            }
            let engine = match snippet.language {
                Language::Python => &self.python,
                Language::Bash => &self.bash,
                Language::Javascript => {
                    let done = self.javascript(call, snippet).await;
                    return Ran {
                        result: done.result,
                        usage: done.usage,
                        session: None,
                    };
                }
            };
            let program = Program {
                code: snippet.code.clone(),
                arguments: snippet.arguments.clone(),
                environment: snippet.environment.clone(),
                stdin: snippet.stdin.clone(),
                directory: snippet.directory.clone(),
                timeout: Some(snippet.timeout),
                imports: true,
                keeps: true,
                ..Program::default()
            };
            let (done, session) = match &snippet.session {
                // Only Python has sessions: the request was checked for that.
                Some(name) => engine.in_session(call, name, program, &self.state).await,
                None => (engine.run(call, program, &self.state).await, None),
            };
            Ran {
                result: done.result,
                usage: done.usage,
                session,
            }
        })
    }
}

/// Compiles a program within the deadline of its call, on a blocking thread so that it delays no other task.
async fn compiled(call: &Approved, code: &str) -> Result<Result<Compiled, Fault>, ToolError> {
    let code = code.to_owned();
    let work = std::pin::pin!(tokio::task::spawn_blocking(move || {
        // The first fault is the one at which the engine would stop.
        compile::program(&code).map_err(|mut faults| faults.swap_remove(0))
    }));
    match call.deadline().bound(work).await {
        Ok(Ok(compiled)) => Ok(compiled),
        Ok(Err(error)) => {
            let message = format!("the code could not be compiled: {error}");
            Err(ToolError::new(Code::Internal, message))
        }
        Err(_) => {
            let millis = call.limits().wall.as_millis();
            let message =
                format!("compilation exceeded its time limit of {millis} ms (limits.timeMs)");
            Err(ToolError::new(Code::Timeout, message))
        }
    }
}

/// The result for code that does not compile, in the form in which an interpreter would report it.
fn faulty(message: &str) -> Done {
    let said = Captured {
        bytes: message.as_bytes().to_vec(),
        missing: 0,
    };
    Done {
        result: Ok(Finished {
            exit_code: 1,
            stdout: Captured::default(),
            stderr: said.clone(),
            combined: said,
            duration: Duration::ZERO,
            obeyed: Vec::new(),
        }),
        returned: None,
        usage: Usage::default(),
    }
}
