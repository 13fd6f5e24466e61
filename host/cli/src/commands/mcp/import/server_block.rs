//! Converts a server block from an agent's settings to mimir's format.
//!
//! Out of scope: expansion of placeholders.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::other_settings;
use super::placeholders::{ExpansionError, PlaceholderExpander, ValueSlot};
use crate::commands::mcp::secret_detection;

/// Origin of a block: the file, and the values to which placeholders refer.
pub struct BlockContext<'a> {
    pub place: &'a str,
    pub own: bool,
    pub inputs: &'a Value,
    pub workspace: &'a Path,
    pub home: Option<&'a Path>,
}

/// Converts a block. On failure, returns the part that was converted and the reason.
pub fn convert_block(
    imported: &Value,
    context: &BlockContext<'_>,
    expander: &mut PlaceholderExpander<'_>,
) -> Result<Value, (Value, String)> {
    let mut block = Map::new();
    let result = convert_fields(imported, context, expander, &mut block);
    let block = Value::Object(block);
    match result {
        Ok(()) => Ok(block),
        Err(why) => Err((block, why)),
    }
}

fn convert_fields(
    imported: &Value,
    context: &BlockContext<'_>,
    expander: &mut PlaceholderExpander<'_>,
    block: &mut Map<String, Value>,
) -> Result<(), String> {
    let Some(fields) = imported.as_object() else {
        return Err("its block is not an object".to_owned());
    };
    for hint in other_settings::convert_other_settings(fields, expander.server, block) {
        expander.add_hint(hint);
    }
    let mut insert = |key: &str, value: Value| {
        let empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            block.insert(key.to_owned(), value);
        }
    };
    let mut command_line = Vec::new();
    let cwd = match imported["cwd"].as_str() {
        Some(cwd) => {
            let cwd = expand_readable(expander, "cwd", cwd)?;
            Some(cwd.strip_prefix("./").unwrap_or(&cwd).to_owned())
        }
        None => None,
    };
    if cwd.as_deref().is_some_and(|cwd| cwd != ".") {
        expander.here = context.workspace.display().to_string();
    }
    expander.uses_here = false;
    if let Some(program) = imported["command"].as_str() {
        let program = expand_readable(expander, "command", program)?;
        command_line.push(program.clone());
        insert("command", program.clone().into());
        if downloads_on_start(&program) {
            expander.add_hint(format!(
                "`{program}` downloads the server at each start, but the sandbox has no network: `mimir mcp install {}` downloads it once and pins it",
                expander.server
            ));
        }
    }
    match imported["args"].as_array() {
        Some(args) => {
            let each = args.iter().map(|arg| match arg.as_str() {
                Some(arg) => expand_readable(expander, "args", arg).map(Value::from),
                None => Ok(arg.clone()),
            });
            let args = each.collect::<Result<Vec<Value>, String>>()?;
            command_line.extend(args.iter().filter_map(Value::as_str).map(str::to_owned));
            insert("args", args.into());
        }
        None => insert("args", imported["args"].clone()),
    }
    if secret_detection::words_have_secret(command_line.iter().map(String::as_str)) {
        return Err(open_secret("args", "`env`"));
    }
    let mut environment = match imported["envFile"].as_str() {
        Some(file) => expander.read_env_file(file, context.own)?,
        None => Map::new(),
    };
    environment.extend(imported["env"].as_object().cloned().unwrap_or_default());
    for name in imported["env_vars"].as_array().into_iter().flatten() {
        if let Some(name) = name.as_str() {
            environment.insert(name.to_owned(), format!("${{{name}}}").into());
        }
    }
    insert(
        "env",
        expander.expand_values(&environment, |name| ValueSlot::Variable(name))?,
    );
    let is_relative = expander.uses_here && expander.here == ".";
    match cwd {
        Some(cwd) => insert("cwd", cwd.into()),
        // The expanded paths are relative to the workspace.
        None if is_relative && imported["command"].is_string() => insert("cwd", ".".into()),
        None => {}
    }
    expander.here = context.workspace.display().to_string();
    if let Some(url) = imported["url"].as_str() {
        let url = expand_readable(expander, "url", url)?;
        let is_secret = secret_detection::text_has_secret(&url);
        insert("url", url.into());
        if is_secret {
            return Err(open_secret("url", "a header"));
        }
    }
    let headers = match imported.get("headers") {
        Some(headers) => headers,
        None => &imported["http_headers"],
    };
    let mut headers = headers.as_object().cloned().unwrap_or_default();
    let named = imported["env_http_headers"]
        .as_object()
        .into_iter()
        .flatten();
    for (header, name) in named {
        if let Some(name) = name.as_str() {
            headers.insert(header.clone(), format!("${{{name}}}").into());
        }
    }
    if let Some(name) = imported["bearer_token_env_var"].as_str() {
        let bearer = format!("Bearer ${{{name}}}");
        headers.insert("Authorization".to_owned(), bearer.into());
    }
    insert(
        "headers",
        expander.expand_values(&headers, |name| ValueSlot::Header(name))?,
    );
    if imported["disabled"] == true || imported["enabled"] == false {
        insert("enabled", json!(false));
    }
    if imported["type"] == "sse" {
        Err("its transport (SSE) is deprecated and not supported".to_owned())
    } else {
        Ok(())
    }
}

/// Expands the placeholders of a value that other programs can read, and that must not contain a secret.
fn expand_readable(
    expander: &mut PlaceholderExpander<'_>,
    key: &str,
    text: &str,
) -> Result<String, String> {
    expander
        .expand(text, ValueSlot::Open(key))
        .map_err(|error| match error {
            ExpansionError::Fault(why) => why,
            // A required value cannot be left out.
            ExpansionError::Out => format!("its `{key}` cannot be read"),
        })
}

/// Returns the error about a plain-text secret that other programs could read. `location` is a safe one.
fn open_secret(key: &str, location: &str) -> String {
    format!(
        "its `{key}` contains a plain-text secret that other programs could read: if the server supports it, pass the secret in {location} as `${{NAME}}`; `mimir mcp add` adds the server unchanged"
    )
}

/// Returns true if a program downloads the code that it runs, such as `npx`.
fn downloads_on_start(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.split('.').next().unwrap_or(name);
    matches!(
        name,
        "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "docker" | "podman"
    )
}
