//! A block of an agent as one of ours.
//!
//! Never here: what words in it stand for.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::left;
use super::words::{Left, Place, Words};
use crate::commands::mcp::secret;

/// Where a block stands.
pub struct From<'a> {
    pub place: &'a str,
    pub own: bool,
    pub inputs: &'a Value,
    pub workspace: &'a Path,
    pub home: Option<&'a Path>,
}

/// A block of theirs as one of ours, or as far as it was read and why it is not taken.
pub fn ours(
    theirs: &Value,
    from: &From<'_>,
    words: &mut Words<'_>,
) -> Result<Value, (Value, String)> {
    let mut block = Map::new();
    let read = read(theirs, from, words, &mut block);
    let block = Value::Object(block);
    match read {
        Ok(()) => Ok(block),
        Err(why) => Err((block, why)),
    }
}

fn read(
    theirs: &Value,
    from: &From<'_>,
    words: &mut Words<'_>,
    block: &mut Map<String, Value>,
) -> Result<(), String> {
    let Some(all) = theirs.as_object() else {
        return Err("its block is no object".to_owned());
    };
    for hint in left::over(all, words.server, block) {
        words.hint(hint);
    }
    let mut put = |key: &str, value: Value| {
        let empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            block.insert(key.to_owned(), value);
        }
    };
    let mut line = Vec::new();
    let cwd = match theirs["cwd"].as_str() {
        Some(cwd) => {
            let cwd = open(words, "cwd", cwd)?;
            Some(cwd.strip_prefix("./").unwrap_or(&cwd).to_owned())
        }
        None => None,
    };
    if cwd.as_deref().is_some_and(|cwd| cwd != ".") {
        words.here = from.workspace.display().to_string();
    }
    words.is_here = false;
    if let Some(program) = theirs["command"].as_str() {
        let program = open(words, "command", program)?;
        line.push(program.clone());
        put("command", program.clone().into());
        if fetches(&program) {
            words.hint(format!(
                "`{program}` downloads the server each time it starts, and the sandbox has no network: `mimir mcp install {}` downloads it once, and pins it",
                words.server
            ));
        }
    }
    match theirs["args"].as_array() {
        Some(args) => {
            let each = args.iter().map(|arg| match arg.as_str() {
                Some(arg) => open(words, "args", arg).map(Value::from),
                None => Ok(arg.clone()),
            });
            let args = each.collect::<Result<Vec<Value>, String>>()?;
            line.extend(args.iter().filter_map(Value::as_str).map(str::to_owned));
            put("args", args.into());
        }
        None => put("args", theirs["args"].clone()),
    }
    if secret::in_words(line.iter().map(String::as_str)) {
        return Err(open_secret("args", "`env`"));
    }
    let mut given = match theirs["envFile"].as_str() {
        Some(file) => words.file(file, from.own)?,
        None => Map::new(),
    };
    given.extend(theirs["env"].as_object().cloned().unwrap_or_default());
    for name in theirs["env_vars"].as_array().into_iter().flatten() {
        if let Some(name) = name.as_str() {
            given.insert(name.to_owned(), format!("${{{name}}}").into());
        }
    }
    put("env", words.all(&given, |name| Place::Variable(name))?);
    let from_here = words.is_here && words.here == ".";
    match cwd {
        Some(cwd) => put("cwd", cwd.into()),
        // What stands there is meant from there.
        None if from_here && theirs["command"].is_string() => put("cwd", ".".into()),
        None => {}
    }
    words.here = from.workspace.display().to_string();
    if let Some(url) = theirs["url"].as_str() {
        let url = open(words, "url", url)?;
        let is_secret = secret::is_in_text(&url);
        put("url", url.into());
        if is_secret {
            return Err(open_secret("url", "a header"));
        }
    }
    let headers = match theirs.get("headers") {
        Some(headers) => headers,
        None => &theirs["http_headers"],
    };
    let mut headers = headers.as_object().cloned().unwrap_or_default();
    let named = theirs["env_http_headers"].as_object().into_iter().flatten();
    for (header, name) in named {
        if let Some(name) = name.as_str() {
            headers.insert(header.clone(), format!("${{{name}}}").into());
        }
    }
    if let Some(name) = theirs["bearer_token_env_var"].as_str() {
        let bearer = format!("Bearer ${{{name}}}");
        headers.insert("Authorization".to_owned(), bearer.into());
    }
    put("headers", words.all(&headers, |name| Place::Header(name))?);
    if theirs["disabled"] == true || theirs["enabled"] == false {
        put("enabled", json!(false));
    }
    match theirs["type"] == "sse" {
        true => Err("it is of a form of HTTP (SSE) that is not used any more".to_owned()),
        false => Ok(()),
    }
}

/// A text that all may read.
fn open(words: &mut Words<'_>, key: &str, text: &str) -> Result<String, String> {
    words
        .replaced(text, Place::Open(key))
        .map_err(|left| match left {
            Left::Fault(why) => why,
            // What is left out there is a fault.
            Left::Out => format!("its `{key}` cannot be read"),
        })
}

/// Why a secret is not taken where all may read it.
fn open_secret(key: &str, place: &str) -> String {
    format!(
        "its `{key}` has a secret in plain text, and all may read that: give it to the server in {place}, if it takes it there, as `${{NAME}}`; `mimir mcp add` puts it into the settings as it is"
    )
}

/// Whether a program is one that fetches what it runs.
fn fetches(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.split('.').next().unwrap_or(name);
    matches!(
        name,
        "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "docker" | "podman"
    )
}
