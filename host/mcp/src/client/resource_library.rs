//! Resources and prompts of servers as mimir's clients see them, made safe to show, with names that distinguish the
//! servers.
//!
//! For a server with a prefix, each URI contains the server's name (`mcp://NAME/URI`), and each prompt name begins with
//! the prefix. For a server without a prefix, names are unchanged.
//!
//! Out of scope: the content of a resource or prompt, which is read by a tool call.

use std::collections::{BTreeSet, HashSet};

use mimir_core::{ListedEntry, text};
use rmcp::model::{Prompt, Resource, ResourceTemplate};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::description::ServerDescription;
use super::flags::escape_invisible_in_value;
use super::icons;
use super::reader_tools::EntryKind;
use super::spec::ServerSpec;

/// Maximum number of entries of a kind per server, and maximum size of each in bytes.
const MAX_ENTRIES: usize = 1_000;
const MAX_ENTRY_SIZE: usize = 32 << 10;

/// Resources and prompts of all servers.
#[derive(Debug, Default)]
pub(crate) struct ResourceLibrary {
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) prompts: Vec<Prompt>,
}

impl ResourceLibrary {
    /// Adds the entries of a server that the user has seen. `seen_entries_of` returns them for a reader tool.
    pub(super) fn add(
        &mut self,
        spec: &ServerSpec,
        described: &ServerDescription,
        seen_entries_of: impl Fn(&str) -> Option<HashSet<String>>,
    ) {
        if spec.resources
            && let Some(seen_entries) = seen_entries_of(&EntryKind::Resources.name(spec))
        {
            let to_client_uri = |uri: &mut String| *uri = client_uri(spec, uri);
            self.resources.extend(parse_entries(
                RESOURCE,
                &described.resources,
                &seen_entries,
                |one: &mut Resource| {
                    (one.icons, one.meta) = (icons::check_icons(one.icons.take()), None);
                    to_client_uri(&mut one.uri);
                },
            ));
            self.templates.extend(parse_entries(
                TEMPLATE,
                &described.templates,
                &seen_entries,
                |one: &mut ResourceTemplate| {
                    (one.icons, one.meta) = (icons::check_icons(one.icons.take()), None);
                    to_client_uri(&mut one.uri_template);
                },
            ));
        }
        if spec.prompts
            && let Some(seen_entries) = seen_entries_of(&EntryKind::Prompts.name(spec))
        {
            self.prompts.extend(parse_entries(
                PROMPT,
                &described.prompts,
                &seen_entries,
                |one: &mut Prompt| {
                    (one.icons, one.meta) = (icons::check_icons(one.icons.take()), None);
                    one.name = format!("{}{}", spec.prefix, one.name);
                },
            ));
        }
    }
}

/// Labels for the entries of each list.
const PROMPT: &str = "prompt";
const RESOURCE: &str = "resource";
const TEMPLATE: &str = "resource template";

/// Members of an entry that contain text for a model or the user.
const TEXT_MEMBERS: [&str; 7] = [
    "name",
    "title",
    "uri",
    "uriTemplate",
    "description",
    "mimeType",
    "arguments",
];

/// Maximum length of the beginning of an entry's text in its line, in characters.
const MAX_LINE_CHARS: usize = 160;

/// Returns the entries of all lists, one line each, in the form that grants store.
pub(super) fn entries(spec: &ServerSpec, described: &ServerDescription) -> Vec<ListedEntry> {
    let lists = [
        (spec.prompts, PROMPT, &described.prompts),
        (spec.resources, RESOURCE, &described.resources),
        (spec.resources, TEMPLATE, &described.templates),
    ];
    let lists = lists.into_iter().filter(|(enabled, ..)| *enabled);
    let lines = lists.flat_map(|(_, kind, list)| {
        let list = list.iter().take(MAX_ENTRIES);
        list.map(move |item| entry_line(kind, item))
    });
    // Sorted, so that the order in which a server lists its entries does not matter.
    let lines: BTreeSet<String> = lines.collect();
    let entry = |text| ListedEntry {
        text,
        is_seen: false,
    };
    lines.into_iter().map(entry).collect()
}

/// Returns an entry as one line: the beginning of its text, and the digest of the whole entry.
fn entry_line(kind: &str, item: &Value) -> String {
    let mut hash = Sha256::new();
    let mut texts = Vec::new();
    for key in TEXT_MEMBERS {
        let text = match &item[key] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        for part in [key, &text] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        texts.push(format!("{key}: {text}"));
    }
    let texts = text::visible(&texts.join(", "));
    let digest = format!("{:x}", hash.finalize());
    format!(
        "{kind} ({}) sha256 {}",
        text::prefix(&texts, MAX_LINE_CHARS),
        text::prefix(&digest, 32)
    )
}

/// Returns the valid entries of a list that the user has seen. An invalid entry does not affect the others.
fn parse_entries<T: DeserializeOwned>(
    kind: &str,
    items: &[Value],
    seen_entries: &HashSet<String>,
    adapt: impl Fn(&mut T),
) -> Vec<T> {
    let entries = items.iter().take(MAX_ENTRIES).filter_map(|item| {
        if !seen_entries.contains(&entry_line(kind, item)) {
            return None;
        }
        let mut item = item.clone();
        if item.to_string().len() > MAX_ENTRY_SIZE {
            return None;
        }
        escape_invisible_in_value(&mut item);
        let mut item: T = serde_json::from_value(item).ok()?;
        adapt(&mut item);
        Some(item)
    });
    entries.collect()
}

/// Converts a server's URI to the URI that clients know.
pub(super) fn client_uri(spec: &ServerSpec, remote_uri: &str) -> String {
    if spec.prefix.is_empty() {
        remote_uri.to_owned()
    } else {
        format!("mcp://{}/{remote_uri}", spec.name)
    }
}

/// Converts a URI that clients know to the server's URI. Returns `None` if the URI does not name the server.
pub(super) fn server_uri<'a>(spec: &ServerSpec, uri: &'a str) -> Option<&'a str> {
    let rest = uri.strip_prefix("mcp://")?;
    let rest = rest.strip_prefix(spec.name.as_str())?;
    rest.strip_prefix('/').filter(|_| !spec.prefix.is_empty())
}

/// Returns true if a server without a prefix lists this resource, or a template whose beginning matches the URI.
pub(super) fn has_resource(described: &ServerDescription, uri: &str) -> bool {
    let is_listed = |one: &Value| one["uri"] == uri;
    let matches_template = |one: &Value| {
        let template = one["uriTemplate"].as_str().unwrap_or_default();
        let head = template.split('{').next().unwrap_or_default();
        !head.is_empty() && uri.starts_with(head)
    };
    described.resources.iter().any(is_listed) || described.templates.iter().any(matches_template)
}
