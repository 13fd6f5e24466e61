//! Requests about skills: `skills/list`, `skills/get`, and reads of their files and folders.

use mimir_core::Content;
use rmcp::RoleServer;
use rmcp::model::{
    CacheScope, ErrorData, GetSkillResult, ListResourcesResult, ListSkillsResult,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
};
use rmcp::service::RequestContext;
use serde_json::json;

use crate::skills::{READER, ServedSkill};

use super::ClientSession;
use super::resource_requests::{cancelled_error, page, protocol_error, result_meta};
use super::session::is_modern;
use super::tool_call::{ClientAnswers, RequestOutcome};

impl ClientSession {
    /// Returns the skills that clients may read. There are none if the policy does not offer the tool that reads them.
    pub(super) fn skills(&self) -> Vec<ServedSkill> {
        let Some(source) = self.server.skill_source() else {
            return Vec::new();
        };
        let snapshot = self.server.0.pipeline.snapshot();
        let reader = snapshot.registry.get(READER);
        if reader.is_some_and(|tool| snapshot.policy.is_listed(tool)) {
            source.skills()
        } else {
            Vec::new()
        }
    }

    /// Returns true if clients may read skills.
    pub(super) fn serves_skills(&self) -> bool {
        self.server.skill_source().is_some() && !self.skills().is_empty()
    }

    /// Handles `skills/list`.
    pub(super) fn skill_page(&self, cursor: Option<&str>) -> Result<ListSkillsResult, ErrorData> {
        let skills: Vec<_> = self.skills().iter().map(ServedSkill::entry).collect();
        let (items, next) = page(&skills, cursor)?;
        let mut page = ListSkillsResult::with_all_items(items);
        page.next_cursor = next;
        Ok(page)
    }

    /// Handles `skills/get`.
    pub(super) fn skill_entry(&self, uri: &str) -> Result<GetSkillResult, ErrorData> {
        let skills = self.skills();
        let mut entries = skills.iter().map(ServedSkill::entry);
        let entry = entries.find(|entry| entry.uri == uri).ok_or_else(|| {
            let message = "skill not found: list all with skills/list";
            ErrorData::invalid_params(message, Some(json!({ "uri": uri })))
        })?;
        Ok(GetSkillResult::new(entry))
    }

    /// Handles `resources/directory/read`.
    pub(super) fn skill_folder(
        &self,
        uri: &str,
        cursor: Option<&str>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let skills = self.skills();
        let children = skills.iter().find_map(|skill| skill.folder(uri));
        let children = children.ok_or_else(|| {
            let message = "not a folder of a skill: skills/list lists their files";
            ErrorData::invalid_params(message, Some(json!({ "uri": uri })))
        })?;
        let (items, next) = page(&children, cursor)?;
        let mut page = ListResourcesResult::with_all_items(items);
        page.next_cursor = next;
        Ok(page)
    }

    /// Returns the resources of all skills.
    pub(super) fn skill_resources(&self) -> Vec<Resource> {
        let skills = self.skills();
        skills.iter().flat_map(ServedSkill::resources).collect()
    }

    /// Reads a file of a skill by calling the tool for it. `None` if the URI is not that of such a file.
    ///
    /// The content is exact or an error, because clients compare it with its digest: marks cannot be added to it. Its
    /// label is in `_meta`.
    pub(super) async fn read_skill_file(
        &self,
        request: &ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<ReadResourceResponse, ErrorData>> {
        if !request.uri.starts_with("skill://") {
            return None;
        }
        let skills = self.skills();
        let mut files = skills.iter().map(|skill| (skill, skill.file(&request.uri)));
        let (skill, file) = files.find_map(|(skill, file)| Some((skill, file?)))?;
        let answers = ClientAnswers {
            method: "resources/read",
            state: request.request_state.clone(),
            responses: request.input_responses.clone(),
        };
        let arguments = json!({ "skill": skill.name, "file": file.path });
        let outcome = match self.run(READER, arguments, answers, None, context).await {
            Ok(RequestOutcome::Outcome(outcome)) => outcome,
            Ok(RequestOutcome::InputRequired(input_required)) => {
                return Some(Ok((*input_required).into()));
            }
            // Only calls of tools become tasks.
            Ok(RequestOutcome::Stopped | RequestOutcome::Task(_)) => {
                return Some(Err(cancelled_error()));
            }
            Ok(RequestOutcome::Lost(error)) => return Some(Err(protocol_error(&error))),
            Err(error) => return Some(Err(error)),
        };
        let output = match outcome.result() {
            Ok(output) => output,
            Err(error) => return Some(Err(protocol_error(error))),
        };
        let bytes = match output.content.as_slice() {
            [Content::Text { text }] => text.as_bytes(),
            [Content::File { data, .. }] => data.as_slice(),
            _ => &[],
        };
        if !file.is_content(bytes) {
            let message = "the file cannot be served unchanged: it is longer than limits.outputChars, has a secret of the user or control characters, or was changed just now";
            return Some(Err(ErrorData::internal_error(message, None)));
        }
        let mut read = ReadResourceResult::new(vec![file.contents(&request.uri, bytes)]);
        read.meta = Some(result_meta(&outcome));
        read.ttl_ms = is_modern(context).then_some(0);
        read.cache_scope = is_modern(context).then_some(CacheScope::Private);
        Some(Ok(read.into()))
    }
}
