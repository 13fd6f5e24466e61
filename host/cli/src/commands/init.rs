//! `mimir init`.

use std::io::{self, Write};
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::config::Config;
use mimir_core::files::{self, LinkPolicy, write_new};
use serde::Serialize;

use super::editor_support;
use crate::args::GlobalOptions;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{FAINT, GOOD, styled};
use mimir::file_error::file_error;
use mimir::private_files::{self, FileReaders};
use mimir::setup;
use mimir::workspace::WorkspaceFolder;

/// Config of a new workspace, with the most common keys commented out.
const TEMPLATE: &str = mimir::settings::TEMPLATE;

/// File name of the schema, which is next to the config. The first line of the config refers to it for editors.
const SCHEMA: &str = "config.schema.json";

/// `.gitignore` of `.mimir`, for files that belong to this machine and not to the project.
const GITIGNORE: &str = "state/\n";

/// The parts of a workspace that were created, and those that existed.
#[derive(Serialize)]
pub struct InitReport {
    workspace: String,
    made: Vec<String>,
    kept: Vec<String>,
}

/// Creates the missing files of `.mimir`, and reports new and existing ones.
pub fn run(globals: &GlobalOptions) -> CommandResult {
    let printer = globals.printer();
    // Without -C, the current folder becomes the workspace, even if a parent is one.
    let folder = globals.workspace.as_deref().unwrap_or(Path::new("."));
    WorkspaceFolder::find(Some(folder))?.check_separation(&setup::find_user_dirs())?;
    let report = create_workspace(folder)?;
    printer.print_result(&report, |out| report.print(out))?;
    Ok(ExitReason::Done)
}

/// Creates the missing files of `.mimir` in a folder that can be a workspace.
pub fn create_workspace(folder: &Path) -> Result<InitReport, ToolError> {
    let workspace = WorkspaceFolder::find(Some(folder))?;
    let mut report = InitReport {
        workspace: mimir_core::text::visible(&workspace.root().display().to_string()),
        made: Vec::new(),
        kept: Vec::new(),
    };
    let mimir_dir = workspace.mimir_dir();
    for folder in [workspace.tools(), workspace.state()] {
        workspace.check_no_links(&folder.join("file"))?;
    }
    for folder in [workspace.tools(), workspace.state()] {
        let is_new = !folder.is_dir();
        std::fs::create_dir_all(&folder).map_err(|e| file_error("create", &folder, &e))?;
        report.add(is_new, workspace.display_path(&folder) + "/");
    }
    let path = mimir_dir.join(".gitignore");
    let is_new = write_ignore(&path).map_err(|e| file_error("write", &path, &e))?;
    report.add(is_new, workspace.display_path(&path));
    for (path, text) in [
        (workspace.config(), TEMPLATE),
        (workspace.state().join(".gitignore"), "*\n"),
    ] {
        let is_new = write_new(&path, text).map_err(|e| file_error("write", &path, &e))?;
        report.add(is_new, workspace.display_path(&path));
    }
    for (shown, is_new) in editor_support::write_editor_files(&workspace)? {
        report.add(is_new, shown);
    }
    let path = mimir_dir.join(SCHEMA);
    let is_new = write_schema(&path).map_err(|e| file_error("write", &path, &e))?;
    report.add(is_new, workspace.display_path(&path));
    Ok(report)
}

/// Writes the schema of this version unless the file already has it. Returns true if it was written.
fn write_schema(path: &Path) -> io::Result<bool> {
    let mut text = serde_json::to_string_pretty(&Config::schema())?;
    text.push('\n');
    if write_new(path, &text)? {
        return Ok(true);
    }
    if files::read(path, LinkPolicy::Refuse, MAX_SCHEMA_SIZE)? == text.as_bytes() {
        return Ok(false);
    }
    private_files::replace(path, text.as_bytes(), FileReaders::Everybody).map(|()| true)
}

/// Maximum size in bytes of an existing schema file. mimir writes shorter ones.
const MAX_SCHEMA_SIZE: u64 = 4 << 20;

/// Writes the `.gitignore` of `.mimir`. Replaces the one that mimir writes before `mimir init`, which ignores the whole
/// folder. Returns true if it was written.
fn write_ignore(path: &Path) -> io::Result<bool> {
    if write_new(path, GITIGNORE)? {
        return Ok(true);
    }
    let existing = files::read(path, LinkPolicy::Refuse, MAX_GITIGNORE_SIZE);
    if existing.is_ok_and(|existing| existing == files::OWN_IGNORE.as_bytes()) {
        return private_files::replace(path, GITIGNORE.as_bytes(), FileReaders::Everybody)
            .map(|()| true);
    }
    Ok(false)
}

/// Maximum size in bytes of a `.gitignore` that mimir has written.
const MAX_GITIGNORE_SIZE: u64 = 4096;

impl InitReport {
    fn add(&mut self, is_new: bool, shown: String) {
        if is_new {
            self.made.push(shown);
        } else {
            self.kept.push(shown);
        }
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for path in &self.made {
            writeln!(out, "{} {path}", styled(GOOD, "made"))?;
        }
        for path in &self.kept {
            writeln!(out, "{} {path}", styled(FAINT, "kept"))?;
        }
        writeln!(out, "\nThe workspace is {}", self.workspace)?;
        writeln!(
            out,
            "Next: `mimir tools list`, or `mimir tools new NAME` for a tool of your own"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a file in which all keys are commented out.
    fn uncommented(text: &str) -> String {
        text.lines()
            .filter_map(|line| line.strip_prefix("# ").or(line.strip_prefix('#')))
            .filter(|line| {
                let line = line.trim_start();
                line.strip_prefix("- ")
                    .unwrap_or(line)
                    .split_once(':')
                    .is_some_and(|(key, _)| key.chars().all(|c| c.is_alphanumeric() || c == '_'))
            })
            .map(|line| format!("{line}\n"))
            .collect()
    }

    #[test]
    fn init_template_is_short_and_its_keys_are_supported() {
        assert!(TEMPLATE.lines().count() <= 25);
        let config: Config = serde_yaml::from_str(&uncommented(TEMPLATE)).unwrap();
        assert_eq!(config.tools.each["write_file"].deny, ["secrets/**"]);
        assert_eq!(config.files.deny, ["private/**"]);
        for text in [TEMPLATE, mimir::settings::EXAMPLE] {
            let value: serde_yaml::Value = serde_yaml::from_str(text).unwrap();
            assert!(value.is_null());
        }
    }

    #[test]
    fn example_keys_are_all_supported() {
        let keys = uncommented(mimir::settings::EXAMPLE);
        let config: Config = serde_yaml::from_str(&keys).unwrap();
        assert_eq!(
            config.limits.over(mimir_core::Limits::default()),
            mimir_core::Limits {
                calls_per_minute: Some(60),
                concurrent_setting: config
                    .limits
                    .over(mimir_core::Limits::default())
                    .concurrent_setting,
                ..mimir_core::Limits::default()
            }
        );
        assert_eq!(config.limits.calls_per_minute, Some(60));
        assert_eq!(config.audit, mimir_core::config::AuditSettings::default());
        assert_eq!(config.tools.each["write_file"].deny, ["secrets/**"]);
        assert_eq!(config.approvals, Config::default().approvals);
        // Also compiles values that are only checked on use, such as examples and patterns.
        let policy = mimir_core::Policy::new(&config, "the example").unwrap();
        assert_eq!(policy.examples(), 2);
    }

    #[test]
    fn init_run_twice_keeps_existing_files() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(create_workspace(dir.path()).unwrap().made.len(), 8);
        let config = dir.path().join(".mimir/config.yml");
        std::fs::write(&config, "profile: compact\n").unwrap();
        assert_eq!(create_workspace(dir.path()).unwrap().kept.len(), 8);
        assert_eq!(
            std::fs::read_to_string(config).unwrap(),
            "profile: compact\n"
        );
        let schema = dir.path().join(".mimir").join(SCHEMA);
        std::fs::write(&schema, "of another version").unwrap();
        assert_eq!(
            create_workspace(dir.path()).unwrap().made,
            [".mimir/config.schema.json"]
        );
        let schema: serde_json::Value =
            serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
        assert_eq!(schema, Config::schema());
        let first = TEMPLATE.lines().next().unwrap();
        assert!(first.starts_with("# yaml-language-server: $schema=") && first.ends_with(SCHEMA));
    }
}
