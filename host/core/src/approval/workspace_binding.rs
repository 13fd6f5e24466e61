//! The state of the workspace that an approval is bound to: the content of executed files, and the targets of links
//! among the arguments. An approval of `sh build.sh` covers that file only while its content is unchanged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::RealPath;
use crate::policy::LinkResolver;
use crate::tool::{ToolGroup, ToolSource};

use super::stored_approval::ApprovalLookup;

/// The state of the workspace at the time of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceBinding {
    /// Paths of executed files, each with the id of the file's content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    code: BTreeMap<String, String>,
    /// Names of arguments that are paths through links, each with the target path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    leads: BTreeMap<String, String>,
}

/// Stored target of a path that leads out of the workspace.
const OUTSIDE: &str = "..";

impl WorkspaceBinding {
    /// Captures the current state. A file with unknown content is left out, so the approval never covers a later call.
    pub(super) fn capture(lookup: &ApprovalLookup<'_>) -> Self {
        let with_content = |path: &String| {
            let content = lookup.tool.backend.content_id(path)?;
            Some((path.clone(), content))
        };
        Self {
            code: lookup
                .evaluation
                .executed_files()
                .filter_map(with_content)
                .collect(),
            leads: link_targets(lookup),
        }
    }

    /// Returns true if nothing is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.code.is_empty() && self.leads.is_empty()
    }

    /// Returns true if the links among the arguments have the same targets.
    pub(super) fn links_match(&self, lookup: &ApprovalLookup<'_>) -> bool {
        self.leads == link_targets(lookup)
    }

    /// Returns true if all these files are bound and unchanged.
    pub(super) fn files_match<'a>(
        &self,
        lookup: &ApprovalLookup<'_>,
        code: impl IntoIterator<Item = &'a String>,
    ) -> bool {
        code.into_iter().all(|path| {
            let content = lookup.tool.backend.content_id(path);
            content.is_some() && self.code.get(path) == content.as_ref()
        })
    }

    /// Says for display that files stay unchanged, such as "`a.sh`, `b.sh` stay as they are". `None` if there are none.
    pub(crate) fn describe_files<'a>(code: impl IntoIterator<Item = &'a String>) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        for path in code {
            let shown = if path.is_empty() {
                "an unknown file".to_owned()
            } else {
                format!("`{}`", crate::text::visible(path))
            };
            if !names.contains(&shown) {
                names.push(shown);
            }
        }
        match names.as_slice() {
            [] => None,
            [name] => Some(format!("{name} stays as it is")),
            names => Some(format!("{} stay as they are", names.join(", "))),
        }
    }
}

/// Returns the arguments of a built-in file tool that are paths through links, each with the target path.
fn link_targets(lookup: &ApprovalLookup<'_>) -> BTreeMap<String, String> {
    let tool = lookup.tool;
    if tool.source != ToolSource::BuiltIn || tool.definition.group != ToolGroup::Fs {
        return BTreeMap::new();
    }
    let links = LinkResolver::for_tool(tool);
    let arguments = lookup.arguments.as_object().into_iter().flatten();
    let paths = arguments.filter_map(|(name, value)| {
        // An argument that is not a path, but equals a link's name, costs one lookup and does no harm.
        let target = match links.resolve(value.as_str()?) {
            RealPath::AsWritten => return None,
            RealPath::Other(path) => path,
            RealPath::Outside => OUTSIDE.to_owned(),
        };
        Some((name.clone(), target))
    });
    paths.collect()
}
