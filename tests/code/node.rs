//! JavaScript compared with Node: typical snippets of models, and the output of Node 22.

use serde_json::json;

use super::{Place, left};

/// Snippets by name, each with Node's output. It is recorded, so that Node is not needed.
const SNIPPETS: &str = include_str!("node.txt");

#[test]
fn javascript_output_matches_node() {
    let all: Vec<&str> = SNIPPETS.split("### ").skip(1).collect();
    assert!(all.len() >= 50, "{}", all.len());
    let mut wrong = Vec::new();
    for snippet in all {
        let (name, rest) = snippet.split_once('\n').unwrap();
        let (code, wanted) = rest.split_once("=== gives\n").unwrap();
        let place = Place::new();
        let outcome = place.call(json!({
            "language": "javascript", "code": code, "args": ["one", "two words"], "stdin": "a b\nc\n",
        }));
        let got = match outcome.is_ok() {
            true => {
                let left = left(&outcome);
                match (left.code, left.stderr.as_str()) {
                    (0, "") => left.stdout,
                    _ => format!("{}{}(exit code {})\n", left.stdout, left.stderr, left.code),
                }
            }
            false => outcome.text(),
        };
        if got != wanted {
            wrong.push(format!("### {name}\n{got}=== instead of\n{wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn javascript_unsettled_await_ends_with_code_13() {
    let place = Place::new();
    let never = "await new Promise(() => {}); console.log('never');";
    let code = format!("process.on('exit', (code) => console.log('exit', code)); {never}");
    let left = super::left(&place.call(json!({"language": "javascript", "code": code})));
    assert_eq!((left.code, left.stdout.as_str()), (13, "exit 13\n"));
    assert_eq!(left.stderr, "Warning: Detected unsettled top-level await\n");
    let code = "setTimeout(() => console.log('later'), 1); await new Promise((done) => setTimeout(done, 5));";
    let left = super::left(&place.call(json!({"language": "javascript", "code": code})));
    assert_eq!((left.code, left.stdout.as_str()), (0, "later\n"));
}

#[test]
fn javascript_errors_name_the_replacement_of_a_missing_module() {
    let place = Place::new();
    for (code, output) in [
        ("require('http')", "fetch"),
        ("import net from 'node:net';", "there are no sockets"),
        ("require('child_process').execSync('ls')", "`exec`"),
        ("require('worker_threads')", "Promise.all"),
        ("await import('node:sqlite')", "sqlite3"),
        ("require('left-pad')", "npm packages are not available"),
        ("require('./lib')", "there is no lib, required by main.js"),
        (
            "import { readfile } from 'fs';",
            "does not provide an export named 'readfile'",
        ),
        ("require('fs').symlinkSync('a', 'b')", "ENOSYS"),
        (
            "require('crypto').createCipheriv()",
            "createCipheriv is not available",
        ),
        ("new Date().toLocaleDateString('de-DE')", "only en-US is"),
        (
            "new Intl.DateTimeFormat('en-US', { timeZone: 'Asia/Tokyo' })",
            "only UTC is",
        ),
        ("eval('async function (')", "SyntaxError"),
        ("(0, eval)(\"import('fs')\")", "SyntaxError"),
    ] {
        let left = place.run("javascript", code);
        assert!(
            left.code == 1 && left.stderr.contains(output),
            "{code}: {left:?}"
        );
    }
}

#[test]
fn javascript_errors_have_their_class_and_their_stack() {
    let place = Place::new();
    std::fs::write(
        place.path().join("lib.ts"),
        "export type T = 1;\n\nexport function inner(x: T) {\n  throw new TypeError('boom');\n}\n",
    )
    .unwrap();
    let code = "import { inner } from './lib';\nfunction outer() {\n  inner(1);\n}\nouter();\n";
    let left = place.run("javascript", code);
    assert!(
        left.stderr
            .starts_with("Uncaught TypeError: boom\n    at inner (lib.ts:4:")
            && left.stderr.contains("at outer (main.js:3:"),
        "{left:?}"
    );
    let left = place.run("javascript", "throw new Error('plain')");
    assert!(
        left.stderr
            .starts_with("Uncaught Error: plain\n    at main.js:1:"),
        "{left:?}"
    );
    // The stack that a program reads has the same form.
    let code = "function f() { throw new RangeError('r'); }\ntry { f() } catch (e) { console.log(e.stack) }";
    let left = place.run("javascript", code);
    assert!(
        left.stdout
            .starts_with("RangeError: r\n    at f (main.js:1:"),
        "{left:?}"
    );
    for (code, output) in [
        ("throw 'text'", "Uncaught 'text'"),
        ("throw null", "Uncaught null"),
        ("require('fs').readFileSync('x')", "Uncaught Error: ENOENT"),
        (
            "Promise.reject(new TypeError('t'))",
            "Uncaught TypeError: t",
        ),
    ] {
        let left = place.run("javascript", code);
        assert!(
            left.code == 1 && left.stderr.starts_with(output),
            "{code}: {left:?}"
        );
    }
}

#[test]
fn javascript_file_access_is_limited_to_the_workspace() {
    let place = Place::new();
    std::fs::create_dir(place.path().join(".mimir")).unwrap();
    std::fs::write(place.path().join(".env"), "SECRET=1").unwrap();
    for code in [
        "fs.readFileSync('/etc/passwd')",
        "fs.readFileSync('../x')",
        "fs.readFileSync('.env')",
        "fs.writeFileSync('.mimir/config.yml', '')",
        "fs.renameSync('.mimir', 'm')",
        "fs.rmSync('.mimir', { recursive: true })",
        "fs.writeFileSync('/etc/x', '')",
        "require('./.env')",
    ] {
        let left = place.run("javascript", &format!("const fs = require('fs');\n{code}"));
        assert_eq!(left.code, 1, "{code}: {left:?}");
        assert!(!left.stderr.contains("SECRET"), "{code}: {left:?}");
    }
    assert!(place.path().join(".mimir").is_dir());
}
