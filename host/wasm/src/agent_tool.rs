//! Tools in the world of ironclaw (`near:agent/tool`), which describe themselves with a text and a JSON Schema.

use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentType, InstancePre, Lift, Lower,
};

use crate::imports::near_agent::AgentErrorKind;
use crate::store_state::StoreState;

/// The exported interface. A lookup by this name also finds another patch version.
const INTERFACE: &str = "near:agent/tool@0.4.1";

/// A component of this world, ready to be instantiated.
pub(crate) struct AgentTool {
    pub(crate) pre: InstancePre<StoreState>,
    execute: ComponentExportIndex,
    schema: ComponentExportIndex,
    description: ComponentExportIndex,
}

/// The texts with which a tool describes itself.
pub(crate) struct AgentDescription {
    pub(crate) description: String,
    pub(crate) schema: String,
}

#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct AgentRequest {
    params: String,
    context: Option<String>,
}

#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct AgentFailure {
    kind: AgentErrorKind,
    code: Option<String>,
    message: Option<String>,
}

#[derive(Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum AgentReply {
    #[component(name = "success")]
    Success(String),
    #[component(name = "failure")]
    Failure(AgentFailure),
}

impl AgentTool {
    /// Finds the exports. `None` if one of them is missing.
    pub(crate) fn new(pre: InstancePre<StoreState>) -> Option<Self> {
        let component: &Component = pre.component();
        let tool = component.get_export_index(None, INTERFACE)?;
        let find = |name: &str| component.get_export_index(Some(&tool), name);
        Some(Self {
            execute: find("execute")?,
            schema: find("schema")?,
            description: find("description")?,
            pre,
        })
    }

    /// Queries the description.
    pub(crate) async fn describe(
        &self,
        store: &mut Store<StoreState>,
    ) -> wasmtime::Result<AgentDescription> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let mut texts = Vec::new();
        for index in [self.description, self.schema] {
            let function = instance.get_typed_func::<(), (String,)>(&mut *store, index)?;
            texts.push(function.call_async(&mut *store, ()).await?.0);
        }
        let schema = texts.pop().unwrap_or_default();
        Ok(AgentDescription {
            description: texts.pop().unwrap_or_default(),
            schema,
        })
    }

    /// Calls the tool.
    pub(crate) async fn call(
        &self,
        store: &mut Store<StoreState>,
        arguments: &Value,
    ) -> wasmtime::Result<Result<ToolOutput, ToolError>> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let execute =
            instance.get_typed_func::<(AgentRequest,), (AgentReply,)>(&mut *store, self.execute)?;
        let request = AgentRequest {
            params: arguments.to_string(),
            context: None,
        };
        let (reply,) = execute.call_async(&mut *store, (request,)).await?;
        Ok(match reply {
            AgentReply::Success(text) => Ok(ToolOutput {
                // Only an object can be a structured result.
                structured: serde_json::from_str(&text).ok().filter(Value::is_object),
                content: vec![Content::text(text)],
                exit_code: None,
            }),
            AgentReply::Failure(failure) => Err(failure.into()),
        })
    }
}

impl From<AgentFailure> for ToolError {
    fn from(failure: AgentFailure) -> Self {
        let code = match failure.kind {
            AgentErrorKind::Input => ToolErrorCode::InvalidInput,
            _ => ToolErrorCode::ExecutionError,
        };
        let message = match (failure.message, &failure.code) {
            (Some(message), _) => message,
            (None, Some(code)) => code.clone(),
            (None, None) => format!("the tool failed: {:?}", failure.kind),
        };
        let details = failure.code.map(|code| serde_json::json!({ "code": code }));
        let error = ToolError::new(code, message);
        match details {
            Some(details) => error.with_details(details),
            None => error,
        }
    }
}
