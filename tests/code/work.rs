//! What code is given and what comes of it, in each language.

use std::time::{Duration, Instant};

use mimir_core::Code;
use mimir_core::needs::Access;
use serde_json::json;

use super::{Place, left};

#[test]
fn each_language_has_arguments_environment_stdin_and_an_exit_code() {
    let place = Place::new();
    for (language, code) in [
        (
            "python",
            "import sys, os\nprint(sys.argv[1:], os.environ['GREETING'], repr(sys.stdin.read()))\nprint('e', file=sys.stderr)\nsys.exit(3)",
        ),
        (
            "bash",
            "printf \"['%s', '%s'] $GREETING 'a b\\\\\\\\nc\\\\\\\\n'\\n\" \"$@\"\nread -r x; [ \"$x\" = 'a b' ] && echo e >&2\nexit 3",
        ),
        (
            "javascript",
            "console.log(`['${process.argv.slice(2).join(\"', '\")}']`, process.env.GREETING, `'${require('fs').readFileSync(0).replaceAll('\\n', '\\\\n')}'`);\nconsole.error('e');\nprocess.exit(3);",
        ),
    ] {
        let left = place.run(language, code);
        let wanted = "['one', 'two words'] hi 'a b\\nc\\n'\n";
        assert_eq!(
            (left.stdout.as_str(), left.stderr.as_str(), left.code),
            (wanted, "e\n", 3),
            "{language}"
        );
    }
}

#[test]
fn files_are_those_of_the_workspace() {
    for (language, code) in [
        (
            "python",
            "open('out.txt', 'w').write(open('in.txt').read().upper()); import os; print(os.getcwd())",
        ),
        ("bash", "tr a-z A-Z < in.txt > out.txt; pwd"),
        (
            "javascript",
            "const { promises } = require('fs');\nawait promises.writeFile('out.txt', (await promises.readFile('in.txt', 'utf-8')).toUpperCase()); console.log('/workspace')",
        ),
    ] {
        let place = Place::new();
        std::fs::write(place.path().join("in.txt"), "hällo").unwrap();
        let left = place.run(language, code);
        assert_eq!(
            (left.stdout.as_str(), left.code),
            ("/workspace\n", 0),
            "{language}: {left:?}"
        );
        let out = std::fs::read_to_string(place.path().join("out.txt")).unwrap();
        // `tr` knows ASCII, as the real one does.
        assert!(
            ["HÄLLO", "HäLLO"].contains(&out.as_str()),
            "{language}: {out}"
        );
    }
}

#[test]
fn nothing_is_written_where_nothing_may_be() {
    let place = Place::with(Access::Read);
    std::fs::write(place.path().join("in.txt"), "x").unwrap();
    for (language, code) in [
        (
            "python",
            "print(open('in.txt').read())\nopen('out.txt', 'w')",
        ),
        ("bash", "cat in.txt; echo; echo y > out.txt"),
    ] {
        let left = place.run(language, code);
        assert!(
            left.stdout.starts_with('x') && left.code != 0,
            "{language}: {left:?}"
        );
        assert!(!place.path().join("out.txt").exists(), "{language}");
    }
}

#[test]
fn output_up_to_a_kill_is_kept() {
    let place = Place::new();
    for (language, code) in [
        ("python", "import time\nprint('before')\ntime.sleep(60)"),
        ("python", "print('before')\nwhile True: pass"),
        ("bash", "echo before; sleep 60"),
        ("bash", "echo before; while :; do :; done"),
        (
            "javascript",
            "console.log('before'); await new Promise((r) => setTimeout(r, 60000))",
        ),
        ("javascript", "console.log('before'); while (true);"),
    ] {
        // The engine is there before the clock ticks.
        place.run(language, "");
        let start = Instant::now();
        let outcome = place.call(json!({"language": language, "code": code, "timeout": 500}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, Code::Timeout, "{language}: {error}");
        let details = error.details.as_ref().unwrap();
        assert_eq!(details["output"], "before\n", "{language}");
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{language}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn nothing_of_one_run_is_there_in_the_next() {
    let place = Place::new();
    let python = "import sys, os\nprint(hasattr(sys, 'mine'), os.path.exists('/tmp/x'), os.environ.get('MINE'))\nsys.mine = 1\nopen('/tmp/x', 'w').close()\nos.environ['MINE'] = '1'";
    let bash = "[ -e /tmp/x ] && echo there || echo gone; touch /tmp/x";
    for _ in 0..2 {
        assert_eq!(place.run("python", python).stdout, "False False None\n");
        assert_eq!(place.run("bash", bash).stdout, "gone\n");
    }
}

#[test]
fn bash_runs_python_with_its_files() {
    let place = Place::new();
    let code = "echo 'print(6 * 7)' > /tmp/a.py; python3 /tmp/a.py; echo '[1, 2]' > data.json
        python3 -c 'import json, sys; print(sum(json.load(open(\"data.json\"))), sys.stdin.read().strip())' <<< hi
        python3 - <<< 'import sys; sys.exit(4)'; echo $?";
    let left = place.run("bash", code);
    assert_eq!(left.stdout, "42\n3 hi\n4\n", "{left:?}");
}

#[test]
fn javascript_fails_as_programs_do() {
    let place = Place::new();
    let left = place.run("javascript", "console.log(1);\nthrow new RangeError('no');");
    assert_eq!((left.stdout.as_str(), left.code), ("1\n", 1));
    assert!(
        left.stderr
            .starts_with("Uncaught RangeError: no\n    at main.js:2:"),
        "{left:?}"
    );
    let left = place.run("javascript", "Promise.reject(new Error('lost'));");
    assert_eq!(left.code, 1, "{left:?}");
    let left = place.run("javascript", "let x = ;");
    assert!(
        left.code == 1 && left.stderr.contains("main.js:1:"),
        "{left:?}"
    );
    let left = place.run("javascript", "setTimeout(() => console.log('late'), 20); const t = setTimeout(() => {}, 1e7); clearTimeout(t); (async () => { await null; console.log('then'); })(); console.log('first')");
    assert_eq!(
        (left.stdout.as_str(), left.code),
        ("first\nthen\nlate\n", 0)
    );
    assert!(left_of_a_module(&place).contains("Cannot find module"));
}

fn left_of_a_module(place: &Place) -> String {
    let outcome = place.call(json!({"language": "javascript", "code": "require('left-pad')"}));
    left(&outcome).stderr
}
