//! `mimir tools new --lang ts`: a plugin in TypeScript.

use super::TemplateFile;
use crate::commands::editor_support::TYPES;

/// Files of a new TypeScript plugin.
pub const FILES: [TemplateFile; 6] = [
    ("tool.ts", include_str!("../../templates/plugin.ts.txt")),
    (
        "package.json",
        include_str!("../../templates/package.json.txt"),
    ),
    (
        "tsconfig.json",
        include_str!("../../templates/tsconfig.json.txt"),
    ),
    ("mimir.d.ts", TYPES),
    (
        ".gitignore",
        include_str!("../../templates/gitignore.ts.txt"),
    ),
    ("README.md", include_str!("../../templates/plugin.ts.md")),
];
