//! The effects of a patch as calls of the other file tools. Rules for these tools and for their paths also apply to the
//! patch, so a patch cannot change a file that an edit could not change. In the same way, rules for the compact file
//! tool apply to a document that it is called with, which another tool reads.

use mimir_patch::{HunkLine, PatchChange, PatchHunk};
use serde_json::{Value, json};

use crate::tool::{Tool, ToolSource};

use super::argument_forms::READ;
use super::tool_forms::{COMPACT, is_inner_form};

/// The tool that applies patches.
const APPLY_PATCH: &str = "apply_patch";

/// A call of a file tool with the same effect on one file as a part of another call.
#[derive(Debug, PartialEq)]
pub(crate) struct PatchEffect {
    /// The tool.
    pub(crate) tool: &'static str,
    /// The arguments of the tool.
    pub(crate) arguments: Value,
}

/// Returns true for the built-in tool that applies patches.
pub(crate) fn is_patch_tool(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn && tool.name().as_str() == APPLY_PATCH
}

/// Returns the effects of a call that applies a patch, or that reads a document for the compact tool. Empty for other
/// calls, and for a patch that cannot be read, which the tool refuses.
pub(crate) fn patch_effects(tool: &Tool, arguments: &Value) -> Vec<PatchEffect> {
    if is_inner_form(tool) && arguments["operation"] == READ {
        return vec![PatchEffect {
            tool: COMPACT,
            arguments: arguments.clone(),
        }];
    }
    if !is_patch_tool(tool) {
        return Vec::new();
    }
    let patch = arguments["patch"].as_str().map(mimir_patch::parse);
    let Some(Ok(patch)) = patch else {
        return Vec::new();
    };
    let mut effects = Vec::new();
    for file in patch.files {
        let path = file.path;
        let mut push = |tool, arguments| {
            let effect = PatchEffect { tool, arguments };
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        };
        let edit = |hunk: &PatchHunk| {
            json!({
                "path": path,
                "pattern": join(hunk.old_lines()),
                "replacement": join(hunk.new_lines()),
            })
        };
        match file.change {
            PatchChange::Add(hunk) => {
                let content = hunk.map_or_else(String::new, |hunk| join(hunk.new_lines()));
                push("write_file", json!({ "path": path, "content": content }));
            }
            PatchChange::Update(hunks) => {
                hunks.iter().for_each(|hunk| push("edit_file", edit(hunk)));
            }
            PatchChange::Delete(_) => push("delete_file", json!({ "path": path })),
            PatchChange::Move { to, hunks } => {
                push("move_file", json!({ "from": path, "to": to }));
                hunks.iter().for_each(|hunk| push("edit_file", edit(hunk)));
            }
        }
    }
    effects
}

/// Returns the workspace paths that a patch names; none for a patch that cannot be read.
pub fn patched_paths(patch: &str) -> Vec<String> {
    let files = mimir_patch::parse(patch).map_or_else(|_| Vec::new(), |patch| patch.files);
    let mut paths = Vec::new();
    for file in files {
        if let PatchChange::Move { to, .. } = file.change {
            paths.push(to);
        }
        paths.push(file.path);
    }
    paths
}

fn join<'l>(lines: impl Iterator<Item = &'l HunkLine>) -> String {
    let texts: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::tests::tool;

    const PATCH: &str = "*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: a.txt\n-x\n+y\n\
        *** Update File: b.txt\n*** Move to: c.txt\n-x\n+y\n*** Delete File: d.txt\n*** End Patch\n";

    #[test]
    fn document_of_the_compact_tool_obeys_its_rules() {
        let mut reader = tool("read_document");
        reader.source = ToolSource::BuiltIn;
        let call = json!({"operation": "read", "path": "a.pdf"});
        let effects = patch_effects(&reader, &call);
        assert_eq!((effects.len(), effects[0].tool), (1, COMPACT));
        assert_eq!(effects[0].arguments, call);
        assert!(patch_effects(&reader, &json!({"path": "a.pdf"})).is_empty());
    }

    #[test]
    fn patch_effects_name_every_path() {
        let mut apply = tool("apply_patch");
        let call = json!({ "patch": PATCH });
        assert!(
            patch_effects(&apply, &call).is_empty(),
            "a tool of a plugin"
        );
        apply.source = ToolSource::BuiltIn;
        let effects: Vec<_> = patch_effects(&apply, &call)
            .into_iter()
            .map(|effect| (effect.tool, effect.arguments))
            .collect();
        assert_eq!(
            effects,
            [
                ("write_file", json!({"path": "new.txt", "content": "x"})),
                (
                    "edit_file",
                    json!({"path": "a.txt", "pattern": "x", "replacement": "y"})
                ),
                ("move_file", json!({"from": "b.txt", "to": "c.txt"})),
                (
                    "edit_file",
                    json!({"path": "b.txt", "pattern": "x", "replacement": "y"})
                ),
                ("delete_file", json!({"path": "d.txt"})),
            ]
        );
        assert!(patch_effects(&apply, &json!({ "patch": "none" })).is_empty());
    }
}
