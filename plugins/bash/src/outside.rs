//! Requests of a script to the host: other tools, host programs, Python.

use std::io;
use std::time::Duration;

use bashkit::{Builtin, BuiltinContext, ExecResult, Result, async_trait};
use serde_json::{Value, json};

/// Generated bindings of the interface to the host. After a change of `host/builtins/code`, `.ci/bindings` regenerates
/// the checked-in file, with the feature `generate`.
#[cfg(feature = "generate")]
#[expect(unsafe_code, reason = "written by a generator")]
pub(crate) mod bindings {
    wit_bindgen::generate!({
        path: "../../host/builtins/code",
        world: "engine",
    });
}

/// The checked-in output of the generator.
#[cfg(not(feature = "generate"))]
#[expect(
    unsafe_code,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    reason = "written by a generator"
)]
pub(crate) mod bindings {
    include!("bindings/engine.rs.in");
}

pub use bindings::Guest;
pub(crate) use bindings::export;
use bindings::mimir;

/// Bit of the status that marks a failed request.
const ERROR_FLAG: u64 = 1 << 32;

/// Sends a request to the host and returns its response, or the message of its error.
pub fn call_host(request: &Value) -> std::result::Result<Value, String> {
    let status = mimir::code::outside::ask(request.to_string().as_bytes(), -1);
    let response = mimir::code::outside::take();
    let response = String::from_utf8_lossy(&response);
    let parsed: Value = serde_json::from_str(&response).unwrap_or(Value::Null);
    if status & ERROR_FLAG == 0 {
        return Ok(parsed);
    }
    let message = parsed["message"].as_str();
    Err(message.unwrap_or(&response).to_owned())
}

/// `sleep`: the shell's own version blocks the host thread.
pub struct Sleep;

#[async_trait]
impl Builtin for Sleep {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let mut seconds = 0.0;
        for word in ctx.args {
            let (number, unit) = match word.chars().next_back() {
                Some('s') => (&word[..word.len() - 1], 1.0),
                Some('m') => (&word[..word.len() - 1], 60.0),
                Some('h') => (&word[..word.len() - 1], 3600.0),
                Some('d') => (&word[..word.len() - 1], 86400.0),
                _ => (word.as_str(), 1.0),
            };
            match number.parse::<f64>() {
                Ok(number) if number >= 0.0 => seconds += number * unit,
                _ => {
                    let message = format!("sleep: invalid time interval '{word}'\n");
                    return Ok(ExecResult::err(message, 1));
                }
            }
        }
        if ctx.args.is_empty() {
            return Ok(ExecResult::err("sleep: missing operand\n".to_owned(), 1));
        }
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        tokio::time::sleep(time).await;
        Ok(ExecResult::ok(String::new()))
    }
}

/// `python3`: runs Python on its own engine, with the files of this script.
pub struct Python;

#[async_trait]
impl Builtin for Python {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let stdin = ctx.stdin.map(|data| data.to_string());
        let mut args = ctx.args.iter();
        let (code, rest): (String, Vec<&String>) = match args.next().map(String::as_str) {
            Some("-c") => match args.next() {
                Some(code) => (code.clone(), args.collect()),
                None => {
                    let message = "python3: argument expected for the -c option\n".to_owned();
                    return Ok(ExecResult::err(message, 2));
                }
            },
            None | Some("-") => {
                // The program is read from stdin, so its own stdin is empty.
                let code = stdin.clone().unwrap_or_default();
                return Ok(exec_result(call_host(&python_request(
                    &code,
                    &args.collect::<Vec<_>>(),
                    "",
                    &ctx,
                ))));
            }
            Some("-V" | "--version") => {
                let code = "import sys; print('Python', sys.version.split()[0])".to_owned();
                (code, Vec::new())
            }
            Some(flag) if flag.starts_with('-') => {
                let message =
                    format!("python3: `{flag}` is not supported here; use -c, a file or stdin\n");
                return Ok(ExecResult::err(message, 2));
            }
            Some(file) => {
                let path = ctx.cwd.join(file);
                match ctx.fs.read_file(&path).await {
                    Ok(bytes) => (String::from_utf8_lossy(&bytes).into_owned(), args.collect()),
                    Err(_) => {
                        let message = format!(
                            "python3: can't open file '{}': [Errno 2] No such file or directory\n",
                            path.display()
                        );
                        return Ok(ExecResult::err(message, 2));
                    }
                }
            }
        };
        let stdin = stdin.unwrap_or_default();
        Ok(exec_result(call_host(&python_request(
            &code, &rest, &stdin, &ctx,
        ))))
    }
}

fn python_request(code: &str, args: &[&String], stdin: &str, ctx: &BuiltinContext<'_>) -> Value {
    json!({
        "kind": "run",
        "language": "python",
        "code": code,
        "args": args,
        "stdin": stdin,
        "env": ctx.env.iter().collect::<Vec<_>>(),
        "cwd": ctx.cwd,
    })
}

/// Converts the result of a program to the result of a shell command.
fn exec_result(response: std::result::Result<Value, String>) -> ExecResult {
    match response {
        Ok(response) => {
            let code = response["exitCode"].as_i64().unwrap_or(1);
            let text = |key: &str| response[key].as_str().unwrap_or_default().to_owned();
            let mut result = ExecResult::ok(text("stdout"));
            result.stderr = text("stderr").into();
            result.exit_code = i32::try_from(code).unwrap_or(1);
            result
        }
        Err(message) => ExecResult::err(format!("{message}\n"), 126),
    }
}

/// `mimir NAME [JSON]`: calls another tool through the pipeline.
pub struct Tool;

#[async_trait]
impl Builtin for Tool {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let Some(name) = ctx.args.first() else {
            let message = "usage: mimir TOOL [JSON arguments]\n".to_owned();
            return Ok(ExecResult::err(message, 2));
        };
        let written = ctx.args.get(1).map_or("{}", String::as_str);
        let Ok(arguments) = serde_json::from_str::<Value>(written) else {
            let message =
                "mimir: the arguments are not valid JSON: expected one JSON object\n".to_owned();
            return Ok(ExecResult::err(message, 2));
        };
        let request = json!({ "kind": "call", "name": name, "args": arguments });
        Ok(match call_host(&request) {
            Ok(response) => {
                let mut output = response["output"].as_str().unwrap_or_default().to_owned();
                if !output.is_empty() && !output.ends_with('\n') {
                    output.push('\n');
                }
                ExecResult::ok(output)
            }
            Err(message) => ExecResult::err(format!("mimir: {message}\n"), 1),
        })
    }
}

/// `mimir-exec PROGRAM [ARG]…`: runs a host program through the pipeline, in the sandbox.
pub struct Execute;

#[async_trait]
impl Builtin for Execute {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let Some((program, args)) = ctx.args.split_first() else {
            let message = "usage: mimir-exec PROGRAM [ARG]...\n".to_owned();
            return Ok(ExecResult::err(message, 2));
        };
        let directory = ctx.cwd.strip_prefix(crate::run::WORKSPACE).ok();
        let request = json!({
            "kind": "execute",
            "command": program,
            "args": args,
            "cwd": directory,
            "timeout": null,
            "env": [],
            "stdin": ctx.stdin.map(|data| data.to_string()),
        });
        Ok(exec_result(call_host(&request)))
    }
}

/// Reads all of stdin.
pub fn stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::stdin(), &mut bytes)?;
    Ok(bytes)
}

/// `mimir-log LEVEL MESSAGE…`: writes a line to the log.
pub struct Log;

#[async_trait]
impl Builtin for Log {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let Some((level, words)) = ctx.args.split_first() else {
            let message = "usage: mimir-log debug|info|warn|error MESSAGE...\n".to_owned();
            return Ok(ExecResult::err(message, 2));
        };
        let request = json!({ "kind": "log", "level": level, "message": words.join(" ") });
        Ok(silent_result("mimir-log", call_host(&request)))
    }
}

/// `mimir-progress DONE [TOTAL [MESSAGE…]]`: reports progress.
pub struct Progress;

#[async_trait]
impl Builtin for Progress {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let number = |at: usize| ctx.args.get(at).and_then(|word| word.parse::<u64>().ok());
        let Some(done) = number(0) else {
            let message = "usage: mimir-progress DONE [TOTAL [MESSAGE...]]\n".to_owned();
            return Ok(ExecResult::err(message, 2));
        };
        let words = ctx.args.get(2..).unwrap_or_default();
        let message = (!words.is_empty()).then(|| words.join(" "));
        let request =
            json!({ "kind": "progress", "done": done, "total": number(1), "message": message });
        Ok(silent_result("mimir-progress", call_host(&request)))
    }
}

/// `mimir-storage get|set|delete|keys …`: texts that the tool stores between calls.
pub struct Storage;

#[async_trait]
impl Builtin for Storage {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let words: Vec<&str> = ctx.args.iter().map(String::as_str).collect();
        let request = match words.as_slice() {
            ["get", key] => json!({ "kind": "keep", "how": "get", "key": key }),
            ["set", key, value] => {
                json!({ "kind": "keep", "how": "set", "key": key, "value": value })
            }
            ["delete", key] => json!({ "kind": "keep", "how": "delete", "key": key }),
            ["keys"] => json!({ "kind": "keep", "how": "keys", "prefix": "" }),
            ["keys", prefix] => json!({ "kind": "keep", "how": "keys", "prefix": prefix }),
            _ => {
                let message =
                    "usage: mimir-storage get KEY | set KEY TEXT | delete KEY | keys [PREFIX]\n";
                return Ok(ExecResult::err(message.to_owned(), 2));
            }
        };
        let response = match call_host(&request) {
            Ok(response) => response,
            Err(message) => return Ok(ExecResult::err(format!("mimir-storage: {message}\n"), 2)),
        };
        Ok(match (words[0], response) {
            ("get", response) => match response.get("value") {
                Some(Value::String(text)) => ExecResult::ok(format!("{text}\n")),
                Some(other) => ExecResult::ok(format!("{other}\n")),
                // Exit code 1 for a missing key, like `grep` without a match.
                None => ExecResult::err(String::new(), 1),
            },
            ("keys", Value::Array(keys)) => {
                let lines = keys.iter().filter_map(Value::as_str);
                ExecResult::ok(lines.map(|key| format!("{key}\n")).collect::<String>())
            }
            _ => ExecResult::ok(String::new()),
        })
    }
}

fn silent_result(name: &str, response: std::result::Result<Value, String>) -> ExecResult {
    match response {
        Ok(_) => ExecResult::ok(String::new()),
        Err(message) => ExecResult::err(format!("{name}: {message}\n"), 1),
    }
}

/// `mimir-fetch URL [METHOD]`: sends a request with stdin as its body through the pipeline. Prints the body of the
/// response; fails with exit code 22 if its status is 400 or more, as `curl -f` does.
pub struct Fetch;

#[async_trait]
impl Builtin for Fetch {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let Some(url) = ctx.args.first() else {
            let message = "usage: mimir-fetch URL [METHOD]\n".to_owned();
            return Ok(ExecResult::err(message, 2));
        };
        let method = ctx.args.get(1).map_or("GET", String::as_str);
        let request = json!({
            "kind": "fetch",
            "url": url,
            "method": method,
            "headers": [],
            "text": ctx.stdin.map(|data| data.to_string()),
        });
        Ok(match call_host(&request) {
            Ok(response) => {
                let body = response["text"].as_str().unwrap_or_default().to_owned();
                let status = response["status"].as_u64().unwrap_or_default();
                let mut result = ExecResult::ok(body);
                if status >= 400 {
                    result.exit_code = 22;
                    result.stderr = format!("mimir-fetch: status {status}\n").into();
                }
                result
            }
            Err(message) => ExecResult::err(format!("mimir-fetch: {message}\n"), 1),
        })
    }
}
