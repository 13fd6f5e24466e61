//! `status`.

use std::fmt::Write as _;

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::args::Args;
use crate::filters::{self, Attributes};
use crate::repository::{Repository, hidden_files_note, submodules_note};
use crate::tool::Report;

/// Maximum number of files in a result; `total` counts the rest too.
const MAX_ENTRIES: usize = 500;

/// The state of the working tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The branch that is checked out; absent for a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that is checked out; absent before the first commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The upstream of this branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Number of commits that upstream does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Number of commits that only upstream has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// The files that differ from the last commit.
    pub files: Vec<Entry>,
    /// Number of files that differ from the last commit.
    pub total: usize,
}

/// A file that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The file, relative to the workspace root.
    pub path: String,
    /// Staged change: `added`, `modified`, `deleted`, `renamed`, `copied`, `type-changed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<String>,
    /// Unstaged change: a value as in `staged`, or `untracked`, or `conflict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unstaged: Option<String>,
    /// Old path, if the file was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

pub fn report(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    let mut paths = args.names.clone();
    paths.extend(args.paths.iter().cloned());
    let mut status = read(repository, &paths)?;
    let mut hidden = if status.files.iter().any(is_modified) {
        repository.find_unreadable(&paths)?
    } else {
        Vec::new()
    };
    status.leave_out(&hidden);
    hidden.extend(repository.hidden_files(&paths));
    let text = status.text()
        + &hidden_files_note(&hidden)
        + &submodules_note(&repository.submodules())
        + &unfiltered_note(repository, &status)?;
    Ok(Json(Report {
        status: Some(status),
        ..Report::default()
    })
    .worded(text))
}

/// Returns a note on files that may look changed only because their filters did not run.
fn unfiltered_note(repository: &Repository, status: &Status) -> Result<String> {
    let modified = status.files.iter().filter(|entry| is_modified(entry));
    let paths: Vec<&[u8]> = modified.map(|entry| entry.path.as_bytes()).collect();
    if paths.is_empty() {
        return Ok(String::new());
    }
    Ok(filters::unfiltered_note(&filters::find_filtered(
        repository,
        paths,
        Attributes::WorkTree,
    )?))
}

fn is_modified(entry: &Entry) -> bool {
    entry.unstaged.as_deref() == Some("modified")
}

/// Returns the state of the working tree, or of some paths.
pub fn read(repository: &Repository, paths: &[String]) -> Result<Status> {
    // A submodule has its own settings, so only its commit is compared.
    let args = [
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--ignore-submodules=dirty",
    ];
    Ok(parse(&repository.run(&args, paths)?))
}

/// Parses the output of `git status --porcelain=v2 -z`.
fn parse(output: &[u8]) -> Status {
    let output = String::from_utf8_lossy(output);
    let mut records = output.split('\0');
    let mut status = Status::default();
    while let Some(record) = records.next() {
        let Some((kind, rest)) = record.split_once(' ') else {
            continue;
        };
        let entry = match kind {
            "#" => {
                parse_header(rest, &mut status);
                continue;
            }
            // XY and a fixed number of fields before the path.
            "1" => parse_entry(rest, 7, None),
            "2" => parse_entry(rest, 8, records.next().map(str::to_owned)),
            "u" => rest.splitn(10, ' ').nth(9).map(|path| Entry {
                path: path.to_owned(),
                staged: None,
                unstaged: Some("conflict".into()),
                from: None,
            }),
            "?" => Some(Entry {
                path: rest.to_owned(),
                staged: None,
                unstaged: Some("untracked".into()),
                from: None,
            }),
            _ => None,
        };
        if let Some(entry) = entry {
            status.total += 1;
            if status.files.len() < MAX_ENTRIES {
                status.files.push(entry);
            }
        }
    }
    status
}

fn parse_header(line: &str, status: &mut Status) {
    let Some((key, value)) = line.split_once(' ') else {
        return;
    };
    match key {
        "branch.oid" if value != "(initial)" => status.commit = Some(value.to_owned()),
        "branch.head" if value != "(detached)" => status.branch = Some(value.to_owned()),
        "branch.upstream" => status.upstream = Some(value.to_owned()),
        "branch.ab" => {
            if let Some((ahead, behind)) = value.split_once(' ') {
                status.ahead = ahead.trim_start_matches('+').parse().ok();
                status.behind = behind.trim_start_matches('-').parse().ok();
            }
        }
        _ => {}
    }
}

fn parse_entry(rest: &str, fields: usize, from: Option<String>) -> Option<Entry> {
    let mut letters = rest.chars();
    let (staged, unstaged) = (letters.next()?, letters.next()?);
    Some(Entry {
        path: rest.splitn(fields + 1, ' ').nth(fields)?.to_owned(),
        staged: change_name(staged).map(str::to_owned),
        unstaged: change_name(unstaged).map(str::to_owned),
        from,
    })
}

/// Returns the meaning of git's status letter.
pub fn change_name(letter: char) -> Option<&'static str> {
    Some(match letter {
        'A' => "added",
        'M' => "modified",
        'D' => "deleted",
        'R' => "renamed",
        'C' => "copied",
        'T' => "type-changed",
        'U' => "conflict",
        _ => return None,
    })
}

impl Status {
    /// Removes the unstaged state of files that were not compared.
    fn leave_out(&mut self, hidden: &[String]) {
        let before = self.files.len();
        self.files.retain_mut(|entry| {
            if hidden.contains(&entry.path) {
                entry.unstaged = None;
            }
            entry.staged.is_some() || entry.unstaged.is_some()
        });
        self.total -= before - self.files.len();
    }

    /// Formats the state for a model.
    pub fn text(&self) -> String {
        let mut text = match (&self.branch, &self.commit) {
            (Some(branch), Some(_)) => format!("on branch {}", text::name(branch)),
            (Some(branch), None) => format!("on branch {}, no commits yet", text::name(branch)),
            (None, Some(commit)) => format!("at commit {}", commit.get(..12).unwrap_or(commit)),
            (None, None) => "nothing is checked out".to_owned(),
        };
        if let Some(upstream) = &self.upstream {
            let _ = write!(text, ", upstream {}", text::name(upstream));
            if let (Some(ahead), Some(behind)) = (self.ahead, self.behind) {
                let _ = write!(text, " (ahead {ahead}, behind {behind})");
            }
        }
        if self.total == 0 {
            text += "\nnothing to commit, working tree clean";
        }
        for entry in &self.files {
            let path = text::name(&entry.path);
            let state = match (&entry.staged, &entry.unstaged) {
                (Some(staged), Some(unstaged)) => format!("staged {staged}, {unstaged} since"),
                (Some(staged), None) => format!("staged {staged}"),
                (None, Some(unstaged)) => unstaged.clone(),
                (None, None) => "unchanged".to_owned(),
            };
            let _ = match &entry.from {
                Some(from) => write!(text, "\n{state}: {} -> {path}", text::name(from)),
                None => write!(text, "\n{state}: {path}"),
            };
        }
        if self.total > self.files.len() {
            let _ = write!(text, "\n… and {} more", self.total - self.files.len());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_status_porcelain_is_parsed() {
        let output = "# branch.oid 0123456789abcdef\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0\
            1 M. N... 100644 100644 100644 aaa bbb src/a b.rs\0\
            1 .D N... 100644 100644 000000 aaa aaa gone\0\
            2 R. N... 100644 100644 100644 aaa aaa R100 new name\0old name\0\
            u UU N... 1 2 3 4 aaa bbb ccc both.rs\0? new.txt\0";
        let status = parse(output.as_bytes());
        assert_eq!((status.ahead, status.behind), (Some(2), Some(1)));
        let text = status.text();
        assert_eq!(
            text,
            "on branch main, upstream origin/main (ahead 2, behind 1)\nstaged modified: src/a b.rs\ndeleted: gone\n\
             staged renamed: old name -> new name\nconflict: both.rs\nuntracked: new.txt"
        );
        assert_eq!(status.total, 5);
    }

    #[test]
    fn git_status_describes_clean_and_new_repositories() {
        let clean = parse(b"# branch.oid (initial)\0# branch.head main\0");
        assert_eq!(
            clean.text(),
            "on branch main, no commits yet\nnothing to commit, working tree clean"
        );
        let detached = parse(b"# branch.oid 0123456789abcdef\0# branch.head (detached)\0");
        assert!(detached.text().starts_with("at commit 0123456789ab\n"));
    }

    #[test]
    fn git_status_counts_omitted_files() {
        let output: String = (0..MAX_ENTRIES + 7).map(|n| format!("? f{n}\0")).collect();
        let status = parse(output.as_bytes());
        assert!(status.text().ends_with("\n… and 7 more"));
    }
}
