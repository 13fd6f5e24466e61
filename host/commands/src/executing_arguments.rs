//! Arguments with which a program runs other programs or changes files. Such commands need approval even if the program
//! itself is allowed.

use crate::ShellWord;
use crate::interpreters::{self, is_interpreter};

/// Arguments with which a program runs something or changes files.
enum ExecutingArguments {
    /// All arguments: running them is the program's purpose.
    Always(&'static str),
    /// Only these options. Long ones may be abbreviated; a letter matches any cluster that contains it.
    Options(&'static [&'static str]),
    /// These options, and any word that may expand to an option.
    OptionsAnywhere(&'static [&'static str]),
}

use ExecutingArguments::{Always, Options, OptionsAnywhere};

const RUNS_ARGUMENTS: &str = "runs its arguments as a command";

const RUNS_EDITOR_COMMANDS: &str = "has editor commands that run other programs";

/// Programs with such arguments, by name.
const EXECUTING_PROGRAMS: &[(&str, ExecutingArguments)] = &[
    // Builtins of the shell.
    ("alias", Always("changes the meaning of a name")),
    ("bind", Always("binds keys to commands")),
    ("compgen", Always("runs commands in its arguments")),
    (
        "complete",
        Always("makes the shell run commands automatically"),
    ),
    ("fc", Always("repeats earlier commands")),
    ("enable", Always("changes the builtins of the shell")),
    ("hash", Always("changes the program that a name refers to")),
    ("shopt", Always("changes how the shell reads commands")),
    ("source", Always("runs a file in this shell")),
    (".", Always("runs a file in this shell")),
    (
        "let",
        Always("is arithmetic, which may run a command stored in a variable"),
    ),
    ("jobs", OptionsAnywhere(&["-x"])),
    ("mapfile", OptionsAnywhere(&["-C"])),
    ("readarray", OptionsAnywhere(&["-C"])),
    // Programs that run their arguments elsewhere or later.
    ("at", Always(RUNS_ARGUMENTS)),
    ("catchsegv", Always(RUNS_ARGUMENTS)),
    ("chronic", Always(RUNS_ARGUMENTS)),
    ("dbus-run-session", Always(RUNS_ARGUMENTS)),
    ("eatmydata", Always(RUNS_ARGUMENTS)),
    ("faketime", Always(RUNS_ARGUMENTS)),
    ("gosu", Always(RUNS_ARGUMENTS)),
    ("machinectl", Always(RUNS_ARGUMENTS)),
    ("mosh", Always(RUNS_ARGUMENTS)),
    ("proot", Always(RUNS_ARGUMENTS)),
    ("proxychains", Always(RUNS_ARGUMENTS)),
    ("proxychains4", Always(RUNS_ARGUMENTS)),
    ("rsh", Always(RUNS_ARGUMENTS)),
    ("setarch", Always(RUNS_ARGUMENTS)),
    ("sg", Always(RUNS_ARGUMENTS)),
    ("sshpass", Always(RUNS_ARGUMENTS)),
    ("su-exec", Always(RUNS_ARGUMENTS)),
    ("torsocks", Always(RUNS_ARGUMENTS)),
    ("batch", Always(RUNS_ARGUMENTS)),
    ("bwrap", Always(RUNS_ARGUMENTS)),
    ("chroot", Always(RUNS_ARGUMENTS)),
    ("chrt", Always(RUNS_ARGUMENTS)),
    ("entr", Always(RUNS_ARGUMENTS)),
    ("expect", Always(RUNS_ARGUMENTS)),
    ("fakeroot", Always(RUNS_ARGUMENTS)),
    ("firejail", Always(RUNS_ARGUMENTS)),
    ("gdb", Always(RUNS_ARGUMENTS)),
    ("ltrace", Always(RUNS_ARGUMENTS)),
    ("nsenter", Always(RUNS_ARGUMENTS)),
    ("parallel", Always(RUNS_ARGUMENTS)),
    ("perf", Always(RUNS_ARGUMENTS)),
    ("pkexec", Always(RUNS_ARGUMENTS)),
    ("rlwrap", Always(RUNS_ARGUMENTS)),
    ("runuser", Always(RUNS_ARGUMENTS)),
    ("screen", Always(RUNS_ARGUMENTS)),
    ("script", Always(RUNS_ARGUMENTS)),
    ("setpriv", Always(RUNS_ARGUMENTS)),
    ("socat", Always(RUNS_ARGUMENTS)),
    ("ssh", Always(RUNS_ARGUMENTS)),
    ("start-stop-daemon", Always(RUNS_ARGUMENTS)),
    ("strace", Always(RUNS_ARGUMENTS)),
    ("su", Always(RUNS_ARGUMENTS)),
    ("systemd-run", Always(RUNS_ARGUMENTS)),
    ("tmux", Always(RUNS_ARGUMENTS)),
    ("unshare", Always(RUNS_ARGUMENTS)),
    ("valgrind", Always(RUNS_ARGUMENTS)),
    ("watchexec", Always(RUNS_ARGUMENTS)),
    ("wsl", Always(RUNS_ARGUMENTS)),
    ("ld.so", Always(RUNS_ARGUMENTS)),
    ("ld-linux-x86-64.so.2", Always(RUNS_ARGUMENTS)),
    // Interpreters with code in an argument instead of a file.
    (
        "bun",
        Options(&["-e", "-p", "--eval", "--print", "-r", "--preload"]),
    ),
    ("deno", Options(&["eval", "repl"])),
    ("lua", Options(&["-e", "-l", "-i"])),
    (
        "node",
        Options(&[
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
        Options(&["-e", "-E", "-M", "-m", "-n", "-p", "-i", "-d"]),
    ),
    (
        "php",
        Options(&["-r", "-B", "-R", "-E", "-d", "-z", "--run", "--define"]),
    ),
    ("python", Options(&["-c"])),
    ("python2", Options(&["-c"])),
    ("python3", Options(&["-c"])),
    ("ruby", Options(&["-e", "-r", "-n", "-p"])),
    ("osascript", Always(RUNS_ARGUMENTS)),
    ("pwsh", Always(RUNS_ARGUMENTS)),
    ("fish", Always(RUNS_ARGUMENTS)),
    // Editors, whose scripts and commands run programs.
    ("emacs", Always("runs Emacs Lisp scripts")),
    ("ed", Always(RUNS_EDITOR_COMMANDS)),
    ("ex", Always(RUNS_EDITOR_COMMANDS)),
    ("nvim", Always(RUNS_EDITOR_COMMANDS)),
    ("vi", Always(RUNS_EDITOR_COMMANDS)),
    ("view", Always(RUNS_EDITOR_COMMANDS)),
    ("vim", Always(RUNS_EDITOR_COMMANDS)),
    // Options that run other code or change files.
    ("cargo", Options(&["--config", "-Z", "-C"])),
    ("clang", Options(&["-fplugin", "-load", "-B", "-fuse-ld"])),
    ("cmake", Options(&["-P", "-E"])),
    (
        "curl",
        OptionsAnywhere(&[
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
    ("docker", Options(&["--config", "-H", "--host"])),
    (
        "find",
        Options(&["-delete", "-fls", "-fprint", "-fprint0", "-fprintf"]),
    ),
    ("fd", OptionsAnywhere(FD_COMMANDS)),
    ("gcc", Options(&["-wrapper", "-fplugin", "-B", "-specs"])),
    (
        "go",
        Options(&["-exec", "-toolexec", "-vettool", "-overlay"]),
    ),
    ("less", Options(&["-k", "-o", "-O"])),
    ("make", Options(&["--eval", "-E"])),
    (
        "man",
        Options(&["-P", "-H", "-C", "--pager", "--html", "--config-file"]),
    ),
    (
        "npm",
        Options(&["-c", "--call", "--script-shell", "--node-options"]),
    ),
    ("npx", Options(&["-c", "--call"])),
    ("openssl", Options(&["-engine", "-provider-path"])),
    ("pip", Options(&["--python"])),
    ("pip3", Options(&["--python"])),
    ("rg", OptionsAnywhere(&["--pre", "--hostname-bin"])),
    (
        "rsync",
        OptionsAnywhere(&["-e", "--rsh", "--rsync-path", "--daemon"]),
    ),
    ("rustc", Options(&["-C", "-Z", "--codegen"])),
    ("scp", OptionsAnywhere(&["-S", "-o", "-F", "-J"])),
    ("sftp", OptionsAnywhere(&["-S", "-o", "-F", "-J", "-b"])),
    (
        "sort",
        OptionsAnywhere(&["--compress-program", "-o", "--output", "--files0-from"]),
    ),
    (
        "tar",
        OptionsAnywhere(&[
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
        OptionsAnywhere(&[
            "-e",
            "--execute",
            "--use-askpass",
            "-O",
            "--output-document",
            "-i",
            "--input-file",
        ]),
    ),
    ("zip", OptionsAnywhere(&["-T", "--unzip-command", "-TT"])),
];

/// Returns the entry of a program, for an interpreter also under a name with a version.
fn executing_arguments(program: &str) -> Option<&'static ExecutingArguments> {
    let find = |program: &str| EXECUTING_PROGRAMS.iter().find(|(name, _)| *name == program);
    let (_, arguments) =
        find(program).or_else(|| interpreters::common_name(program).and_then(find))?;
    Some(arguments)
}

/// Returns the reason why the command that a program runs is not analyzed, so that the words do not show its effects.
pub(crate) fn unseen_command(program: &str, words: &[ShellWord]) -> Option<String> {
    let rest = words.get(1..).unwrap_or_default();
    let only_prints = matches!(rest, [ShellWord::Known(word)] if matches!(word.as_str(), "--help" | "--version" | "-V"));
    let is_unseen = match executing_arguments(program)? {
        Always(effect) => {
            !only_prints
                && !is_interpreter(program)
                && (*effect == RUNS_ARGUMENTS || program == "alias")
        }
        _ => program == "fd" && executing_option(program, rest, FD_COMMANDS).is_some(),
    };
    is_unseen.then(|| format!("`{program}` runs a command that is not analyzed"))
}

/// Options of `fd` that run a command for the files found.
const FD_COMMANDS: &[&str] = &["-x", "-X", "--exec", "--exec-batch"];

/// Returns the reason why a command may run more than its program, if its arguments can cause that.
pub(super) fn executing_reason(program: &str, words: &[ShellWord]) -> Option<String> {
    let arguments = executing_arguments(program)?;
    let rest = words.get(1..).unwrap_or_default();
    match arguments {
        Always(effect) => Some(format!("`{program}` {effect}")),
        Options(options) => executing_option(program, rest, options),
        OptionsAnywhere(options) => {
            let unclear = rest.iter().find(|word| match word {
                ShellWord::Known(_) => false,
                ShellWord::Glob(text) | ShellWord::GlobMatch(text) => {
                    text.starts_with(['*', '?', '[', '-'])
                }
                ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => true,
            });
            let unclear = unclear
                .map(|word| format!("`{}` may become an option that runs something", word.text()));
            executing_option(program, rest, options).or(unclear)
        }
    }
}

/// Returns the reason why one of these options may run something, if it is present.
fn executing_option(program: &str, rest: &[ShellWord], options: &[&str]) -> Option<String> {
    let texts = || rest.iter().map(ShellWord::text);
    if program == "go"
        && let Some(word) = texts().find(|word| is_letter_with_two_dashes(word))
    {
        return Some(format!(
            "the effect of `{word}` is not analyzed: `go` reads it like the same letter after one dash"
        ));
    }
    // Go reads `--exec` like `-exec`.
    let one_dash = |word: &str| program == "go" && word.starts_with("--");
    let option = options.iter().find(|option| {
        texts()
            .any(|word| is_option(word, option) || one_dash(word) && is_option(&word[1..], option))
    })?;
    Some(format!(
        "`{program} {option}` may run other code or change files"
    ))
}

/// Returns true if the word is two dashes and one letter.
fn is_letter_with_two_dashes(word: &str) -> bool {
    let name = word.strip_prefix("--").unwrap_or_default();
    let name = name.split('=').next().unwrap_or(name);
    name.len() == 1
}

/// Returns true if the word is this option. Long options may be abbreviated, and letters combined.
fn is_option(word: &str, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let name = word.split('=').next().unwrap_or(word);
        return name
            .strip_prefix("--")
            .is_some_and(|name| !name.is_empty() && long.starts_with(name));
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
