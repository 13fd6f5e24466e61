//! What servers have beside tools, as the clients of mimir see it: resources and prompts under names that tell the
//! servers apart, made safe to show.
//!
//! A server with a prefix has its name in each URI (`mcp://NAME/URI`) and its prefix before the name of each prompt;
//! one without has them as they are.
//!
//! Never here: what a resource or prompt says. That is read by a call.

use rmcp::model::{Prompt, Resource, ResourceTemplate};
use serde::de::DeserializeOwned;
use serde_json::Value;

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
    /// Adds what one server has, as far as `shows` shows what it is read by.
    pub(super) fn add(
        &mut self,
        spec: &ServerSpec,
        described: &Described,
        shows: impl Fn(&str) -> bool,
    ) {
        if spec.resources && shows(&Reads::Resources.name(spec)) {
            let named = |uri: &mut String| *uri = uri_here(spec, uri);
            self.resources
                .extend(items(&described.resources, |one: &mut Resource| {
                    (one.icons, one.meta) = (None, None);
                    named(&mut one.uri);
                }));
            self.templates
                .extend(items(&described.templates, |one: &mut ResourceTemplate| {
                    (one.icons, one.meta) = (None, None);
                    named(&mut one.uri_template);
                }));
        }
        if spec.prompts && shows(&Reads::Prompts.name(spec)) {
            self.prompts
                .extend(items(&described.prompts, |one: &mut Prompt| {
                    (one.icons, one.meta) = (None, None);
                    one.name = format!("{}{}", spec.prefix, one.name);
                }));
        }
    }
}

/// What of a list can be read and shown. One that is broken harms no other.
fn items<T: DeserializeOwned>(theirs: &[Value], fit: impl Fn(&mut T)) -> Vec<T> {
    let all = theirs.iter().take(ITEMS_MOST).filter_map(|item| {
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
