//! JavaScript compared with Node: typical snippets of models, and the output of Node 22.

use serde_json::json;

use super::{CodeFixture, code_result};

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
        let fixture = CodeFixture::new();
        let outcome = fixture.call(json!({
            "language": "javascript", "code": code, "args": ["one", "two words"], "stdin": "a b\nc\n",
        }));
        let got = match outcome.is_ok() {
            true => {
                let result = code_result(&outcome);
                match (result.code, result.stderr.as_str()) {
                    (0, "") => result.stdout,
                    _ => format!(
                        "{}{}(exit code {})\n",
                        result.stdout, result.stderr, result.code
                    ),
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
    let fixture = CodeFixture::new();
    let never = "await new Promise(() => {}); console.log('never');";
    let code = format!("process.on('exit', (code) => console.log('exit', code)); {never}");
    let result = super::code_result(&fixture.call(json!({"language": "javascript", "code": code})));
    assert_eq!((result.code, result.stdout.as_str()), (13, "exit 13\n"));
    assert_eq!(
        result.stderr,
        "Warning: Detected unsettled top-level await\n"
    );
    let code = "setTimeout(() => console.log('later'), 1); await new Promise((done) => setTimeout(done, 5));";
    let result = super::code_result(&fixture.call(json!({"language": "javascript", "code": code})));
    assert_eq!((result.code, result.stdout.as_str()), (0, "later\n"));
}

#[test]
fn javascript_errors_name_the_replacement_of_a_missing_module() {
    let fixture = CodeFixture::new();
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
        let result = fixture.run("javascript", code);
        assert!(
            result.code == 1 && result.stderr.contains(output),
            "{code}: {result:?}"
        );
    }
}

#[test]
fn javascript_errors_have_their_class_and_their_stack() {
    let fixture = CodeFixture::new();
    std::fs::write(
        fixture.path().join("lib.ts"),
        "export type T = 1;\n\nexport function inner(x: T) {\n  throw new TypeError('boom');\n}\n",
    )
    .unwrap();
    let code = "import { inner } from './lib';\nfunction outer() {\n  inner(1);\n}\nouter();\n";
    let result = fixture.run("javascript", code);
    assert!(
        result
            .stderr
            .starts_with("Uncaught TypeError: boom\n    at inner (lib.ts:4:")
            && result.stderr.contains("at outer (main.js:3:"),
        "{result:?}"
    );
    let result = fixture.run("javascript", "throw new Error('plain')");
    assert!(
        result
            .stderr
            .starts_with("Uncaught Error: plain\n    at main.js:1:"),
        "{result:?}"
    );
    // The stack that a program reads has the same form.
    let code = "function f() { throw new RangeError('r'); }\ntry { f() } catch (e) { console.log(e.stack) }";
    let result = fixture.run("javascript", code);
    assert!(
        result
            .stdout
            .starts_with("RangeError: r\n    at f (main.js:1:"),
        "{result:?}"
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
        let result = fixture.run("javascript", code);
        assert!(
            result.code == 1 && result.stderr.starts_with(output),
            "{code}: {result:?}"
        );
    }
}

#[test]
fn javascript_file_access_is_limited_to_the_workspace() {
    let fixture = CodeFixture::new();
    std::fs::create_dir(fixture.path().join(".mimir")).unwrap();
    std::fs::write(fixture.path().join(".env"), "SECRET=1").unwrap();
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
        let result = fixture.run("javascript", &format!("const fs = require('fs');\n{code}"));
        assert_eq!(result.code, 1, "{code}: {result:?}");
        assert!(!result.stderr.contains("SECRET"), "{code}: {result:?}");
    }
    assert!(fixture.path().join(".mimir").is_dir());
}
