//! `mimir tools new --lang yaml-…`: a tool in a YAML file.

use std::path::{Path, PathBuf};

use mimir_core::{ToolError, ToolErrorCode};
use serde::Serialize;

use super::names::PluginNames;
use crate::args::{GlobalOptions, ToolLanguage};
use crate::commands::editor_support;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, STRONG, styled};
use mimir::file_error::file_error;
use mimir::setup;

const TEMPLATE: &str = include_str!("../../templates/tool.yml.txt");

/// Initial code of a new tool in each language.
const TYPESCRIPT: &str = include_str!("../../templates/tool.ts.txt");
const JAVASCRIPT: &str = include_str!("../../templates/tool.js.txt");
const PYTHON: &str = include_str!("../../templates/tool.py.txt");
const BASH: &str = include_str!("../../templates/tool.sh.txt");

#[derive(Serialize)]
struct NewScriptReport {
    tool: String,
    file: String,
}

/// Writes the tool: into `dir`, or into the tools folder of the workspace, with files for editors.
pub fn run(
    globals: &GlobalOptions,
    names: &PluginNames,
    (lang, dir): (ToolLanguage, Option<&Path>),
) -> CommandResult {
    let printer = globals.printer();
    let workspace = setup::find_workspace(globals.workspace.as_deref())?;
    let (folder, header) = match dir {
        Some(dir) => (dir.to_owned(), ""),
        None => {
            workspace.check_separation(&setup::find_user_dirs())?;
            editor_support::write_editor_files(&workspace)?;
            (workspace.tools(), editor_support::SCHEMA_COMMENT)
        }
    };
    let path: PathBuf = folder.join(format!("{}.yml", names.tool));
    if dir.is_none() {
        workspace.check_no_links(&path)?;
    }
    let shown = workspace.display_path(&path);
    if path.symlink_metadata().is_ok() {
        let message =
            format!("{shown} already exists; choose another name, or another folder with --dir");
        let error = ToolError::new(ToolErrorCode::AlreadyExists, message);
        return Err(CommandFailure::with_exit(error, ExitReason::Usage));
    }
    let (runtime, code) = match lang {
        ToolLanguage::YamlJs => ("javascript", JAVASCRIPT),
        ToolLanguage::YamlPython => ("python", PYTHON),
        ToolLanguage::YamlBash => ("bash", BASH),
        _ => ("typescript", TYPESCRIPT),
    };
    let code: String = code.lines().map(|line| format!("  {line}\n")).collect();
    let text = TEMPLATE
        .replace("{{tool}}", &names.tool)
        .replace("{{runtime}}", runtime)
        .replace("{{code}}\n", &code.replace("  \n", "\n"));
    mimir::file_error::write_atomically(&path, format!("{header}{text}").as_bytes())
        .map_err(|error| file_error("write", &path, &error))?;
    let report = NewScriptReport {
        tool: names.tool.clone(),
        file: shown,
    };
    printer.print_result(&report, |out| {
        writeln!(
            out,
            "{} {} with the tool `{}`",
            styled(GOOD, "made"),
            report.file,
            report.tool
        )?;
        // Tools in bash always need the files of the workspace.
        let trust = match lang {
            ToolLanguage::YamlBash => format!("mimir tools trust {} && ", report.tool),
            _ => String::new(),
        };
        let next = format!(
            "mimir tools check {} && {trust}mimir call {} name=you",
            report.file, report.tool
        );
        writeln!(out, "\nNext: {}", styled(STRONG, next))
    })?;
    Ok(ExitReason::Done)
}
