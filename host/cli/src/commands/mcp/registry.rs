//! Servers by their name in an MCP registry: reads the description of a server, and converts it to the options of
//! `mimir mcp add`.

use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::config::SandboxMode;
use mimir_core::redact::Vault as _;
use mimir_core::text::{prefix, visible};
use mimir_net::RequestLimits;
use serde::Deserialize;
use serde_json::Value;

use crate::args::McpAddArgs;
use crate::output::{WARN, styled};
use mimir::servers;
use mimir::setup::HostSetup;

mod entry;

use entry::{RegistryEntry, ServerInputs};

/// The registry that is asked unless the settings name another.
const DEFAULT_REGISTRY: &str = "https://registry.modelcontextprotocol.io";

/// Maximum size in bytes of a response of a registry.
const MAX_RESPONSE_SIZE: u64 = 1 << 20;

/// Time limit of a request to a registry.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of similar names in an error.
const MAX_SUGGESTIONS: usize = 5;

/// A server of a registry, as options of `mimir mcp add`.
#[derive(Debug)]
pub struct RegistryServer {
    /// The options: those of the person, completed by those of the registry.
    pub args: McpAddArgs,
    /// Lines that describe the server to the person.
    pub lines: Vec<String>,
    /// Names of the secrets that the server needs and that are not stored.
    pub missing_secrets: Vec<String>,
}

/// Response of a registry to a request for one server.
#[derive(Debug, Deserialize)]
struct EntryResponse {
    server: RegistryEntry,
    /// Statements of the registry about the server.
    #[serde(rename = "_meta", default)]
    meta: Value,
}

/// Key of the official registry's statements in `_meta`.
const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";

/// Looks up the server `reference` (`NAME` or `NAME@VERSION`), and completes the options that the person gave.
pub async fn resolve(
    setup: &HostSetup,
    args: McpAddArgs,
    reference: &str,
) -> Result<RegistryServer, ToolError> {
    let base = setup.settings.config.mcp.registry.as_deref();
    let base = base.unwrap_or(DEFAULT_REGISTRY).trim_end_matches('/');
    let (name, version) = reference.rsplit_once('@').unwrap_or((reference, "latest"));
    let path = format!(
        "/v0.1/servers/{}/versions/{}",
        encode_segment(name),
        encode_segment(version)
    );
    let Some(response) = get(setup, base, &path).await? else {
        return Err(not_found(setup, base, name, version).await);
    };
    let EntryResponse { server, meta } = serde_json::from_value(response).map_err(|error| {
        ToolError::execution(format!(
            "the registry {base} describes the server in a form that is not supported: {error}"
        ))
    })?;
    if server.name != name {
        let other = visible(prefix(&server.name, 200));
        let message = format!("the registry {base} returned another server, `{other}`");
        return Err(ToolError::execution(message));
    }
    if version != "latest" && server.version != version {
        let other = visible(prefix(&server.version, 64));
        let message = format!("the registry {base} returned another version, `{other}`");
        return Err(ToolError::execution(message));
    }
    let status = meta[OFFICIAL_META]["status"].as_str().unwrap_or_default();
    if status == "deleted" {
        let shown = visible(prefix(name, 200));
        let message = format!("the server `{shown}` was deleted from the registry {base}");
        return Err(ToolError::unavailable(message).with_remedies([
            "servers are also deleted because they are malicious: look for the reason before you add it by hand"
                .to_owned(),
        ]));
    }
    let is_stored = |name: &str| setup.vault.secret(name).is_ok_and(|value| value.is_some());
    let mut inputs = ServerInputs::new(&is_stored);
    inputs.is_unsandboxed = setup.settings.config.sandbox.mode == Some(SandboxMode::None);
    let mut lines = server.summary();
    lines.insert(0, format!("registry: {base}"));
    if status == "deprecated" {
        let line = "the registry marks this server as deprecated: its author advises against it";
        lines.push(styled(WARN, line));
    }
    let args = server.complete(args, &mut inputs)?;
    lines.append(&mut inputs.notes);
    Ok(RegistryServer {
        args,
        lines,
        missing_secrets: inputs.missing_secrets,
    })
}

/// Returns the response to a request, or `None` if the registry does not have the path.
async fn get(setup: &HostSetup, base: &str, path: &str) -> Result<Option<Value>, ToolError> {
    let url = format!("{base}{path}");
    let limits = RequestLimits {
        first_byte: REQUEST_TIMEOUT,
        between_bytes: REQUEST_TIMEOUT,
        whole: REQUEST_TIMEOUT,
        body_bytes: MAX_RESPONSE_SIZE,
        ..RequestLimits::default()
    };
    let client = servers::client(&setup.settings, setup.workspace.root(), &url)?;
    let fetched = client.with_limits(limits).get(&url).await;
    let fetched = fetched.map_err(|error| {
        let error = ToolError::from(error);
        let remedies = error.remedies.to_vec();
        let message = format!("cannot ask the registry {base}: {}", error.message);
        ToolError::new(error.code, message).with_remedies(remedies)
    })?;
    match fetched.status.as_u16() {
        200 => serde_json::from_slice(&fetched.body)
            .map(Some)
            .map_err(|error| {
                ToolError::execution(format!("the registry {base} sent invalid JSON: {error}"))
            }),
        404 => Ok(None),
        status => Err(ToolError::unavailable(format!(
            "the registry {base} answered with the status {status}"
        ))),
    }
}

/// Returns the error about an unknown server, with similar names.
async fn not_found(setup: &HostSetup, base: &str, name: &str, version: &str) -> ToolError {
    let shown = visible(prefix(name, 200));
    let message = match version {
        "latest" => format!("the registry {base} has no server `{shown}`"),
        version => format!(
            "the registry {base} has no version `{}` of the server `{shown}`",
            visible(prefix(version, 64))
        ),
    };
    let word = name.rsplit('/').next().unwrap_or(name);
    let path = format!("/v0.1/servers?search={}&limit=20", encode_segment(word));
    let found = get(setup, base, &path).await.ok().flatten();
    let found = found.unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for entry in found["servers"].as_array().into_iter().flatten() {
        let similar = entry["server"]["name"].as_str().unwrap_or_default();
        let similar = visible(prefix(similar, 200));
        if !similar.is_empty() && !names.contains(&similar) {
            names.push(similar);
        }
    }
    names.truncate(MAX_SUGGESTIONS);
    let remedy = if names.is_empty() {
        "use the full name in the registry, such as `io.github.owner/server`".to_owned()
    } else {
        format!("similar names in the registry: {}", names.join(", "))
    };
    ToolError::not_found(message).with_remedies([remedy])
}

/// Encodes a text as one segment of a path.
fn encode_segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| match byte {
            byte if is_plain(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
