//! Git commands that discard uncommitted work, commits, branches or tags.

use crate::ShellWord;
use crate::glob_text::is_wild;

use super::is_unclear;

/// The known words after the subcommand.
struct GitArguments<'a> {
    /// The words before `--`.
    words: Vec<&'a str>,
    /// The number of words after `--`.
    paths: usize,
}

impl<'a> GitArguments<'a> {
    fn new(rest: &'a [ShellWord]) -> Self {
        let mut parts = rest.splitn(2, |word| word.known() == Some("--"));
        let words = parts.next().unwrap_or_default();
        Self {
            words: words.iter().filter_map(ShellWord::known).collect(),
            paths: parts.next().unwrap_or_default().len(),
        }
    }

    /// Returns true if this long option is given, possibly abbreviated.
    fn has(&self, long: &str) -> bool {
        self.words.iter().any(|word| {
            let name = word.strip_prefix("--").unwrap_or_default();
            let name = name.split('=').next().unwrap_or(name);
            !name.is_empty() && long.starts_with(name)
        })
    }

    /// Returns true if one of these letters is given, also among others. In a word, the text after a letter of
    /// `with_value` is a value.
    fn has_letter(&self, letters: &str, with_value: &str) -> bool {
        self.words.iter().any(|word| {
            let set = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            for letter in set.unwrap_or_default().chars() {
                if letters.contains(letter) {
                    return true;
                }
                if with_value.contains(letter) {
                    return false;
                }
            }
            false
        })
    }

    /// Returns the words that are not options, including values of options.
    fn operands(&self) -> impl Iterator<Item = &'a str> {
        let words = self.words.iter().copied();
        words.filter(|word| !word.starts_with('-') || *word == "-")
    }

    fn starts_with(&self, actions: &[&str]) -> bool {
        self.operands()
            .next()
            .is_some_and(|word| actions.contains(&word))
    }

    /// Returns true if `git checkout` restores files instead of switching to a branch.
    fn checks_out_files(&self) -> bool {
        let creates_branch = self.has_letter("bt", "") || self.has("orphan") || self.has("track");
        self.paths > 0
            || self.words.iter().any(|word| word.starts_with("--pathspec"))
            || self.operands().any(|word| word == ".")
            || !creates_branch && (self.operands().count() > 1 || self.operands().any(is_path_text))
    }
}

/// Usual names of files and folders without an extension.
const COMMON_FILES: &[&str] = &[
    "Brewfile",
    "CHANGELOG",
    "Dockerfile",
    "Gemfile",
    "Jenkinsfile",
    "Justfile",
    "LICENSE",
    "Makefile",
    "Procfile",
    "README",
    "Rakefile",
    "Vagrantfile",
    "justfile",
    "lib",
    "makefile",
    "src",
    "tests",
];

/// Returns true if a word is a path rather than a branch: its form is not that of a branch, or it ends in an extension
/// with letters only. The workspace is not read.
fn is_path_text(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let is_extension = |text: &str| {
        text != "x" && !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphabetic())
    };
    word.ends_with('/')
        || COMMON_FILES.contains(&name)
        || word.starts_with(['.', '/', ':'])
        || is_wild(word)
        || extension.is_some_and(is_extension)
}

/// Returns true if a git command may discard uncommitted work, commits, branches or tags. `words` begin with `git` and
/// the subcommand.
pub(super) fn discards_work(words: &[ShellWord]) -> bool {
    let Some(command) = words.get(1) else {
        return false;
    };
    let Some(command) = command.known() else {
        // An unknown subcommand may be any of these.
        return true;
    };
    let given = GitArguments::new(&words[2..]);
    let has_unclear = words[2..].iter().any(is_unclear);
    let forced = given.has("force") || given.has_letter("f", "");
    match command {
        "push" => {
            let lists = |word: &str| word.starts_with(['+', ':']);
            has_unclear
                || ["force", "force-with-lease", "mirror", "delete", "prune"]
                    .iter()
                    .any(|long| given.has(long))
                || given.has_letter("fd", "o")
                || given.operands().any(lists)
        }
        "reset" => has_unclear || given.has("hard") || given.has("merge"),
        "clean" => {
            let only_lists = given.has("dry-run") || given.has_letter("n", "e");
            has_unclear || !only_lists
        }
        "branch" => has_unclear || forced || given.has("delete") || given.has_letter("dDMCf", "u"),
        "tag" => {
            has_unclear
                || given.has("force")
                || given.has("delete")
                || given.has_letter("df", "mFu")
        }
        "checkout" => {
            let merges = ["ours", "theirs", "patch", "merge", "conflict"];
            has_unclear
                || forced
                || merges.iter().any(|long| given.has(long))
                || given.has_letter("Bmp", "b")
                || given.checks_out_files()
        }
        "switch" => {
            let resets = given.has("discard-changes") || given.has("force-create");
            has_unclear || forced || resets || given.has_letter("C", "c")
        }
        "restore" => {
            let only_index = given.has("staged") || given.has_letter("S", "s");
            let writes_files = given.has("worktree") || given.has_letter("W", "s");
            has_unclear || !only_index || writes_files
        }
        "rm" => {
            let removes_folders = forced || given.has_letter("r", "");
            has_unclear || removes_folders && !given.words.contains(&"--cached")
        }
        "worktree" => forced && given.starts_with(&["add", "move", "remove"]),
        "submodule" => forced && given.starts_with(&["deinit", "update"]),
        "read-tree" => given.has("reset"),
        "symbolic-ref" => given.has("delete") || given.has_letter("d", "m"),
        "filter-branch" | "filter-repo" | "update-ref" | "gc" | "prune" | "checkout-index" => true,
        "stash" => {
            has_unclear
                || given
                    .operands()
                    .any(|word| matches!(word, "clear" | "drop"))
        }
        "reflog" => {
            has_unclear
                || given
                    .operands()
                    .any(|word| matches!(word, "expire" | "delete"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discards(line: &str) -> bool {
        let words = line.split(' ');
        let words: Vec<ShellWord> = words
            .map(|word| ShellWord::Known(word.to_owned()))
            .collect();
        discards_work(&words)
    }

    #[test]
    fn git_dangers_have_long_short_and_combined_forms() {
        for line in [
            "git push -d origin old",
            "git push -vd origin main",
            "git push --delete origin old",
            "git push origin --del old",
            "git push --prune origin refs/heads/*:refs/heads/*",
            "git push --mirror",
            "git push -f",
            "git push -fu origin main",
            "git push -uf origin main",
            "git push --force-with-lease=a",
            "git push origin +main",
            "git push origin :main",
            "git checkout HEAD x.py",
            "git checkout main src",
            "git checkout -- x",
            "git checkout main -- x",
            "git checkout .",
            "git checkout x.py",
            "git checkout src/",
            "git checkout ./src",
            "git checkout -f",
            "git checkout -qf main",
            "git checkout -B main",
            "git checkout --pathspec-from-file=a",
            "git switch -f main",
            "git switch -C main",
            "git switch --discard-changes main",
            "git restore x",
            "git restore .",
            "git restore -SW x",
            "git restore --staged --worktree x",
            "git restore -sS x",
            "git rm -r x",
            "git rm -rf x y",
            "git rm --force x",
            "git tag -d a",
            "git tag -f a",
            "git tag --delete a",
            "git branch -d a",
            "git branch -D a",
            "git branch -qD a",
            "git branch -f a",
            "git branch -M a",
            "git branch --delete a",
            "git reset --hard",
            "git reset --ha",
            "git clean",
            "git clean -fdx",
            "git stash drop",
            "git stash -q drop",
            "git stash clear",
            "git reflog expire --all",
            "git update-ref -d a",
            "git worktree remove -f x",
            "git worktree remove --force x",
            "git read-tree -u --reset HEAD",
            "git submodule deinit -f a",
        ] {
            assert!(discards(line), "{line}");
        }
    }

    #[test]
    fn git_commands_that_keep_work_are_not_dangerous() {
        for line in [
            "git",
            "git push",
            "git push origin main",
            "git push -u origin feature/fd",
            "git push origin HEAD:refs/heads/main",
            "git push --tags",
            "git push -ofd origin main",
            "git checkout main",
            "git checkout feature/a-b",
            "git checkout v1.2.3",
            "git checkout release-1.x",
            "git checkout -",
            "git checkout -b new",
            "git checkout -b new origin/main",
            "git checkout main --",
            "git switch main",
            "git switch -c new",
            "git restore --staged x",
            "git restore -S .",
            "git rm x",
            "git rm --cached x",
            "git rm -r --cached x",
            "git tag a",
            "git tag -a v1 -m fixed",
            "git tag -amfixed v1",
            "git branch a",
            "git branch --list",
            "git branch -m old new",
            "git reset HEAD~1",
            "git clean -n",
            "git clean --dry-run -d",
            "git stash",
            "git stash pop",
            "git worktree add x",
            "git commit -m f",
            "git fetch --prune",
        ] {
            assert!(!discards(line), "{line}");
        }
    }
}
