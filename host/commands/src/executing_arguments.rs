//! Programs that run other programs named in their arguments: a person is asked about those, even if the program
//! itself is allowed.

use crate::ShellWord;

/// The words of a program that run something.
enum ExecutingArguments {
    /// The only purpose of the program is to run its arguments.
    Always(&'static str),
    /// Only these options run something: long ones match by name, a letter matches any cluster that contains it.
    Options(&'static [&'static str]),
    /// Like `Options`, but a word whose value only the shell knows may also become an option.
    OptionsAnywhere(&'static [&'static str]),
}

const GIVEN: &str = "runs its arguments as a command";

const TABLE: &[(&str, ExecutingArguments)] = &[
    // Builtins of the shell.
    (
        "alias",
        ExecutingArguments::Always("gives a name another meaning"),
    ),
    ("bind", ExecutingArguments::Always("lets keys run commands")),
    (
        "compgen",
        ExecutingArguments::Always("runs commands in its arguments"),
    ),
    (
        "complete",
        ExecutingArguments::Always("lets the shell run commands by itself"),
    ),
    (
        "fc",
        ExecutingArguments::Always("runs earlier commands again"),
    ),
    (
        "enable",
        ExecutingArguments::Always("changes the builtins of the shell"),
    ),
    (
        "hash",
        ExecutingArguments::Always("changes the program that a name refers to"),
    ),
    (
        "shopt",
        ExecutingArguments::Always("changes how the shell reads commands"),
    ),
    (
        "source",
        ExecutingArguments::Always("runs a file in this shell"),
    ),
    (".", ExecutingArguments::Always("runs a file in this shell")),
    (
        "let",
        ExecutingArguments::Always("is arithmetic, which may run a command that a variable holds"),
    ),
    ("jobs", ExecutingArguments::OptionsAnywhere(&["-x"])),
    ("mapfile", ExecutingArguments::OptionsAnywhere(&["-C"])),
    ("readarray", ExecutingArguments::OptionsAnywhere(&["-C"])),
    // Programs that run their arguments elsewhere or later.
    ("at", ExecutingArguments::Always(GIVEN)),
    ("batch", ExecutingArguments::Always(GIVEN)),
    ("bwrap", ExecutingArguments::Always(GIVEN)),
    ("chroot", ExecutingArguments::Always(GIVEN)),
    ("chrt", ExecutingArguments::Always(GIVEN)),
    ("entr", ExecutingArguments::Always(GIVEN)),
    ("expect", ExecutingArguments::Always(GIVEN)),
    ("fakeroot", ExecutingArguments::Always(GIVEN)),
    ("firejail", ExecutingArguments::Always(GIVEN)),
    ("flock", ExecutingArguments::Always(GIVEN)),
    ("gdb", ExecutingArguments::Always(GIVEN)),
    ("ltrace", ExecutingArguments::Always(GIVEN)),
    ("nsenter", ExecutingArguments::Always(GIVEN)),
    ("parallel", ExecutingArguments::Always(GIVEN)),
    ("perf", ExecutingArguments::Always(GIVEN)),
    ("pkexec", ExecutingArguments::Always(GIVEN)),
    ("rlwrap", ExecutingArguments::Always(GIVEN)),
    ("runuser", ExecutingArguments::Always(GIVEN)),
    ("screen", ExecutingArguments::Always(GIVEN)),
    ("script", ExecutingArguments::Always(GIVEN)),
    ("setpriv", ExecutingArguments::Always(GIVEN)),
    ("socat", ExecutingArguments::Always(GIVEN)),
    ("ssh", ExecutingArguments::Always(GIVEN)),
    ("start-stop-daemon", ExecutingArguments::Always(GIVEN)),
    ("strace", ExecutingArguments::Always(GIVEN)),
    ("su", ExecutingArguments::Always(GIVEN)),
    ("systemd-run", ExecutingArguments::Always(GIVEN)),
    ("taskset", ExecutingArguments::Always(GIVEN)),
    ("tmux", ExecutingArguments::Always(GIVEN)),
    ("unbuffer", ExecutingArguments::Always(GIVEN)),
    ("unshare", ExecutingArguments::Always(GIVEN)),
    ("valgrind", ExecutingArguments::Always(GIVEN)),
    ("watch", ExecutingArguments::Always(GIVEN)),
    ("watchexec", ExecutingArguments::Always(GIVEN)),
    ("wsl", ExecutingArguments::Always(GIVEN)),
    ("xvfb-run", ExecutingArguments::Always(GIVEN)),
    ("ld.so", ExecutingArguments::Always(GIVEN)),
    ("ld-linux-x86-64.so.2", ExecutingArguments::Always(GIVEN)),
    // Interpreters, with a text instead of a file.
    (
        "bun",
        ExecutingArguments::Options(&["-e", "-p", "--eval", "--print", "-r", "--preload"]),
    ),
    ("deno", ExecutingArguments::Options(&["eval", "repl"])),
    ("lua", ExecutingArguments::Options(&["-e", "-l", "-i"])),
    (
        "node",
        ExecutingArguments::Options(&[
            "-e",
            "-p",
            "-r",
            "--eval",
            "--print",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
        ]),
    ),
    (
        "perl",
        ExecutingArguments::Options(&["-e", "-E", "-M", "-m", "-n", "-p", "-i", "-d"]),
    ),
    (
        "php",
        ExecutingArguments::Options(&["-r", "-B", "-R", "-E", "-d", "-z", "--run", "--define"]),
    ),
    ("python", ExecutingArguments::Options(&["-c"])),
    ("python2", ExecutingArguments::Options(&["-c"])),
    ("python3", ExecutingArguments::Options(&["-c"])),
    (
        "ruby",
        ExecutingArguments::Options(&["-e", "-r", "-n", "-p"]),
    ),
    ("osascript", ExecutingArguments::Always(GIVEN)),
    ("pwsh", ExecutingArguments::Always(GIVEN)),
    ("fish", ExecutingArguments::Always(GIVEN)),
    (
        "emacs",
        ExecutingArguments::Always("runs scripts in a language of its own"),
    ),
    (
        "ed",
        ExecutingArguments::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "ex",
        ExecutingArguments::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "nvim",
        ExecutingArguments::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "vi",
        ExecutingArguments::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "view",
        ExecutingArguments::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "vim",
        ExecutingArguments::Always("has commands of its own, some of which run other programs"),
    ),
    // Options that name a program.
    (
        "cargo",
        ExecutingArguments::Options(&["--config", "-Z", "-C"]),
    ),
    (
        "clang",
        ExecutingArguments::Options(&["-fplugin", "-load", "-B", "-fuse-ld"]),
    ),
    ("cmake", ExecutingArguments::Options(&["-P", "-E"])),
    (
        "curl",
        ExecutingArguments::OptionsAnywhere(&[
            "-K",
            "--config",
            "-o",
            "-O",
            "--output",
            "--remote-name",
            "--output-dir",
            "-T",
            "--upload-file",
        ]),
    ),
    (
        "docker",
        ExecutingArguments::Options(&["--config", "-H", "--host"]),
    ),
    (
        "find",
        ExecutingArguments::Options(&["-delete", "-fls", "-fprint", "-fprint0", "-fprintf"]),
    ),
    (
        "fd",
        ExecutingArguments::OptionsAnywhere(&["-x", "-X", "--exec", "--exec-batch"]),
    ),
    (
        "gcc",
        ExecutingArguments::Options(&["-wrapper", "-fplugin", "-B", "-specs"]),
    ),
    (
        "go",
        ExecutingArguments::Options(&["-exec", "-toolexec", "-vettool", "-overlay"]),
    ),
    ("less", ExecutingArguments::Options(&["-k", "-o", "-O"])),
    ("make", ExecutingArguments::Options(&["--eval", "-E"])),
    (
        "man",
        ExecutingArguments::Options(&["-P", "-H", "-C", "--pager", "--html", "--config-file"]),
    ),
    (
        "npm",
        ExecutingArguments::Options(&["-c", "--call", "--script-shell", "--node-options"]),
    ),
    ("npx", ExecutingArguments::Options(&["-c", "--call"])),
    (
        "openssl",
        ExecutingArguments::Options(&["-engine", "-provider-path"]),
    ),
    ("pip", ExecutingArguments::Options(&["--python"])),
    ("pip3", ExecutingArguments::Options(&["--python"])),
    (
        "rg",
        ExecutingArguments::OptionsAnywhere(&["--pre", "--hostname-bin"]),
    ),
    (
        "rsync",
        ExecutingArguments::OptionsAnywhere(&["-e", "--rsh", "--rsync-path", "--daemon"]),
    ),
    (
        "rustc",
        ExecutingArguments::Options(&["-C", "-Z", "--codegen"]),
    ),
    (
        "scp",
        ExecutingArguments::OptionsAnywhere(&["-S", "-o", "-F", "-J"]),
    ),
    (
        "sftp",
        ExecutingArguments::OptionsAnywhere(&["-S", "-o", "-F", "-J", "-b"]),
    ),
    (
        "sort",
        ExecutingArguments::OptionsAnywhere(&[
            "--compress-program",
            "-o",
            "--output",
            "--files0-from",
        ]),
    ),
    (
        "tar",
        ExecutingArguments::OptionsAnywhere(&[
            "-I",
            "-F",
            "--use-compress-program",
            "--to-command",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
        ]),
    ),
    (
        "wget",
        ExecutingArguments::OptionsAnywhere(&[
            "-e",
            "--execute",
            "--use-askpass",
            "-O",
            "--output-document",
            "-i",
            "--input-file",
        ]),
    ),
    (
        "zip",
        ExecutingArguments::OptionsAnywhere(&["-T", "--unzip-command", "-TT"]),
    ),
];

/// Returns the reason why a command may run more than its program, if its arguments can cause that.
pub(super) fn executing_reason(program: &str, words: &[ShellWord]) -> Option<String> {
    let (_, runs) = TABLE.iter().find(|(name, _)| *name == program)?;
    let rest = words.get(1..).unwrap_or_default();
    match runs {
        ExecutingArguments::Always(why) => Some(format!("`{program}` {why}")),
        ExecutingArguments::Options(options) => option(program, rest, options),
        ExecutingArguments::OptionsAnywhere(options) => {
            let stray = rest.iter().find(|word| match word {
                ShellWord::Known(_) => false,
                ShellWord::Glob(text) | ShellWord::GlobMatch(text) => {
                    text.starts_with(['*', '?', '[', '-'])
                }
                ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => true,
            });
            let stray = stray
                .map(|word| format!("`{}` may become an option that runs something", word.text()));
            option(program, rest, options).or(stray)
        }
    }
}

fn option(program: &str, rest: &[ShellWord], options: &[&str]) -> Option<String> {
    let texts = || rest.iter().map(ShellWord::text);
    if program == "go"
        && let Some(word) = texts().find(|word| is_doubled(word))
    {
        return Some(format!(
            "`go` reads `{word}` like the same letter after one dash"
        ));
    }
    let found = options
        .iter()
        .find(|option| texts().any(|word| is_option(word, option)))?;
    Some(format!(
        "`{program} {found}` may run or write what its arguments name"
    ))
}

/// Returns true if the word is two dashes and one letter.
fn is_doubled(word: &str) -> bool {
    let name = word.strip_prefix("--").unwrap_or_default();
    let name = name.split('=').next().unwrap_or(name);
    name.len() == 1
}

/// Returns true if the word is this option: long options may be abbreviated, and letters may be combined.
fn is_option(word: &str, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let name = word.split('=').next().unwrap_or(word);
        return name
            .strip_prefix("--")
            .is_some_and(|name| name.len() > 2 && long.starts_with(name) || name == long);
    }
    match option.strip_prefix('-') {
        Some(letter) if letter.len() == 1 => {
            let set = word.strip_prefix('-').filter(|set| !set.starts_with('-'));
            set.is_some_and(|set| set.contains(letter))
        }
        Some(_) => {
            word == option || word.split('=').next() == Some(option) || word.starts_with(option)
        }
        None => word == option,
    }
}
