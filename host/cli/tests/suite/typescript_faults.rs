//! Plugins in TypeScript that fail to build or to run.

use std::fs;

use crate::kit::modules::{build, built};
use crate::kit::run;
use crate::kit::scripts::{call, text, workspace};
use serde_json::Value;

#[test]
fn typescript_runtime_errors_have_a_code_and_line() {
    let home = built(
        "const inputSchema = { type: 'object' };
const description = 'A test.'; setTimeout(() => {}, 1);
const needsApproval = false;
type Unused = { a: string };
function deep(): never {
  throw new RangeError('too far');
}
export const fails = { description, inputSchema, needsApproval, async execute() { await null; deep(); } };
export const nothing = { description, inputSchema, needsApproval, execute() { throw null; } };
export const never = { description, inputSchema, needsApproval, execute: () => new Promise(() => {}) };
export const symbol = { description, inputSchema, needsApproval, execute: () => Symbol('x') };
export const halves = { description, inputSchema, needsApproval, execute: () => 'a\\ud800b' };
export const loops = { description, inputSchema, needsApproval, async execute() { for (;;) await null; } };
export const recurses = { description, inputSchema, needsApproval, execute() { const f = () => f() + 1; return f(); } };
export const large = { description, inputSchema, needsApproval, execute: () => 'x'.repeat(100 << 20) };
",
    );
    let home = home.path();
    let failure = |tool: &str| {
        let (exit, out, err) = run(home, &["call", tool, "--json", "--timeout", "20s"]);
        let outcome: Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        (exit, outcome["error"].clone())
    };
    let (_, error) = failure("fails");
    assert_eq!(error["code"], "EXECUTION_ERROR", "{error:#}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("RangeError: too far") && message.contains("tools.ts:6:"),
        "{message}"
    );
    assert!(message.contains("deep"), "{message}");
    for (tool, part) in [
        ("nothing", "threw null"),
        ("never", "never ends"),
        ("symbol", "neither text nor JSON"),
    ] {
        let (_, error) = failure(tool);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part), "{tool}: {message}");
    }
    for (tool, codes) in [
        // Either limit may be reached first.
        ("loops", "TIMEOUT LIMIT_EXCEEDED"),
        ("recurses", "EXECUTION_ERROR"),
        ("large", "LIMIT_EXCEEDED EXECUTION_ERROR"),
    ] {
        let (_, error) = failure(tool);
        let code = error["code"].as_str().unwrap();
        assert!(codes.split(' ').any(|one| one == code), "{tool}: {error:#}");
    }
    let outcome = call(home, &["halves"]);
    assert_eq!(text(&outcome), "a\u{fffd}b");
}

#[test]
fn typescript_build_errors_have_line_and_column() {
    let tool = "description: 'x', execute: () => 1";
    for (code, output) in [
        (
            "export const a = {\n  let\n};\n".to_owned(),
            "tools.ts:2:3: ",
        ),
        (
            "const x = 1;\nconst x = 2;\n".to_owned(),
            "tools.ts:1:7: Identifier `x` has already been declared",
        ),
        (
            "\nexport function add(a) { return a; }\n".to_owned(),
            "tools.ts:2:17: the function `add` is exported without a schema: export `addSchema`",
        ),
        (
            "export const addSchema = { type: 'object' };".to_owned(),
            "tools.ts:1:14: `addSchema` is the schema of a function `add`, which is not exported",
        ),
        (
            format!("\n\nexport const a = {{ inputSchema: {{ type: 'string' }}, {tool} }};"),
            "tools.ts:3:14: `inputSchema` is a schema of a string, not of an object",
        ),
        (
            format!("export const a = {{ inputSchema: 7, {tool} }};"),
            "tools.ts:1:14: `inputSchema` is a number, not a schema",
        ),
        (
            format!(
                "export const a = {{ inputSchema: {{ type: 'object', properties: 3 }}, {tool} }};"
            ),
            "tools.ts:1:14: `inputSchema`: ",
        ),
        (
            format!(
                "export const a = {{ inputSchema: {{ type: 'object' }}, approve: true, {tool} }};"
            ),
            "tools.ts:1:14: `approve` is not a key of a tool",
        ),
        (
            format!(
                "export const a = {{ inputSchema: {{ type: 'object' }}, needs: {{ file: ['.'] }}, {tool} }};"
            ),
            "tools.ts:1:14: `needs`: unknown field `file`",
        ),
        (
            "export const a = { inputSchema: { type: 'object' }, execute: 1 };".to_owned(),
            "tools.ts:1:14: `a` looks like a tool but has no function `execute`",
        ),
        (
            "export const a = 1;".to_owned(),
            "the file exports no tools",
        ),
        (
            "export default () => 1;".to_owned(),
            "tools.ts:1:1: `export default` is not a tool: expected an object with `execute`",
        ),
        (
            "\nnull.x;\nexport const a = 1;".to_owned(),
            "tools.ts:2:1: the module fails to load: ",
        ),
        ("while (true) {}".to_owned(), "the module fails to load: "),
        (
            "await fetch('x');".to_owned(),
            "tools.ts:1:1: `await` outside of a function",
        ),
        (
            "import { toolkit } from 'mimir';".to_owned(),
            "tools.ts:1:10: `mimir` does not export `toolkit`: it exports defineTool and types",
        ),
        (
            "\nimport { z } from 'zod';\n".to_owned(),
            "tools.ts:2:1: `zod` is imported, but no bundler was found: run `npm install esbuild`",
        ),
        (
            "export const f = () => import('./other.ts');".to_owned(),
            "tools.ts:1:24: `import()` is used, but no bundler was found",
        ),
    ] {
        let home = workspace(&[]);
        let (exit, out) = build(home.path(), &code);
        assert!(exit != 0 && out.contains(output), "{code}\n{output}\n{out}");
        let made = fs::read_dir(home.path().join(".mimir/tools")).unwrap();
        assert_eq!(made.count(), 0, "{code}");
    }
}

#[test]
fn typescript_rebuild_reports_removed_tools() {
    let one = |name: &str| {
        format!(
            "export const {name} = {{ description: 'A test.', inputSchema: {{ type: 'object' }}, needsApproval: false, execute: () => 'x' }};\n"
        )
    };
    let home = built(&one("first"));
    let (exit, err) = build(home.path(), &format!("{}{}", one("first"), one("more")));
    assert!(exit == 0 && !err.contains("is gone"), "{err}");
    let (exit, err) = build(home.path(), &one("second"));
    assert_eq!(exit, 0, "{err}");
    assert!(
        err.contains("is gone, with its tools: first, more"),
        "{err}"
    );
}
