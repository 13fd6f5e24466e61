//! `branch`.

use std::fmt::Write as _;

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::args::Args;
use crate::repository::Repository;
use crate::tool::Report;

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// Name of the branch.
    pub name: String,
    /// True if the branch is checked out.
    pub current: bool,
    /// The commit that the branch points to.
    pub commit: String,
    /// Upstream of the branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The first line of the commit's message.
    pub subject: String,
}

const FORMAT: &str =
    "--format=%(HEAD)%00%(refname:short)%00%(objectname)%00%(upstream:short)%00%(contents:subject)";

/// Returns true if the arguments only list branches. A name creates a branch unless an option makes it a pattern.
pub fn only_lists(args: &Args) -> bool {
    let lists = args.has(&[
        "--list",
        "--merged",
        "--no-merged",
        "--contains",
        "--show-current",
    ]);
    let changes = args.has(&["-d", "--delete", "-D", "-m", "--move"]);
    !changes && (args.names.is_empty() || lists)
}

pub fn report(repository: &Repository, args: &Args) -> Result<Worded<Report>> {
    if !args.paths.is_empty() {
        return Err(Error::invalid_input("`branch` takes no paths"));
    }
    let mut text = String::new();
    let only_lists = only_lists(args);
    if !only_lists {
        let mut command = vec!["branch"];
        command.extend(args.options_and_names());
        text = String::from_utf8_lossy(&repository.run(&command, &[])?).into_owned();
    }
    let mut command = vec!["branch", FORMAT];
    if only_lists {
        // For `--show-current`, all branches are listed and then filtered.
        let options = args.options_and_names().into_iter();
        command.extend(options.filter(|option| *option != "--show-current"));
    }
    let mut branches = parse(&repository.run(&command, &[])?);
    if args.has(&["--show-current"]) {
        branches.retain(|branch| branch.current);
    }
    for branch in &branches {
        let mark = if branch.current { '*' } else { ' ' };
        let commit = branch.commit.get(..10).unwrap_or(&branch.commit);
        let (name, subject) = (text::name(&branch.name), text::name(&branch.subject));
        let _ = writeln!(text, "{mark} {name} {commit} {subject}");
    }
    if text.is_empty() {
        text.push_str("no branches");
    }
    Ok(Json(Report {
        branches: Some(branches),
        ..Report::default()
    })
    .worded(text))
}

fn parse(output: &[u8]) -> Vec<Branch> {
    let output = String::from_utf8_lossy(output);
    let branch = |line: &str| {
        let mut fields = line.split('\0').map(str::to_owned);
        Some(Branch {
            current: fields.next()? == "*",
            name: fields.next()?,
            commit: fields.next()?,
            upstream: fields.next().filter(|name| !name.is_empty()),
            subject: fields.next()?,
        })
    };
    output.lines().filter_map(branch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_branches_are_parsed() {
        let branches = parse(b"*\0main\0abc\0origin/main\0Say it\n \0topic\0def\0\0Other\n");
        assert_eq!(branches.len(), 2);
        assert!(branches[0].current && branches[0].upstream.is_some());
        assert!(!branches[1].current && branches[1].upstream.is_none());
    }
}
