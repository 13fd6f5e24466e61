//! What servers have beside tools, as the clients of mimir see it: resources and prompts under names that tell the
//! servers apart, made safe to show.
//!
//! A server with a prefix has its name in each URI (`mcp://NAME/URI`) and its prefix before the name of each prompt;
//! one without has them as they are.
//!
//! Never here: what a resource or prompt says. That is read by a call.

use std::collections::{BTreeSet, HashSet};

use mimir_core::{ListedEntry, text};
use rmcp::model::{Prompt, Resource, ResourceTemplate};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::described::Described;
use super::flags::show_value;
use super::readers::Reads;
use super::spec::ServerSpec;

/// Items of a kind that are looked at of one server, and bytes of each.
const ITEMS_MOST: usize = 1_000;
const ITEM_MOST: usize = 32 << 10;

/// What all servers have beside tools.
#[derive(Debug, Default)]
pub(crate) struct Library {
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) prompts: Vec<Prompt>,
}

impl Library {
    /// Adds the entries of one server that a person has seen, which `shows` gives for the tool that reads them.
    pub(super) fn add(
        &mut self,
        spec: &ServerSpec,
        described: &Described,
        shows: impl Fn(&str) -> Option<HashSet<String>>,
    ) {
        if spec.resources
            && let Some(seen) = shows(&Reads::Resources.name(spec))
        {
            let named = |uri: &mut String| *uri = uri_here(spec, uri);
            self.resources.extend(items(
                RESOURCE,
                &described.resources,
                &seen,
                |one: &mut Resource| {
                    (one.icons, one.meta) = (None, None);
                    named(&mut one.uri);
                },
            ));
            self.templates.extend(items(
                TEMPLATE,
                &described.templates,
                &seen,
                |one: &mut ResourceTemplate| {
                    (one.icons, one.meta) = (None, None);
                    named(&mut one.uri_template);
                },
            ));
        }
        if spec.prompts
            && let Some(seen) = shows(&Reads::Prompts.name(spec))
        {
            self.prompts.extend(items(
                PROMPT,
                &described.prompts,
                &seen,
                |one: &mut Prompt| {
                    (one.icons, one.meta) = (None, None);
                    one.name = format!("{}{}", spec.prefix, one.name);
                },
            ));
        }
    }
}

/// The words for an entry of each list.
const PROMPT: &str = "prompt";
const RESOURCE: &str = "resource";
const TEMPLATE: &str = "resource template";

/// The members of an entry that have words for a model or a person.
const WORDS: [&str; 7] = [
    "name",
    "title",
    "uri",
    "uriTemplate",
    "description",
    "mimeType",
    "arguments",
];

/// Characters of an entry that are shown in its line.
const LINE_MOST: usize = 160;

/// The entries of all lists, a line for each, as a grant keeps them.
pub(super) fn entries(spec: &ServerSpec, described: &Described) -> Vec<ListedEntry> {
    let lists = [
        (spec.prompts, PROMPT, &described.prompts),
        (spec.resources, RESOURCE, &described.resources),
        (spec.resources, TEMPLATE, &described.templates),
    ];
    let lists = lists.into_iter().filter(|(shared, ..)| *shared);
    let lines = lists.flat_map(|(_, kind, list)| {
        let list = list.iter().take(ITEMS_MOST);
        list.map(move |item| words(kind, item))
    });
    // Sorted, so that the order in which a server lists its entries changes nothing.
    let lines: BTreeSet<String> = lines.collect();
    let entry = |words| ListedEntry {
        words,
        is_seen: false,
    };
    lines.into_iter().map(entry).collect()
}

/// An entry in one line: the beginning of its words, and the digest of all of them.
fn words(kind: &str, item: &Value) -> String {
    let mut hash = Sha256::new();
    let mut shown = Vec::new();
    for key in WORDS {
        let text = match &item[key] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        for part in [key, &text] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        shown.push(format!("{key}: {text}"));
    }
    let shown = text::visible(&shown.join(", "));
    let digest = format!("{:x}", hash.finalize());
    format!(
        "{kind} ({}) sha256 {}",
        text::prefix(&shown, LINE_MOST),
        text::prefix(&digest, 32)
    )
}

/// The entries of a list that can be read and that a person has seen. One that is broken harms no other.
fn items<T: DeserializeOwned>(
    kind: &str,
    theirs: &[Value],
    seen: &HashSet<String>,
    fit: impl Fn(&mut T),
) -> Vec<T> {
    let all = theirs.iter().take(ITEMS_MOST).filter_map(|item| {
        if !seen.contains(&words(kind, item)) {
            return None;
        }
        let mut item = item.clone();
        if item.to_string().len() > ITEM_MOST {
            return None;
        }
        show_value(&mut item);
        let mut item: T = serde_json::from_value(item).ok()?;
        fit(&mut item);
        Some(item)
    });
    all.collect()
}

/// A URI of theirs as clients of mimir see it.
pub(super) fn uri_here(spec: &ServerSpec, theirs: &str) -> String {
    match spec.prefix.is_empty() {
        true => theirs.to_owned(),
        false => format!("mcp://{}/{theirs}", spec.name),
    }
}

/// The URI that a server knows this one by, if it names the server.
pub(super) fn uri_there<'a>(spec: &ServerSpec, ours: &'a str) -> Option<&'a str> {
    let rest = ours.strip_prefix("mcp://")?;
    let rest = rest.strip_prefix(spec.name.as_str())?;
    rest.strip_prefix('/').filter(|_| !spec.prefix.is_empty())
}

/// Whether a server without a prefix has a resource of this URI: it lists it, or a template of its begins so.
pub(super) fn has(described: &Described, uri: &str) -> bool {
    let listed = |one: &Value| one["uri"] == uri;
    let begins = |one: &Value| {
        let template = one["uriTemplate"].as_str().unwrap_or_default();
        let head = template.split('{').next().unwrap_or_default();
        !head.is_empty() && uri.starts_with(head)
    };
    described.resources.iter().any(listed) || described.templates.iter().any(begins)
}
