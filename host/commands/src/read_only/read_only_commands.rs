//! The list of read-only commands.

/// A command whose arguments are harmless, except for the named options, which write or run something.
pub(super) struct ReadOnlyCommand {
    /// The leading words of the command.
    pub(super) begins: &'static str,
    /// Forbidden options, each as a whole word, with `=` after it or, for a single letter, with anything.
    pub(super) but: &'static [&'static str],
    /// The only permitted options: each as a whole word, with a value after `=` or without.
    pub(super) only: Option<&'static [&'static str]>,
    /// Options whose next word is a value, and not an operand.
    pub(super) values: &'static [&'static str],
    /// True if an unknown word may be one of the options, because they only open another file for reading.
    pub(super) lenient: bool,
    /// Maximum operands: a further one is written to.
    pub(super) operands: Option<usize>,
}

const fn all(begins: &'static str) -> ReadOnlyCommand {
    but(begins, &[])
}

const fn but(begins: &'static str, but: &'static [&'static str]) -> ReadOnlyCommand {
    ReadOnlyCommand {
        begins,
        but,
        only: None,
        values: &[],
        lenient: false,
        operands: None,
    }
}

const fn only(begins: &'static str, only: &'static [&'static str]) -> ReadOnlyCommand {
    ReadOnlyCommand {
        only: Some(only),
        ..all(begins)
    }
}

const fn most(begins: &'static str, operands: usize) -> ReadOnlyCommand {
    ReadOnlyCommand {
        operands: Some(operands),
        ..all(begins)
    }
}

/// A program that prints checksums of files, and with these options reads a list of files.
const fn sums(begins: &'static str) -> ReadOnlyCommand {
    opens(begins, &["-c", "--check"])
}

/// A program that reads more files than its operands with these options, and has no other effect.
const fn opens(begins: &'static str, options: &'static [&'static str]) -> ReadOnlyCommand {
    ReadOnlyCommand {
        lenient: true,
        ..but(begins, options)
    }
}

/// A command that creates something if it has an operand.
const fn lists(begins: &'static str) -> ReadOnlyCommand {
    ReadOnlyCommand {
        operands: Some(0),
        values: &[
            "--contains",
            "--format",
            "--merged",
            "--no-contains",
            "--no-merged",
            "--points-at",
            "--sort",
        ],
        ..only(begins, LISTS)
    }
}

/// Options of commands that list branches and tags. The listing is cancelled by `--no-list`, and by options that
/// create or remove one.
const LISTS: &[&str] = &[
    "-a",
    "-av",
    "-i",
    "-l",
    "-n",
    "-r",
    "-v",
    "-vv",
    "--",
    "--all",
    "--column",
    "--contains",
    "--format",
    "--ignore-case",
    "--list",
    "--merged",
    "--no-color",
    "--no-column",
    "--no-contains",
    "--no-merged",
    "--points-at",
    "--remotes",
    "--show-current",
    "--sort",
    "--verbose",
];

/// Options of `git config` for reading.
const CONFIG: &[&str] = &[
    "-z",
    "--all",
    "--bool",
    "--default",
    "--file",
    "--get",
    "--get-all",
    "--get-regexp",
    "--global",
    "--int",
    "--list",
    "--local",
    "--name-only",
    "--null",
    "--path",
    "--show-origin",
    "--show-scope",
    "--system",
    "--type",
    "--worktree",
    "-f",
    "-l",
];

/// Options of `npm ls` with which it writes no log, and sends no requests.
const NPM: &[&str] = &[
    "-a",
    "-g",
    "-l",
    "-p",
    "--all",
    "--depth",
    "--dev",
    "--global",
    "--include",
    "--json",
    "--link",
    "--long",
    "--omit",
    "--parseable",
    "--prod",
    "--production",
];

/// Options of `pip list` and `pip show` with which they write no log and send no requests.
const PIP: &[&str] = &[
    "-e",
    "-f",
    "-l",
    "-q",
    "-v",
    "--disable-pip-version-check",
    "--editable",
    "--exclude-editable",
    "--files",
    "--format",
    "--local",
    "--not-required",
    "--user",
    "--verbose",
];

/// A git command that takes the options of `git diff` or `git log`, or passes them on.
const fn shows(begins: &'static str) -> ReadOnlyCommand {
    but(
        begins,
        &[
            "--contents",
            "--ext-diff",
            "--output",
            "--show-signature",
            "--stdin",
            "--textconv",
        ],
    )
}

pub(super) const LIST: &[ReadOnlyCommand] = &[
    // Shell builtins. Variables that are set are checked as assignments.
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
    all("expr"),
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
    sums("b2sum"),
    all("basename"),
    all("cat"),
    sums("cksum"),
    all("cmp"),
    all("column"),
    all("comm"),
    all("cut"),
    all("df"),
    all("diff"),
    all("dirname"),
    opens("du", &["--files0-from"]),
    all("egrep"),
    all("expand"),
    all("fgrep"),
    but(
        "file",
        &[
            "-C",
            "-f",
            "-m",
            "--compile",
            "--files-from",
            "--magic-file",
        ],
    ),
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
    opens("hexdump", &["-f"]),
    all("join"),
    but("jq", &["-f", "-i", "--from-file"]),
    all("ls"),
    sums("md5sum"),
    all("nl"),
    all("od"),
    all("paste"),
    all("readlink"),
    all("realpath"),
    all("rev"),
    but(
        "rg",
        &[
            "--hostname-bin",
            "--pre",
            "--search-zip",
            "--type-add",
            "-z",
        ],
    ),
    sums("sha1sum"),
    sums("sha224sum"),
    sums("sha256sum"),
    sums("sha384sum"),
    sums("sha512sum"),
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
    but("tree", &["-o", "-R", "--fromfile"]),
    all("unexpand"),
    most("uniq", 1),
    opens("wc", &["--files0-from"]),
    ReadOnlyCommand {
        values: &["-c", "-g", "-l", "-o", "-s"],
        ..most("xxd", 1)
    },
    only("tar tf", &[]),
    only("tar tvf", &[]),
    only("tar tzf", &[]),
    only("tar tzvf", &[]),
    only("tar -tf", &[]),
    only("tar -tvf", &[]),
    only("tar -tzf", &[]),
    only("tar -tzvf", &[]),
    only("unzip -l", &[]),
    but("base64", &["-o", "--output"]),
    // Effects of their program texts are reported by the parser.
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
    // System information.
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
    // Read-only commands of git.
    shows("git blame"),
    but(
        "git cat-file",
        &[
            "--batch",
            "--batch-check",
            "--batch-command",
            "--filters",
            "--textconv",
        ],
    ),
    all("git check-ignore"),
    only("git config --get", CONFIG),
    only("git config --list", CONFIG),
    only("git config -l", CONFIG),
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
    ReadOnlyCommand {
        operands: Some(0),
        ..shows("git reflog")
    },
    shows("git rev-list"),
    all("git rev-parse"),
    shows("git shortlog"),
    shows("git show"),
    all("git show-ref"),
    shows("git stash list"),
    shows("git stash show"),
    shows("git range-diff"),
    shows("git whatchanged"),
    all("git cherry"),
    all("git for-each-ref"),
    all("git remote get-url"),
    all("git status"),
    lists("git branch"),
    lists("git tag"),
    only("git tag -l", LISTS),
    only("git tag --list", LISTS),
    all("git worktree list"),
    most("git remote", 0),
    only("git branch --list", LISTS),
    only("git branch -l", LISTS),
    // Development tools.
    only("npm ls", NPM),
    only("npm list", NPM),
    // Missing here: `pnpm` and `yarn`, whose version a project file may select.
    only("pip list", PIP),
    only("pip show", PIP),
    only("pip3 list", PIP),
    only("pip3 show", PIP),
    but("go env", &["-w", "-u"]),
];

/// Adds files to the index of a repository and changes nothing else. Excluded are ignored files (`-f`), file modes,
/// and the options that open an editor or read paths from a file.
pub(super) const STAGES: ReadOnlyCommand = only(
    "git add",
    &[
        "-A",
        "-n",
        "-N",
        "-u",
        "-v",
        "--",
        "--all",
        "--dry-run",
        "--ignore-errors",
        "--intent-to-add",
        "--no-all",
        "--update",
        "--verbose",
    ],
);

/// Commands without further words: with another word some create something, and version queries may run code.
pub(super) const EXACT: &[&str] = &[
    "git remote -v",
    "env",
    "hostname",
    "hostname -f",
    "hostname -I",
    "git version",
    "git --version",
    "cargo --version",
    "cargo -V",
    "cargo version",
    "cargo --list",
    "rustc --version",
    "rustc -V",
    "rustc -vV",
    "rustup --version",
    "rustup show",
    "rustup toolchain list",
    "rustfmt --version",
    "node --version",
    "node -v",
    "npm --version",
    "npm -v",
    "bun --version",
    "deno --version",
    "python --version",
    "python -V",
    "python3 --version",
    "python3 -V",
    "pip --version",
    "pip3 --version",
    "uv --version",
    "go version",
    "go help",
    "java -version",
    "java --version",
    "gcc --version",
    "clang --version",
    "make --version",
    "cmake --version",
    "docker --version",
    "ruby --version",
    "perl --version",
    "bash --version",
    "tsc --version",
    "jq --version",
    "rg --version",
    "rustup show active-toolchain",
];
