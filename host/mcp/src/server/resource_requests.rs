//! Resources and prompts of the servers behind this one.
//!
//! Entries are read by calling their reader tool, so that no access to a server bypasses the pipeline.

use mimir_core::config::UntrustedMarking;
use mimir_core::outcome::ToolOutput;
use mimir_core::untrusted_mark::UntrustedMark;
use mimir_core::{Outcome, ToolError, ToolErrorCode};
use rmcp::RoleServer;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, ErrorCode,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject, MetaObject,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
    ResultType,
};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{RemoteEntry, restore_output};
use crate::result::{self, OUTCOME_META, outcome_meta};

use super::ClientSession;
use super::session::is_modern;
use super::tool_call::{ClientAnswers, RequestOutcome};

/// Number of entries on a page, as for tools.
const PAGE_SIZE: usize = 250;

/// Returns a page of a list, and the cursor of the next page.
pub(super) fn page<T: Clone>(
    items: &[T],
    cursor: Option<&str>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .ok()
            .filter(|start| (PAGE_SIZE..items.len()).contains(start) && start % PAGE_SIZE == 0)
            .ok_or_else(invalid_cursor)?,
    };
    let rest = items.get(start..).unwrap_or_default();
    let page = &rest[..rest.len().min(PAGE_SIZE)];
    let next = (page.len() < rest.len()).then(|| (start + page.len()).to_string());
    Ok((page.to_vec(), next))
}

/// Returns the error for an invalid cursor.
fn invalid_cursor() -> ErrorData {
    let message = "the cursor is not valid, or the list is shorter now: list from the beginning";
    ErrorData::invalid_params(message, None)
}

impl ClientSession {
    /// Handles `resources/read`.
    pub(super) async fn read_remote_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let entry = self.find_resource(&request.uri)?;
        let answers = ClientAnswers {
            method: "resources/read",
            state: request.request_state,
            responses: request.input_responses,
        };
        let outcome = self.run(&entry.tool, entry.read_arguments(), answers, None, &context);
        match outcome.await? {
            RequestOutcome::Outcome(outcome) => {
                let read = parse_outcome(&outcome);
                let mut read: ReadResourceResult = read.map_err(|error| match error.code {
                    ErrorCode::RESOURCE_NOT_FOUND => resource_not_found(&request.uri),
                    _ => error,
                })?;
                read.contents
                    .iter_mut()
                    .for_each(|contents| set_client_uri(contents, &entry));
                let marks = self.server.0.pipeline.snapshot().policy.untrusted_marking();
                if let Some(mark) =
                    result::untrusted_mark(&outcome).filter(|_| marks != UntrustedMarking::Minimal)
                {
                    let contents = read.contents.iter_mut();
                    contents.for_each(|contents| result::mark_resource(contents, &mark));
                }
                read.meta = Some(result_meta(&outcome));
                // Older servers do not set the type, and rmcp removes it for older clients.
                read.result_type = Some(ResultType::COMPLETE);
                // Each read is a call that is checked for this user, so proxies must not cache the result.
                read.ttl_ms = is_modern(&context).then_some(0);
                read.cache_scope = is_modern(&context).then_some(CacheScope::Private);
                Ok(read.into())
            }
            RequestOutcome::InputRequired(input_required) => Ok((*input_required).into()),
            // Only calls of tools become tasks.
            RequestOutcome::Stopped | RequestOutcome::Task(_) => Err(cancelled_error()),
            RequestOutcome::Lost(error) => Err(protocol_error(&error)),
        }
    }

    /// Handles `prompts/get`.
    pub(super) async fn get_remote_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let servers = self.server.servers();
        let Some(entry) = servers.and_then(|servers| servers.find_prompt(&request.name)) else {
            let message = "prompt not found: list all with prompts/list";
            return Err(ErrorData::invalid_params(message, None));
        };
        self.check_prompt_unchanged(&entry, &request.name)?;
        let answers = ClientAnswers {
            method: "prompts/get",
            state: request.request_state,
            responses: request.input_responses,
        };
        let arguments = entry.prompt_arguments(request.arguments.map(Value::Object));
        let outcome = self.run(&entry.tool, arguments, answers, None, &context);
        match outcome.await? {
            RequestOutcome::Outcome(outcome) => {
                let mut prompt: GetPromptResult = parse_outcome(&outcome)?;
                if let Some(mark) = result::untrusted_mark(&outcome) {
                    prompt.messages = mark_messages(prompt.messages, &mark);
                    prompt.description = prompt
                        .description
                        .map(|description| mark.around(&description));
                }
                prompt.meta = Some(result_meta(&outcome));
                prompt.result_type = Some(ResultType::COMPLETE);
                Ok(prompt.into())
            }
            RequestOutcome::InputRequired(input_required) => Ok((*input_required).into()),
            // Only calls of tools become tasks.
            RequestOutcome::Stopped | RequestOutcome::Task(_) => Err(cancelled_error()),
            RequestOutcome::Lost(error) => Err(protocol_error(&error)),
        }
    }

    /// Returns completions for an argument of a prompt or template, by calling its reader tool, because the typed text
    /// is sent to the server.
    pub(super) async fn complete_argument(
        &self,
        request: CompleteRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let entry = match &request.r#ref {
            Reference::Resource(template) => Some(self.find_resource(&template.uri)?),
            Reference::Prompt(prompt) => {
                let servers = self.server.servers();
                servers.and_then(|servers| servers.find_prompt(&prompt.name))
            }
            _ => None,
        };
        let Some(entry) = entry else {
            let message = "unknown prompt or resource template, or it takes no arguments";
            return Err(ErrorData::invalid_params(message, None));
        };
        self.check_readable(&entry)?;
        if let Reference::Prompt(prompt) = &request.r#ref {
            self.check_prompt_unchanged(&entry, &prompt.name)?;
        }
        if !entry.has_completion() {
            return Ok(CompleteResult::new(CompletionInfo::default()));
        }
        let arguments =
            entry.completion_arguments(&request.r#ref, request.argument, request.context);
        let outcome = self
            .run_without_questions("completion/complete", &entry.tool, arguments, context)
            .await?;
        parse_outcome(&outcome)
    }

    /// Runs a call for a request whose response cannot contain a question.
    pub(super) async fn run_without_questions(
        &self,
        method: &'static str,
        tool: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Outcome, ErrorData> {
        let answers = ClientAnswers {
            method,
            state: None,
            responses: None,
        };
        match self.run(tool, arguments, answers, None, context).await? {
            RequestOutcome::Outcome(outcome) => Ok(*outcome),
            RequestOutcome::InputRequired(_) => Err(protocol_error(&ToolError::approval_denied(
                format!("`{tool}` needs approval, which this request cannot ask for"),
            ))),
            // Only calls of tools become tasks.
            RequestOutcome::Stopped | RequestOutcome::Task(_) => Err(cancelled_error()),
            RequestOutcome::Lost(error) => Err(protocol_error(&error)),
        }
    }

    /// Rejects a prompt whose entry has changed since the user trusted the server.
    fn check_prompt_unchanged(&self, entry: &RemoteEntry, name: &str) -> Result<(), ErrorData> {
        if self.check_readable(entry).is_err() {
            // The call itself checks if the prompt may be read.
            return Ok(());
        }
        let catalogue = self.server.catalogue();
        let mut prompts = catalogue.library.prompts.iter();
        if prompts.any(|prompt| prompt.name == name) {
            Ok(())
        } else {
            Err(protocol_error(&ToolError::permission_denied(
                "the server has changed its description of this prompt: the prompt cannot be used until the user trusts the server again (`mimir mcp trust`)",
            )))
        }
    }

    /// Returns the visible resource with this URI.
    pub(super) fn find_resource(&self, uri: &str) -> Result<RemoteEntry, ErrorData> {
        let servers = self.server.servers();
        servers
            .and_then(|servers| servers.find_resource(uri))
            .ok_or_else(|| resource_not_found(uri))
    }

    /// Rejects a resource that may not be read, so that its server gets no other request for it either.
    pub(super) fn check_readable(&self, entry: &RemoteEntry) -> Result<(), ErrorData> {
        let snapshot = self.server.0.pipeline.snapshot();
        let tool = snapshot.registry.get(&entry.tool);
        if tool.is_some_and(|tool| snapshot.policy.is_listed(tool)) {
            Ok(())
        } else {
            Err(protocol_error(&ToolError::policy_denied(
                "the policy does not allow the resources and prompts of this server",
            )))
        }
    }
}

/// Marks the text of a prompt from an untrusted server, like that of a tool result.
fn mark_messages(messages: Vec<PromptMessage>, mark: &UntrustedMark) -> Vec<PromptMessage> {
    let mut marked_messages = Vec::with_capacity(messages.len());
    for mut message in messages {
        match &mut message.content {
            ContentBlock::Text(text) => text.text = mark.around(&text.text),
            _ => {
                let before = ContentBlock::text(mark.before());
                marked_messages.push(PromptMessage::new(message.role.clone(), before));
            }
        }
        marked_messages.push(message);
    }
    marked_messages
}

/// Replaces the server's URI in a resource with the URI that clients know.
fn set_client_uri(contents: &mut rmcp::model::ResourceContents, entry: &RemoteEntry) {
    use rmcp::model::ResourceContents::{BlobResourceContents, TextResourceContents};
    match contents {
        TextResourceContents { uri, .. } | BlobResourceContents { uri, .. } => {
            *uri = entry.client_uri(uri);
        }
        _ => {}
    }
}

/// Parses the outcome of a read into the protocol's type.
fn parse_outcome<T: DeserializeOwned>(outcome: &Outcome) -> Result<T, ErrorData> {
    let output: &ToolOutput = outcome.result().map_err(protocol_error)?;
    let value = restore_output(output).ok_or_else(|| {
        protocol_error(&ToolError::limit_exceeded(
            "the server's response is longer than the limit for results (limits.outputChars)",
        ))
    })?;
    serde_json::from_value(value).map_err(|error| {
        let message = format!("the server's response does not match the request: {error}");
        ErrorData::internal_error(message, None)
    })
}

pub(super) fn result_meta(outcome: &Outcome) -> MetaObject {
    let mut meta = JsonObject::new();
    meta.insert(OUTCOME_META.to_owned(), outcome_meta(outcome));
    MetaObject(meta)
}

/// Converts a tool error to a protocol error, because the results of reads cannot contain an error.
pub(super) fn protocol_error(error: &ToolError) -> ErrorData {
    let data = Some(json!({ "code": error.code, "details": error.details }));
    let message = error.to_string();
    if let Some(code) = server_error_code(error) {
        return ErrorData::new(code, message, data);
    }
    match error.code {
        ToolErrorCode::NotFound => ErrorData::resource_not_found(message, data),
        ToolErrorCode::InvalidInput => ErrorData::invalid_params(message, data),
        _ => ErrorData::internal_error(message, data),
    }
}

/// Returns the error code from the server behind this one, if the code has an equivalent meaning here.
fn server_error_code(error: &ToolError) -> Option<ErrorCode> {
    let code = &error.details.as_ref()?["protocolCode"];
    let passed_on = [
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::INVALID_PARAMS,
    ];
    passed_on.into_iter().find(|passed_on| *code == passed_on.0)
}

fn resource_not_found(uri: &str) -> ErrorData {
    let message = "resource not found: list all with resources/list";
    ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
}

pub(super) fn cancelled_error() -> ErrorData {
    ErrorData::internal_error(ToolErrorCode::Cancelled.as_str(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_rejects_an_unknown_cursor() {
        let items: Vec<usize> = (0..PAGE_SIZE + 10).collect();
        let (first, next) = page(&items, None).unwrap();
        assert_eq!((first.len(), next.as_deref()), (PAGE_SIZE, Some("250")));
        assert_eq!(page(&items, next.as_deref()).unwrap().0.len(), 10);
        for cursor in ["7", "500", "0", "x", "-1"] {
            let error = page(&items, Some(cursor)).unwrap_err();
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{cursor}");
        }
    }

    #[test]
    fn fault_passes_on_equivalent_error_codes() {
        let code_for = |code: i32| {
            let details = json!({ "protocolCode": code });
            protocol_error(&ToolError::execution("no").with_details(details)).code
        };
        assert_eq!(code_for(-32602), ErrorCode::INVALID_PARAMS);
        assert_eq!(code_for(-32601), ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(code_for(-32099), ErrorCode::INTERNAL_ERROR);
    }
}
