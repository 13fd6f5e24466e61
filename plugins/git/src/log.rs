//! `log` and `show`.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::args::Args;
use crate::diff::{self, PLAIN};
use crate::repository::{Repository, hidden_files_note};
use crate::tool::Report;

/// Default number of commits in a log.
const DEFAULT_LIMIT: &str = "-n30";

/// Maximum number of commits in a log, even if more are requested.
const MAX_COMMITS: usize = 1000;

/// Output format: fields end with NUL, commits with a record separator.
const FORMAT: &str = "--format=tformat:%H%x00%an%x00%ae%x00%aI%x00%D%x00%s%x00%b%x00%x1e";

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// Full hash.
    pub hash: String,
    /// Name of the author.
    pub author: String,
    /// Email address of the author.
    pub email: String,
    /// Author date, ISO 8601.
    pub date: String,
    /// The first line of the message.
    pub subject: String,
    /// The rest of the message.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    pub body: String,
    /// Branches and tags that point to the commit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub refs: Vec<String>,
}

pub fn report(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    let mut command = vec!["log", "--no-show-signature", "--no-patch"];
    // `-S` and `-G` compare files, so these options apply here too.
    command.extend(PLAIN);
    if !args.has(&["-n", "--max-count"]) {
        command.push(DEFAULT_LIMIT);
    }
    command.extend(
        args.options_and_names()
            .into_iter()
            .filter(|word| *word != "--oneline"),
    );
    command.push(FORMAT);
    let mut commits = parse(&repository.run(&command, &args.paths)?);
    let count = commits.len();
    commits.truncate(MAX_COMMITS);
    let mut text: String = commits.iter().map(Commit::line).collect();
    if commits.is_empty() {
        text.push_str("no commits");
    }
    if count > MAX_COMMITS {
        text.push_str(&format!(
            "[… {} more; use a smaller `-n`, or `--skip` …]",
            count - MAX_COMMITS
        ));
    }
    Ok(Json(Report {
        commits: Some(commits),
        ..Report::default()
    })
    .worded(text))
}

pub fn show(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    if args.names.len() > 1 {
        return Err(Error::invalid_input(
            "`show` shows one commit; `log` lists several",
        ));
    }
    let name = args.names.first().map_or("HEAD", String::as_str);
    // Only commits can be shown. Files are read with `read_file` and `file_search`.
    let commit = format!("{name}^{{commit}}");
    show_commit(repository, &commit, args)
}

/// Reports a commit with its changes.
pub fn show_commit(repository: &Repository, commit: &str, args: &Args) -> Result<Worded<Report>> {
    let run = |extra: &[&str]| {
        let mut command = vec!["show", "--no-show-signature"];
        command.extend(PLAIN);
        command.extend(extra);
        command.push(commit);
        repository.run(&command, &args.paths)
    };
    let commits = parse(&run(&["--no-patch", FORMAT])?);
    let changes = diff::parse(&run(&["--format=", "--numstat", "-z"])?);
    let mut options: Vec<&str> = args.options.iter().map(String::as_str).collect();
    options.push("--format=");
    let patch = String::from_utf8_lossy(&run(&options)?).into_owned();
    let mut text = String::new();
    for commit in &commits {
        text.push_str(&commit.paragraph());
    }
    text.push_str(&diff::summarize_patch(&changes, &patch));
    text.push_str(&hidden_files_note(&repository.hidden_changes(&changes)));
    Ok(Json(Report {
        commits: Some(commits),
        changes: Some(changes),
        ..Report::default()
    })
    .worded(text))
}

/// Parses output in [`FORMAT`].
pub fn parse(output: &[u8]) -> Vec<Commit> {
    let output = String::from_utf8_lossy(output);
    let commit = |record: &str| {
        let mut fields = record
            .trim_start_matches('\n')
            .split('\0')
            .map(str::to_owned);
        let hash = fields.next().filter(|hash| !hash.is_empty())?;
        Some(Commit {
            hash,
            author: fields.next()?,
            email: fields.next()?,
            date: fields.next()?,
            refs: fields
                .next()?
                .split(", ")
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            subject: fields.next()?,
            body: fields.next()?.trim_end().to_owned(),
        })
    };
    output.split('\u{1e}').filter_map(commit).collect()
}

impl Commit {
    /// Abbreviated hash.
    pub fn short(&self) -> &str {
        self.hash.get(..10).unwrap_or(&self.hash)
    }

    fn line(&self) -> String {
        let day = self.date.get(..10).unwrap_or(&self.date);
        let refs = if self.refs.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.refs.join(", "))
        };
        format!(
            "{} {day} {}{refs}: {}\n",
            self.short(),
            text::name(&self.author),
            text::name(&self.subject)
        )
    }

    fn paragraph(&self) -> String {
        let body = if self.body.is_empty() {
            String::new()
        } else {
            format!("\n{}\n", self.body)
        };
        format!(
            "commit {}\nauthor {} <{}>, {}\n\n{}\n{body}\n",
            self.hash,
            text::name(&self.author),
            text::name(&self.email),
            self.date,
            text::name(&self.subject)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_log_commits_are_parsed() {
        let output = "0123456789abcdef\0Ann\0ann@x\x002026-01-02T03:04:05+00:00\0HEAD -> main, tag: v1\0Say: it\0more\n\nlines\n\0\u{1e}\n\
            fedcba\0Bob\0b@x\x002026-01-01T00:00:00Z\0\0First\0\0\u{1e}\n";
        let commits = parse(output.as_bytes());
        assert_eq!(commits.len(), 2);
        assert_eq!(commits[0].refs, ["HEAD -> main", "tag: v1"]);
        assert_eq!(commits[0].body, "more\n\nlines");
        assert_eq!(
            commits[0].line(),
            "0123456789 2026-01-02 Ann (HEAD -> main, tag: v1): Say: it\n"
        );
        assert_eq!(commits[1].line(), "fedcba 2026-01-01 Bob: First\n");
        assert!(
            commits[0]
                .paragraph()
                .ends_with("\nSay: it\n\nmore\n\nlines\n\n")
        );
    }
}
