//! What of the workspace an answer is bound to: the content of files that a command runs, and where the links among the
//! arguments led. A person who says yes to `sh build.sh` has said it to that file as it was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::RealPath;
use crate::policy::Links;
use crate::tool::{Group, Source};

use super::lease::Question;

/// What a person saw, as far as it lies in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Files that are run, each with what was in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    code: BTreeMap<String, String>,
    /// Arguments that are paths through links, each with where it leads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    leads: BTreeMap<String, String>,
}

/// Where a path leads that leads to no file of the workspace.
const NOWHERE: &str = "..";

impl Scene {
    /// What is there now. What cannot be known is left out, and then nothing is covered.
    pub(super) fn of(question: &Question<'_>) -> Self {
        let known = |path: &String| {
            let content = question.tool.backend.content(path)?;
            Some((path.clone(), content))
        };
        Self {
            code: question.evaluation.code().filter_map(known).collect(),
            leads: leads(question),
        }
    }

    /// Whether nothing is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.code.is_empty() && self.leads.is_empty()
    }

    /// Whether the links among the arguments lead where they led.
    pub(super) fn leads_as_before(&self, question: &Question<'_>) -> bool {
        self.leads == leads(question)
    }

    /// Whether these files are as they were.
    pub(super) fn has<'a>(
        &self,
        question: &Question<'_>,
        code: impl IntoIterator<Item = &'a String>,
    ) -> bool {
        code.into_iter().all(|path| {
            let now = question.tool.backend.content(path);
            now.is_some() && self.code.get(path) == now.as_ref()
        })
    }

    /// The files, for people.
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

/// Where the paths among the arguments of a tool for files lead, if not to where they are written.
fn leads(question: &Question<'_>) -> BTreeMap<String, String> {
    let tool = question.tool;
    if tool.source != Source::BuiltIn || tool.definition.group != Group::Fs {
        return BTreeMap::new();
    }
    let links = Links::of(tool);
    let arguments = question.arguments.as_object().into_iter().flatten();
    let paths = arguments.filter_map(|(name, value)| {
        // Another argument that looks like the name of a link costs a look and does no harm.
        let to = match links.real(value.as_str()?) {
            RealPath::AsWritten => return None,
            RealPath::Other(path) => path,
            RealPath::Outside => NOWHERE.to_owned(),
        };
        Some((name.clone(), to))
    });
    paths.collect()
}
