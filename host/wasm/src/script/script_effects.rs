//! Asynchronous requests of scripts: commands, HTTP requests, other tools, delays. They run concurrently, and the
//! effect gate of the call checks each of them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use mimir_core::clock::Deadline;
use mimir_core::command::{
    CapturedOutput, CommandOutput, CommandProgram, CommandRequest, CommandTarget,
};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::pipeline::{EffectGate, NestedCaller, PluginStorage};
use mimir_core::{Approved, ToolError, ToolErrorCode, text};
use mimir_net::FetchedResponse;
use serde_json::{Value, json};

use super::script_protocol::{AsyncRequest, ByteData, StorageRequest};
use crate::backend;
use crate::host::WasmHost;
use crate::http::{GuestNetwork, HttpClients};

/// The result of a request: JSON, and bytes, which are empty unless bytes were requested.
pub(crate) type EffectResult = Result<(Value, Vec<u8>), ToolError>;

/// The effects that one call may have: commands, requests, other tools, the model and storage.
pub(crate) struct ScriptEffects {
    pub commands: Option<EffectGate>,
    pub nested: Option<NestedCaller>,
    pub network: Option<Arc<GuestNetwork>>,
    pub model: Option<EffectGate>,
    /// The tool's storage between calls.
    pub storage: Option<PluginStorage>,
    /// The deadline of the call.
    pub deadline: Deadline,
}

/// Encodes a result for an engine: a flag that is true for a failure, JSON, and bytes.
pub(super) fn encode_result(result: EffectResult) -> (bool, String, Vec<u8>) {
    match result {
        Ok((value, bytes)) => (false, value.to_string(), bytes),
        Err(error) => {
            let mut error_json = json!({ "code": error.code, "message": error.message });
            if let Some(details) = error.details {
                error_json["details"] = details;
            }
            (true, error_json.to_string(), Vec::new())
        }
    }
}

/// Returns the error for access that was not granted.
pub(super) fn not_granted(what: &str) -> ToolError {
    let message = format!("the tool was not granted {what}");
    ToolError::new(ToolErrorCode::PermissionDenied, message)
}

fn invalid_request(message: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorCode::InvalidInput, message)
}

impl ByteData {
    pub(super) fn bytes(self) -> Result<Vec<u8>, ToolError> {
        if let Some(base64) = self.base64 {
            let decoded = base64::engine::general_purpose::STANDARD.decode(base64);
            return decoded.map_err(|_| invalid_request("the bytes are not base64"));
        }
        Ok(self.text.unwrap_or_default().into_bytes())
    }
}

impl ScriptEffects {
    /// Returns the access that a call was granted. `clients` holds the connections reused between calls.
    pub(crate) fn for_call(
        call: &Approved,
        host: &Arc<WasmHost>,
        clients: &Arc<HttpClients>,
    ) -> Self {
        let rights = call.rights();
        let network = (!rights.hosts.is_empty())
            .then(|| GuestNetwork::for_call(Arc::clone(clients), Arc::clone(host), call));
        Self {
            commands: (!rights.commands.is_empty()).then(|| call.effects()),
            nested: call.granted_nested_caller(),
            network: network.map(Arc::new),
            model: rights.model.then(|| call.effects()),
            storage: backend::call_storage(call, host),
            deadline: call.deadline().clone(),
        }
    }

    /// Performs a request. Dropping this future cancels it.
    pub(crate) async fn perform(&self, effect: AsyncRequest) -> EffectResult {
        match effect {
            AsyncRequest::Execute {
                command,
                args,
                cwd,
                timeout,
                env,
                stdin,
            } => {
                let mut words = vec![command];
                words.extend(args);
                let command = CommandRequest {
                    program: CommandProgram::Vector(words),
                    directory: cwd.as_deref().and_then(directory),
                    environment: env,
                    stdin: stdin.unwrap_or_default().into_bytes(),
                    timeout: timeout.map(millis),
                    target: CommandTarget::Default,
                };
                let effects = self
                    .commands
                    .as_ref()
                    .ok_or_else(|| not_granted("commands"))?;
                let finished = effects.run(command).await?;
                Ok((command_json(&finished), Vec::new()))
            }
            AsyncRequest::Fetch {
                url,
                method,
                headers,
                data,
            } => {
                let network = self.network.as_ref();
                let network = network.ok_or_else(|| not_granted("the network"))?;
                let request = http_request(&url, &method, headers, data)?;
                Ok(response_json(network.fetch(request).await?))
            }
            AsyncRequest::Call { name, args } => {
                let nested = self.nested.as_ref();
                let nested = nested
                    .ok_or_else(|| not_granted(&format!("calls of `{}`", text::visible(&name))))?;
                let outcome = nested.call(&name, args).await?;
                match outcome.result() {
                    Ok(output) => Ok((tool_output_json(output), Vec::new())),
                    Err(error) => Err(error.clone()),
                }
            }
            AsyncRequest::Complete { prompt, most } => {
                let model = self.model.as_ref();
                let model = model.ok_or_else(|| not_granted("the language model"))?;
                Ok((model.complete(&prompt, most).await?.into(), Vec::new()))
            }
            AsyncRequest::Keep(effect) => {
                let storage = self.storage.as_ref().ok_or_else(|| {
                    ToolError::new(
                        ToolErrorCode::PermissionDenied,
                        "only a tool with `storage` in its code can store values between calls",
                    )
                })?;
                Ok((perform_storage(storage, effect).await?, Vec::new()))
            }
        }
    }
}

/// Performs a storage request; the values are JSON.
async fn perform_storage(
    storage: &PluginStorage,
    effect: StorageRequest,
) -> Result<Value, ToolError> {
    Ok(match effect {
        // A missing value is not the same as `null`.
        StorageRequest::Get { key } => match storage.get(key).await? {
            Some(bytes) => {
                let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
                    ToolError::new(ToolErrorCode::Internal, "the stored value is not JSON")
                })?;
                json!({ "value": value })
            }
            None => json!({}),
        },
        StorageRequest::Set { key, value } => {
            storage.set(key, value.to_string().into_bytes()).await?;
            Value::Null
        }
        StorageRequest::Delete { key } => {
            storage.delete(key).await?;
            Value::Null
        }
        StorageRequest::Keys { prefix } => storage.keys(prefix).await?.into(),
    })
}

/// Converts a directory as written by a script (`.`, `./src`, `/src`) to a path relative to the workspace root.
fn directory(path: &str) -> Option<String> {
    let mut rest = path;
    while let Some(shorter) = rest.strip_prefix("./").or_else(|| rest.strip_prefix('/')) {
        rest = shorter;
    }
    (!rest.is_empty() && rest != ".").then(|| rest.to_owned())
}

/// Converts a time from a script, in milliseconds. An invalid time counts as zero.
pub(super) fn millis(time: f64) -> Duration {
    Duration::try_from_secs_f64(time / 1000.0).unwrap_or(Duration::ZERO)
}

fn command_json(finished: &CommandOutput) -> Value {
    let shown = |captured: &CapturedOutput| String::from_utf8_lossy(&captured.bytes).into_owned();
    let missing = finished.stdout.omitted_bytes + finished.stderr.omitted_bytes;
    json!({
        "exitCode": finished.exit_code,
        "success": finished.exit_code == 0,
        "stdout": shown(&finished.stdout),
        "stderr": shown(&finished.stderr),
        "truncated": missing > 0,
        "duration": u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
    })
}

fn http_request(
    url: &str,
    method: &str,
    headers: Vec<(String, String)>,
    data: ByteData,
) -> Result<Request<Bytes>, ToolError> {
    let mut request = Request::new(Bytes::from(data.bytes()?));
    *request.uri_mut() = mimir_net::uri(url)?;
    *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|_| {
        invalid_request(format!(
            "`{}` is not a valid HTTP method",
            text::visible(method)
        ))
    })?;
    for (name, value) in headers {
        let shown = text::visible(&name);
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid_request(format!("`{shown}` is not a valid header name")))?;
        let value = HeaderValue::from_str(&value).map_err(|_| {
            invalid_request(format!("the value of the header `{shown}` cannot be sent"))
        })?;
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

fn response_json(fetched: FetchedResponse) -> (Value, Vec<u8>) {
    let headers: Vec<_> = fetched
        .headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        })
        .collect();
    let mut response = json!({
        "status": fetched.status.as_u16(),
        "headers": headers,
        "url": fetched.target.to_string(),
        "redirects": fetched.redirects,
    });
    match String::from_utf8(fetched.body.into()) {
        Ok(text) => {
            response["text"] = text.into();
            (response, Vec::new())
        }
        Err(error) => (response, error.into_bytes()),
    }
}

fn tool_output_json(output: &ToolOutput) -> Value {
    let texts: Vec<&str> = output
        .content
        .iter()
        .filter_map(|part| match part {
            Content::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    json!({
        "success": true,
        "output": texts.join("\n"),
        "structured": output.structured,
        "exitCode": output.exit_code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_read_in_several_spellings() {
        for root in [".", "./", "/", "", "./."] {
            assert_eq!(directory(root), None, "{root:?}");
        }
        for (written, expected) in [
            ("src", "src"),
            ("/src/a", "src/a"),
            ("./a", "a"),
            ("../x", "../x"),
        ] {
            assert_eq!(directory(written).as_deref(), Some(expected));
        }
    }

    #[test]
    fn millis_maps_impossible_times_to_zero() {
        assert_eq!(millis(1500.0), Duration::from_millis(1500));
        for time in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(millis(time), Duration::ZERO);
        }
    }
}
