//! Input and results of code, in each language.

use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_core::needs::DirectoryAccess;
use serde_json::{Value, json};

use super::{CodeFixture, code_result};

#[test]
fn code_gets_args_environment_stdin_and_an_exit_code() {
    let fixture = CodeFixture::new();
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
            "console.log(`['${process.argv.slice(2).join(\"', '\")}']`, process.env.GREETING, `'${require('fs').readFileSync(0, 'utf8').replaceAll('\\n', '\\\\n')}'`);\nconsole.error('e');\nprocess.exit(3);",
        ),
    ] {
        let result = fixture.run(language, code);
        let wanted = "['one', 'two words'] hi 'a b\\nc\\n'\n";
        assert_eq!(
            (result.stdout.as_str(), result.stderr.as_str(), result.code),
            (wanted, "e\n", 3),
            "{language}"
        );
    }
}

#[test]
fn code_reads_and_writes_workspace_files() {
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
        let fixture = CodeFixture::new();
        std::fs::write(fixture.path().join("in.txt"), "hällo").unwrap();
        let result = fixture.run(language, code);
        assert_eq!(
            (result.stdout.as_str(), result.code),
            ("/workspace\n", 0),
            "{language}: {result:?}"
        );
        let out = std::fs::read_to_string(fixture.path().join("out.txt")).unwrap();
        // `tr` handles ASCII only, as the real one does.
        assert!(
            ["HÄLLO", "HäLLO"].contains(&out.as_str()),
            "{language}: {out}"
        );
    }
}

#[test]
fn code_cannot_write_with_read_only_access() {
    let fixture = CodeFixture::with(DirectoryAccess::Read);
    std::fs::write(fixture.path().join("in.txt"), "x").unwrap();
    for (language, code) in [
        (
            "python",
            "print(open('in.txt').read())\nopen('out.txt', 'w')",
        ),
        ("bash", "cat in.txt; echo; echo y > out.txt"),
    ] {
        let result = fixture.run(language, code);
        assert!(
            result.stdout.starts_with('x') && result.code != 0,
            "{language}: {result:?}"
        );
        assert!(!fixture.path().join("out.txt").exists(), "{language}");
    }
}

#[test]
fn code_output_before_a_timeout_is_reported() {
    let fixture = CodeFixture::new();
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
        // The engine is compiled before the time limit applies.
        fixture.run(language, "");
        let start = Instant::now();
        let outcome = fixture.call(json!({"language": language, "code": code, "timeout": 3_000}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Timeout, "{language}: {error}");
        let details = error.details.as_ref().unwrap();
        assert_eq!(details["output"], "before\n", "{language}");
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{language}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn code_runs_without_a_session_share_no_state() {
    let fixture = CodeFixture::new();
    let python = "import sys, os\nprint(hasattr(sys, 'mine'), os.path.exists('/tmp/x'), os.environ.get('MINE'))\nsys.mine = 1\nopen('/tmp/x', 'w').close()\nos.environ['MINE'] = '1'";
    let bash = "[ -e /tmp/x ] && echo there || echo gone; touch /tmp/x";
    for _ in 0..2 {
        assert_eq!(fixture.run("python", python).stdout, "False False None\n");
        assert_eq!(fixture.run("bash", bash).stdout, "gone\n");
    }
}

#[test]
fn bash_runs_python_with_its_files() {
    let fixture = CodeFixture::new();
    let code = "echo 'print(6 * 7)' > /tmp/a.py; python3 /tmp/a.py; echo '[1, 2]' > data.json
        python3 -c 'import json, sys; print(sum(json.load(open(\"data.json\"))), sys.stdin.read().strip())' <<< hi
        python3 - <<< 'import sys; sys.exit(4)'; echo $?";
    let result = fixture.run("bash", code);
    assert_eq!(result.stdout, "42\n3 hi\n4\n", "{result:?}");
}

#[test]
fn bash_line_by_line_reading_takes_linear_fuel() {
    let fixture = CodeFixture::new();
    let fuel = |lines: usize, code: &str| {
        let text: String = (0..lines)
            .map(|line| format!("this is line {line} of a file\n"))
            .collect();
        std::fs::write(fixture.path().join("in.txt"), text).unwrap();
        let outcome = fixture.call(json!({"language": "bash", "code": code}));
        assert_eq!(code_result(&outcome).stdout, format!("{lines}\n"), "{code}");
        outcome.receipt().fuel.unwrap() as f64
    };
    for code in [
        "n=0; while read -r line; do n=$((n+1)); done < in.txt; echo $n",
        "n=0; while read -r line; do true \"$line\"; n=$((n+1)); done < in.txt; echo $n",
        "n=0; while read -r a b; do n=$((n+1)); done <<< \"$(cat in.txt)\"; echo $n",
        "n=0; while read -r line; do n=$((n+1)); done < <(cat in.txt); echo $n",
    ] {
        let (few, many) = (fuel(1_000, code), fuel(20_000, code));
        // Both include the start of the engine. If each line copied the rest of the text, the factor would be about a
        // hundred.
        assert!(many < 25.0 * few, "{code}: {few} and {many}");
    }
}

#[test]
fn javascript_uncaught_errors_end_with_exit_code_1() {
    let fixture = CodeFixture::new();
    let result = fixture.run("javascript", "console.log(1);\nthrow new RangeError('no');");
    assert_eq!((result.stdout.as_str(), result.code), ("1\n", 1));
    assert!(
        result
            .stderr
            .starts_with("Uncaught RangeError: no\n    at main.js:2:"),
        "{result:?}"
    );
    let result = fixture.run("javascript", "Promise.reject(new Error('lost'));");
    assert_eq!(result.code, 1, "{result:?}");
    let result = fixture.run("javascript", "let x = ;");
    assert!(
        result.code == 1 && result.stderr.contains("main.js:1:"),
        "{result:?}"
    );
    let result = fixture.run("javascript", "setTimeout(() => console.log('late'), 20); const t = setTimeout(() => {}, 1e7); clearTimeout(t); (async () => { await null; console.log('then'); })(); console.log('first')");
    assert_eq!(
        (result.stdout.as_str(), result.code),
        ("first\nthen\nlate\n", 0)
    );
    assert!(left_of_a_module(&fixture).contains("Cannot find module"));
}

fn left_of_a_module(fixture: &CodeFixture) -> String {
    let outcome = fixture.call(json!({"language": "javascript", "code": "require('left-pad')"}));
    code_result(&outcome).stderr
}

/// The undo record, if there is one.
fn record(fixture: &CodeFixture) -> Option<Value> {
    let folder = fixture.path().join(".mimir/state/backups");
    let mut records: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    records.sort();
    let last = records.pop()?;
    Some(serde_json::from_slice(&std::fs::read(last).unwrap()).unwrap())
}

/// Each change as path, old state and new state; a backed-up file by its content.
fn changes(fixture: &CodeFixture) -> Vec<(String, String, String)> {
    let record = record(fixture).unwrap();
    let folder = fixture.path().join(".mimir/state/backups");
    let told = |state: &Value| match state["backup"].as_str() {
        Some(copy) => std::fs::read_to_string(folder.join(copy)).unwrap(),
        None => state["kind"].as_str().unwrap().to_owned(),
    };
    let all = record["changes"].as_array().unwrap().iter();
    let mut all: Vec<_> = all
        .map(|one| {
            let path = one["path"].as_str().unwrap().to_owned();
            (path, told(&one["before"]), told(&one["after"]))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn undo_records_files_changed_by_code() {
    let change = |path: &str, before: &str, after: &str| {
        (path.to_owned(), before.to_owned(), after.to_owned())
    };
    let mut wanted = vec![
        change("d", "directory", "absent"),
        change("d/e.txt", "E", "absent"),
        change("gone.txt", "G", "absent"),
        change("new.txt", "absent", "file"),
        change("over.txt", "O", "file"),
        change("from.txt", "F", "absent"),
    ];
    wanted.sort();
    for (language, code) in [
        (
            "python",
            "import os, shutil\nopen('over.txt', 'a').write('x')\nos.remove('gone.txt')\nshutil.rmtree('d')\nos.rename('from.txt', 'new.txt')\nopen('same.txt', 'r+').close()\nopen('same.txt').read()\nopen('/tmp/x', 'w').write('x')",
        ),
        (
            "bash",
            "echo x >> over.txt; rm gone.txt; rm -r d; python3 -c 'import os; os.rename(\"from.txt\", \"new.txt\")'; cat same.txt; echo x > /tmp/x",
        ),
        (
            "javascript",
            "const fs = require('fs/promises'); await fs.writeFile('over.txt', 'x'); await fs.rm('gone.txt'); await fs.rm('d', { recursive: true }); await fs.writeFile('new.txt', await fs.readFile('from.txt')); await fs.rm('from.txt'); await fs.readFile('same.txt');",
        ),
    ] {
        let fixture = CodeFixture::new();
        std::fs::create_dir(fixture.path().join("d")).unwrap();
        for (path, text) in [
            ("d/e.txt", "E"),
            ("gone.txt", "G"),
            ("over.txt", "O"),
            ("from.txt", "F"),
            ("same.txt", "S"),
        ] {
            std::fs::write(fixture.path().join(path), text).unwrap();
        }
        let result = fixture.run(language, code);
        assert_eq!(result.code, 0, "{language}: {result:?}");
        assert_eq!(changes(&fixture), wanted, "{language}");
        assert_eq!(record(&fixture).unwrap()["tool"], "run");
    }
}

#[test]
fn undo_record_of_a_new_file_has_no_hash() {
    let fixture = CodeFixture::new();
    for (language, code) in [
        ("python", "open('new', 'wb').truncate(1 << 30)"),
        ("bash", "python3 -c \"open('new', 'wb').truncate(1 << 30)\""),
    ] {
        let result = fixture.run(language, code);
        assert_eq!(result.code, 0, "{result:?}");
        let record = record(&fixture).unwrap();
        let change = &record["changes"][0];
        assert_eq!(change["before"], json!({"kind": "absent"}));
        let after = &change["after"];
        assert_eq!(
            (&after["size"], after.get("sha256")),
            (&json!(1 << 30), None),
            "{after}"
        );
        assert!(after["modified"].is_i64());
        std::fs::remove_file(fixture.path().join("new")).unwrap();
    }
    // Existing files are compared, so writing the same content is not a change.
    std::fs::write(fixture.path().join("same"), "same").unwrap();
    std::fs::write(fixture.path().join("other"), "same").unwrap();
    let code = "for name in ('same', 'other'): open(name, 'w').write(name[:4])";
    assert_eq!(fixture.run("python", code).code, 0);
    let paths = changes(&fixture).into_iter().map(|change| change.0);
    assert_eq!(paths.collect::<Vec<_>>(), ["other"]);
}

#[test]
fn undo_records_session_changes_per_call() {
    let fixture = CodeFixture::new();
    for name in ["a", "b"] {
        std::fs::write(fixture.path().join(name), name).unwrap();
    }
    let run = |code: &str| {
        let outcome = fixture.call(json!({"language": "python", "code": code, "session": "s"}));
        assert_eq!(code_result(&outcome).code, 0, "{}", outcome.text());
    };
    run("f = open('a', 'r+')\nf.write('1')\nf.flush()");
    let wanted =
        |path: &str, before: &str| vec![(path.to_owned(), before.to_owned(), "file".to_owned())];
    assert_eq!(changes(&fixture), wanted("a", "a"));
    run("open('b', 'w').write('2')");
    assert_eq!(changes(&fixture), wanted("b", "b"));
    // Through a handle that is older than the call.
    run("f.write('3')\nf.flush()");
    assert_eq!(changes(&fixture), wanted("a", "1"));
    let first = record(&fixture).unwrap()["id"].clone();
    run("print(open('a').read())");
    assert_eq!(
        record(&fixture).unwrap()["id"],
        first,
        "nothing was changed"
    );
}

#[test]
fn code_cannot_change_files_too_large_for_undo() {
    let fixture = CodeFixture::new();
    let file = std::fs::File::create(fixture.path().join("large")).unwrap();
    file.set_len(101 << 20).unwrap();
    for (language, code) in [
        ("python", "import os\nos.remove('large')"),
        ("python", "open('large', 'w')"),
        ("bash", "rm large"),
        ("javascript", "await require('fs/promises').rm('large')"),
    ] {
        let outcome = fixture.call(json!({"language": language, "code": code}));
        let output = match outcome.is_ok() {
            true => {
                let result = code_result(&outcome);
                assert_ne!(result.code, 0, "{language}: {result:?}");
                result.stderr
            }
            false => outcome.text(),
        };
        assert!(output.contains("backend: process"), "{language}: {output}");
        assert_eq!(
            fixture.path().join("large").metadata().unwrap().len(),
            101 << 20
        );
    }
    // A call that is stopped midway can still be undone.
    std::fs::write(fixture.path().join("a"), "a").unwrap();
    let code = "open('a', 'w').close()\nwhile True: pass";
    let outcome = fixture.call(json!({"language": "python", "code": code, "timeout": 5_000}));
    assert_eq!(outcome.result().unwrap_err().code, ToolErrorCode::Timeout);
    assert_eq!(
        changes(&fixture),
        [("a".to_owned(), "a".to_owned(), "file".to_owned())]
    );
}

#[test]
fn code_rejects_a_missing_start_folder() {
    let fixture = CodeFixture::new();
    std::fs::create_dir(fixture.path().join("src")).unwrap();
    std::fs::write(fixture.path().join("file"), "").unwrap();
    for language in ["python", "bash", "javascript"] {
        let call =
            |folder: &str| fixture.call(json!({"language": language, "code": "", "in": folder}));
        for there in ["src", ".", "/src/", "src/../src"] {
            assert!(
                call(there).is_ok(),
                "{language} {there}: {}",
                call(there).text()
            );
        }
        for absent in ["nope", "file", "../..", "/etc"] {
            let outcome = call(absent);
            let code = outcome.result().err().map(|error| error.code);
            assert_eq!(
                code,
                Some(ToolErrorCode::InvalidInput),
                "{language} {absent}"
            );
        }
    }
}
