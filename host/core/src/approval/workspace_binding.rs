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
const NOWHERE: &str = "..";

impl WorkspaceBinding {
    /// Captures the current state. Unknown content is left out, and then nothing is covered.
    pub(super) fn capture(question: &ApprovalLookup<'_>) -> Self {
        let known = |path: &String| {
            let content = question.tool.backend.content_id(path)?;
            Some((path.clone(), content))
        };
        Self {
            code: question
                .evaluation
                .executed_files()
                .filter_map(known)
                .collect(),
            leads: leads(question),
        }
    }

    /// Returns true if nothing is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.code.is_empty() && self.leads.is_empty()
    }

    /// Returns true if the links among the arguments have the same targets.
    pub(super) fn links_match(&self, question: &ApprovalLookup<'_>) -> bool {
        self.leads == leads(question)
    }

    /// Returns true if these files are unchanged.
    pub(super) fn has<'a>(
        &self,
        question: &ApprovalLookup<'_>,
        code: impl IntoIterator<Item = &'a String>,
    ) -> bool {
        code.into_iter().all(|path| {
            let now = question.tool.backend.content_id(path);
            now.is_some() && self.code.get(path) == now.as_ref()
        })
    }

    /// The list of files, for people.
    pub(crate) fn files<'a>(code: impl IntoIterator<Item = &'a String>) -> Option<String> {
        let mut all: Vec<String> = Vec::new();
        for path in code {
            let shown = match path.is_empty() {
                true => "a file that is not known".to_owned(),
                false => format!("`{}`", crate::text::visible(path)),
            };
            if !all.contains(&shown) {
                all.push(shown);
            }
        }
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// The targets of the path arguments of a file tool, if they differ from the paths as written.
fn leads(question: &ApprovalLookup<'_>) -> BTreeMap<String, String> {
    let tool = question.tool;
    if tool.source != ToolSource::BuiltIn || tool.definition.group != ToolGroup::Fs {
        return BTreeMap::new();
    }
    let links = LinkResolver::for_tool(tool);
    let arguments = question.arguments.as_object().into_iter().flatten();
    let paths = arguments.filter_map(|(name, value)| {
        // Another argument that happens to match a link's name costs one lookup and does no harm.
        let to = match links.real(value.as_str()?) {
            RealPath::AsWritten => return None,
            RealPath::Other(path) => path,
            RealPath::Outside => NOWHERE.to_owned(),
        };
        Some((name.clone(), to))
    });
    paths.collect()
}
