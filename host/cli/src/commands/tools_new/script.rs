//! `mimir tools new --lang yaml-…`: a tool in a YAML file.

use std::path::{Path, PathBuf};

use mimir_core::{Code, ToolError};
use serde::Serialize;

use super::Names;
use crate::args::{Globals, Lang};
use crate::commands::editing;
use crate::exit::{Exit, Failure};
use crate::output::{GOOD, Printer, STRONG, styled};
use mimir::file_error::file_error;
use mimir::setup;

const TEMPLATE: &str = include_str!("../../templates/tool.yml.txt");

/// Initial code of a new tool.
const TYPESCRIPT: &str = include_str!("../../templates/tool.ts.txt");
const JAVASCRIPT: &str = include_str!("../../templates/tool.js.txt");
const PYTHON: &str = include_str!("../../templates/tool.py.txt");
const BASH: &str = include_str!("../../templates/tool.sh.txt");

#[derive(Serialize)]
struct New {
    tool: String,
    file: String,
}

/// Writes the tool. In a workspace it goes to the tools folder, with editor support.
pub fn run(
    globals: &Globals,
    printer: Printer,
    names: &Names,
    (lang, dir): (Lang, Option<&Path>),
) -> Result<Exit, Failure> {
    let workspace = setup::find_workspace(globals.workspace.as_deref())?;
    let (folder, line) = match dir {
        Some(dir) => (dir.to_owned(), ""),
        None => {
            editing::lay_out(&workspace)?;
            (workspace.tools(), editing::LINE)
        }
    };
    let path: PathBuf = folder.join(format!("{}.yml", names.tool));
    if dir.is_none() {
        workspace.own(&path)?;
    }
    let shown = workspace.shown(&path);
    if path.symlink_metadata().is_ok() {
        let message =
            format!("{shown} already exists; choose another name, or another folder with --dir");
        let error = ToolError::new(Code::AlreadyExists, message);
        return Err(Failure::ending(error, Exit::Usage));
    }
    let (runtime, code) = match lang {
        Lang::YamlJs => ("javascript", JAVASCRIPT),
        Lang::YamlPython => ("python", PYTHON),
        Lang::YamlBash => ("bash", BASH),
        Lang::YamlTs | Lang::Ts | Lang::Rust => ("typescript", TYPESCRIPT),
    };
    let code: String = code.lines().map(|line| format!("  {line}\n")).collect();
    let text = TEMPLATE
        .replace("{{tool}}", &names.tool)
        .replace("{{runtime}}", runtime)
        .replace("{{code}}\n", &code.replace("  \n", "\n"));
    mimir::file_error::write_atomically(&path, format!("{line}{text}").as_bytes())
        .map_err(|error| file_error("write", &path, &error))?;
    let new = New {
        tool: names.tool.clone(),
        file: shown,
    };
    printer.result(&new, |out| {
        writeln!(
            out,
            "{} {} with the tool `{}`",
            styled(GOOD, "made"),
            new.file,
            new.tool
        )?;
        let next = format!(
            "mimir tools check {} && mimir call {} name=you",
            new.file, new.tool
        );
        writeln!(out, "\nNext: {}", styled(STRONG, next))
    })?;
    Ok(Exit::Done)
}
