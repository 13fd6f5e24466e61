//! The tool `git`: the operations, their results, and their need for approval.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::args::Args;
use crate::branch::{self, Branch};
use crate::change;
use crate::diff::{self, Changes};
use crate::log::{self, Commit};
use crate::repository::Repository;
use crate::status::{self, Status};

/// Works with the git repository of the workspace. `status`, `diff`, `log`, `show` and `branch` without a name read;
/// `add`, `commit`, `checkout` and `branch NAME` change. Hooks and other programs of the repository don't run, so
/// files with a filter (LFS, git-crypt) are refused. Anything else, such as `push`, goes through `exec`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Git {
    /// The operation.
    pub operation: Operation,
    /// Arguments after the subcommand, one word each: `["--staged", "--", "src"]`, `["-m", "Message"]`, `["-b",
    /// "topic"]`. Paths come after `--`.
    #[serde(default)]
    pub args: Vec<String>,
}

/// An operation of `git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Operation {
    /// Lists the changed files.
    Status,
    /// Shows the changes in files.
    Diff,
    /// Lists commits.
    Log,
    /// Shows one commit with its changes.
    Show,
    /// Stages files.
    Add,
    /// Creates a commit.
    Commit,
    /// Lists, creates, renames or deletes branches.
    Branch,
    /// Switches to a branch or a commit, or restores files.
    Checkout,
}

impl Operation {
    /// The subcommand.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Diff => "diff",
            Self::Log => "log",
            Self::Show => "show",
            Self::Add => "add",
            Self::Commit => "commit",
            Self::Branch => "branch",
            Self::Checkout => "checkout",
        }
    }
}

/// The result, with the fields of the operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The state of the working tree, for `status` and operations that change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The commits of `log`, or the one of `show` and `commit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<Vec<Commit>>,
    /// The changes of `diff`, `show` and `commit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The branches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branches: Option<Vec<Branch>>,
}

impl Tool for Git {
    type Output = Worded<Report>;
    const GROUP: Group = Group::Runtime;
    const TITLE: Option<&'static str> = Some("Git");
    const RISK: Risk = Risk::Medium;

    fn needs() -> Needs {
        Needs::none()
            .command(
                "git *",
                "to read and change the repository of the workspace",
            )
            .write(".", "for git to work on")
    }

    fn run(self, _: &Context) -> Result<Self::Output> {
        let args = Args::parse(self.operation, &self.args)?;
        let repository = Repository::open()?;
        match self.operation {
            Operation::Status => status::report(&repository, &args),
            Operation::Diff => diff::report(&repository, &args),
            Operation::Log => log::report(&repository, &args),
            Operation::Show => log::show(&repository, &args),
            Operation::Add => change::add(&repository, &args),
            Operation::Commit => change::commit(&repository, &args),
            Operation::Branch => branch::report(&repository, &args),
            Operation::Checkout => change::checkout(&repository, &args),
        }
    }
}

impl Assess for Git {
    fn assess(&self, _: &Context) -> Assessment {
        let args = match Args::parse(self.operation, &self.args) {
            Ok(args) => args,
            // The call will fail because of its arguments, before git runs.
            Err(error) => return Assessment::allow(error.to_string()),
        };
        let summary = text::brief(&self.args.join(" ")).into_owned();
        match self.operation {
            Operation::Status | Operation::Diff | Operation::Log | Operation::Show => {
                Assessment::allow(format!("reads the repository: {}", self.operation.as_str()))
            }
            Operation::Branch if branch::only_lists(&args) => Assessment::allow("lists branches"),
            Operation::Branch if args.has(&["-D", "-d", "--delete"]) => {
                Assessment::ask(format!("deletes the branch: {summary}"))
                    .risk(Risk::High)
                    .because("commits that are on no other branch are hard to find again")
            }
            Operation::Branch => {
                Assessment::ask(format!("changes branches: {summary}")).risk(Risk::Low)
            }
            // Staging needs no approval, because `commit`, which stores the staged changes, asks for it.
            Operation::Add => Assessment::allow(format!("stages: {summary}")),
            Operation::Commit if args.has(&["--amend"]) => {
                Assessment::ask(format!("replaces the last commit: {summary}"))
                    .because("the old commit will no longer be in the history")
            }
            Operation::Commit => Assessment::ask(format!("commits: {summary}")),
            Operation::Checkout if change::may_discard(&args) => {
                Assessment::ask(format!("discards changes: {summary}"))
                    .risk(Risk::High)
                    .because("uncommitted changes are lost")
            }
            Operation::Checkout => Assessment::ask(format!("checks out: {summary}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_reading_and_staging_need_no_approval() {
        let asks = |operation, args: &[&str]| {
            let args = args.iter().map(|&arg| arg.to_owned()).collect();
            let assessed = Git { operation, args }.assess(&Context::at("/"));
            assessed.approval() == Approval::Ask
        };
        for (operation, args) in [
            (Operation::Status, &[][..]),
            (Operation::Diff, &["--staged"]),
            (Operation::Branch, &[]),
            (Operation::Branch, &["-a"]),
            (Operation::Branch, &["--show-current"]),
            (Operation::Branch, &["--merged", "main"]),
            (Operation::Add, &["-A"]),
        ] {
            assert!(!asks(operation, args), "{operation:?} {args:?}");
        }
        for (operation, args) in [
            (Operation::Commit, &["-m", "x"][..]),
            (Operation::Branch, &["topic"]),
            (Operation::Branch, &["-D", "topic"]),
            (Operation::Branch, &["-m", "old", "new"]),
            (Operation::Checkout, &["main"]),
            (Operation::Checkout, &["--", "file"]),
        ] {
            assert!(asks(operation, args), "{operation:?} {args:?}");
        }
    }
}
