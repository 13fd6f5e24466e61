//! The state of the workspace that an approval is bound to: the content of executed files, and the targets of links
//! among the arguments. A yes to `sh build.sh` covers that file with its current content.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::RealPath;
use crate::policy::LinkResolver;
use crate::tool::{ToolGroup, ToolSource};

use super::stored_approval::ApprovalLookup;

/// The state of the workspace that a person approved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceBinding {
    /// Executed files, each with the id of its content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    code: BTreeMap<String, String>,
    /// Arguments that are paths through links, each with its target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    leads: BTreeMap<String, String>,
}

/// The target of a path that leads to no file of the workspace.
const OUTSIDE: &str = "..";

impl WorkspaceBinding {
    /// Captures the current state. Unknown content is left out, and then nothing is covered.
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

    /// Returns true if these files are unchanged.
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

    /// Lists the files for a person; `None` if there are none.
    pub(crate) fn describe_files<'a>(code: impl IntoIterator<Item = &'a String>) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        for path in code {
            let shown = match path.is_empty() {
                true => "a file that is not known".to_owned(),
                false => format!("`{}`", crate::text::visible(path)),
            };
            if !names.contains(&shown) {
                names.push(shown);
            }
        }
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Returns the targets of the path arguments of a file tool that differ from the paths as written.
fn link_targets(lookup: &ApprovalLookup<'_>) -> BTreeMap<String, String> {
    let tool = lookup.tool;
    if tool.source != ToolSource::BuiltIn || tool.definition.group != ToolGroup::Fs {
        return BTreeMap::new();
    }
    let links = LinkResolver::for_tool(tool);
    let arguments = lookup.arguments.as_object().into_iter().flatten();
    let paths = arguments.filter_map(|(name, value)| {
        // Another argument that happens to match a link's name costs one lookup and does no harm.
        let target = match links.resolve(value.as_str()?) {
            RealPath::AsWritten => return None,
            RealPath::Other(path) => path,
            RealPath::Outside => OUTSIDE.to_owned(),
        };
        Some((name.clone(), target))
    });
    paths.collect()
}
