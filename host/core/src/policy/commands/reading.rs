//! The commands that run where no mode is set: they read, say something, or ask the tools of the trade what they are.
//! Which files they read is judged beside this.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::command::{Simple, Word};

/// Commands of which all arguments are harmless, but for the options that are named: those write, or run something.
struct Entry {
    /// The words that such a command begins with.
    begins: &'static str,
    /// Options that it may not have, each as a whole word, with `=` behind it or, of one letter, with anything.
    but: &'static [&'static str],
    /// The most operands that it may have: one more is written to.
    operands: Option<usize>,
}

const fn all(begins: &'static str) -> Entry {
    but(begins, &[])
}

const fn but(begins: &'static str, but: &'static [&'static str]) -> Entry {
    Entry {
        begins,
        but,
        operands: None,
    }
}

const fn most(begins: &'static str, operands: usize) -> Entry {
    Entry {
        begins,
        but: &[],
        operands: Some(operands),
    }
}

/// A command of git that takes the options of `git diff` or `git log`, or passes them on.
const fn shows(begins: &'static str) -> Entry {
    but(
        begins,
        &[
            "--contents",
            "--ext-diff",
            "--output",
            "--show-signature",
            "--textconv",
        ],
    )
}

const LIST: &[Entry] = &[
    // What the shell does by itself. Variables that are set are judged as assignments.
    all(":"),
    all("["),
    all("[["),
    all("break"),
    all("cd"),
    all("command -v"),
    all("continue"),
    all("declare"),
    all("dirs"),
    all("echo"),
    all("exit"),
    all("export"),
    all("false"),
    all("getopts"),
    but("jobs", &["-x"]),
    all("let"),
    all("local"),
    all("popd"),
    all("printf"),
    all("pushd"),
    all("pwd"),
    all("read"),
    all("readonly"),
    all("return"),
    all("set"),
    all("shift"),
    all("test"),
    all("times"),
    all("trap"),
    all("true"),
    all("type"),
    all("typeset"),
    all("ulimit"),
    all("umask"),
    all("unset"),
    all("wait"),
    // Files.
    all("b2sum"),
    all("basename"),
    all("cat"),
    all("cksum"),
    all("cmp"),
    all("column"),
    all("comm"),
    all("cut"),
    all("df"),
    all("diff"),
    all("dirname"),
    all("du"),
    all("egrep"),
    all("expand"),
    all("fgrep"),
    but("file", &["-C", "-f", "--compile", "--files-from"]),
    but(
        "find",
        &[
            "-delete",
            "-fls",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-files0-from",
        ],
    ),
    but("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    all("fmt"),
    all("fold"),
    all("grep"),
    all("head"),
    all("hexdump"),
    all("join"),
    but("jq", &["-i"]),
    all("ls"),
    all("md5sum"),
    all("nl"),
    all("od"),
    all("paste"),
    all("readlink"),
    all("realpath"),
    all("rev"),
    but("rg", &["--pre", "--hostname-bin", "--search-zip", "-z"]),
    all("sha1sum"),
    all("sha224sum"),
    all("sha256sum"),
    all("sha384sum"),
    all("sha512sum"),
    but(
        "sort",
        &[
            "-o",
            "--output",
            "--compress-program",
            "-T",
            "--temporary-directory",
            "--files0-from",
        ],
    ),
    all("stat"),
    all("strings"),
    all("tac"),
    all("tail"),
    all("tr"),
    but("tree", &["-o", "--fromfile"]),
    all("unexpand"),
    most("uniq", 1),
    all("wc"),
    most("xxd", 1),
    all("base64"),
    // What these run or write by their program text is said where they are read.
    but("sed", &["-i", "-f", "-s", "--in-place", "--file"]),
    but(
        "awk",
        &[
            "-f",
            "-i",
            "-l",
            "-E",
            "--file",
            "--include",
            "--load",
            "--exec",
        ],
    ),
    // The machine.
    all("arch"),
    but("date", &["-f", "-s", "--file", "--set"]),
    all("groups"),
    all("id"),
    all("locale"),
    all("nproc"),
    all("printenv"),
    all("seq"),
    all("sleep"),
    all("sw_vers"),
    all("tty"),
    all("uname"),
    all("uptime"),
    all("which"),
    all("whoami"),
    all("free"),
    // git, as far as it reads.
    shows("git blame"),
    but("git cat-file", &["--textconv", "--filters"]),
    all("git check-ignore"),
    all("git config --get"),
    all("git config --list"),
    all("git config -l"),
    all("git count-objects"),
    all("git describe"),
    shows("git diff"),
    shows("git diff-tree"),
    but(
        "git grep",
        &["-O", "--open-files-in-pager", "--output", "--textconv"],
    ),
    shows("git log"),
    all("git ls-files"),
    all("git ls-tree"),
    all("git merge-base"),
    all("git name-rev"),
    Entry {
        operands: Some(0),
        ..shows("git reflog")
    },
    shows("git rev-list"),
    all("git rev-parse"),
    shows("git shortlog"),
    shows("git show"),
    all("git show-ref"),
    shows("git stash list"),
    all("git status"),
    all("git tag -l"),
    all("git tag --list"),
    all("git worktree list"),
    most("git remote", 0),
    all("git branch --list"),
    all("git branch --show-current"),
    all("git branch -l"),
    all("git version"),
    all("git --version"),
    // The tools of the trade.
    all("cargo --version"),
    all("cargo -V"),
    all("cargo version"),
    all("cargo --list"),
    all("rustc --version"),
    all("rustc -V"),
    all("rustc -vV"),
    all("rustup --version"),
    all("rustup show"),
    all("rustup toolchain list"),
    all("rustfmt --version"),
    all("node --version"),
    all("node -v"),
    all("npm --version"),
    all("npm -v"),
    all("npm ls"),
    all("npm list"),
    // Of `pnpm` and `yarn`, a file of the project may say what they are.
    all("bun --version"),
    all("deno --version"),
    all("python --version"),
    all("python -V"),
    all("python3 --version"),
    all("python3 -V"),
    all("pip --version"),
    all("pip list"),
    all("pip show"),
    all("pip3 --version"),
    all("pip3 list"),
    all("uv --version"),
    all("go version"),
    all("go help"),
    but("go env", &["-w", "-u"]),
    all("java -version"),
    all("java --version"),
    all("gcc --version"),
    all("clang --version"),
    all("make --version"),
    all("cmake --version"),
    all("docker --version"),
    all("ruby --version"),
    all("perl --version"),
    all("bash --version"),
    all("tsc --version"),
    all("jq --version"),
    all("rg --version"),
];

/// `git branch` and `git tag` with nothing that would make or remove one.
const EXACT: &[&str] = &[
    "git branch",
    "git branch -a",
    "git branch -r",
    "git branch -v",
    "git branch -vv",
    "git branch -av",
    "git branch --all",
    "git tag",
    "git remote -v",
    "env",
    "hostname",
    "hostname -f",
    "hostname -I",
];

/// Whether the command does no more than read.
pub(super) fn only_reads(simple: &Simple) -> bool {
    let words = &*plain(&simple.words);
    let Some(program) = words.first().and_then(Word::known) else {
        return false;
    };
    let exact = |line: &&str| {
        let mut line = line.split(' ');
        let same = |word: &Word| word.known().is_some_and(|word| line.next() == Some(word));
        words.iter().all(same) && line.next().is_none()
    };
    let listed = BY_PROGRAM.get(program).is_some_and(|lists| {
        lists.exact.iter().any(exact) || lists.entries.iter().any(|entry| entry.covers(words))
    });
    listed || lists_processes(words)
}

/// What the lists say of one program.
#[derive(Default)]
struct Lists {
    exact: Vec<&'static str>,
    entries: Vec<&'static Entry>,
}

/// The lists by the first word of their lines.
static BY_PROGRAM: LazyLock<HashMap<&'static str, Lists>> = LazyLock::new(|| {
    let mut all = HashMap::<_, Lists>::new();
    let program = |line: &'static str| line.split(' ').next().unwrap_or_default();
    for line in EXACT {
        all.entry(program(line)).or_default().exact.push(line);
    }
    for entry in LIST {
        all.entry(program(entry.begins))
            .or_default()
            .entries
            .push(entry);
    }
    all
});

/// `ps`, where it does not show the variables of other processes: by `e` among letters without a dash, by `E` on
/// macOS, and by `-e` if another word is none that letters with a dash take, since all are read as without one then.
fn lists_processes(words: &[Word]) -> bool {
    let Some((program, rest)) = words.split_first() else {
        return false;
    };
    let texts: Option<Vec<&str>> = rest.iter().map(Word::known).collect();
    let Some(texts) = texts.filter(|_| program.known() == Some("ps")) else {
        return false;
    };
    if texts.iter().any(|text| text.contains("environ")) {
        return false;
    }
    // Long options are the same in both readings.
    let short: Vec<&str> = texts
        .into_iter()
        .filter(|text| !text.starts_with("--"))
        .collect();
    let of = |letters: &str, known: &str| letters.chars().all(|c| known.contains(c));
    let every = |letters: &str| of(letters, "AaefFjlLHPTyMcdw");
    match short.as_slice() {
        [letters] if letters.strip_prefix('-').is_some_and(every) => true,
        // The second word says what is shown of each.
        [letters, _] if letters.strip_suffix('o').is_some() => {
            let set = letters.trim_end_matches('o');
            set.strip_prefix('-').is_some_and(every) || of(set, "-AaxwflLjHTm")
        }
        all => !all.iter().any(|text| text.contains(['e', 'E'])),
    }
}

/// The words without what makes no difference: the folder of the system's programs, and how git shows what it has to say.
fn plain(words: &[Word]) -> Cow<'_, [Word]> {
    let program = words.first().and_then(Word::known).unwrap_or_default();
    let name = program
        .strip_prefix("/usr/bin/")
        .or(program.strip_prefix("/bin/"));
    if name.is_none() && program != "git" {
        return words.into();
    }
    let mut words = words.to_vec();
    if let (Some(name), Some(program)) = (name.map(str::to_owned), words.first_mut()) {
        *program = Word::Known(name);
    }
    let shows = ["--no-pager", "-P", "--no-optional-locks"];
    let is_git = words.first().and_then(Word::known) == Some("git");
    while is_git
        && words
            .get(1)
            .and_then(Word::known)
            .is_some_and(|word| shows.contains(&word))
    {
        words.remove(1);
    }
    words.into()
}

impl Entry {
    fn covers(&self, words: &[Word]) -> bool {
        let mut rest = words.iter();
        for begin in self.begins.split(' ') {
            if rest.next().and_then(Word::known) != Some(begin) {
                return false;
            }
        }
        let rest = rest.as_slice();
        let careful = !self.but.is_empty() || self.operands.is_some();
        // What is unknown may turn into an option; a glob with a literal beginning into none.
        let strays = |word: &Word| match word {
            Word::Known(_) => false,
            Word::Glob(text) | Word::Found(text) => {
                text.starts_with(['*', '?', '[', '-']) || self.operands.is_some()
            }
            Word::Unknown(_) => true,
        };
        if careful && rest.iter().any(strays) {
            return false;
        }
        let mut known = rest.iter().filter_map(Word::known);
        if known
            .clone()
            .any(|word| self.but.iter().any(|option| is_option(word, option)))
        {
            return false;
        }
        let operands = known
            .by_ref()
            .filter(|word| !word.starts_with('-') || *word == "-");
        self.operands.is_none_or(|most| operands.count() <= most)
    }
}

/// Whether the word is this option, alone, among other letters, with its value behind it, or shortened as GNU's tools
/// take it.
fn is_option(word: &str, option: &str) -> bool {
    // It is an option of git by itself, and no beginning of another.
    if word == "--text" {
        return false;
    }
    if let Some(long) = option.strip_prefix("--") {
        let name = word.split('=').next().unwrap_or(word);
        let name = name.strip_prefix("--").unwrap_or_default();
        return !name.is_empty() && long.starts_with(name);
    }
    match option.strip_prefix('-') {
        Some(letter) if letter.len() == 1 => {
            word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
        }
        _ => word == option,
    }
}
