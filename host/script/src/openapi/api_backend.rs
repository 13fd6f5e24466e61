//! The tools of an API's file, and the backend that sends their requests.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::needs::{HostNeed, Needs, SecretNeed};
use mimir_core::outcome::ToolOutput;
use mimir_core::tool::{
    RiskLevel, Tool, ToolDefinition, ToolGroup, ToolHints, ToolName, ToolOrigin, ToolSource,
    ToolTrust,
};
use mimir_core::{Approved, Decision, Schema, ToolError, ToolErrorCode, text};
use mimir_wasm::family::proofs;
use mimir_wasm::script::ScriptState;
use mimir_wasm::{Sha256Digest, WasmHost};

use super::api_file::{ApiFile, ApiOperation, ApiSecret, SECRET};
use super::api_request::build_request;
use super::api_response::tool_result;
use super::server_url::ServerUrl;

/// The interface that a component would import for the same access.
const HTTP_IMPORT: &str = "wasi:http/outgoing-handler@0.2.6";

/// Backend of one operation.
struct ApiOperationBackend {
    host: Arc<WasmHost>,
    state: Arc<ScriptState>,
    operation: ApiOperation,
    server: ServerUrl,
    secrets: Vec<ApiSecret>,
}

/// Returns the tools of a file. Fails with the first fault of the file.
pub(crate) fn api_tools(
    host: &Arc<WasmHost>,
    location: &str,
    content: &str,
    digest: Sha256Digest,
) -> Result<Vec<Tool>, ToolError> {
    let file = ApiFile::parse(location, content)?;
    let file_name = location.rsplit('/').next().unwrap_or(location);
    let plugin = file_name
        .strip_suffix(super::FILE_SUFFIX)
        .unwrap_or(file_name);
    let imports = vec![HTTP_IMPORT.to_owned()];
    let origin = Arc::new(ToolOrigin {
        plugin: plugin.to_owned(),
        location: location.to_owned(),
        digest: digest.to_string(),
        declares_needs: true,
        proofs: proofs(&imports).iter().map(ToString::to_string).collect(),
        imports,
        ..ToolOrigin::default()
    });
    let state = Arc::new(ScriptState::default());
    let own_server = ServerUrl::parse(&file.server)?;
    let tools = file.operations.into_iter().map(|operation| {
        let server = match &operation.server {
            Some(server) => ServerUrl::parse(server)?,
            None => own_server.clone(),
        };
        let secrets = file
            .secrets
            .iter()
            .filter(|secret| operation.secrets.contains(&secret.name));
        let secrets: Vec<ApiSecret> = secrets.cloned().collect();
        let definition = definition(&operation, &server, &secrets)?;
        let backend = Arc::new(ApiOperationBackend {
            host: Arc::clone(host),
            state: Arc::clone(&state),
            operation,
            server,
            secrets,
        });
        Ok(Tool::new(
            definition,
            ToolSource::Custom,
            Arc::clone(&origin),
            ToolTrust::Untrusted,
            backend,
        ))
    });
    tools.collect()
}

fn definition(
    operation: &ApiOperation,
    server: &ServerUrl,
    secrets: &[ApiSecret],
) -> Result<ToolDefinition, ToolError> {
    let name = ToolName::new(&operation.name)
        .map_err(|error| ToolError::invalid_input(error.to_string()))?;
    let method = operation
        .method_and_path()
        .map_or("GET", |(method, _)| method);
    let reads = matches!(method, "GET" | "HEAD" | "OPTIONS");
    let host = server.host_pattern();
    let mut needs = Needs::default();
    needs.hosts.push(HostNeed {
        host: host.clone(),
        methods: vec![method.to_owned()],
        reason: "the server of the API".to_owned(),
    });
    needs
        .secrets
        .extend(secrets.iter().map(|secret| SecretNeed {
            name: secret.name.clone(),
            host: host.clone(),
            header: secret.header.clone(),
            reason: "the API requires it".to_owned(),
        }));
    Ok(ToolDefinition {
        name,
        title: None,
        description: text::sanitize(operation.description.trim().to_owned()),
        group: ToolGroup::Net,
        input_schema: Schema::unchecked(operation.schema.to_string()),
        output_schema: None,
        approval: Decision::Ask,
        silent: true,
        risk: match method {
            "DELETE" => RiskLevel::High,
            _ => RiskLevel::Medium,
        },
        hints: ToolHints {
            read_only: reads,
            destructive: method == "DELETE",
            idempotent: reads || matches!(method, "PUT" | "DELETE"),
            open_world: true,
        },
        needs,
    })
}

impl Backend for ApiOperationBackend {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let work = pin!(self.send(&call));
            let result = call.deadline().run_until(work).await;
            RawResult::from(result.unwrap_or_else(|_| {
                let message = "the server did not respond within the time limit of the call";
                Err(ToolError::new(ToolErrorCode::Timeout, message))
            }))
        })
    }
}

impl ApiOperationBackend {
    async fn send(&self, call: &Approved) -> Result<ToolOutput, ToolError> {
        let empty = serde_json::Map::new();
        let arguments = call.arguments().as_object().unwrap_or(&empty);
        let build = |placeholders: &HashMap<String, String>| {
            let headers = self.secret_headers(call, placeholders)?;
            build_request(&self.operation, &self.server, arguments, headers)
        };
        let response = self.state.send_api_request(&self.host, call, build);
        tool_result(response.await?)
    }

    /// Returns the headers with secrets. The values contain placeholders, which the host replaces when it sends them.
    fn secret_headers(
        &self,
        call: &Approved,
        placeholders: &HashMap<String, String>,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let headers = self.secrets.iter().map(|secret| {
            let Some(placeholder) = placeholders.get(&secret.name) else {
                let message = format!("the tool was not granted the secret `{}`", secret.name);
                let remedy = format!("`mimir tools trust {}` grants it", call.tool().name());
                return Err(ToolError::permission_denied(message).with_remedies([remedy]));
            };
            Ok((
                secret.header.clone(),
                secret.value.replace(SECRET, placeholder),
            ))
        });
        headers.collect()
    }
}
