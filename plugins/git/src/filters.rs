//! Detection of files with a filter among those that an operation stages, commits or checks out.
//!
//! A filter (`git-crypt`, LFS) is a program chosen by the repository, and this tool runs no such program. So operations
//! on files with a filter are refused: without the filter, `add` would store clear text instead of ciphertext, and
//! `checkout` would replace clear text with ciphertext. Only the attribute is checked: the setting that names the
//! program may be in the user's own configuration, which is not visible here.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::repository::Repository;

/// Number of files per query, which limits the size of the output.
const PATHS_PER_QUERY: usize = 4_000;

/// Maximum number of files listed in a message.
const MAX_LISTED_NAMES: usize = 10;

/// Error code for files that need a filter.
pub const GIT_FILTER_CODE: &str = "GIT_FILTER";

/// A file with a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilteredFile {
    pub path: String,
    pub filter: String,
}

/// Version of the `.gitattributes` files to use.
#[derive(Debug, Clone, Copy)]
pub enum Attributes<'a> {
    /// Attributes of the working tree.
    WorkTree,
    /// Attributes in the index.
    Staged,
    /// Attributes of a commit or a tree.
    Of(&'a str),
}

/// Returns the files among these paths that have a filter.
pub fn find_filtered<'a>(
    repository: &Repository,
    paths: impl IntoIterator<Item = &'a [u8]>,
    attributes: Attributes<'_>,
) -> Result<Vec<FilteredFile>> {
    let source = match attributes {
        Attributes::WorkTree => None,
        Attributes::Staged => Some("--cached".to_owned()),
        Attributes::Of(tree) => Some(format!("--source={tree}")),
    };
    let mut args = vec!["check-attr", "-z", "--stdin"];
    args.extend(source.as_deref());
    args.push("filter");
    let paths: Vec<&[u8]> = paths.into_iter().collect();
    let mut all = Vec::new();
    for batch in paths.chunks(PATHS_PER_QUERY) {
        all.extend(parse(
            &repository.run_with_stdin(&args, &nul_terminated("", batch))?,
        ));
    }
    Ok(all)
}

/// Parses the output of `check-attr -z`: path, attribute and value.
fn parse(output: &[u8]) -> Vec<FilteredFile> {
    let output = String::from_utf8_lossy(output);
    let fields: Vec<&str> = output.split('\0').collect();
    let filtered = fields.chunks_exact(3).filter_map(|field| {
        // An attribute that is set without a value counts as a filter too.
        let is_name = !matches!(field[2], "unspecified" | "unset");
        is_name.then(|| FilteredFile {
            path: field[0].to_owned(),
            filter: field[2].to_owned(),
        })
    });
    filtered.collect()
}

/// Fails if `filtered` is not empty, because the filters would not run. `consequence` describes the result for the
/// message.
pub fn refuse_filtered(filtered: &[FilteredFile], command: &str, consequence: &str) -> Result<()> {
    let Some(first) = filtered.first() else {
        return Ok(());
    };
    let names: Vec<_> = filtered
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|one| format!("`{}`", text::name(&one.path)))
        .collect();
    let more = match filtered.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Error::other(
        GIT_FILTER_CODE,
        format_args!(
            "nothing was done: .gitattributes sends {}{more} through a filter (`{}`), which this tool does not run, so \
             {consequence}; run `git {command}` with `exec`, where policy applies and a filter from the repository's own \
             settings runs in the sandbox, or by hand, if the filter is in your settings",
            names.join(", "),
            text::name(&first.filter),
        ),
    ))
}

/// Returns a note on files that were compared without their filters.
pub fn unfiltered_note(filtered: &[FilteredFile]) -> String {
    if filtered.is_empty() {
        return String::new();
    }
    let names: Vec<_> = filtered
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|one| text::name(&one.path).into_owned())
        .collect();
    let more = if filtered.len() > names.len() {
        ", …"
    } else {
        ""
    };
    format!(
        "\ncompared without the filters that .gitattributes names, so their effect looks like a change: {}{more}",
        names.join(", ")
    )
}

/// Formats paths for git's standard input, each with a prefix.
fn nul_terminated(prefix: &str, paths: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend(prefix.as_bytes());
        bytes.extend(*path);
        bytes.push(0);
    }
    bytes
}

/// Options that make git read the paths of [`pathspecs`].
pub const PATHSPECS_FROM_STDIN: [&str; 2] = ["--pathspec-from-file=-", "--pathspec-file-nul"];

/// Formats exactly these paths, without pattern matching, for git's standard input.
pub fn pathspecs(paths: &[Vec<u8>]) -> Vec<u8> {
    let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
    nul_terminated(":(top,literal)", &paths)
}

/// Changes of some paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkTreeChanges {
    /// Paths that differ between the working tree and the index; untracked ones as folders.
    pub unstaged: Vec<Vec<u8>>,
    /// True if anything is staged.
    pub staged: bool,
}

impl WorkTreeChanges {
    /// Queries the changes. `untracked` includes untracked paths.
    ///
    /// Of a submodule, only the commit is compared: to detect changed files, git would run inside the submodule with
    /// its settings, which are not switched off.
    pub fn query(repository: &Repository, paths: &[String], untracked: bool) -> Result<Self> {
        let args = [
            "status",
            "--porcelain=v2",
            "-z",
            "--no-renames",
            "--ignore-submodules=dirty",
            if untracked {
                "--untracked-files=normal"
            } else {
                "--untracked-files=no"
            },
        ];
        Ok(Self::parse(&repository.run(&args, paths)?))
    }

    fn parse(output: &[u8]) -> Self {
        let mut changed = Self::default();
        for record in output.split(|byte| *byte == 0) {
            // The record type, XY, and a fixed number of fields before the path.
            let (fields, staged, unstaged) = match record {
                [b'1', b' ', x, y, ..] => (8, *x != b'.', *y != b'.'),
                [b'u', b' ', ..] => (10, true, true),
                [b'?', b' ', ..] => (1, false, true),
                _ => continue,
            };
            let path = record.splitn(fields + 1, |byte| *byte == b' ').nth(fields);
            changed.staged |= staged;
            changed
                .unstaged
                .extend(path.filter(|_| unstaged).map(<[u8]>::to_vec));
        }
        changed
    }
}

/// Returns the files with a filter that `add` or `commit` would read from the working tree.
pub fn filtered_for_staging(
    repository: &Repository,
    paths: &[String],
    untracked: bool,
) -> Result<Vec<FilteredFile>> {
    let mut args = vec!["ls-files", "-z", "--modified", "--exclude-standard"];
    if untracked {
        args.push("--others");
    }
    let files = repository.run(&args, paths)?;
    find_filtered(repository, records(&files), Attributes::WorkTree)
}

/// Returns the files with a filter that `checkout` would write: those that `git diff` lists with the arguments
/// `between`. `tree` is the tree to check out; `None` is the index.
pub fn filtered_for_checkout(
    repository: &Repository,
    between: &[&str],
    paths: &[String],
    tree: Option<&str>,
) -> Result<Vec<FilteredFile>> {
    let mut args = vec![
        "diff",
        "--name-only",
        "-z",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=all",
    ];
    args.extend(between);
    let (files, hidden) = repository.compare(&args, paths)?;
    let hidden = hidden.iter().map(String::as_bytes);
    let files: Vec<&[u8]> = records(&files).chain(hidden).collect();
    let find = |attributes| find_filtered(repository, files.iter().copied(), attributes);
    let mut all = find(Attributes::WorkTree)?;
    all.extend(find(Attributes::Staged)?);
    // The checked-out tree may contain new attributes.
    let changes_attributes = files.iter().any(|path| path.ends_with(ATTRIBUTES));
    if let Some(tree) = tree.filter(|_| changes_attributes) {
        all.extend(find(Attributes::Of(tree)).map_err(explain_old_git)?);
    }
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all.dedup_by(|one, other| one.path == other.path);
    Ok(all)
}

/// Name of the attributes file.
const ATTRIBUTES: &[u8] = b".gitattributes";

fn explain_old_git(error: Error) -> Error {
    if error.message().contains("unknown option") {
        Error::unavailable(
            "the tree to check out has different .gitattributes, and git before 2.40 cannot report whether they apply \
             a filter, which this tool does not run; run `git checkout` with `exec`",
        )
    } else {
        error
    }
}

/// Splits `-z` output at NULs.
fn records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_filter_attributes_are_parsed() {
        let output =
            b"a b\0filter\0git-crypt\0b\0filter\0unspecified\0c\0filter\0unset\0e\0filter\0lfs\0";
        let filtered = parse(output);
        let filtered: Vec<_> = filtered
            .iter()
            .map(|one| (one.path.as_str(), one.filter.as_str()))
            .collect();
        assert_eq!(filtered, [("a b", "git-crypt"), ("e", "lfs")]);
    }

    #[test]
    fn git_unstaged_and_staged_changes_are_distinguished() {
        let output = b"1 M. N... 100644 100644 100644 aaa bbb a b\0\
            1 .M N... 100644 100644 100644 aaa aaa c d\0\
            1 .M SC.. 160000 160000 160000 aaa aaa sub\0? new/\0! ignored\0";
        let changed = WorkTreeChanges::parse(output);
        let paths: Vec<&[u8]> = vec![b"c d", b"sub", b"new/"];
        assert_eq!(changed.unstaged, paths);
        assert!(changed.staged);
        let conflict = WorkTreeChanges::parse(b"u UU N... 1 2 3 4 aaa bbb ccc both ways\0");
        assert_eq!(conflict.unstaged, [b"both ways"]);
        assert_eq!(WorkTreeChanges::parse(b""), WorkTreeChanges::default());
        assert_eq!(pathspecs(&[b"*".to_vec()]), b":(top,literal)*\0");
    }

    #[test]
    fn git_filtered_files_are_refused_with_a_remedy() {
        let all: Vec<_> = (0..12)
            .map(|n| FilteredFile {
                path: format!("f{n}"),
                filter: "lfs".into(),
            })
            .collect();
        let error = refuse_filtered(&all, "add", "it would be stored as it is").unwrap_err();
        assert_eq!(
            *error.code(),
            mimir_sdk::Code::Other(GIT_FILTER_CODE.into())
        );
        for part in ["`f9` and 2 more", "`lfs`", "`git add` with `exec`"] {
            assert!(error.message().contains(part), "{error}");
        }
        assert!(refuse_filtered(&[], "add", "").is_ok());
    }
}
