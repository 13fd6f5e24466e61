//! `mimir tools new`: creates a plugin in one of eight languages, or a tool in a YAML file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mimir_core::{Tool, ToolError, ToolErrorCode, ToolSource};
use serde::Serialize;

use crate::args::{GlobalOptions, PluginLanguage, ToolLanguage};
use crate::commands::toolchains::{self, MissingToolchain, ProgramSearch};
use crate::commands::tools_add::{build_warning, script_warning};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, STRONG, note, styled, warn};
use crate::sdk;
use mimir::file_error::file_error;
use mimir::setup;
use mimir::setup::HostSetup;

mod language_files;
mod names;
mod reserved_words;
mod script;

use language_files::{TemplateFile, language_files};
use names::PluginNames;

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
    let names = PluginNames::parse(name, lang.plugin())?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let registry = setup.registry().await.into_registry();
    if let Some(tool) = registry.get(&names.tool) {
        return Err(CommandFailure::with_exit(
            name_taken(&names, tool),
            ExitReason::Usage,
        ));
    }
    let Some(language) = lang.plugin() else {
        let exit = script::run(globals, &names, (lang, dir.as_deref()))?;
        if let Some(line) = script_warning(&setup).filter(|_| !printer.is_json()) {
            warn(line);
        }
        return Ok(exit);
    };
    let files = language_files(language)?;
    let folder = dir.unwrap_or_else(|| PathBuf::from(&names.package));
    write(&folder, &names, &files)
        .map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?;
    if language == PluginLanguage::Rust {
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
    let toolchain = toolchains::find(language, &ProgramSearch::outside(None));
    let report = NewPluginReport {
        folder: mimir_core::text::visible(&folder.display().to_string()),
        files: files.iter().map(|(path, _)| *path).collect(),
        warning: toolchain
            .err()
            .map(|missing| missing_toolchain(&missing, name)),
        tool: names.tool,
    };
    printer.print_result(&report, |out| print_report(out, &report))?;
    if let Some(warning) = report.warning.as_ref().filter(|_| !printer.is_json()) {
        note("");
        warn(warning);
    }
    if let Some(line) = build_warning(&setup).filter(|_| !printer.is_json()) {
        warn(line);
    }
    Ok(ExitReason::Done)
}

/// Describes what is missing for a build, with the command that installs it and the ways without a compiler.
fn missing_toolchain(missing: &MissingToolchain, name: &str) -> String {
    format!(
        "{}; before the build, run\n  {}\nWithout a compiler, write the tool in TypeScript, or in one YAML file:\n  \
         mimir tools new {name} --lang ts\n  mimir tools new {name} --lang yaml-python",
        missing.what, missing.command
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_new_names_the_missing_toolchain_and_other_ways() {
        let none = ProgramSearch::in_folders([]);
        let missing = toolchains::find(PluginLanguage::Rust, &none).unwrap_err();
        let warning = missing_toolchain(&missing, "x");
        for part in [
            "https://rustup.rs",
            "rustup target add wasm32-wasip2",
            "mimir tools new x --lang ts",
            "yaml-python",
        ] {
            assert!(warning.contains(part), "{warning}");
        }
    }

    #[test]
    fn tools_new_does_not_overwrite_files() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a b/hello");
        let names = PluginNames::parse("hello", Some(PluginLanguage::Rust)).unwrap();
        let files = language_files(PluginLanguage::Rust).unwrap();
        write(&folder, &names, &files).unwrap();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains("name = \"hello\"") && !manifest.contains("{{"),
            "{manifest}"
        );
        assert_eq!(
            write(&folder, &names, &files).unwrap_err().code,
            ToolErrorCode::AlreadyExists
        );
    }
}
