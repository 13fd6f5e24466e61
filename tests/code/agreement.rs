//! Compares programs here and in the interpreters of the machine: output and exit codes must agree in a promised
//! percentage of cases. The known differences are listed here, and in the descriptions of the languages.

use std::io::Write as _;
use std::process::{Command, Stdio};

use mimir_core::ToolErrorCode;
use serde_json::json;

use super::{CodeFixture, CodeResult, code_result, plain};

const PYTHON: &str = include_str!("python.txt");
const BASH: &str = include_str!("bash.txt");

/// Programs with their exit code and output in bash 5.2: `=== CODE`, then the output.
const RECORDED: &str = include_str!("bash_recorded.txt");

/// The programs of a file, by name.
fn programs(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let all = text.split("### ").skip(1);
    all.map(|one| one.split_once('\n').unwrap()).collect()
}

fn real(interpreter: &str, code: &str) -> CodeResult {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(interpreter)
        .args(["-c", code])
        // bash takes the first argument as the name of the program.
        .args((interpreter == "bash").then_some("bash"))
        .args(["one", "two words"])
        .current_dir(folder.path())
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GREETING", "hi")
        .env("LANG", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read stdin may have ended by now.
    child.stdin.take().unwrap().write_all(b"a b\nc\n").ok();
    let output = child.wait_with_output().unwrap();
    CodeResult {
        stdout: plain(&String::from_utf8_lossy(&output.stdout)),
        code: i64::from(output.status.code().unwrap_or(-1)),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Compares all programs. `known` are the ones that must differ: a list with too many entries fails, too.
fn compare(interpreter: &str, language: &str, text: &'static str, known: &[&str], least: f64) {
    let all = programs(text);
    let mut differing = Vec::new();
    for (name, code) in &all {
        let fixture = CodeFixture::new();
        let ours = fixture.run(language, code);
        let theirs = real(interpreter, code);
        if (&ours.stdout, ours.code) != (&theirs.stdout, theirs.code) {
            eprintln!("--- {name}\nours: {ours:?}\ntheirs: {theirs:?}");
            differing.push(*name);
        }
    }
    let share = 1.0 - differing.len() as f64 / all.len() as f64;
    eprintln!(
        "{language}: {} of {} agree ({share:.3})",
        all.len() - differing.len(),
        all.len()
    );
    assert_eq!(differing, known);
    assert!(share >= least, "{share}");
}

#[test]
#[ignore = "needs python3"]
fn python_output_matches_the_real_python() {
    assert!(programs(PYTHON).len() >= 150);
    let known = [
        // System errors have the numbers of WASI.
        "file errors",
        // WASI has no processes.
        "subprocess",
        // `bz2`, `lzma` and `ssl` are libraries in C.
        "compression formats",
        "sockets are known",
    ];
    compare("python3", "python", PYTHON, &known, 0.97);
}

#[test]
#[ignore = "needs bash and what a machine has with it"]
fn bash_output_matches_the_real_bash() {
    assert!(programs(BASH).len() >= 60);
    // `set -u` ends a script with 1, and stdin is available again to the command after the one that read it.
    compare("bash", "bash", BASH, &["nounset", "stdin"], 0.97);
}

#[test]
fn bash_output_matches_recorded_bash() {
    let mut differing = Vec::new();
    for (name, text) in programs(RECORDED) {
        let (code, answer) = text.split_once("\n=== ").unwrap();
        let (exit, stdout) = answer.split_once('\n').unwrap();
        let ours = CodeFixture::new().run("bash", code);
        if (ours.stdout.as_str(), ours.code.to_string().as_str()) != (stdout, exit) {
            eprintln!("--- {name}\nours: {ours:?}\nbash: {exit} {stdout:?}");
            differing.push(name);
        }
    }
    assert!(differing.is_empty(), "{differing:?}");
}

// bash ends with 1 here, and with 2 for every other syntax error.
#[test]
fn bash_array_without_an_end_is_a_syntax_error() {
    for code in [
        "echo a\na=(1 2\necho b",
        "echo a\na+=(1",
        "echo a\ndeclare -a a=(1 2\necho b",
        "echo a\na=(1 'x'\"y\"\necho ${a[@]}",
    ] {
        let result = CodeFixture::new().run("bash", code);
        let output = "unexpected EOF while looking for matching `)'";
        assert!(result.stderr.contains(output), "{code}: {result:?}");
        assert_ne!(result.code, 0, "{code}: {result:?}");
        assert!(!result.stdout.contains('b'), "{code}: {result:?}");
    }
}

#[test]
fn bash_names_the_limit_it_reached_and_stops() {
    for (code, sentence) in [
        ("head -c 1000000000 /dev/zero | wc -c", "read fewer"),
        ("head -c 2000000 < /dev/zero | wc -c", "name the device"),
        ("cat /dev/zero | head -c 2000000 | wc -c", "name the device"),
        ("x=$(yes); echo ${#x}", "write less"),
        ("seq 100000000 > f; wc -l f", "write less"),
        ("echo {1..100000000} | wc -w", "max 10000000"),
        ("f() { f; }; f", "use a loop"),
        ("f() { echo $(f); }; f", "substitution depth exceeded"),
    ] {
        let code = format!("{code}; echo on");
        let outcome = CodeFixture::new().call(json!({"language": "bash", "code": code}));
        // The memory limit of the call may apply before the limit of the command.
        if let Err(error) = outcome.result() {
            assert_eq!(
                error.code,
                ToolErrorCode::LimitExceeded,
                "{code}: {error:?}"
            );
            continue;
        }
        let result = code_result(&outcome);
        assert_ne!(result.code, 0, "{code}: {result:?}");
        assert!(result.stdout.is_empty(), "{code}: {result:?}");
        assert!(result.stderr.contains(sentence), "{code}: {result:?}");
    }
}

#[test]
fn bash_functions_call_each_other_hundreds_deep() {
    let result = CodeFixture::new().run(
        "bash",
        "down() { local n=$1; if ((n > 0)); then for i in 1; do case x in x) down $((n - 1));; esac; done; fi; }
        down 240 && echo functions
        sub() { if (($1 > 0)); then echo $(sub $(($1 - 1))); else echo substitutions; fi; }
        sub 55
        both() { if (($1 > 0)); then (down 100; both $(($1 - 1))); else echo both; fi; }
        both 50",
    );
    assert_eq!(
        (result.stdout.as_str(), result.code),
        ("functions\nsubstitutions\nboth\n", 0),
        "{result:?}"
    );
}
