//! The binary in a terminal that `script` provides.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kit::mimir;

/// The exit code and the terminal's text, when a person answers the prompt with these lines. `None` if `script` is not
/// installed.
pub fn answered(home: &Path, args: &[&str], answer: &str) -> Option<(i32, String)> {
    answered_at(home, args, &["[n]o > "], answer)
}

/// Like [`answered`], for commands whose prompts end with one of `prompts`.
pub fn answered_at(
    home: &Path,
    args: &[&str],
    prompts: &[&str],
    answer: &str,
) -> Option<(i32, String)> {
    let quoted = args.iter().map(|arg| format!("'{arg}'"));
    let words: Vec<String> = quoted.collect();
    let call = format!("'{}' {}", env!("CARGO_BIN_EXE_mimir"), words.join(" "));
    let alone = mimir(home, &[]);
    let set = alone.get_envs();
    let spawned = Command::new("script")
        .args(["-qefc", &call, "/dev/null"])
        .current_dir(home)
        .envs(set.filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut terminal) = spawned else {
        eprintln!("not tested: there is no `script` here");
        return None;
    };
    let mut input = terminal.stdin.take().unwrap();
    let mut out = terminal.stdout.take().unwrap();
    let mut output = String::new();
    let mut more = [0; 1024];
    let mut answers = answer.lines();
    let mut asked = 0;
    loop {
        let read = out.read(&mut more).unwrap();
        if read == 0 {
            break;
        }
        output += &String::from_utf8_lossy(&more[..read]);
        let questions = prompts.iter().map(|prompt| output.matches(prompt).count());
        let questions: usize = questions.sum();
        if questions > asked {
            asked = questions;
            if let Some(answer) = answers.next() {
                writeln!(input, "{answer}").unwrap();
            }
        }
    }
    let code = terminal.wait().unwrap().code().unwrap();
    Some((code, output))
}
