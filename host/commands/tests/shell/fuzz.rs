//! Fuzzing with mutated commands: fragments are inserted, removed and joined. The parser must not panic, and allowed
//! commands must not run an unlisted program. Bash itself checks the second claim, in restricted mode with an empty
//! path: it reports the commands that it reaches, and cannot run any.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mimir_commands::shell::read_script;
use mimir_core::Decision;
use mimir_core::command::{CommandProgram, ParsedCommand, ShellWord};

use crate::attacks::ATTACKS;
use crate::kit::DecisionTester;
use crate::outside_reads::{EVERYDAY_READS, OUTSIDE_READS};
use crate::table::{ASKED, READS};

/// Number of mutants. Each takes about a millisecond without optimization.
const MUTANTS: usize = 6_000;

/// Maximum number of allowed mutants for bash to check, at some milliseconds each.
const RUN_MAX: usize = 400;

/// Prefix with which bash marks each command.
const TRACE_PREFIX: &str = "@@RAN@@ ";

/// Time limit of a command. A busy command is stopped earlier, by its limit of processor time.
const WAIT_MAX: Duration = Duration::from_secs(5);

const ALLOWED_PROGRAMS: &[&str] = &[
    "ls", "cat", "echo", "printf", "git", "grep", "head", "pwd", "cd", "true",
];

/// Wrappers. The restricted bash does not reach the programs that they would run.
const WRAPPERS: &[&str] = &[
    "ash", "bash", "dash", "ksh", "sh", "zsh", "time", "stdbuf", "setsid", "ionice", "nice",
    "nohup", "timeout", "env", "xargs",
];

const FRAGMENTS: &[&str] = &[
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
struct RandomSource(u64);

impl RandomSource {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

fn mutant(random: &mut RandomSource, seeds: &[&str]) -> String {
    let mut text = random.pick(seeds).to_owned();
    for _ in 0..=random.below(3) {
        let position = |random: &mut RandomSource, text: &str| {
            let at = random.below(text.len() + 1);
            (0..=at)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0)
        };
        match random.below(5) {
            0 | 1 => {
                let at = position(random, &text);
                text.insert_str(at, random.pick(FRAGMENTS));
            }
            2 => {
                let at = position(random, &text);
                let removed: usize = text[at..]
                    .chars()
                    .take(1 + random.below(4))
                    .map(char::len_utf8)
                    .sum();
                text.replace_range(at..at + removed, "");
            }
            3 => text = format!("{text}{}{}", random.pick(FRAGMENTS), random.pick(seeds)),
            _ => {
                let at = position(random, &text);
                let (head, tail) = text.split_at(at);
                text = format!(
                    "{head}{}{tail}{}",
                    random.pick(FRAGMENTS),
                    random.pick(FRAGMENTS)
                );
            }
        }
    }
    text
}

/// Returns the commands that bash reaches, as bash prints them, or `None` if bash is not installed.
fn traced_commands(script: &str) -> Option<Vec<String>> {
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
        let mut output = Vec::new();
        let _ = stderr.by_ref().take(1 << 20).read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    });
    let started = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if started.elapsed() > WAIT_MAX {
            child.kill().ok()?;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let output = reader.join().ok()?;
    let ran = output.lines().filter_map(|line| {
        let line = line
            .trim_start_matches('@')
            .strip_prefix(TRACE_PREFIX.trim_start_matches('@'))?;
        Some(line.to_owned())
    });
    Some(
        ran.skip_while(|line| !line.starts_with("eval "))
            .skip(1)
            .collect(),
    )
}

/// Returns the program of a line, without its folder if that is a system folder.
fn program_name(line: &str) -> &str {
    let word = line.split(' ').next().unwrap_or(line);
    let folders = ["/usr/bin/", "/bin/"];
    folders
        .iter()
        .find_map(|folder| word.strip_prefix(folder))
        .unwrap_or(word)
}

/// Returns the parsed commands, if all their words are known.
fn parsed_commands(text: &str) -> Option<Vec<String>> {
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
        || ALLOWED_PROGRAMS.contains(&word)
        || word.contains('=')
}

#[test]
fn fuzz_allowed_mutants_run_only_listed_programs() {
    let patterns: Vec<String> = ALLOWED_PROGRAMS
        .iter()
        .map(|name| format!("{name} *"))
        .collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let tester = DecisionTester::with_allowlist(&patterns);
    let seeds = [READS, ASKED, ATTACKS, OUTSIDE_READS, EVERYDAY_READS].concat();
    let allowed_seeds: Vec<&str> = seeds
        .iter()
        .copied()
        .filter(|seed| tester.decision(seed) == Decision::Allow)
        .collect();
    let mut random = RandomSource(0x006d_696d_6972);
    let (mut allowed, mut traced, mut compared) = (0, 0, 0);
    for round in 0..MUTANTS {
        // Half of the mutants are derived from allowed commands, so that many are allowed.
        let text = mutant(
            &mut random,
            if round % 2 == 0 {
                &seeds
            } else {
                &allowed_seeds
            },
        );
        if text.trim().is_empty()
            || text.contains('\0')
            || tester.decision(&text) != Decision::Allow
        {
            continue;
        }
        allowed += 1;
        if traced >= RUN_MAX || text.contains("kill") {
            continue;
        }
        let Some(ran) = traced_commands(&text) else {
            continue;
        };
        traced += 1;
        let unlisted = ran.iter().find(|line| !is_harmless(program_name(line)));
        assert_eq!(
            unlisted, None,
            "allowed, but bash runs another program: {text:?}"
        );
        if let Some(read) = parsed_commands(&text) {
            compared += 1;
            // Words that bash quotes, and harmless git settings, differ in spelling after parsing.
            let is_comparable = |line: &&String| {
                !line.starts_with("git -")
                    && ALLOWED_PROGRAMS.contains(&program_name(line))
                    && !line.contains(['\'', '"', '\\', '$'])
            };
            let other = ran
                .iter()
                .filter(is_comparable)
                .find(|line| !read.contains(line));
            assert_eq!(
                other, None,
                "bash runs it with other words: {text:?} was read as {read:?}"
            );
        }
    }
    println!(
        "{allowed} of {MUTANTS} were allowed; bash traced {traced}, and the words of {compared} were compared"
    );
    assert!(
        allowed > MUTANTS / 50,
        "only {allowed} mutants were allowed, which is too few for a result"
    );
}

#[test]
fn fuzz_trace_records_the_commands_of_bash() {
    if let Some(ran) = traced_commands("ls | rm x; echo $(rm y)") {
        assert!(
            ran.iter().filter(|line| program_name(line) == "rm").count() >= 2,
            "{ran:?}"
        );
    }
}
