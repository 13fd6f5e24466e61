//! `diff`.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::args::Args;
use crate::filters::{self, Attributes};
use crate::repository::{Repository, hidden_files_note, submodules_note};
use crate::tool::Report;

/// Maximum number of characters of a patch in a result.
const MAX_PATCH: usize = 40_000;

/// Maximum number of files in structured content.
const MAX_FILES: usize = 500;

/// Options whose output is not a patch and is shown as git writes it.
const SUMMARIES: [&str; 5] = [
    "--stat",
    "--numstat",
    "--shortstat",
    "--name-only",
    "--name-status",
];

/// Options that prevent git from running programs configured by a repository. Of submodules, whose settings are not
/// checked, only the commits are compared.
pub const PLAIN: [&str; 5] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=dirty",
    "--submodule=short",
];

/// Changes of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// The files.
    pub files: Vec<Change>,
    /// Number of changed files.
    pub total: usize,
    /// Number of lines added in all files.
    pub added: u64,
    /// Number of lines removed in all files.
    pub removed: u64,
}

/// Change of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The file, relative to the workspace root.
    pub path: String,
    /// Old path, if the file was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Number of added lines; absent for a binary file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Number of removed lines; absent for a binary file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

pub fn report(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    let run = |extra: &[&str]| {
        let mut command = vec!["diff"];
        command.extend(PLAIN);
        command.extend(args.options_and_names());
        command.extend(extra);
        repository.compare(&command, &args.paths)
    };
    let (numbers, mut hidden) = run(&["--numstat", "-z"])?;
    let changes = parse(&numbers);
    let patch = String::from_utf8_lossy(&run(&[])?.0).into_owned();
    let mut text = if patch.is_empty() {
        "no changes".to_owned()
    } else if args.has(&SUMMARIES) {
        patch
    } else {
        summarize_patch(&changes, &patch)
    };
    // Comparisons between commits or with the index apply no filters.
    let between_commits = args.has(&["--staged", "--cached"])
        || args.names.len() > 1
        || args.names.iter().any(|name| name.contains(".."));
    let unfiltered_note = if !between_commits && changes.total > 0 {
        let paths = changes.files.iter().map(|file| file.path.as_bytes());
        filters::unfiltered_note(&filters::find_filtered(
            repository,
            paths,
            Attributes::WorkTree,
        )?)
    } else {
        String::new()
    };
    if between_commits {
        hidden.extend(repository.hidden_changes(&changes));
    } else {
        hidden.extend(repository.hidden_files(&args.paths));
        text += &submodules_note(&repository.submodules());
    }
    let text = text + &hidden_files_note(&hidden) + &unfiltered_note;
    Ok(Json(Report {
        changes: Some(changes),
        ..Report::default()
    })
    .worded(text))
}

/// Returns a summary line and the patch, truncated to the limit.
pub fn summarize_patch(changes: &Changes, patch: &str) -> String {
    let files = if changes.total == 1 { "file" } else { "files" };
    let head = format!(
        "{} {files}, {} lines added, {} removed\n",
        changes.total, changes.added, changes.removed
    );
    match patch.char_indices().nth(MAX_PATCH) {
        None => head + patch,
        Some((end, _)) => {
            let end = patch[..end].rfind('\n').map_or(end, |end| end + 1);
            let more = patch[end..].matches('\n').count();
            let note = format!("[… {more} more lines; name paths after `--`, or use `--stat` …]");
            head + &patch[..end] + &note
        }
    }
}

/// Parses the output of `--numstat -z`.
pub fn parse(output: &[u8]) -> Changes {
    let output = String::from_utf8_lossy(output);
    let mut records = output.split('\0');
    let mut changes = Changes::default();
    while let Some(record) = records.next() {
        let mut fields = record.trim_start_matches('\n').splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        // The two names of a rename are in separate records.
        let (from, path) = if path.is_empty() {
            (
                records.next().map(str::to_owned),
                records.next().unwrap_or_default(),
            )
        } else {
            (None, path)
        };
        let (added, removed) = (added.parse().ok(), removed.parse().ok());
        changes.total += 1;
        changes.added += added.unwrap_or(0);
        changes.removed += removed.unwrap_or(0);
        if changes.files.len() < MAX_FILES {
            changes.files.push(Change {
                path: path.to_owned(),
                from,
                added,
                removed,
            });
        }
    }
    changes
}

impl Changes {
    /// Formats a line for each file.
    pub fn lines(&self) -> String {
        let mut lines = String::new();
        for file in &self.files {
            let count = match (file.added, file.removed) {
                (Some(added), Some(removed)) => format!("+{added} -{removed}"),
                _ => "binary".to_owned(),
            };
            lines.push_str(&format!("{count}\t{}\n", text::name(&file.path)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_numstat_is_parsed() {
        let changes = parse(b"3\t1\tsrc/a b.rs\x00-\t-\tlogo.png\x000\t0\t\0old\0new\0");
        assert_eq!((changes.total, changes.added, changes.removed), (3, 3, 1));
        assert_eq!(changes.files[1].added, None);
        assert_eq!(changes.files[2].from.as_deref(), Some("old"));
        assert_eq!(changes.files[2].path, "new");
        assert_eq!(
            changes.lines(),
            "+3 -1\tsrc/a b.rs\nbinary\tlogo.png\n+0 -0\tnew\n"
        );
    }

    #[test]
    fn git_diff_patch_is_cut_at_a_line() {
        let patch = "+line of a patch\n".repeat(5_000);
        let text = summarize_patch(&Changes::default(), &patch);
        assert!(text.len() < MAX_PATCH + 200);
        let last = text.lines().last().unwrap();
        let shown_lines = text.lines().filter(|line| line.starts_with('+')).count();
        assert!(
            last.contains(&format!("{} more lines", 5_000 - shown_lines)),
            "{last}"
        );
    }
}
