//! Resources and prompts of the servers behind this one, listed here and read by tool calls.
//!
//! Out of scope: access to a server that bypasses the pipeline. Entries are read by calling the tool that reads them.

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

/// Number of items on a page, as for tools.
const PAGE_SIZE: usize = 250;

/// Returns a page of a list, and the cursor of the next one.
pub(super) fn page<T: Clone>(
    all: &[T],
    cursor: Option<&str>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .ok()
            .filter(|start| (PAGE_SIZE..all.len()).contains(start) && start % PAGE_SIZE == 0)
            .ok_or_else(no_cursor)?,
    };
    let rest = all.get(start..).unwrap_or_default();
    let page = &rest[..rest.len().min(PAGE_SIZE)];
    let next = (page.len() < rest.len()).then(|| (start + page.len()).to_string());
    Ok((page.to_vec(), next))
}

/// Error for an invalid cursor.
fn no_cursor() -> ErrorData {
    let message = "the cursor is not valid, or the list is shorter now: list from the beginning";
    ErrorData::invalid_params(message, None)
}

impl ClientSession {
    pub(super) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let place = self.find_resource(&request.uri)?;
        let answers = ClientAnswers {
            state: request.request_state,
            responses: request.input_responses,
        };
        let ended = self.run(&place.tool, place.read_arguments(), answers, &context);
        match ended.await? {
            RequestOutcome::Outcome(outcome) => {
                let read = self::read(&outcome);
                let mut read: ReadResourceResult = read.map_err(|error| match error.code {
                    ErrorCode::RESOURCE_NOT_FOUND => not_there(&request.uri),
                    _ => error,
                })?;
                read.contents.iter_mut().for_each(|one| named(one, &place));
                let marks = self.server.0.pipeline.snapshot().policy.untrusted_marking();
                if let Some(mark) =
                    result::mark(&outcome).filter(|_| marks != UntrustedMarking::Minimal)
                {
                    let contents = read.contents.iter_mut();
                    contents.for_each(|one| result::mark_resource(one, &mark));
                }
                read.meta = Some(meta(&outcome));
                // Older servers do not set it, and rmcp removes it for older clients.
                read.result_type = Some(ResultType::COMPLETE);
                // Each read is a call that is checked for this person: nothing on the way may cache it.
                read.ttl_ms = is_modern(&context).then_some(0);
                read.cache_scope = is_modern(&context).then_some(CacheScope::Private);
                Ok(read.into())
            }
            RequestOutcome::Asks(asked) => Ok((*asked).into()),
            RequestOutcome::Stopped => Err(stopped()),
        }
    }

    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let servers = self.server.servers();
        let Some(place) = servers.and_then(|servers| servers.prompt(&request.name)) else {
            let message = "prompt not found: list all with prompts/list";
            return Err(ErrorData::invalid_params(message, None));
        };
        self.check_prompt_unchanged(&place, &request.name)?;
        let answers = ClientAnswers {
            state: request.request_state,
            responses: request.input_responses,
        };
        let arguments = place.prompt_arguments(request.arguments.map(Value::Object));
        let ended = self.run(&place.tool, arguments, answers, &context);
        match ended.await? {
            RequestOutcome::Outcome(outcome) => {
                let mut got: GetPromptResult = self::read(&outcome)?;
                if let Some(mark) = result::mark(&outcome) {
                    got.messages = marked(got.messages, &mark);
                    got.description = got.description.map(|words| mark.around(&words));
                }
                got.meta = Some(meta(&outcome));
                got.result_type = Some(ResultType::COMPLETE);
                Ok(got.into())
            }
            RequestOutcome::Asks(asked) => Ok((*asked).into()),
            RequestOutcome::Stopped => Err(stopped()),
        }
    }

    /// Returns completions for an argument of a prompt or template from its server, by calling the tool that reads it,
    /// since the typed text is sent to the server.
    pub(super) async fn proposals(
        &self,
        request: CompleteRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let place = match &request.r#ref {
            Reference::Resource(template) => Some(self.find_resource(&template.uri)?),
            Reference::Prompt(prompt) => {
                let servers = self.server.servers();
                servers.and_then(|servers| servers.prompt(&prompt.name))
            }
            _ => None,
        };
        let Some(place) = place else {
            let message = "no prompt or resource template of this name takes arguments";
            return Err(ErrorData::invalid_params(message, None));
        };
        self.check_readable(&place)?;
        if let Reference::Prompt(prompt) = &request.r#ref {
            self.check_prompt_unchanged(&place, &prompt.name)?;
        }
        if !place.has_completion() {
            return Ok(CompleteResult::new(CompletionInfo::default()));
        }
        let arguments =
            place.completion_arguments(&request.r#ref, request.argument, request.context);
        let outcome = self.run_at_once(&place.tool, arguments, context).await?;
        self::read(&outcome)
    }

    /// Runs a call for a request whose response has no room for a question.
    pub(super) async fn run_at_once(
        &self,
        tool: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Outcome, ErrorData> {
        let answers = ClientAnswers::default();
        match self.run(tool, arguments, answers, context).await? {
            RequestOutcome::Outcome(outcome) => Ok(*outcome),
            RequestOutcome::Asks(_) => Err(fault(&ToolError::approval_denied(format!(
                "`{tool}` needs an approval, and this request cannot ask for one"
            )))),
            RequestOutcome::Stopped => Err(stopped()),
        }
    }

    /// Rejects a prompt whose entry has changed since a person trusted the server.
    fn check_prompt_unchanged(&self, place: &RemoteEntry, name: &str) -> Result<(), ErrorData> {
        if self.check_readable(place).is_err() {
            // The call itself decides if the prompt may be read at all.
            return Ok(());
        }
        let catalogue = self.server.catalogue();
        let mut prompts = catalogue.library.prompts.iter();
        match prompts.any(|prompt| prompt.name == name) {
            true => Ok(()),
            false => Err(fault(&ToolError::permission_denied(
                "the server has changed its description of this prompt: it cannot be used until a person trusts the server again (`mimir mcp trust`)",
            ))),
        }
    }

    /// Returns the visible resource with this URI.
    pub(super) fn find_resource(&self, uri: &str) -> Result<RemoteEntry, ErrorData> {
        let servers = self.server.servers();
        servers
            .and_then(|servers| servers.resource(uri))
            .ok_or_else(|| not_there(uri))
    }

    /// Rejects a resource that may not be read: its server then gets no other request for it either.
    pub(super) fn check_readable(&self, place: &RemoteEntry) -> Result<(), ErrorData> {
        let snapshot = self.server.0.pipeline.snapshot();
        let tool = snapshot.registry.get(&place.tool);
        match tool.is_some_and(|tool| snapshot.policy.is_listed(tool)) {
            true => Ok(()),
            false => Err(fault(&ToolError::policy_denied(
                "the resources and prompts of this server may not be used",
            ))),
        }
    }
}

/// Marks the text of an untrusted server's prompt like that of a tool result, because a model reads both.
fn marked(messages: Vec<PromptMessage>, mark: &UntrustedMark) -> Vec<PromptMessage> {
    let mut all = Vec::with_capacity(messages.len());
    for mut message in messages {
        match &mut message.content {
            ContentBlock::Text(words) => words.text = mark.around(&words.text),
            _ => {
                let before = ContentBlock::text(mark.before());
                all.push(PromptMessage::new(message.role.clone(), before));
            }
        }
        all.push(message);
    }
    all
}

/// Replaces the URI of a read resource by the one that the client knows.
fn named(contents: &mut rmcp::model::ResourceContents, place: &RemoteEntry) {
    use rmcp::model::ResourceContents::{BlobResourceContents, TextResourceContents};
    match contents {
        TextResourceContents { uri, .. } | BlobResourceContents { uri, .. } => {
            *uri = place.client_uri(uri);
        }
        _ => {}
    }
}

/// Parses the outcome of a read into the protocol's type.
fn read<T: DeserializeOwned>(outcome: &Outcome) -> Result<T, ErrorData> {
    let output: &ToolOutput = outcome.result().map_err(fault)?;
    let value = restore_output(output).ok_or_else(|| {
        fault(&ToolError::limit_exceeded(
            "the server's answer is longer than the limit for results (limits.outputChars)",
        ))
    })?;
    serde_json::from_value(value).map_err(|error| {
        let message = format!("the server's answer does not match the request: {error}");
        ErrorData::internal_error(message, None)
    })
}

fn meta(outcome: &Outcome) -> MetaObject {
    let mut meta = JsonObject::new();
    meta.insert(OUTCOME_META.to_owned(), outcome_meta(outcome));
    MetaObject(meta)
}

/// Converts a tool error to a protocol error: reads have no result that can carry one.
pub(super) fn fault(error: &ToolError) -> ErrorData {
    let data = Some(json!({ "code": error.code, "details": error.details }));
    let message = error.to_string();
    if let Some(code) = theirs(error) {
        return ErrorData::new(code, message, data);
    }
    match error.code {
        ToolErrorCode::NotFound => ErrorData::resource_not_found(message, data),
        ToolErrorCode::InvalidInput => ErrorData::invalid_params(message, data),
        _ => ErrorData::internal_error(message, data),
    }
}

/// Returns the error code of the server behind this one, if it means the same here.
fn theirs(error: &ToolError) -> Option<ErrorCode> {
    let code = &error.details.as_ref()?["protocolCode"];
    let same = [
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::INVALID_PARAMS,
    ];
    same.into_iter().find(|same| *code == same.0)
}

fn not_there(uri: &str) -> ErrorData {
    let message = "resource not found: list all with resources/list";
    ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
}

fn stopped() -> ErrorData {
    ErrorData::internal_error(ToolErrorCode::Cancelled.as_str(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_rejects_an_unknown_cursor() {
        let all: Vec<usize> = (0..PAGE_SIZE + 10).collect();
        let (first, next) = page(&all, None).unwrap();
        assert_eq!((first.len(), next.as_deref()), (PAGE_SIZE, Some("250")));
        assert_eq!(page(&all, next.as_deref()).unwrap().0.len(), 10);
        for none in ["7", "500", "0", "x", "-1"] {
            let error = page(&all, Some(none)).unwrap_err();
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{none}");
        }
    }

    #[test]
    fn fault_passes_on_equivalent_error_codes() {
        let refused = |code: i32| {
            let details = json!({ "protocolCode": code });
            fault(&ToolError::execution("no").with_details(details)).code
        };
        assert_eq!(refused(-32602), ErrorCode::INVALID_PARAMS);
        assert_eq!(refused(-32601), ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(refused(-32099), ErrorCode::INTERNAL_ERROR);
    }
}
