//! Grants of plugins, and the check that a grant still matches the plugin's current build.
//!
//! A grant is bound to the bytes of a plugin. When the bytes change, the imports, the needs and the tool definitions
//! show whether the new build requests anything else. Out of scope: reading and writing the lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::needs::{HostNeed, NeedKind, Needs};
use crate::text;
use crate::tool::{ListedEntry, Tool, ToolDefinition, ToolOrigin, ToolSource, ToolTrust};

mod build_changes;
mod named_rights;
mod skills;
mod sources;

pub use build_changes::build_changes;
pub use named_rights::{
    apply_prefixes, files_remedy, is_foreign, lacks_files, named_folder, named_host,
    retain_importable, takes_config, takes_files, takes_hosts, takes_variables,
};
pub use skills::SkillPin;
pub use sources::{SourceRecord, SourceSigner};

/// The content of `.mimir/tools.lock`: the grants of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsLock {
    /// The format version of the file.
    pub version: u32,
    /// The grants, by the location of the plugin.
    #[serde(default)]
    pub plugins: BTreeMap<String, Grant>,
    /// Prefixes for tool names, by the location of the plugin. A prefix grants nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prefixes: BTreeMap<String, String>,
    /// Sources of the components, by the location of the plugin. A source grants nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, SourceRecord>,
    /// Pinned skills, by name. A pin counts only for users who have accepted it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skills: BTreeMap<String, SkillPin>,
}

/// The format version of the lock file that this release reads and writes.
pub const LOCK_VERSION: u32 = 1;

impl Default for ToolsLock {
    fn default() -> Self {
        Self {
            version: LOCK_VERSION,
            plugins: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            sources: BTreeMap::new(),
            skills: BTreeMap::new(),
        }
    }
}

/// A person's consent to the needs of one build of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// sha256 of the plugin file in lower-case hex.
    pub digest: String,
    /// The interfaces that the plugin imports, sorted. For a server: the lines that describe how it is started or
    /// reached.
    pub imports: Vec<String>,
    /// The tools of the plugin, by name.
    pub tools: BTreeMap<String, ToolGrant>,
    /// Kinds of needs that were withheld.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<NeedKind>,
    /// Hosts granted by name to a component that cannot declare its needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostNeed>,
    /// Other rights granted by name to such a component: folders, variables, settings and secrets.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub named: Needs,
    /// The prompts, resources and templates that the server listed when it was granted, one line each. Grants of older
    /// versions lack this field and cover only the tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<BTreeSet<String>>,
}

/// The grant for one tool of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolGrant {
    /// sha256 over the tool's name, title, description, schemas, default approval and risk, in lower-case hex.
    pub definition: String,
    /// The needs of the tool when it was granted.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub needs: Needs,
    /// The definition of a server's tool when it was granted, line by line, for showing changes to the person.
    #[serde(default, rename = "said", skip_serializing_if = "Vec::is_empty")]
    pub declaration: Vec<String>,
}

/// The result of comparing a plugin with its grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantStatus {
    /// The plugin is the granted build.
    Granted,
    /// The plugin is another build, or has no tools.
    Changed(GrantChanges),
}

/// The differences between a plugin's build and the granted one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GrantChanges {
    /// The differences in imports, needs, definitions and lists, one line each. Empty if there are none.
    pub lines: Vec<String>,
    /// The kinds of needs that the grant withholds.
    pub withheld: Vec<NeedKind>,
}

impl GrantChanges {
    /// Returns an id of the changes: sha256 over all fields, in lower-case hex.
    pub(crate) fn id(&self) -> String {
        let text = serde_json::to_vec(&(&self.lines, &self.withheld)).unwrap_or_default();
        format!("{:x}", Sha256::digest(text))
    }
}

impl Grant {
    /// Creates a grant for the tools of one plugin, without the withheld kinds of needs. `None` if there are no tools.
    pub fn new(tools: &[Arc<Tool>], withheld: Vec<NeedKind>) -> Option<Self> {
        let origin = &tools.first()?.origin;
        let tool_grants = tools.iter().map(|tool| {
            let needs = if is_foreign(tool) {
                // Named rights of the previous grant do not carry over: the person names them again.
                Needs::default()
            } else {
                tool.definition.needs.clone()
            };
            let grant = ToolGrant {
                definition: definition_hash(tool),
                needs,
                declaration: match tool.source {
                    ToolSource::Mcp => declaration_lines(&tool.definition),
                    _ => Vec::new(),
                },
            };
            (tool.own_name().to_owned(), grant)
        });
        Some(Self {
            digest: origin.digest.clone(),
            imports: sorted(&origin.imports),
            tools: tool_grants.collect(),
            withheld,
            hosts: Vec::new(),
            named: Needs::default(),
            listed: tools
                .iter()
                .any(|tool| tool.source == ToolSource::Mcp)
                .then(|| seen_entries(origin).collect()),
        })
    }

    /// Extends the grant to all entries that the server of these tools lists. Call it only after a person has read
    /// every entry.
    #[must_use]
    pub fn with_listed(mut self, tools: &[Arc<Tool>]) -> Self {
        let entries = tools.first().map(|tool| listed_lines(&tool.origin));
        self.listed = entries.map(|entries| entries.map(str::to_owned).collect());
        self
    }

    /// Sets the rights that a person grants by name to tools that cannot declare their needs.
    #[must_use]
    pub fn with_named(mut self, mut named: Needs) -> Self {
        self.hosts = std::mem::take(&mut named.hosts);
        self.named = named;
        self
    }

    /// Returns the rights that a person has granted by name to tools that cannot declare their needs.
    pub fn named(&self) -> Needs {
        Needs {
            hosts: self.hosts.clone(),
            ..self.named.clone()
        }
    }

    /// Returns the id of the grant for the plugin at `location`: sha256 over the location and all fields, in lower-case
    /// hex. The user's own record of consents stores this id, so a lock file from a checkout grants nothing.
    pub fn id(&self, location: &str) -> String {
        let mut hash = Sha256::new();
        hash.update((location.len() as u64).to_le_bytes());
        hash.update(location);
        // Maps are sorted and fields have a fixed order, so equal grants have equal JSON.
        hash.update(serde_json::to_vec(self).unwrap_or_default());
        format!("{:x}", hash.finalize())
    }

    /// Compares the current tools of a plugin with this grant.
    pub fn status(&self, tools: &[Arc<Tool>]) -> GrantStatus {
        match tools.first() {
            Some(tool) if tool.origin.digest == self.digest => GrantStatus::Granted,
            Some(_) => GrantStatus::Changed(GrantChanges {
                lines: self.changes(tools),
                withheld: self.withheld.clone(),
            }),
            None => GrantStatus::Changed(GrantChanges::default()),
        }
    }

    /// Returns the granted part of a tool's needs.
    pub fn granted_needs(&self, tool: &Tool) -> Needs {
        let Some(grant) = self.tools.get(tool.own_name()) else {
            return Needs::default();
        };
        let mut needs = if is_foreign(tool) {
            retain_importable(tool, self.named())
        } else {
            let mut needs = tool.definition.needs.clone();
            needs.retain_granted(&grant.needs);
            needs
        };
        self.withheld.iter().for_each(|kind| needs.clear(*kind));
        needs
    }

    /// Returns true if a server's tool still has the definition that a person has seen, and the server is still started
    /// or reached in the same way.
    fn matches_seen_tool(&self, tool: &Tool) -> bool {
        let granted = self.tools.get(tool.own_name());
        self.imports == sorted(&tool.origin.imports)
            && granted.is_some_and(|granted| granted.definition == definition_hash(tool))
    }

    /// Returns the origin of a server's tools with the entries that a person has seen marked.
    fn mark_seen(&self, origin: &ToolOrigin) -> ToolOrigin {
        let mut origin = origin.clone();
        for entry in &mut origin.listed {
            entry.is_seen = self
                .listed
                .as_ref()
                .is_some_and(|listed| listed.contains(&entry.text));
        }
        origin
    }

    fn changes(&self, tools: &[Arc<Tool>]) -> Vec<String> {
        let mut changes = Vec::new();
        let imports = tools.first().map_or_else(Vec::new, |tool| {
            without_patch_versions(&tool.origin.imports)
        });
        let is_server = tools
            .first()
            .is_some_and(|tool| tool.source == ToolSource::Mcp);
        // The "imports" of a server are lines that describe how it is started or reached.
        let verb = if is_server { "is" } else { "imports" };
        differences(
            verb,
            &without_patch_versions(&self.imports),
            &imports,
            &mut changes,
        );
        for tool in tools {
            let name = tool.own_name();
            let Some(before) = self.tools.get(name) else {
                changes.push(format!("has a new tool `{name}`"));
                let needs = tool.definition.needs.lines();
                differences(&format!("`{name}` may"), &[], &needs, &mut changes);
                if tool.source == ToolSource::Mcp {
                    let declaration = declaration_lines(&tool.definition);
                    differences(
                        &format!("`{name}` declares"),
                        &[],
                        &declaration,
                        &mut changes,
                    );
                }
                continue;
            };
            let (old, new) = (before.needs.lines(), tool.definition.needs.lines());
            differences(&format!("`{name}` may"), &old, &new, &mut changes);
            if before.definition != definition_hash(tool) {
                changes.push(format!(
                    "`{name}` has another description, schema, approval or risk"
                ));
                if tool.source == ToolSource::Mcp {
                    let declaration = declaration_lines(&tool.definition);
                    differences(
                        &format!("`{name}` declares"),
                        &before.declaration,
                        &declaration,
                        &mut changes,
                    );
                }
            }
        }
        if let (Some(before), Some(tool)) = (&self.listed, tools.first()) {
            let before: Vec<String> = before.iter().cloned().collect();
            let now: Vec<String> = listed_lines(&tool.origin).map(str::to_owned).collect();
            differences("lists", &before, &now, &mut changes);
        }
        for name in self.tools.keys() {
            if !tools.iter().any(|tool| tool.own_name() == name) {
                changes.push(format!("no longer has the tool `{name}`"));
            }
        }
        changes.iter().map(|line| text::visible(line)).collect()
    }
}

/// Applies the grants of the lock file to the tools. `has_consent` gets the plugin's location and the grant's id, and
/// returns true if a person has consented to that grant. Returns one line for each grant that is ignored or has lost
/// rights.
pub fn apply(
    lock: &ToolsLock,
    tools: &mut [Tool],
    has_consent: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (location, grant) in &lock.plugins {
        let named = grant.named();
        // A harmless component can still receive rights that a person grants by name.
        let takes_grant = |tool: &Tool| match tool.trust {
            ToolTrust::Untrusted => true,
            ToolTrust::Harmless => is_foreign(tool) && !named.is_empty(),
            ToolTrust::Trusted => false,
        };
        let is_affected = |tool: &&mut Tool| tool.origin.location == *location && takes_grant(tool);
        let plugin_tools: Vec<Arc<Tool>> = tools
            .iter()
            .filter(|tool| tool.origin.location == *location)
            .map(|tool| Arc::new(tool.clone()))
            .collect();
        // A lock file may come from a checkout, so it must not grant anything by itself.
        if !has_consent(location, &grant.id(location)) {
            if let Some(tool) = plugin_tools.first() {
                problems.push(format!(
                    "the grant of {location} in tools.lock is ignored, because you did not give it on this machine; to give it, run `mimir tools trust {}`",
                    tool.trust_argument()
                ));
            }
            continue;
        }
        let status = grant.status(&plugin_tools);
        let loses_rights =
            |tool: &&Arc<Tool>| tool.trust == ToolTrust::Harmless && takes_grant(tool);
        if let (GrantStatus::Changed(_), Some(tool)) =
            (&status, plugin_tools.iter().find(loses_rights))
        {
            problems.push(format!(
                "{location} has changed since it was granted files or settings, so it no longer has access to them; to review and grant them again, run `mimir tools trust {}`",
                tool.trust_argument()
            ));
        }
        let marked_origin = plugin_tools
            .first()
            .filter(|tool| !tool.origin.listed.is_empty())
            .map(|tool| Arc::new(grant.mark_seen(&tool.origin)));
        for tool in tools.iter_mut().filter(is_affected) {
            if let Some(origin) = &marked_origin {
                tool.origin = Arc::clone(origin);
            }
            match &status {
                GrantStatus::Granted => {
                    if is_foreign(tool) {
                        // Shown like declared needs.
                        tool.definition.needs = retain_importable(tool, named.clone());
                    }
                    tool.granted = grant.granted_needs(tool);
                    tool.trust = ToolTrust::Trusted;
                }
                // One changed tool of a server does not affect the grants of the server's unchanged tools.
                GrantStatus::Changed(_)
                    if tool.source == ToolSource::Mcp && grant.matches_seen_tool(tool) =>
                {
                    tool.trust = ToolTrust::Trusted;
                }
                GrantStatus::Changed(_) if tool.trust == ToolTrust::Harmless => {}
                GrantStatus::Changed(changes) => tool.changes = Some(changes.clone()),
            }
        }
    }
    problems
}

/// Returns the entries of a server's lists that its grant covers.
fn seen_entries(origin: &ToolOrigin) -> impl Iterator<Item = String> {
    let seen = origin.listed.iter().filter(|entry| entry.is_seen);
    seen.map(|entry| entry.text.clone())
}

/// Returns the entries of a server's lists, one line each.
fn listed_lines(origin: &ToolOrigin) -> impl Iterator<Item = &str> {
    origin
        .listed
        .iter()
        .map(|entry: &ListedEntry| entry.text.as_str())
}

/// Adds a description of each line that was added or removed: `now {verb} …` or `no longer {verb} …`.
fn differences(verb: &str, old: &[String], new: &[String], changes: &mut Vec<String>) {
    for line in new.iter().filter(|line| !old.contains(line)) {
        changes.push(format!("now {verb} {line}"));
    }
    for line in old.iter().filter(|line| !new.contains(line)) {
        changes.push(format!("no longer {verb} {line}"));
    }
}

fn sorted(imports: &[String]) -> Vec<String> {
    let mut imports = imports.to_vec();
    imports.sort();
    imports
}

/// Returns imports without the patch versions of WASI packages, sorted. A patch version changes no interface, and every
/// new toolchain has new patch versions.
fn without_patch_versions(imports: &[String]) -> Vec<String> {
    let unpatched = imports.iter().map(|import| {
        let versioned = import.split_once('@');
        let Some((name, version)) = versioned.filter(|(name, _)| name.starts_with("wasi:")) else {
            return import.clone();
        };
        let parts: Vec<&str> = version.split('.').collect();
        let number = |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        match parts.as_slice() {
            // Only release versions: a pre-release may change any interface.
            [major, minor, _] if parts.iter().all(number) => format!("{name}@{major}.{minor}"),
            _ => import.clone(),
        }
    });
    let mut unpatched: Vec<String> = unpatched.collect();
    unpatched.sort();
    unpatched.dedup();
    unpatched
}

/// Returns the definition of a tool as lines.
fn declaration_lines(definition: &ToolDefinition) -> Vec<String> {
    let mut lines = Vec::new();
    let title = definition.title.iter();
    lines.extend(title.map(|title| format!("title: {title}")));
    let description = definition.description.lines();
    lines.extend(description.map(|line| format!("description: {line}")));
    let schemas = [
        ("input", Some(&definition.input_schema)),
        ("output", definition.output_schema.as_ref()),
    ];
    for (direction, schema) in schemas {
        let Some(schema) = schema else { continue };
        let value = schema.to_value();
        let Some(object) = value.as_object() else {
            continue;
        };
        // One line for each property, so that a change shows only the affected property.
        for (key, value) in object {
            match value.as_object().filter(|_| key == "properties") {
                Some(properties) => lines.extend(
                    properties
                        .iter()
                        .map(|(name, value)| format!("{direction}.{name}: {value}")),
                ),
                None => lines.push(format!("{direction} {key}: {value}")),
            }
        }
    }
    lines.iter().map(|line| text::visible(line)).collect()
}

fn definition_hash(tool: &Tool) -> String {
    let (name, definition) = (tool.own_name(), &tool.definition);
    let parts = [
        Some(name),
        definition.title.as_deref(),
        Some(&definition.description),
        Some(definition.input_schema.as_str()),
        definition
            .output_schema
            .as_ref()
            .map(|schema| schema.as_str()),
        Some(definition.approval.as_str()),
        Some(definition.risk.as_str()),
    ];
    let mut hash = Sha256::new();
    for part in parts {
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        hash.update(length.to_le_bytes());
        hash.update(part.unwrap_or_default());
    }
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests;
