//! Files of a new plugin in each language. Those of Python, Go, C, C++ and Zig are next to the SDKs.

use mimir_core::ToolError;

use crate::args::PluginLanguage;
use crate::commands::editor_support::TYPES;
use crate::sdk;

/// Path of a file in a new plugin, and its template (see `PluginNames::fill`).
pub type TemplateFile = (&'static str, &'static str);

const RUST: &[TemplateFile] = &[
    ("Cargo.toml", include_str!("../../templates/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("../../templates/lib.rs.txt")),
    (".gitignore", include_str!("../../templates/gitignore.txt")),
    ("README.md", include_str!("../../templates/README.md")),
];

const TYPESCRIPT: &[TemplateFile] = &[
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
    (
        "cases.yml",
        include_str!("../../templates/plugin.cases.yml.txt"),
    ),
    ("README.md", include_str!("../../templates/plugin.ts.md")),
];

const JAVASCRIPT: &[TemplateFile] = &[
    ("tool.js", include_str!("../../templates/plugin.js.txt")),
    (
        "package.json",
        include_str!("../../templates/package.json.txt"),
    ),
    (
        ".gitignore",
        include_str!("../../templates/gitignore.ts.txt"),
    ),
    (
        "cases.yml",
        include_str!("../../templates/plugin.cases.yml.txt"),
    ),
    ("README.md", include_str!("../../templates/plugin.js.md")),
];

/// Path of a file in a new plugin, and the name of its template next to an SDK.
type SdkTemplate = (&'static str, &'static str);

const PYTHON: &[SdkTemplate] = &[
    ("tool.py", "tool.py.txt"),
    ("test_tool.py", "test_tool.py.txt"),
    ("cases.yml", "cases.yml.txt"),
    ("pyproject.toml", "pyproject.toml.txt"),
    (".gitignore", "gitignore.txt"),
    ("README.md", "README.md.txt"),
];

const GO: &[SdkTemplate] = &[
    ("main.go", "main.go.txt"),
    ("main_test.go", "main_test.go.txt"),
    ("go.mod", "go.mod.txt"),
    ("cases.yml", "cases.yml.txt"),
    (".gitignore", "gitignore.txt"),
    ("README.md", "README.md.txt"),
];

const C: &[SdkTemplate] = &[
    ("tool.c", "tool.c.txt"),
    ("test.c", "test.c.txt"),
    ("cases.yml", "cases.yml.txt"),
    (".gitignore", "gitignore.txt"),
    ("README.md", "README.md.txt"),
];

const CPP: &[SdkTemplate] = &[
    ("tool.cpp", "tool.cpp.txt"),
    ("test.cpp", "test.c.txt"),
    ("cases.yml", "cases.yml.txt"),
    (".gitignore", "gitignore.txt"),
    ("README.md", "README.md.txt"),
];

const ZIG: &[SdkTemplate] = &[
    ("tool.zig", "tool.zig.txt"),
    ("cases.yml", "cases.yml.txt"),
    (".gitignore", "gitignore.txt"),
    ("README.md", "README.md.txt"),
];

/// Returns the files of a new plugin.
pub fn language_files(language: PluginLanguage) -> Result<Vec<TemplateFile>, ToolError> {
    let (sdk, files) = match language {
        PluginLanguage::Rust => return Ok(RUST.to_vec()),
        PluginLanguage::TypeScript => return Ok(TYPESCRIPT.to_vec()),
        PluginLanguage::JavaScript => return Ok(JAVASCRIPT.to_vec()),
        PluginLanguage::Python => ("python", PYTHON),
        PluginLanguage::Go => ("go", GO),
        PluginLanguage::C => ("c", C),
        PluginLanguage::Cpp => ("c", CPP),
        PluginLanguage::Zig => ("zig", ZIG),
    };
    let template = |(path, name): &SdkTemplate| {
        let name = format!("sdk/{sdk}/templates/{name}");
        match sdk::embedded_text(&name) {
            Some(text) => Ok((*path, text)),
            None => Err(ToolError::internal(format!("{name} is not embedded"))),
        }
    };
    files.iter().map(template).collect()
}

#[cfg(test)]
mod tests {
    use super::super::names::PluginNames;
    use super::*;

    #[test]
    fn new_plugin_has_no_placeholder_left_in_any_language() {
        for language in PluginLanguage::ALL {
            let names = PluginNames::parse("word-count", Some(language)).unwrap();
            for (path, template) in language_files(language).unwrap() {
                let text = names.fill(template);
                let is_filled = !text.contains("{{") || language == PluginLanguage::Zig;
                assert!(is_filled, "{language:?} {path}: {text}");
            }
        }
    }
}
