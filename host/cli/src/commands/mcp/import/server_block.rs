//! Converts an agent's server block to ours.
//!
//! Out of scope: resolving placeholders.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::other_settings;
use super::placeholders::{ExpansionError, PlaceholderExpander, ValueSlot};
use crate::commands::mcp::secret_detection;

/// Position of a block.
pub struct BlockContext<'a> {
    pub place: &'a str,
    pub own: bool,
    pub inputs: &'a Value,
    pub workspace: &'a Path,
    pub home: Option<&'a Path>,
}

/// Converts a block, or returns the part that was read and the reason why it cannot be imported.
pub fn convert_block(
    theirs: &Value,
    from: &BlockContext<'_>,
    words: &mut PlaceholderExpander<'_>,
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
    from: &BlockContext<'_>,
    words: &mut PlaceholderExpander<'_>,
    block: &mut Map<String, Value>,
) -> Result<(), String> {
    let Some(all) = theirs.as_object() else {
        return Err("its block is not an object".to_owned());
    };
    for hint in other_settings::convert_other_settings(all, words.server, block) {
        words.add_hint(hint);
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
            words.add_hint(format!(
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
    if secret_detection::words_have_secret(line.iter().map(String::as_str)) {
        return Err(open_secret("args", "`env`"));
    }
    let mut given = match theirs["envFile"].as_str() {
        Some(file) => words.read_env_file(file, from.own)?,
        None => Map::new(),
    };
    given.extend(theirs["env"].as_object().cloned().unwrap_or_default());
    for name in theirs["env_vars"].as_array().into_iter().flatten() {
        if let Some(name) = name.as_str() {
            given.insert(name.to_owned(), format!("${{{name}}}").into());
        }
    }
    put(
        "env",
        words.expand_values(&given, |name| ValueSlot::Variable(name))?,
    );
    let from_here = words.is_here && words.here == ".";
    match cwd {
        Some(cwd) => put("cwd", cwd.into()),
        // Relative paths refer to that folder.
        None if from_here && theirs["command"].is_string() => put("cwd", ".".into()),
        None => {}
    }
    words.here = from.workspace.display().to_string();
    if let Some(url) = theirs["url"].as_str() {
        let url = open(words, "url", url)?;
        let is_secret = secret_detection::text_has_secret(&url);
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
    put(
        "headers",
        words.expand_values(&headers, |name| ValueSlot::Header(name))?,
    );
    if theirs["disabled"] == true || theirs["enabled"] == false {
        put("enabled", json!(false));
    }
    match theirs["type"] == "sse" {
        true => Err("its transport (SSE) is deprecated and not supported".to_owned()),
        false => Ok(()),
    }
}

/// Converts a text that is not secret.
fn open(words: &mut PlaceholderExpander<'_>, key: &str, text: &str) -> Result<String, String> {
    words
        .expand(text, ValueSlot::Open(key))
        .map_err(|left| match left {
            ExpansionError::Fault(why) => why,
            // A missing value is an error here.
            ExpansionError::Out => format!("its `{key}` cannot be read"),
        })
}

/// Reason why a secret is not imported into a public place.
fn open_secret(key: &str, place: &str) -> String {
    format!(
        "its `{key}` has a plain-text secret in a readable place: pass it to the server in {place}, if supported, as `${{NAME}}`; `mimir mcp add` adds it to the settings as it is"
    )
}

/// Returns true if a program downloads the code that it runs.
fn fetches(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.split('.').next().unwrap_or(name);
    matches!(
        name,
        "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "docker" | "podman"
    )
}
