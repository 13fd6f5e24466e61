//! Operations at a server, each in one round or several, and the lists of a server.
#![expect(
    deprecated,
    reason = "the newest protocol watches resources otherwise; servers of the older ones still do so"
)]

use rmcp::model::{
    ArgumentInfo, CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest,
    CompleteRequestParams, CompletionContext, GetPromptRequest, GetPromptRequestParams,
    InputResponses, JsonObject, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ListToolsRequest, PaginatedRequestParams, ReadResourceRequest,
    ReadResourceRequestParams, Reference, SubscribeRequest, SubscribeRequestParams,
    UnsubscribeRequest, UnsubscribeRequestParams,
};

/// An operation at a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServerOperation {
    /// Call of a tool.
    Tool {
        /// Name of the tool at the server.
        name: String,
        arguments: JsonObject,
    },
    /// Content of a resource.
    Resource { uri: String },
    /// Messages of a prompt.
    Prompt { name: String, arguments: JsonObject },
    /// Completion of an argument of a prompt or a template.
    Completion {
        of: Reference,
        argument: ArgumentInfo,
        context: CompletionContext,
    },
}

/// Answers to the server's requests in the previous round, and the state that it returned.
#[derive(Debug, Default)]
pub(super) struct OperationRound {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

impl ServerOperation {
    /// Returns the request of one round.
    pub(super) fn build_request(&self, round: OperationRound) -> ClientRequest {
        let OperationRound { responses, state } = round;
        match self {
            Self::Tool { name, arguments } => {
                let mut params =
                    CallToolRequestParams::new(name.clone()).with_arguments(arguments.clone());
                params.input_responses = responses;
                params.request_state = state;
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Self::Resource { uri } => {
                let mut params = ReadResourceRequestParams::new(uri);
                params.input_responses = responses;
                params.request_state = state;
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Self::Prompt { name, arguments } => {
                let mut params =
                    GetPromptRequestParams::new(name).with_arguments(arguments.clone());
                params.input_responses = responses;
                params.request_state = state;
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
            // Completions have a single round.
            Self::Completion {
                of,
                argument,
                context,
            } => {
                let mut params = CompleteRequestParams::new(of.clone(), argument.clone());
                params.context = context.arguments.is_some().then(|| context.clone());
                ClientRequest::CompleteRequest(CompleteRequest::new(params))
            }
        }
    }
}

/// A list of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ServerListKind {
    /// Returns the member of a response that contains the list.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// Returns the request for a page of the list.
    pub(super) fn build_request(self, params: PaginatedRequestParams) -> ClientRequest {
        match self {
            Self::Tools => ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
            Self::Prompts => {
                ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params))
            }
            Self::Resources => {
                ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params))
            }
            Self::Templates => ClientRequest::ListResourceTemplatesRequest(
                ListResourceTemplatesRequest::with_param(params),
            ),
        }
    }
}

/// Returns the request that subscribes to a resource or unsubscribes from it.
pub(super) fn watch_request(uri: &str, on: bool) -> ClientRequest {
    if on {
        ClientRequest::SubscribeRequest(SubscribeRequest::new(SubscribeRequestParams::new(uri)))
    } else {
        ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(UnsubscribeRequestParams::new(
            uri,
        )))
    }
}
