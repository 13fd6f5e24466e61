//! List of read-only commands.

/// A command whose arguments are harmless, except for options that write or run something.
pub(super) struct ReadOnlyCommand {
    /// The leading words of the command.
    pub(super) prefix: &'static str,
    /// Forbidden options: whole words, possibly followed by `=`, or letters, possibly in a cluster.
    pub(super) forbidden: &'static [&'static str],
    /// The only permitted options, as whole words, possibly with a value after `=`.
    pub(super) permitted: Option<&'static [&'static str]>,
    /// Options whose value is the next word.
    pub(super) options_with_value: &'static [&'static str],
    /// True if words are accepted that may expand to a forbidden option. Only for options that merely open another file
    /// for reading.
    pub(super) lenient: bool,
    /// Maximum number of operands. The command would write to a further operand.
    pub(super) max_operands: Option<usize>,
}

const fn any_arguments(prefix: &'static str) -> ReadOnlyCommand {
    except_options(prefix, &[])
}

const fn except_options(
    prefix: &'static str,
    forbidden: &'static [&'static str],
) -> ReadOnlyCommand {
    ReadOnlyCommand {
        prefix,
        forbidden,
        permitted: None,
        options_with_value: &[],
        lenient: false,
        max_operands: None,
    }
}

const fn only_options(prefix: &'static str, permitted: &'static [&'static str]) -> ReadOnlyCommand {
    ReadOnlyCommand {
        permitted: Some(permitted),
        ..any_arguments(prefix)
    }
}

const fn max_operands(prefix: &'static str, max: usize) -> ReadOnlyCommand {
    ReadOnlyCommand {
        max_operands: Some(max),
        ..any_arguments(prefix)
    }
}

/// Returns a program that prints checksums of files. With `--check`, it reads a list of files.
const fn checksums(prefix: &'static str) -> ReadOnlyCommand {
    reads_listed_files(prefix, &["-c", "--check"])
}

/// Returns a program for which these options only read more files.
const fn reads_listed_files(
    prefix: &'static str,
    options: &'static [&'static str],
) -> ReadOnlyCommand {
    ReadOnlyCommand {
        lenient: true,
        ..except_options(prefix, options)
    }
}

/// Returns a git command that lists branches or tags. With an operand, it would create one.
const fn git_list(prefix: &'static str) -> ReadOnlyCommand {
    ReadOnlyCommand {
        max_operands: Some(0),
        options_with_value: &[
            "--contains",
            "--format",
            "--merged",
            "--no-contains",
            "--no-merged",
            "--points-at",
            "--sort",
        ],
        ..only_options(prefix, LIST_OPTIONS)
    }
}

/// Options of commands that list branches and tags. Missing are `--no-list`, which cancels the listing, and options
/// that create or remove a branch or tag.
const LIST_OPTIONS: &[&str] = &[
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

/// Reading options of `git config`.
const GIT_CONFIG_OPTIONS: &[&str] = &[
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

/// Options of `npm ls` with which it writes no log and sends no requests.
const NPM_LIST_OPTIONS: &[&str] = &[
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
const PIP_LIST_OPTIONS: &[&str] = &[
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

/// Returns a git command that takes the options of `git diff` or `git log`, or passes them on.
const fn git_log_options(prefix: &'static str) -> ReadOnlyCommand {
    except_options(
        prefix,
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

/// Commands that only read, by their leading words.
pub(super) const READ_ONLY_COMMANDS: &[ReadOnlyCommand] = &[
    // Shell builtins. Variables that they set are checked as assignments.
    any_arguments(":"),
    any_arguments("["),
    any_arguments("[["),
    any_arguments("break"),
    any_arguments("cd"),
    any_arguments("command -v"),
    any_arguments("continue"),
    any_arguments("declare"),
    any_arguments("dirs"),
    any_arguments("echo"),
    any_arguments("exit"),
    any_arguments("export"),
    any_arguments("expr"),
    any_arguments("false"),
    any_arguments("getopts"),
    except_options("jobs", &["-x"]),
    any_arguments("let"),
    any_arguments("local"),
    any_arguments("popd"),
    any_arguments("printf"),
    any_arguments("pushd"),
    any_arguments("pwd"),
    any_arguments("read"),
    any_arguments("readonly"),
    any_arguments("return"),
    any_arguments("set"),
    any_arguments("shift"),
    any_arguments("test"),
    any_arguments("times"),
    any_arguments("trap"),
    any_arguments("true"),
    any_arguments("type"),
    any_arguments("typeset"),
    any_arguments("ulimit"),
    any_arguments("umask"),
    any_arguments("unset"),
    any_arguments("wait"),
    // Files.
    checksums("b2sum"),
    any_arguments("basename"),
    any_arguments("cat"),
    checksums("cksum"),
    any_arguments("cmp"),
    any_arguments("column"),
    any_arguments("comm"),
    any_arguments("cut"),
    any_arguments("df"),
    any_arguments("diff"),
    any_arguments("dirname"),
    reads_listed_files("du", &["--files0-from"]),
    any_arguments("egrep"),
    any_arguments("expand"),
    any_arguments("fgrep"),
    except_options(
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
    except_options(
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
    except_options("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    any_arguments("fmt"),
    any_arguments("fold"),
    any_arguments("grep"),
    any_arguments("head"),
    reads_listed_files("hexdump", &["-f"]),
    any_arguments("join"),
    except_options("jq", &["-f", "-i", "--from-file"]),
    any_arguments("ls"),
    checksums("md5sum"),
    any_arguments("nl"),
    any_arguments("od"),
    any_arguments("paste"),
    any_arguments("readlink"),
    any_arguments("realpath"),
    any_arguments("rev"),
    except_options(
        "rg",
        &[
            "--hostname-bin",
            "--pre",
            "--search-zip",
            "--type-add",
            "-z",
        ],
    ),
    checksums("sha1sum"),
    checksums("sha224sum"),
    checksums("sha256sum"),
    checksums("sha384sum"),
    checksums("sha512sum"),
    except_options(
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
    any_arguments("stat"),
    any_arguments("strings"),
    any_arguments("tac"),
    any_arguments("tail"),
    any_arguments("tr"),
    except_options("tree", &["-o", "-R", "--fromfile"]),
    any_arguments("unexpand"),
    max_operands("uniq", 1),
    reads_listed_files("wc", &["--files0-from"]),
    ReadOnlyCommand {
        options_with_value: &["-c", "-g", "-l", "-o", "-s"],
        ..max_operands("xxd", 1)
    },
    only_options("tar tf", &[]),
    only_options("tar tvf", &[]),
    only_options("tar tzf", &[]),
    only_options("tar tzvf", &[]),
    only_options("tar -tf", &[]),
    only_options("tar -tvf", &[]),
    only_options("tar -tzf", &[]),
    only_options("tar -tzvf", &[]),
    only_options("unzip -l", &[]),
    except_options("base64", &["-o", "--output"]),
    // Effects of their scripts are reported by the parser.
    except_options("sed", &["-i", "-f", "-s", "--in-place", "--file"]),
    except_options(
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
    any_arguments("arch"),
    except_options("date", &["-f", "-s", "--file", "--set"]),
    any_arguments("groups"),
    any_arguments("id"),
    any_arguments("locale"),
    any_arguments("nproc"),
    any_arguments("printenv"),
    any_arguments("seq"),
    any_arguments("sleep"),
    any_arguments("sw_vers"),
    any_arguments("tty"),
    any_arguments("uname"),
    any_arguments("uptime"),
    any_arguments("which"),
    any_arguments("whoami"),
    any_arguments("free"),
    // Read-only commands of git.
    git_log_options("git blame"),
    except_options(
        "git cat-file",
        &[
            "--batch",
            "--batch-check",
            "--batch-command",
            "--filters",
            "--textconv",
        ],
    ),
    any_arguments("git check-ignore"),
    only_options("git config --get", GIT_CONFIG_OPTIONS),
    only_options("git config --list", GIT_CONFIG_OPTIONS),
    only_options("git config -l", GIT_CONFIG_OPTIONS),
    any_arguments("git count-objects"),
    any_arguments("git describe"),
    git_log_options("git diff"),
    git_log_options("git diff-tree"),
    except_options(
        "git grep",
        &["-O", "--open-files-in-pager", "--output", "--textconv"],
    ),
    git_log_options("git log"),
    any_arguments("git ls-files"),
    any_arguments("git ls-tree"),
    any_arguments("git merge-base"),
    any_arguments("git name-rev"),
    ReadOnlyCommand {
        max_operands: Some(0),
        ..git_log_options("git reflog")
    },
    git_log_options("git rev-list"),
    any_arguments("git rev-parse"),
    git_log_options("git shortlog"),
    git_log_options("git show"),
    any_arguments("git show-ref"),
    git_log_options("git stash list"),
    git_log_options("git stash show"),
    git_log_options("git range-diff"),
    git_log_options("git whatchanged"),
    any_arguments("git cherry"),
    any_arguments("git for-each-ref"),
    any_arguments("git remote get-url"),
    any_arguments("git status"),
    git_list("git branch"),
    git_list("git tag"),
    only_options("git tag -l", LIST_OPTIONS),
    only_options("git tag --list", LIST_OPTIONS),
    any_arguments("git worktree list"),
    max_operands("git remote", 0),
    only_options("git branch --list", LIST_OPTIONS),
    only_options("git branch -l", LIST_OPTIONS),
    // Development tools.
    only_options("npm ls", NPM_LIST_OPTIONS),
    only_options("npm list", NPM_LIST_OPTIONS),
    // Missing here: `pnpm` and `yarn`, whose version a project file may select.
    only_options("pip list", PIP_LIST_OPTIONS),
    only_options("pip show", PIP_LIST_OPTIONS),
    only_options("pip3 list", PIP_LIST_OPTIONS),
    only_options("pip3 show", PIP_LIST_OPTIONS),
    except_options("go env", &["-w", "-u"]),
];

/// Adds files to the index of a repository, and changes nothing else. Excluded are ignored files (`-f`), file modes,
/// and options that open an editor or read paths from a file.
pub(super) const GIT_ADD: ReadOnlyCommand = only_options(
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

/// Commands that are read-only exactly as written. With other words, some create something, and version queries may run
/// code.
pub(super) const EXACT_COMMANDS: &[&str] = &[
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
