//! The list of tools for MCP clients.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mimir_core::config::UntrustedMarking;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::schema::for_models;
use mimir_core::tool::{ToolHints, ToolSource, ToolTrust};
use rmcp::model::{ErrorData, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::client::{McpServers, ResourceLibrary};
use crate::discovery;
use crate::skills::ServedSkill;
use crate::untrusted_marks;

/// Key in a listed tool's `_meta` for source, group and risk, for which MCP has no fields.
pub const TOOL_META: &str = "mimir/tool";

/// Key in a listed tool's `_meta` for warnings about its description.
const FLAGS_META: &str = "mimir/flags";

/// Number of tools on a page. Some clients read only the first page, and no model chooses well among more tools.
const PAGE_SIZE: usize = 250;

/// The tools that models see at one point in time.
pub(crate) struct ToolCatalogue {
    snapshot: Arc<PipelineSnapshot>,
    tools: Vec<Tool>,
    /// Tools that are found by search instead of being listed.
    searchable: Vec<Tool>,
    /// Resources and prompts of the servers behind this one.
    pub(crate) library: ResourceLibrary,
    /// The skills at that time. A request reads them again.
    skills: Vec<ServedSkill>,
}

/// Number of changes of each list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListRevision {
    pub(crate) tools: u64,
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
}

impl ToolCatalogue {
    /// Builds the list of tools in this snapshot, with the resources and prompts of the servers.
    pub(crate) fn build(snapshot: Arc<PipelineSnapshot>, servers: Option<&McpServers>) -> Self {
        let readers = servers.map(McpServers::readers).unwrap_or_default();
        let listed = snapshot.registry.tools().iter();
        let listed = listed.filter(|tool| snapshot.policy.is_offered(tool));
        // Resources are for the client and prompts for its user: models do not see the tools that read them.
        let listed = listed.filter(|tool| {
            tool.source != ToolSource::Mcp
                || !readers.iter().any(|name| name == tool.name().as_str())
        });
        let marks = snapshot.policy.untrusted_marking();
        let budget = snapshot.policy.discovery_budget();
        let (only_searched, listed): (Vec<_>, Vec<_>) =
            listed.partition(|tool| snapshot.policy.is_only_searched(tool));
        // Without search, they are not offered at all.
        let only_searched = only_searched.iter().filter(|_| budget.is_some());
        let only_searched: Vec<Tool> = only_searched
            .map(|tool| definition_with_marks(tool, marks))
            .collect();
        let listed = listed
            .iter()
            .map(|tool| (server_of(tool), definition_with_marks(tool, marks)));
        let listed: Vec<(Option<&str>, Tool)> = listed.collect();
        let searched = choose_searched_servers(&listed, budget);
        let names = searched.iter().flatten().map(|name| (*name).to_owned());
        let names: Vec<String> = names.collect();
        let (searchable, tools): (Vec<_>, Vec<_>) = listed
            .into_iter()
            .partition(|(server, _)| searched.contains(server));
        let without_server =
            |tools: Vec<(_, Tool)>| tools.into_iter().map(|(_, tool)| tool).collect();
        let (mut searchable, mut tools): (Vec<Tool>, Vec<Tool>) =
            (without_server(searchable), without_server(tools));
        searchable.extend(only_searched);
        // Added after the choice above: models do not read icons.
        if let Some(servers) = servers {
            let mut icons = servers.tool_icons();
            for tool in &mut tools {
                // A tool of mimir or of the workspace may have the name of a server's tool.
                let server = snapshot.registry.get(&tool.name);
                let server = server.and_then(|tool| server_of(tool));
                tool.icons = server
                    .and_then(|server| icons.remove(&(server.to_owned(), tool.name.to_string())));
            }
        }
        if !searchable.is_empty() {
            tools.extend(discovery::discovery_tools(searchable.len(), &names));
            tools.sort_by(|one, other| one.name.cmp(&other.name));
        }
        let seen_entries_of = |name: &str| {
            let tool = snapshot.registry.get(name);
            let tool = tool.filter(|tool| snapshot.policy.is_listed(tool))?;
            let seen_entries = tool.origin.listed.iter().filter(|entry| entry.is_seen);
            Some(seen_entries.map(|entry| entry.text.clone()).collect())
        };
        let library = servers.map(|servers| servers.build_library(seen_entries_of));
        Self {
            tools,
            searchable,
            library: library.unwrap_or_default(),
            skills: Vec::new(),
            snapshot,
        }
    }

    /// Sets the skills, whose files are resources, too.
    pub(crate) fn with_skills(mut self, skills: Vec<ServedSkill>) -> Self {
        self.skills = skills;
        self
    }

    /// Returns true if the catalogue was built from this snapshot.
    pub(crate) fn is_built_from(&self, snapshot: &Arc<PipelineSnapshot>) -> bool {
        Arc::ptr_eq(&self.snapshot, snapshot)
    }

    /// Increments the revision of each list that differs from the other catalogue's. Returns true if any does.
    pub(crate) fn count_changes(&self, other: &Self, revision: &mut ListRevision) -> bool {
        let (own, others) = (&self.library, &other.library);
        let tools = self.tools != other.tools || self.searchable != other.searchable;
        let prompts = own.prompts != others.prompts;
        let resources = own.resources != others.resources
            || own.templates != others.templates
            || self.skills != other.skills;
        revision.tools += u64::from(tools);
        revision.prompts += u64::from(prompts);
        revision.resources += u64::from(resources);
        tools || prompts || resources
    }

    /// Handles a call of a discovery tool. Returns `None` for another tool, or if there are no discovery tools.
    pub(crate) fn handle_discovery_call(
        &self,
        name: &str,
        arguments: &JsonObject,
    ) -> Option<discovery::DiscoveryReply> {
        if self.searchable.is_empty() {
            return None;
        }
        discovery::handle_discovery_call(name, arguments, &self.searchable, &self.tools)
    }

    /// Returns a page of tools, and the cursor of the next one. A cursor is the last name on the page before, so it
    /// remains valid when tools are added or removed.
    pub(crate) fn page(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<Tool>, Option<String>), ErrorData> {
        let after = cursor.unwrap_or_default();
        let start = self.tools.partition_point(|tool| &*tool.name <= after);
        let rest = &self.tools[start..];
        // A cursor is the name of a tool, and is only returned if more tools follow.
        let is_invalid = |cursor| rest.is_empty() || mimir_core::ToolName::new(cursor).is_err();
        if cursor.is_some_and(is_invalid) {
            return Err(ErrorData::invalid_params(
                "the cursor is not valid, or the list is shorter now: list the tools from the beginning",
                None,
            ));
        }
        let page = &rest[..rest.len().min(PAGE_SIZE)];
        let last = page.last().filter(|_| page.len() < rest.len());
        Ok((page.to_vec(), last.map(|tool| tool.name.to_string())))
    }
}

/// Returns the server or the HTTP API of a tool, or `None` for mimir's own tools and the others of the workspace.
fn server_of(tool: &mimir_core::Tool) -> Option<&str> {
    let has_server = tool.source == ToolSource::Mcp || tool.is_api_operation();
    has_server.then_some(tool.origin.plugin.as_str())
}

/// Chooses the servers whose tools are found by search instead of being listed: the largest ones, until the rest fits
/// into the token budget. All other tools form one group, which is considered last.
fn choose_searched_servers<'a>(
    tools: &[(Option<&'a str>, Tool)],
    budget: Option<u64>,
) -> BTreeSet<Option<&'a str>> {
    let mut searched = BTreeSet::new();
    let Some(budget) = budget else {
        return searched;
    };
    let mut sizes: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for (server, tool) in tools {
        *sizes.entry(*server).or_default() += discovery::estimate_tokens(tool);
    }
    let mut total: u64 = sizes.values().sum();
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    // The sort is stable: servers of equal size stay in the order of their names.
    sizes.sort_by_key(|(server, size)| (server.is_none(), Reverse(*size)));
    for (server, size) in sizes {
        if total <= budget {
            break;
        }
        total -= size;
        searched.insert(server);
    }
    searched
}

/// Converts a tool to the form of `tools/list`, with an output schema that results with these marks match.
fn definition_with_marks(tool: &mimir_core::Tool, marks: UntrustedMarking) -> Tool {
    let mut listed = definition(tool);
    match marks {
        UntrustedMarking::All => {
            let schema = listed.output_schema.take();
            listed.output_schema = schema.map(|schema| {
                let schema = Arc::unwrap_or_clone(schema);
                schema_object(untrusted_marks::relax_schema(Value::Object(schema)))
            });
        }
        UntrustedMarking::Text => listed.output_schema = None,
        UntrustedMarking::Minimal => {}
    }
    listed
}

/// Converts a tool to the form of `tools/list`.
pub fn definition(tool: &mimir_core::Tool) -> Tool {
    let definition = &tool.definition;
    let hints = trusted_hints(tool);
    let annotations = ToolAnnotations::from_raw(
        // Clients from before 2025-06-18 look for the title here.
        definition.title.clone(),
        Some(hints.read_only),
        Some(hints.destructive),
        Some(hints.idempotent),
        Some(hints.open_world),
    );
    let mut meta = JsonObject::new();
    let facts = json!({
        "source": tool.source.as_str(),
        "group": definition.group.as_str(),
        "risk": definition.risk.as_str(),
    });
    meta.insert(TOOL_META.to_owned(), facts);
    let mut description = definition.description.clone();
    if !tool.flags.is_empty() {
        meta.insert(FLAGS_META.to_owned(), json!(tool.flags));
        // In front of the description, so that a model reads it first.
        let flags = tool.flags.join("; ");
        description.insert_str(0, &format!("[mimir noticed, for its user: {flags}]\n"));
    }
    let mut listed = Tool::new(
        definition.name.to_string(),
        description,
        schema_object(definition.input_schema.to_value()),
    )
    .with_annotations(annotations)
    .with_meta(MetaObject(meta));
    listed.title.clone_from(&definition.title);
    if let Some(schema) = &definition.output_schema {
        listed = listed.with_raw_output_schema(schema_object(schema.to_value()));
    }
    listed
}

/// Returns the hints on a tool's effects for clients. Clients may ask their user less often for a tool that claims to
/// be harmless, so hints count only if the user trusts the tool, or if the tool has no imports.
fn trusted_hints(tool: &mimir_core::Tool) -> ToolHints {
    match (tool.source, tool.trust) {
        // A user who allows the tools of a server has seen their descriptions, not their effects.
        (
            ToolSource::BuiltIn | ToolSource::Custom | ToolSource::Teams,
            ToolTrust::Trusted | ToolTrust::Harmless,
        ) => tool.definition.hints,
        _ => ToolHints {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: true,
        },
    }
}

/// Converts a schema to MCP's form, in which the root must declare an object.
fn schema_object(schema: Value) -> Arc<JsonObject> {
    match for_models(schema) {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}
