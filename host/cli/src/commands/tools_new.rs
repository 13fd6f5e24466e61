//! `mimir tools new`: creates a plugin in Rust or TypeScript, or a tool in a YAML file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mimir_core::{Tool, ToolError, ToolErrorCode, ToolName, ToolSource};
use serde::Serialize;

use crate::args::{GlobalOptions, ToolLanguage};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, STRONG, note, styled, warn};
use crate::sdk::{self, TARGET};
use mimir::file_error::file_error;
use mimir::setup;
use mimir::setup::HostSetup;

use super::tools_build::default_has_target;

mod script;
mod typescript;

/// Path and text of a file in a new plugin. [`PluginNames::fill`] replaces the placeholders in the text.
type TemplateFile = (&'static str, &'static str);

/// Files of a new Rust plugin.
const FILES: [TemplateFile; 4] = [
    ("Cargo.toml", include_str!("../templates/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("../templates/lib.rs.txt")),
    (".gitignore", include_str!("../templates/gitignore.txt")),
    ("README.md", include_str!("../templates/README.md")),
];

/// Names that a plugin cannot have: those of Cargo, of crates that every plugin uses, and of types in the template.
const RESERVED_NAMES: [&str; 34] = [
    "alloc",
    "approval",
    "assess",
    "assessment",
    "build",
    "context",
    "core",
    "deps",
    "deserialize",
    "error",
    "examples",
    "group",
    "hints",
    "incremental",
    "into_output",
    "json",
    "json_schema",
    "mimir_sdk",
    "needs",
    "ok",
    "option",
    "output",
    "proc_macro",
    "result",
    "risk",
    "schemars",
    "serde",
    "serde_json",
    "serialize",
    "std",
    "string",
    "test",
    "tool",
    "worded",
];

/// Rust keywords of all editions so far.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

#[derive(Serialize)]
struct NewPluginReport {
    tool: String,
    folder: String,
    files: Vec<&'static str>,
    /// A note about tools that `mimir tools build` needs and this machine lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// Creates a new plugin.
pub async fn run(
    globals: &GlobalOptions,
    name: &str,
    (lang, dir): (ToolLanguage, Option<PathBuf>),
) -> CommandResult {
    let printer = globals.printer();
    let names = PluginNames::parse(name)?;
    let registry = HostSetup::find(globals.workspace.as_deref())?
        .registry()
        .await
        .into_registry();
    if let Some(tool) = registry.get(&names.tool) {
        return Err(CommandFailure::with_exit(
            name_taken(&names, tool),
            ExitReason::Usage,
        ));
    }
    let files: &[TemplateFile] = match lang {
        ToolLanguage::Rust => &FILES,
        ToolLanguage::Ts => &typescript::FILES,
        _ => return script::run(globals, &names, (lang, dir.as_deref())),
    };
    let folder = dir.unwrap_or_else(|| PathBuf::from(&names.package));
    write(&folder, &names, files)
        .map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?;
    if lang == ToolLanguage::Rust {
        // An editor may open the plugin before its first build.
        let user_dirs = setup::find_user_dirs();
        let pointed =
            sdk::lay_out(user_dirs.cache.as_deref()).and_then(|sdk| sdk::point_to(&folder, &sdk));
        if let Err(error) = pointed {
            warn(format_args!(
                "cargo and editors cannot find the SDK yet: {}",
                error.message
            ));
        }
    }
    let report = NewPluginReport {
        folder: mimir_core::text::visible(&folder.display().to_string()),
        files: files.iter().map(|(path, _)| *path).collect(),
        warning: (lang == ToolLanguage::Rust)
            .then(|| missing_toolchain(default_has_target(), name))
            .flatten(),
        tool: names.tool,
    };
    printer.print_result(&report, |out| print_report(out, &report))?;
    if let Some(warning) = report.warning.as_ref().filter(|_| !printer.is_json()) {
        note("");
        warn(warning);
    }
    Ok(ExitReason::Done)
}

/// Describes the missing parts of a Rust toolchain, with the command that installs them and the ways without one.
/// `has_target` is `None` if there is no Rust compiler.
fn missing_toolchain(has_target: Option<bool>, name: &str) -> Option<String> {
    let missing = match has_target {
        Some(true) => return None,
        Some(false) => format!(
            "Rust has no target {TARGET}; before the build, run\n  rustup target add {TARGET}"
        ),
        None => format!(
            "Rust is not installed; before the build, install it from https://rustup.rs and run\n  rustup target add {TARGET}"
        ),
    };
    Some(format!(
        "{missing}\nWithout a toolchain, write the tool in TypeScript, or in one YAML file:\n  \
         mimir tools new {name} --lang ts\n  mimir tools new {name} --lang yaml-python"
    ))
}

/// Creates the error for a name that a tool already has, because only one of two tools with the same name is used.
fn name_taken(names: &PluginNames, tool: &Tool) -> ToolError {
    let (name, existing) = (&names.tool, tool.name());
    let location = &tool.origin.location;
    let relation = if existing.as_str() == name {
        "the name"
    } else {
        "an alias"
    };
    let mut message = format!(
        "`{name}` is taken: it is {relation} of the tool `{existing}` ({location}); choose another name"
    );
    if tool.source == ToolSource::Custom {
        message.push_str(&format!(", or remove {location} first"));
    }
    ToolError::new(ToolErrorCode::AlreadyExists, message)
}

fn print_report(out: &mut dyn Write, report: &NewPluginReport) -> io::Result<()> {
    writeln!(
        out,
        "{} {} with the tool `{}`",
        styled(GOOD, "made"),
        report.folder,
        report.tool
    )?;
    for file in &report.files {
        writeln!(out, "  {file}")?;
    }
    let folder = if report.folder.contains([' ', '\'', '"', '$', '\\']) {
        format!("'{}'", report.folder.replace('\'', r"'\''"))
    } else {
        report.folder.clone()
    };
    writeln!(
        out,
        "\nNext: {}",
        styled(
            STRONG,
            format_args!(
                "mimir tools build {folder} && mimir call {} name=you",
                report.tool
            )
        )
    )
}

fn write(folder: &Path, names: &PluginNames, files: &[TemplateFile]) -> Result<(), ToolError> {
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => true,
        Err(e) => return Err(file_error("read", folder, &e)),
    };
    if !is_empty {
        let shown = mimir_core::text::visible(&folder.display().to_string());
        return Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!(
                "{shown} already exists and is not empty; choose another name, or another folder with --dir"
            ),
        ));
    }
    for (path, template) in files {
        let path = folder.join(path);
        mimir::file_error::write_atomically(&path, names.fill(template).as_bytes())
            .map_err(|e| file_error("write", &path, &e))?;
    }
    Ok(())
}

/// Spellings of the plugin's name.
#[derive(Debug, PartialEq, Eq)]
struct PluginNames {
    /// Name of the Cargo package and the folder, such as `word-count`.
    package: String,
    /// Name of the tool and the function, such as `word_count`.
    tool: String,
    /// Name of the argument type, such as `WordCount`.
    type_name: String,
}

/// Returns true if Windows reserves this file name, whatever its extension.
fn is_device(name: &str) -> bool {
    let numbered = |name: &str| matches!(name.as_bytes(), [b'1'..=b'9']);
    matches!(name, "con" | "prn" | "aux" | "nul")
        || name.strip_prefix("com").is_some_and(numbered)
        || name.strip_prefix("lpt").is_some_and(numbered)
}

impl PluginNames {
    fn parse(name: &str) -> CommandResult<Self> {
        let shown = mimir_core::text::visible(mimir_core::text::prefix(name, 80));
        let invalid = |why: &str| {
            CommandFailure::usage(format!("`{shown}` cannot be the name of a plugin: {why}"))
        };
        let package = name.to_ascii_lowercase();
        if !package.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(invalid("it must begin with a letter"));
        }
        if !package
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
        {
            return Err(invalid(
                "expected only letters, digits, `_` and `-`; use --dir for another folder",
            ));
        }
        let tool = package.replace('-', "_");
        if ToolName::new(&tool).is_err() {
            return Err(invalid("it has more than 64 characters"));
        }
        if KEYWORDS.contains(&tool.as_str()) {
            return Err(invalid(&format!("it is a Rust keyword; try `{tool}_tool`")));
        }
        if is_device(&tool) {
            return Err(invalid(&format!(
                "it is a reserved device name on Windows; try `{tool}_tool`"
            )));
        }
        if RESERVED_NAMES.contains(&tool.as_str()) {
            return Err(invalid(&format!(
                "Cargo or the SDK uses that name; try `{tool}_tool`"
            )));
        }
        let type_name = tool
            .split('_')
            .filter(|part| !part.is_empty())
            .map(capital)
            .collect();
        Ok(Self {
            package,
            tool,
            type_name,
        })
    }

    fn fill(&self, template: &str) -> String {
        // The SDK derives the name of the tool from the type, in which each capital after lower-case letters starts a
        // word. Other names must be set explicitly.
        let is_plain =
            |part: &str| part.len() > 1 && part.starts_with(|c: char| c.is_ascii_lowercase());
        let name = if self.tool.split('_').all(is_plain) {
            String::new()
        } else {
            format!(
                "    const NAME: Option<&'static str> = Some({:?});\n",
                self.tool
            )
        };
        let filled = template
            .replace("{{NAME}}", &name)
            .replace("{{package}}", &self.package);
        filled
            .replace("{{tool}}", &self.tool)
            .replace("{{Kind}}", &self.type_name)
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_new_derives_package_tool_and_type_names() {
        let names = PluginNames::parse("Word-count2").unwrap();
        assert_eq!(
            (
                names.package.as_str(),
                names.tool.as_str(),
                names.type_name.as_str()
            ),
            ("word-count2", "word_count2", "WordCount2")
        );
        assert!(
            !PluginNames::parse("word-count")
                .unwrap()
                .fill(FILES[1].1)
                .contains("NAME")
        );
        assert!(
            PluginNames::parse("x_2")
                .unwrap()
                .fill(FILES[1].1)
                .contains("Some(\"x_2\")")
        );
        for invalid in [
            "con",
            "COM1",
            "lpt9",
            "",
            "1a",
            "-a",
            "a b",
            "a/b",
            "../a",
            "ä",
            "match",
            "self",
            "test",
            "mimir-sdk",
            &"x".repeat(65),
        ] {
            assert!(PluginNames::parse(invalid).is_err(), "{invalid}");
        }
        assert!(PluginNames::parse("com10").is_ok() && PluginNames::parse("console").is_ok());
    }

    #[test]
    fn tools_new_names_the_missing_toolchain_and_other_ways() {
        assert_eq!(missing_toolchain(Some(true), "x"), None);
        for (state, command) in [
            (Some(false), "rustup target add wasm32-wasip2"),
            (None, "https://rustup.rs"),
        ] {
            let warning = missing_toolchain(state, "x").unwrap();
            for part in [command, "mimir tools new x --lang ts", "yaml-python"] {
                assert!(warning.contains(part), "{warning}");
            }
        }
    }

    #[test]
    fn tools_new_does_not_overwrite_files() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a b/hello");
        let names = PluginNames::parse("hello").unwrap();
        write(&folder, &names, &FILES).unwrap();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains("name = \"hello\"") && !manifest.contains("{{"),
            "{manifest}"
        );
        assert_eq!(
            write(&folder, &names, &FILES).unwrap_err().code,
            ToolErrorCode::AlreadyExists
        );
    }
}
