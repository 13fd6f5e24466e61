//! Mutated commands: pieces are inserted, removed and joined. The reader must not panic, and allowed commands must not
//! run a program that is not listed. The second claim is checked by bash itself, in restricted mode with an empty
//! path: it reports the commands that it reaches, and can run none of them.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mimir_commands::shell::read_script;
use mimir_core::Decision;
use mimir_core::command::{CommandProgram, ParsedCommand, ShellWord};

use crate::attacks::ATTACKS;
use crate::kit::Judge;
use crate::past_reads::{PAST, STILL};
use crate::table::{ASKED, READS};

/// Number of mutants. Each takes about a millisecond without optimisation.
const MUTANTS: usize = 6_000;

/// Maximum number of allowed mutants that bash checks: each takes some milliseconds.
const RUN_MAX: usize = 400;

/// The prefix with which bash marks each command.
const MARK: &str = "@@RAN@@ ";

/// Maximum wait for a command. A busy one is stopped earlier, by its limit of processor time.
const WAIT_MAX: Duration = Duration::from_secs(5);

const LISTED: &[&str] = &[
    "ls", "cat", "echo", "printf", "git", "grep", "head", "pwd", "cd", "true",
];

/// Wrappers. The programs that they would run are not reached in this restricted bash.
const WRAPPERS: &[&str] = &[
    "ash", "bash", "dash", "ksh", "sh", "zsh", "time", "stdbuf", "setsid", "ionice", "nice",
    "nohup", "timeout", "env", "xargs",
];

const PIECES: &[&str] = &[
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    "$(",
    ")",
    "`",
    "'",
    "\"",
    "\\",
    "#",
    "{",
    "}",
    "(",
    "$IFS",
    "${x}",
    "$'",
    "<<E\n",
    "\nE\n",
    ">",
    "<",
    " ",
    "\t",
    "!",
    "~",
    "*",
    "[",
    "]",
    "rm x",
    "ls",
    "eval ",
    "sh -c ",
    "env ",
    "x=1 ",
    "function ",
    "if ",
    "then ",
    "fi",
    "do ",
    "done",
    "case ",
    "esac",
    ";;",
    "-",
    "$((",
    "))",
    "@(",
    "\\\n",
    "$$",
    "<<ls\n",
    "\nls\n",
    ">&-",
    "<",
    "ä",
    "=",
    "echo ",
    "<(",
    ">(",
    "&>",
    "2>&1",
    "<<<",
    "coproc ",
    "time ",
    "[[ ",
    " ]]",
    "in ",
    "${",
    ",",
    "..",
    "$",
    "\"$(",
    "while ",
    "for x in a;",
    "for x in cat rm; do ",
    "for x in *; do ",
    "\"$x\"",
    "$x ",
    "read x",
    "x=rm;",
    "ls(){ :;};",
    "select ",
    "trap ",
];

/// A deterministic pseudo-random number generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

fn mutant(chance: &mut Chance, seeds: &[&str]) -> String {
    let mut text = chance.of(seeds).to_owned();
    for _ in 0..=chance.below(3) {
        let place = |chance: &mut Chance, text: &str| {
            let at = chance.below(text.len() + 1);
            (0..=at)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0)
        };
        match chance.below(5) {
            0 | 1 => {
                let at = place(chance, &text);
                text.insert_str(at, chance.of(PIECES));
            }
            2 => {
                let at = place(chance, &text);
                let gone: usize = text[at..]
                    .chars()
                    .take(1 + chance.below(4))
                    .map(char::len_utf8)
                    .sum();
                text.replace_range(at..at + gone, "");
            }
            3 => text = format!("{text}{}{}", chance.of(PIECES), chance.of(seeds)),
            _ => {
                let at = place(chance, &text);
                let (head, tail) = text.split_at(at);
                text = format!("{head}{}{tail}{}", chance.of(PIECES), chance.of(PIECES));
            }
        }
    }
    text
}

/// Returns the commands that bash reaches, each as it prints it, or `None` if bash is not installed.
fn commands(script: &str) -> Option<Vec<String>> {
    let line = "ulimit -t 1; PS4='@@RAN@@ '; set -x; eval \"$1\"";
    let empty = std::env::temp_dir().join("mimir-no-programs-here");
    let bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists())?;
    let mut child = Command::new(bash)
        .args(["--noprofile", "--norc", "-r", "-c", line, "bash", script])
        .env_clear()
        .env("PATH", empty)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stderr = child.stderr.take()?;
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stderr.by_ref().take(1 << 20).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let started = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if started.elapsed() > WAIT_MAX {
            child.kill().ok()?;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let said = reader.join().ok()?;
    let ran = said.lines().filter_map(|line| {
        let line = line
            .trim_start_matches('@')
            .strip_prefix(MARK.trim_start_matches('@'))?;
        Some(line.to_owned())
    });
    Some(
        ran.skip_while(|line| !line.starts_with("eval "))
            .skip(1)
            .collect(),
    )
}

/// Returns the program of a line, by its bare name if it is in a system folder.
fn first(line: &str) -> &str {
    let word = line.split(' ').next().unwrap_or(line);
    let at = ["/usr/bin/", "/bin/"];
    at.iter()
        .find_map(|at| word.strip_prefix(at))
        .unwrap_or(word)
}

/// Returns the commands as they were read, if all their words are known.
fn plainly(text: &str) -> Option<Vec<String>> {
    let script = read_script(&CommandProgram::Script(text.to_owned())).ok()?;
    let words = |one: &ParsedCommand| {
        let words = one.words.iter().map(ShellWord::known);
        words
            .collect::<Option<Vec<_>>>()
            .map(|words| words.join(" "))
    };
    script.commands.iter().map(words).collect()
}

/// Returns true for builtins and traces of compound commands, which run no program.
fn is_harmless(word: &str) -> bool {
    let builtins = [
        ":", "[", "[[", "true", "false", "test", "eval", "export", "declare", "local", "readonly",
        "typeset", "set", "read", "wait", "exit", "return", "break", "continue", "trap", "shift",
        "unset", "type", "command", "case", "for", "select", "((", "builtin", "exec", "popd",
        "pushd", "dirs", "sleep", "jobs", "times", "umask", "ulimit", "getopts", "let",
    ];
    builtins.contains(&word)
        || WRAPPERS.contains(&word)
        || LISTED.contains(&word)
        || word.contains('=')
}

#[test]
fn fuzz_allowed_mutants_run_only_listed_programs() {
    let patterns: Vec<String> = LISTED.iter().map(|name| format!("{name} *")).collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let judge = Judge::list(&patterns);
    let seeds = [READS, ASKED, ATTACKS, PAST, STILL].concat();
    let listed: Vec<&str> = seeds
        .iter()
        .copied()
        .filter(|seed| judge.says(seed) == Decision::Allow)
        .collect();
    let mut chance = Chance(0x006d_696d_6972);
    let (mut let_through, mut looked_at, mut compared) = (0, 0, 0);
    for round in 0..MUTANTS {
        // Half of them are derived from allowed commands, so that many are allowed.
        let text = mutant(&mut chance, if round % 2 == 0 { &seeds } else { &listed });
        if text.trim().is_empty() || text.contains('\0') || judge.says(&text) != Decision::Allow {
            continue;
        }
        let_through += 1;
        if looked_at >= RUN_MAX || text.contains("kill") {
            continue;
        }
        let Some(ran) = commands(&text) else {
            continue;
        };
        looked_at += 1;
        let stray = ran.iter().find(|line| !is_harmless(first(line)));
        assert_eq!(stray, None, "let through, and bash runs more: {text:?}");
        if let Some(read) = plainly(&text) {
            compared += 1;
            // Words that bash quotes and harmless git settings are spelled differently after reading.
            let plain = |line: &&String| {
                !line.starts_with("git -")
                    && LISTED.contains(&first(line))
                    && !line.contains(['\'', '"', '\\', '$'])
            };
            let other = ran.iter().filter(plain).find(|line| !read.contains(line));
            assert_eq!(
                other, None,
                "bash runs it with other words: {text:?} was read as {read:?}"
            );
        }
    }
    println!(
        "{let_through} of {MUTANTS} were let through; bash looked at {looked_at}, and at the words of {compared}"
    );
    assert!(
        let_through > MUTANTS / 50,
        "{let_through} are too few to say anything"
    );
}

#[test]
fn fuzz_trace_records_the_commands_of_bash() {
    if let Some(ran) = commands("ls | rm x; echo $(rm y)") {
        assert!(
            ran.iter().filter(|line| first(line) == "rm").count() >= 2,
            "{ran:?}"
        );
    }
}
