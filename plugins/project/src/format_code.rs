//! The tool `format_code`.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mimir_sdk::Code;
use mimir_sdk::commands::Command;
use mimir_sdk::prelude::*;
use mimir_sdk::serde_json::Value;
use mimir_sdk::{pieces, progress, text};
use similar::TextDiff;

use crate::formatter::{Formatter, NoFormatter, ending};
use crate::missing_program;
use crate::project_path::{join_path, resolve_path};
use crate::reports::plain_text;
use crate::test_project::read_text;

/// Formats files with the project's own formatter, and returns the changes as a diff.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FormatCode {
    /// Files or folders. Default: the workspace.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub paths: Vec<String>,
    /// Show the diff, and change nothing.
    #[serde(default)]
    pub check: bool,
}

/// Result of formatting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormatReport {
    /// The files that were changed, or with `check` would be.
    pub changed: Vec<FormattedFile>,
    /// Number of files that need no change.
    pub unchanged: usize,
    /// Files that could not be formatted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FormatError>,
    /// The changes as a unified diff.
    pub diff: String,
    /// True if the diff was cut.
    pub truncated: bool,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormattedFile {
    /// Path, relative to the workspace root.
    pub path: String,
    /// The formatter.
    pub formatter: String,
}

/// A file that could not be formatted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormatError {
    /// Path, relative to the workspace root.
    pub path: String,
    /// The formatter's message.
    pub message: String,
}

/// Maximum number of files of a call, each of which starts a program.
const MAX_FILES: usize = 300;

/// Maximum size of a file in bytes, and of the diff in characters.
const MAX_SIZE: u64 = 1 << 20;
const MAX_DIFF: usize = 20_000;

/// Maximum product of the numbers of old and new lines, without equal ones at both ends, that are compared for the
/// diff.
const MAX_COMPARED: usize = 10_000 * 10_000;

/// Maximum length of a formatter's message in characters.
const MAX_MESSAGE: usize = 1_000;

/// Time limit of a formatter for one file.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Folders without source code of the project.
const SKIPPED: [&str; 9] = [
    "node_modules",
    "target",
    "vendor",
    "dist",
    "build",
    "venv",
    "__pycache__",
    "coverage",
    "site-packages",
];

/// Result whose exit code is 1 if a file could not be formatted, or with `check`, is not formatted.
#[derive(Debug)]
pub struct Reported(Worded<FormatReport>, i32);

impl IntoOutput for Reported {
    fn schema() -> Option<Value> {
        Worded::<FormatReport>::schema()
    }

    fn into_output(self) -> Result<Output> {
        Ok(self.0.into_output()?.exit_code(self.1))
    }
}

impl Tool for FormatCode {
    type Output = Reported;
    const GROUP: Group = Group::Runtime;
    const TITLE: Option<&'static str> = Some("Format code");
    const RISK: Risk = Risk::Low;
    const HINTS: Hints = Hints::NONE.destructive().idempotent();

    fn needs() -> Needs {
        Formatter::PATTERNS
            .iter()
            .fold(Needs::none(), |needs, pattern| {
                needs.command(*pattern, "to format code")
            })
            .write(".", "to write the formatted files")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let files = self.files(cx)?;
        let mut report = FormatReport::default();
        let mut missing: Vec<&'static str> = Vec::new();
        for (at, file) in files.iter().enumerate() {
            progress::report(at as u64, Some(files.len() as u64), Some(&file.path));
            if missing.contains(&file.formatter.name) {
                continue;
            }
            match format_file(cx, file, self.check) {
                Ok(Some(diff)) => {
                    report.diff.push_str(&diff.text);
                    report.truncated |= !diff.is_complete;
                    report.changed.push(FormattedFile {
                        path: file.path.clone(),
                        formatter: file.formatter.name.to_owned(),
                    });
                }
                Ok(None) => report.unchanged += 1,
                Err(error) => {
                    // The other files of a missing program would fail in the same way.
                    if matches!(error.code(), Code::NotFound | Code::Unavailable) {
                        missing.push(file.formatter.name);
                    } else if matches!(error.code(), Code::PermissionDenied | Code::Timeout) {
                        return Err(error);
                    }
                    report.errors.push(FormatError {
                        path: file.path.clone(),
                        message: limit(error.message(), MAX_MESSAGE),
                    });
                }
            }
        }
        if let Some((end, _)) = report.diff.char_indices().nth(MAX_DIFF) {
            let end = report.diff[..end].rfind('\n').map_or(end, |line| line + 1);
            report.diff.truncate(end);
            report.truncated = true;
        }
        let text = describe(&report, self.check);
        let is_failed = !report.errors.is_empty() || (self.check && !report.changed.is_empty());
        Ok(Reported(Json(report).worded(text), i32::from(is_failed)))
    }
}

impl Assess for FormatCode {
    fn assess(&self, cx: &Context) -> Assessment {
        match self.files(cx) {
            Ok(files) => {
                let mut names: Vec<&str> = files.iter().map(|file| file.formatter.name).collect();
                names.sort_unstable();
                names.dedup();
                let verb = if self.check {
                    "check the format of"
                } else {
                    "format"
                };
                let shown = match files.as_slice() {
                    [only] => format!("`{}`", text::brief(&only.path)),
                    files => format!("{} files", files.len()),
                };
                Assessment::ask(format!("{verb} {shown} with {}", names.join(", "))).risk(Risk::Low)
            }
            // The call plans again when it runs, and may then find what is missing now.
            Err(error) => Assessment::ask(error.to_string()),
        }
    }
}

/// A file with its formatter.
struct FileToFormat {
    /// Path, relative to the workspace root.
    path: String,
    formatter: Formatter,
}

impl FormatCode {
    /// Lists the files of the call. A named file must have a formatter; files in a folder without one are left out.
    fn files(&self, cx: &Context) -> Result<Vec<FileToFormat>> {
        let whole = [".".to_owned()];
        let written = if self.paths.is_empty() {
            &whole[..]
        } else {
            &self.paths
        };
        let mut files: Vec<FileToFormat> = Vec::new();
        for written in written {
            let path = resolve_path(cx, written)?;
            let quoted = text::brief(written);
            if cx.workspace().join(&path).is_dir() {
                collect(cx, &path, &mut files)?;
                continue;
            }
            match Formatter::choose(cx, &path) {
                Ok(formatter) => files.push(FileToFormat { path, formatter }),
                Err(NoFormatter::UnknownType) => {
                    return Err(Error::invalid_input(format_args!(
                        "`{quoted}` has no known formatter: expected Rust, Go, Python, JavaScript, TypeScript, CSS, HTML, JSON, \
                         YAML, Markdown or C++"
                    )));
                }
                Err(NoFormatter::NotConfigured(remedy)) => {
                    return Err(Error::unavailable(format_args!(
                        "`{quoted}` has no formatter in this project: {remedy}"
                    )));
                }
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files.dedup_by(|one, other| one.path == other.path);
        if files.len() > MAX_FILES {
            return Err(too_many_files());
        }
        if files.is_empty() {
            return Err(Error::not_found(
                "no file here has a formatter: name files, or install the project's formatter",
            ));
        }
        Ok(files)
    }
}

/// Returns the error for a call with too many files.
fn too_many_files() -> Error {
    Error::new(
        Code::LimitExceeded,
        format_args!("these are more than {MAX_FILES} files: name fewer files or smaller folders"),
    )
}

/// Collects the files of a folder that have a formatter, sorted. Hidden folders and links are left out. Fails if the
/// folder has more than [`MAX_FILES`] of them.
fn collect(cx: &Context, folder: &str, files: &mut Vec<FileToFormat>) -> Result<()> {
    let before = files.len();
    collect_below(cx, folder, before, files)
}

fn collect_below(
    cx: &Context,
    folder: &str,
    before: usize,
    files: &mut Vec<FileToFormat>,
) -> Result<()> {
    let entries = std::fs::read_dir(cx.workspace().join(folder))
        .map_err(|error| Error::io(&error, folder))?;
    // An entry keeps the folder open, so no entry may live while the folders in it are read.
    let mut entries: Vec<(String, fs::FileType)> = entries
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().into_string().ok()?,
                entry.file_type().ok()?,
            ))
        })
        .collect();
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    // The search for a formatter's configuration has the same result for all files of a type in a folder.
    let mut without = HashSet::new();
    for (name, kind) in entries {
        let path = join_path(folder, &name);
        if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
            collect_below(cx, &path, before, files)?;
        } else if kind.is_file() && !without.contains(ending(&path)) {
            let Ok(formatter) = Formatter::choose(cx, &path) else {
                without.insert(ending(&path).to_owned());
                continue;
            };
            // Folders of the call may overlap, so only the files of this one are counted here.
            if files.len() - before == MAX_FILES {
                return Err(too_many_files());
            }
            files.push(FileToFormat { path, formatter });
        }
    }
    Ok(())
}

/// The changes of a file.
struct FileDiff {
    text: String,
    /// False if the changed lines were left out.
    is_complete: bool,
}

/// Formats one file. Returns the diff, or `None` if nothing changes.
fn format_file(cx: &Context, file: &FileToFormat, check: bool) -> Result<Option<FileDiff>> {
    let path = cx.workspace().join(&file.path);
    let size = std::fs::metadata(&path).map_err(|error| Error::io(&error, &file.path))?;
    if size.len() > MAX_SIZE {
        return Err(Error::invalid_input(format_args!(
            "the file has more than {MAX_SIZE} bytes: format it with `exec`"
        )));
    }
    let Some(old) = read_text(&path) else {
        return Err(Error::invalid_input("the file is not UTF-8 text"));
    };
    let new = run_formatter(&file.formatter, &old)?;
    if new == old {
        return Ok(None);
    }
    check_result(&file.formatter, &old, &new)?;
    // The host detects a private key by its first line, which may not be among the lines of the diff.
    let (old_shown, new_shown) = (pieces::mask_keys(&old), pieces::mask_keys(&new));
    let diff = diff(&file.path, &old_shown, &new_shown);
    if check {
        return Ok(Some(diff));
    }
    if read_text(&path).as_ref() != Some(&old) {
        return Err(Error::execution(
            "the file has changed while it was formatted: call again",
        ));
    }
    replace_file(&path, &new).map_err(|error| Error::io(&error, &file.path))?;
    Ok(Some(diff))
}

/// Returns the changes of a file: only the two headers if the lines are too many to be compared.
fn diff(path: &str, old: &str, new: &str) -> FileDiff {
    let same_start = old.lines().zip(new.lines());
    let same_start = same_start.take_while(|(old, new)| old == new).count();
    let same_end = old.lines().rev().zip(new.lines().rev());
    let same_end = same_end.take_while(|(old, new)| old == new).count();
    let compared = [old, new].map(|text| {
        let lines = text.lines().count();
        lines.saturating_sub(same_start + same_end)
    });
    // The time of the comparison grows with the product.
    let is_complete = compared[0].saturating_mul(compared[1]) <= MAX_COMPARED;
    let text = if is_complete {
        TextDiff::from_lines(old, new)
            .unified_diff()
            .header(&format!("a/{path}"), &format!("b/{path}"))
            .to_string()
    } else {
        format!("--- a/{path}\n+++ b/{path}\n")
    };
    FileDiff { text, is_complete }
}

/// Fails for an empty result of a file with content, which is a failure of the formatter.
fn check_result(formatter: &Formatter, old: &str, new: &str) -> Result<()> {
    if new.trim().is_empty() && !old.trim().is_empty() {
        return Err(Error::execution(format_args!(
            "{} returned no text for a file with content, so the file was not changed",
            formatter.name
        )));
    }
    Ok(())
}

/// Writes a file to a temporary file in the same folder, and renames it. If the disk is full or the process ends
/// midway, the old file is unchanged. A link is written in place, because the rename would replace the link.
fn replace_file(path: &Path, content: &str) -> std::io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let (Some(folder), false) = (path.parent(), metadata.is_symlink()) else {
        return fs::write(path, content);
    };
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos());
    let mut unfinished = folder.join(format!(".unfinished-{time:x}"));
    let mut created = fs::File::create_new(&unfinished);
    if matches!(&created, Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied) {
        // A policy rule may forbid hidden files.
        unfinished = folder.join(format!("unfinished-{time:x}"));
        created = fs::File::create_new(&unfinished);
    }
    let mut file = created?;
    let written = file
        .write_all(content.as_bytes())
        .and_then(|()| file.flush());
    drop(file);
    // This has an effect in native builds only: WASI has no permissions.
    let _ = fs::set_permissions(&unfinished, metadata.permissions());
    let replaced = written.and_then(|()| fs::rename(&unfinished, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    replaced
}

fn run_formatter(formatter: &Formatter, content: &str) -> Result<String> {
    let mut command = Command::new(formatter.words[0].clone())
        .args(formatter.words[1..].iter().cloned())
        .stdin(content)
        .timeout(TIMEOUT);
    if !formatter.directory.is_empty() {
        command = command.directory(formatter.directory.clone());
    }
    let finished = command
        .run()
        .map_err(|error| missing_program::explain(error, &formatter.words[0]))?;
    let stderr = plain_text(&finished.stderr);
    if finished.exit_code != 0 {
        let message = if stderr.trim().is_empty() {
            format!(
                "{} ended with exit code {}",
                formatter.name, finished.exit_code
            )
        } else {
            stderr.trim().to_owned()
        };
        return Err(Error::execution(message));
    }
    if finished.truncated {
        return Err(Error::new(
            Code::LimitExceeded,
            "the formatted file exceeds the output limit of commands: format it with `exec`",
        ));
    }
    String::from_utf8(finished.stdout)
        .map_err(|_| Error::execution("the formatter's result is not UTF-8 text"))
}

fn describe(report: &FormatReport, check: bool) -> String {
    let changed = report.changed.len();
    let plural = if changed == 1 { "" } else { "s" };
    let verb = if check { "would change" } else { "formatted" };
    let mut lines = vec![format!(
        "{verb} {changed} file{plural}, {} unchanged, {} failed",
        report.unchanged,
        report.errors.len()
    )];
    for error in &report.errors {
        lines.push(format!("{}: {}", text::name(&error.path), error.message));
    }
    if !report.diff.is_empty() {
        lines.push(report.diff.trim_end().to_owned());
    }
    if report.truncated {
        lines.push("[… the rest of the diff was left out …]".to_owned());
    }
    lines.join("\n")
}

fn limit(message: &str, max_chars: usize) -> String {
    match message.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(on_disk: &[&str], paths: &[&str]) -> Result<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        for name in on_disk {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let call = FormatCode {
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            check: false,
        };
        let files = call.files(&Context::at(dir.path()))?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }

    #[test]
    fn format_code_collects_source_files_of_the_project() {
        let on_disk = [
            "src/a.rs",
            "b.py",
            "target/c.rs",
            "node_modules/d.py",
            ".hidden/e.py",
            "notes.txt",
            "web/f.ts",
        ];
        assert_eq!(files(&on_disk, &[]).unwrap(), ["b.py", "src/a.rs"]);
        assert_eq!(files(&on_disk, &["src", "src/a.rs"]).unwrap(), ["src/a.rs"]);
        for (path, code) in [
            ("notes.txt", Code::InvalidInput),
            ("web/f.ts", Code::Unavailable),
            ("web", Code::NotFound),
            ("missing.rs", Code::FileNotFound),
            ("../x.rs", Code::InvalidPath),
        ] {
            let error = files(&on_disk, &[path]).unwrap_err();
            assert_eq!(*error.code(), code, "{path}: {error}");
        }
    }

    #[test]
    fn format_code_fails_for_too_many_files_of_the_folder() {
        let scripts = (0..MAX_FILES * 10 + 2).map(|number| format!("a/{number}.ts"));
        let formatted: Vec<String> = (0..=MAX_FILES).map(|at| format!("b/{at}.rs")).collect();
        // Files without a formatter do not count.
        let all: Vec<String> = scripts.chain(formatted.clone()).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let error = files(&all, &[]).unwrap_err();
        assert_eq!(*error.code(), Code::LimitExceeded, "{error}");
        // Overlapping folders count once.
        let formatted: Vec<&str> = formatted.iter().map(String::as_str).collect();
        let within = files(&formatted[1..], &[".", "b"]).unwrap();
        assert_eq!(within.len(), MAX_FILES);
    }

    #[test]
    fn format_code_leaves_out_the_diff_of_too_many_lines() {
        let text = |indent: &str, lines: usize| -> String {
            (0..lines).map(|line| format!("{indent}{line}\n")).collect()
        };
        let large = diff("a.rs", &text("", 10_001), &text(" ", 10_001));
        assert!(!large.is_complete && large.text == "--- a/a.rs\n+++ b/a.rs\n");
        // Equal lines at the start and at the end are not compared.
        let old = text("", 100_000);
        let one = diff("a.rs", &old, &old.replace("\n70000\n", "\n 70000\n"));
        assert!(one.is_complete && one.text.contains("-70000\n+ 70000\n"));
    }

    #[test]
    fn replaced_file_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.rs");
        std::fs::write(&path, "old").unwrap();
        replace_file(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn format_code_text_lists_changes_and_errors() {
        let report = FormatReport {
            changed: vec![FormattedFile {
                path: "a.rs".into(),
                formatter: "rustfmt".into(),
            }],
            unchanged: 2,
            errors: vec![FormatError {
                path: "b.rs".into(),
                message: "expected item".into(),
            }],
            diff: "--- a/a.rs\n".into(),
            truncated: false,
        };
        assert_eq!(
            describe(&report, false),
            "formatted 1 file, 2 unchanged, 1 failed\nb.rs: expected item\n--- a/a.rs"
        );
        assert!(describe(&report, true).starts_with("would change 1 file,"));
    }
}
