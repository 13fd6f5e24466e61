//! Programs that run other programs named in their arguments: a person is asked about those, even if the program
//! itself is allowed.

use mimir_core::command::Word;

/// The words of a program that run something.
enum Runs {
    /// The only purpose of the program is to run its arguments.
    Always(&'static str),
    /// Only these options run something: long ones match by name, a letter matches any cluster that contains it.
    Options(&'static [&'static str]),
    /// Like `Options`, but a word whose value only the shell knows may also become an option.
    OptionsAnywhere(&'static [&'static str]),
}

const GIVEN: &str = "runs its arguments as a command";

const TABLE: &[(&str, Runs)] = &[
    // Builtins of the shell.
    ("alias", Runs::Always("gives a name another meaning")),
    ("bind", Runs::Always("lets keys run commands")),
    ("compgen", Runs::Always("runs commands in its arguments")),
    (
        "complete",
        Runs::Always("lets the shell run commands by itself"),
    ),
    ("fc", Runs::Always("runs earlier commands again")),
    ("enable", Runs::Always("changes the builtins of the shell")),
    (
        "hash",
        Runs::Always("changes the program that a name refers to"),
    ),
    (
        "shopt",
        Runs::Always("changes how the shell reads commands"),
    ),
    ("source", Runs::Always("runs a file in this shell")),
    (".", Runs::Always("runs a file in this shell")),
    (
        "let",
        Runs::Always("is arithmetic, which may run a command that a variable holds"),
    ),
    ("jobs", Runs::OptionsAnywhere(&["-x"])),
    ("mapfile", Runs::OptionsAnywhere(&["-C"])),
    ("readarray", Runs::OptionsAnywhere(&["-C"])),
    // Programs that run their arguments elsewhere or later.
    ("at", Runs::Always(GIVEN)),
    ("batch", Runs::Always(GIVEN)),
    ("bwrap", Runs::Always(GIVEN)),
    ("chroot", Runs::Always(GIVEN)),
    ("chrt", Runs::Always(GIVEN)),
    ("entr", Runs::Always(GIVEN)),
    ("expect", Runs::Always(GIVEN)),
    ("fakeroot", Runs::Always(GIVEN)),
    ("firejail", Runs::Always(GIVEN)),
    ("flock", Runs::Always(GIVEN)),
    ("gdb", Runs::Always(GIVEN)),
    ("ltrace", Runs::Always(GIVEN)),
    ("nsenter", Runs::Always(GIVEN)),
    ("parallel", Runs::Always(GIVEN)),
    ("perf", Runs::Always(GIVEN)),
    ("pkexec", Runs::Always(GIVEN)),
    ("rlwrap", Runs::Always(GIVEN)),
    ("runuser", Runs::Always(GIVEN)),
    ("screen", Runs::Always(GIVEN)),
    ("script", Runs::Always(GIVEN)),
    ("setpriv", Runs::Always(GIVEN)),
    ("socat", Runs::Always(GIVEN)),
    ("ssh", Runs::Always(GIVEN)),
    ("start-stop-daemon", Runs::Always(GIVEN)),
    ("strace", Runs::Always(GIVEN)),
    ("su", Runs::Always(GIVEN)),
    ("systemd-run", Runs::Always(GIVEN)),
    ("taskset", Runs::Always(GIVEN)),
    ("tmux", Runs::Always(GIVEN)),
    ("unbuffer", Runs::Always(GIVEN)),
    ("unshare", Runs::Always(GIVEN)),
    ("valgrind", Runs::Always(GIVEN)),
    ("watch", Runs::Always(GIVEN)),
    ("watchexec", Runs::Always(GIVEN)),
    ("wsl", Runs::Always(GIVEN)),
    ("xvfb-run", Runs::Always(GIVEN)),
    ("ld.so", Runs::Always(GIVEN)),
    ("ld-linux-x86-64.so.2", Runs::Always(GIVEN)),
    // Interpreters, with a text instead of a file.
    (
        "bun",
        Runs::Options(&["-e", "-p", "--eval", "--print", "-r", "--preload"]),
    ),
    ("deno", Runs::Options(&["eval", "repl"])),
    ("lua", Runs::Options(&["-e", "-l", "-i"])),
    (
        "node",
        Runs::Options(&[
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
        Runs::Options(&["-e", "-E", "-M", "-m", "-n", "-p", "-i", "-d"]),
    ),
    (
        "php",
        Runs::Options(&["-r", "-B", "-R", "-E", "-d", "-z", "--run", "--define"]),
    ),
    ("python", Runs::Options(&["-c"])),
    ("python2", Runs::Options(&["-c"])),
    ("python3", Runs::Options(&["-c"])),
    ("ruby", Runs::Options(&["-e", "-r", "-n", "-p"])),
    ("osascript", Runs::Always(GIVEN)),
    ("pwsh", Runs::Always(GIVEN)),
    ("fish", Runs::Always(GIVEN)),
    (
        "emacs",
        Runs::Always("runs scripts in a language of its own"),
    ),
    (
        "ed",
        Runs::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "ex",
        Runs::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "nvim",
        Runs::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "vi",
        Runs::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "view",
        Runs::Always("has commands of its own, some of which run other programs"),
    ),
    (
        "vim",
        Runs::Always("has commands of its own, some of which run other programs"),
    ),
    // Options that name a program.
    ("cargo", Runs::Options(&["--config", "-Z", "-C"])),
    (
        "clang",
        Runs::Options(&["-fplugin", "-load", "-B", "-fuse-ld"]),
    ),
    ("cmake", Runs::Options(&["-P", "-E"])),
    (
        "curl",
        Runs::OptionsAnywhere(&[
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
    ("docker", Runs::Options(&["--config", "-H", "--host"])),
    (
        "find",
        Runs::Options(&["-delete", "-fls", "-fprint", "-fprint0", "-fprintf"]),
    ),
    (
        "fd",
        Runs::OptionsAnywhere(&["-x", "-X", "--exec", "--exec-batch"]),
    ),
    (
        "gcc",
        Runs::Options(&["-wrapper", "-fplugin", "-B", "-specs"]),
    ),
    (
        "go",
        Runs::Options(&["-exec", "-toolexec", "-vettool", "-overlay"]),
    ),
    ("less", Runs::Options(&["-k", "-o", "-O"])),
    ("make", Runs::Options(&["--eval", "-E"])),
    (
        "man",
        Runs::Options(&["-P", "-H", "-C", "--pager", "--html", "--config-file"]),
    ),
    (
        "npm",
        Runs::Options(&["-c", "--call", "--script-shell", "--node-options"]),
    ),
    ("npx", Runs::Options(&["-c", "--call"])),
    ("openssl", Runs::Options(&["-engine", "-provider-path"])),
    ("pip", Runs::Options(&["--python"])),
    ("pip3", Runs::Options(&["--python"])),
    ("rg", Runs::OptionsAnywhere(&["--pre", "--hostname-bin"])),
    (
        "rsync",
        Runs::OptionsAnywhere(&["-e", "--rsh", "--rsync-path", "--daemon"]),
    ),
    ("rustc", Runs::Options(&["-C", "-Z", "--codegen"])),
    ("scp", Runs::OptionsAnywhere(&["-S", "-o", "-F", "-J"])),
    (
        "sftp",
        Runs::OptionsAnywhere(&["-S", "-o", "-F", "-J", "-b"]),
    ),
    (
        "sort",
        Runs::OptionsAnywhere(&["--compress-program", "-o", "--output", "--files0-from"]),
    ),
    (
        "tar",
        Runs::OptionsAnywhere(&[
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
        Runs::OptionsAnywhere(&[
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
        Runs::OptionsAnywhere(&["-T", "--unzip-command", "-TT"]),
    ),
];

/// Returns the reason why a command may run more than its program, if its arguments can cause that.
pub(super) fn why(program: &str, words: &[Word]) -> Option<String> {
    let (_, runs) = TABLE.iter().find(|(name, _)| *name == program)?;
    let rest = words.get(1..).unwrap_or_default();
    match runs {
        Runs::Always(why) => Some(format!("`{program}` {why}")),
        Runs::Options(options) => option(program, rest, options),
        Runs::OptionsAnywhere(options) => {
            let stray = rest.iter().find(|word| match word {
                Word::Known(_) => false,
                Word::Glob(text) | Word::Found(text) => text.starts_with(['*', '?', '[', '-']),
                Word::Unknown(_) => true,
            });
            let stray = stray
                .map(|word| format!("`{}` may become an option that runs something", word.text()));
            option(program, rest, options).or(stray)
        }
    }
}

fn option(program: &str, rest: &[Word], options: &[&str]) -> Option<String> {
    let texts = || rest.iter().map(Word::text);
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
