//! `mimir init`

use std::io::{self, Write};
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::config::Config;
use mimir_core::files::{self, Links, write_new};
use serde::Serialize;

use super::editing;
use crate::args::Globals;
use crate::exit::{Exit, Failure, file_error};
use crate::output::{FAINT, GOOD, Printer, styled};
use crate::private::{self, Readers};
use crate::workspace::Workspace;

/// The config that a new workspace gets: every key, each with its default, all of it comments.
pub const TEMPLATE: &str = include_str!("config.template.yml");

/// The schema of the config, beside it: its first line names this file, and editors read it.
const SCHEMA: &str = "config.schema.json";

/// What belongs to this machine and not to the project.
const GITIGNORE: &str = "state/\n";

#[derive(Serialize)]
struct Made {
    workspace: String,
    made: Vec<String>,
    kept: Vec<String>,
}

/// Makes `.mimir` with what is missing in it, and says what that was.
pub fn run(globals: &Globals, printer: Printer) -> Result<Exit, Failure> {
    let made = make(globals.workspace.as_deref())?;
    printer.result(&made, |out| made.text(out))?;
    Ok(Exit::Done)
}

fn make(named: Option<&Path>) -> Result<Made, ToolError> {
    // Without -C it is this folder, also when one above it is a workspace: who asks here means here.
    let here = Path::new(".");
    let workspace = Workspace::find(Some(named.unwrap_or(here)))?;
    let mut made = Made {
        workspace: mimir_core::text::visible(&workspace.root().display().to_string()),
        made: Vec::new(),
        kept: Vec::new(),
    };
    let dot = workspace.dot();
    for folder in [workspace.tools(), workspace.state()] {
        workspace.own(&folder.join("file"))?;
    }
    for folder in [workspace.tools(), workspace.state()] {
        let is_new = !folder.is_dir();
        std::fs::create_dir_all(&folder).map_err(|e| file_error("make", &folder, &e))?;
        made.note(is_new, workspace.shown(&folder) + "/");
    }
    let path = dot.join(".gitignore");
    let is_new = write_ignore(&path).map_err(|e| file_error("write", &path, &e))?;
    made.note(is_new, workspace.shown(&path));
    for (path, text) in [
        (workspace.config(), TEMPLATE),
        (workspace.state().join(".gitignore"), "*\n"),
    ] {
        let is_new = write_new(&path, text).map_err(|e| file_error("write", &path, &e))?;
        made.note(is_new, workspace.shown(&path));
    }
    for (shown, is_new) in editing::lay_out(&workspace)? {
        made.note(is_new, shown);
    }
    let path = dot.join(SCHEMA);
    let is_new = write_schema(&path).map_err(|e| file_error("write", &path, &e))?;
    made.note(is_new, workspace.shown(&path));
    Ok(made)
}

/// Writes the schema as this version of mimir has it, if it is another one. Nobody writes into that file by hand.
fn write_schema(path: &Path) -> io::Result<bool> {
    let mut text = serde_json::to_string_pretty(&Config::schema())?;
    text.push('\n');
    if write_new(path, &text)? {
        return Ok(true);
    }
    if files::read(path, Links::Refused, SCHEMA_MOST)? == text.as_bytes() {
        return Ok(false);
    }
    private::replace(path, text.as_bytes(), Readers::Everybody).map(|()| true)
}

/// A longer file is no schema of ours.
const SCHEMA_MOST: u64 = 4 << 20;

/// Writes what the project keeps out of commits. What stands there as long as nobody has set up the workspace leaves
/// out itself.
fn write_ignore(path: &Path) -> io::Result<bool> {
    if write_new(path, GITIGNORE)? {
        return Ok(true);
    }
    let there = files::read(path, Links::Refused, GITIGNORE_MOST);
    if there.is_ok_and(|there| there == files::OWN_IGNORE.as_bytes()) {
        return private::replace(path, GITIGNORE.as_bytes(), Readers::Everybody).map(|()| true);
    }
    Ok(false)
}

/// A longer one is somebody else's.
const GITIGNORE_MOST: u64 = 4096;

impl Made {
    fn note(&mut self, is_new: bool, shown: String) {
        if is_new {
            self.made.push(shown);
        } else {
            self.kept.push(shown);
        }
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
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

    /// The template with its comments taken away: every key in it must be one that is enforced.
    #[test]
    fn every_key_of_the_template_is_known() {
        let keys: String = TEMPLATE
            .lines()
            .filter_map(|line| line.strip_prefix("# ").or(line.strip_prefix('#')))
            .filter(|line| {
                let line = line.trim_start();
                line.strip_prefix("- ")
                    .unwrap_or(line)
                    .split_once(':')
                    .is_some_and(|(key, _)| key.chars().all(|c| c.is_alphanumeric() || c == '_'))
            })
            .map(|line| format!("{line}\n"))
            .collect();
        let config: Config = serde_yaml::from_str(&keys).unwrap();
        assert_eq!(
            config.limits.over(mimir_core::Limits::default()),
            mimir_core::Limits {
                calls_per_minute: Some(60),
                ..mimir_core::Limits::default()
            }
        );
        assert_eq!(config.limits.calls_per_minute, Some(60));
        assert_eq!(config.audit, mimir_core::config::AuditSettings::default());
        assert_eq!(config.tools.each["write_file"].deny, ["secrets/**"]);
        assert_eq!(config.approvals, Config::default().approvals);
        // What is only seen when it is used, such as examples and patterns, is in order, too.
        let policy = mimir_core::Policy::new(&config, "the template").unwrap();
        assert_eq!(policy.examples(), 2);
        assert!(
            serde_yaml::from_str::<serde_yaml::Value>(TEMPLATE)
                .unwrap()
                .is_null()
        );
    }

    #[test]
    fn a_second_time_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(make(Some(dir.path())).unwrap().made.len(), 8);
        let config = dir.path().join(".mimir/config.yml");
        std::fs::write(&config, "profile: compact\n").unwrap();
        assert_eq!(make(Some(dir.path())).unwrap().kept.len(), 8);
        assert_eq!(
            std::fs::read_to_string(config).unwrap(),
            "profile: compact\n"
        );
        let schema = dir.path().join(".mimir").join(SCHEMA);
        std::fs::write(&schema, "of another version").unwrap();
        assert_eq!(
            make(Some(dir.path())).unwrap().made,
            [".mimir/config.schema.json"]
        );
        let schema: serde_json::Value =
            serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
        assert_eq!(schema, Config::schema());
        let first = TEMPLATE.lines().next().unwrap();
        assert!(first.starts_with("# yaml-language-server: $schema=") && first.ends_with(SCHEMA));
    }
}
