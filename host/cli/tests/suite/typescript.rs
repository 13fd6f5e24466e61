//! Plugins in TypeScript: built without Node, and called like any other component.

use std::fs;
use std::path::Path;

use crate::kit::modules::built;
use crate::kit::scripts::{call, text, workspace};
use crate::kit::{config, mimir, run};
use serde_json::{Value, json};

fn value(outcome: &Value) -> Value {
    let text = text(outcome);
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{outcome:#}"))
}

fn info(home: &Path, tool: &str) -> Value {
    let (_, out, err) = run(home, &["tools", "info", tool, "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

/// Both forms of the specification's examples, and a default export.
const FORMS: &str = r#"
import { defineTool, type Context } from "mimir";
import type { NamedTool } from "golem-forge";

/**
 * Calculate the nth Fibonacci number
 * @param n which
 */
export function calculateFibonacci({ n }: { n: number }): number {
  if (n <= 1) return n;
  let a = 0, b = 1;
  for (let i = 2; i <= n; i++) [a, b] = [b, a + b];
  return b;
}

export const calculateFibonacciSchema = {
  type: "object",
  properties: { n: { type: "integer", minimum: 0, description: "Position in sequence" } },
  required: ["n"],
};

export const calculateFactorial: NamedTool = {
  name: 'calculateFactorial',
  description: 'Calculate a factorial',
  inputSchema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  needsApproval: false,
  execute: async ({ n }) => {
    let product = 1n;
    for (let i = 2n; i <= BigInt(n); i++) product *= i;
    return String(product);
  },
};

enum Kind { Small = 3 }
export const LIMIT = Kind.Small;
class Shape { constructor(readonly sides: number) {} }
export { Shape };

export default defineTool({
  name: "judged",
  description: "Asks about what is large.",
  inputSchema: { type: "object", properties: { n: { type: "number" } } },
  outputSchema: { type: "object", properties: { sides: { type: "number" } }, required: ["sides"] },
  needsApproval: ({ n }: { n: number }) => n > LIMIT,
  async execute({ n }: { n: number }, context: Context) {
    context.logger.info("judged");
    return new Shape(n ?? 1);
  },
});
"#;

#[test]
fn typescript_both_specified_forms_build_without_node() {
    let home = built(FORMS);
    let home = home.path();
    let outcome = call(home, &["calculate_fibonacci", "n=50"]);
    assert_eq!(text(&outcome), "12586269025");
    let (exit, out, err) = run(home, &["call", "calculate_factorial", "n=25"]);
    assert_eq!(
        (exit, out.trim()),
        (0, "15511210043330985984000000"),
        "{err}"
    );
    let fibonacci = info(home, "calculate_fibonacci");
    assert_eq!(
        fibonacci["description"], "Calculate the nth Fibonacci number",
        "{fibonacci:#}"
    );
    let shown = fibonacci.to_string();
    assert!(shown.contains("Position in sequence"), "{shown}");
    // A tool without an approval setting needs approval.
    let (exit, _, err) = run(home, &["call", "calculate_fibonacci", "n=5"]);
    assert_eq!(exit, 3, "{err}");
    // Its arguments are checked against its schema.
    let (exit, _, err) = run(home, &["call", "calculate_factorial", "n=x"]);
    assert_eq!(exit, 2, "{err}");
    // Other exports belong to the module itself and are no tools.
    let (_, out, _) = run(home, &["tools", "list"]);
    assert!(!out.contains("shape") && !out.contains("limit"), "{out}");
}

#[test]
fn typescript_tool_uses_needs_approval_and_output_schema() {
    let home = built(FORMS);
    let home = home.path();
    let outcome = call(home, &["judged", "n=4"]);
    assert_eq!(outcome["structured"], json!({"sides": 4}), "{outcome:#}");
    let (exit, out, err) = run(home, &["policy", "explain", "judged", "n=4", "--json"]);
    assert!(exit == 0 && out.contains("\"ask\""), "{out}{err}");
}

#[test]
fn typescript_component_imports_only_what_its_tools_need() {
    let home = built(FORMS);
    let judged = info(home.path(), "judged");
    let shown = judged.to_string();
    for proof in ["no-network", "no-commands", "no-tools"] {
        assert!(shown.contains(proof), "{proof}: {judged:#}");
    }
    assert!(!shown.contains("local:init"), "{judged:#}");
    let home = built(
        "export const sends = { description: 'x', inputSchema: { type: 'object' }, needs: { hosts: ['example.com'] }, execute: () => 1 };",
    );
    let sends = info(home.path(), "sends").to_string();
    assert!(
        !sends.contains("no-network") && sends.contains("no-commands"),
        "{sends}"
    );
    assert!(sends.contains("example.com"), "{sends}");
}

#[test]
fn typescript_tool_uses_its_granted_files_and_tools() {
    let home = built(
        r#"
export const uses = {
  description: "A test.",
  inputSchema: { type: "object" },
  needs: { files: [{ path: ".", access: "read-write" }], tools: ["file_info"] },
  async execute(args, { platform: { fs }, tools, conversation, config, storage }) {
    await fs.mkdir('out/deep');
    await fs.writeFile('out/deep/a.txt', 'hällo');
    await fs.writeFile('out/b.bin', new Uint8Array([0, 255]));
    const missing = await fs.readFile('nope').catch((error) => error.code);
    const shielded = [
      await fs.readFile('.env').catch((error) => error.code),
      await fs.writeFile('.mimir/config.yml', '').catch((error) => error.code),
      await fs.readFile('../x').catch((error) => error.code),
    ];
    await storage.set("count", ((await storage.get("count")) ?? 0) + 1);
    const result = {
      text: await fs.readFile('./out/deep/a.txt'),
      bytes: [...await fs.readFile('/out/b.bin', null)],
      found: await fs.glob('out/**/*.txt'),
      listed: await fs.list('out'),
      size: (await fs.stat('out/deep/a.txt')).size,
      missing,
      shielded,
      nested: (await tools.call('file_info', { path: 'out' })).success,
      at: conversation.workingDirectory + config.workingDirectory,
      count: await storage.get("count"),
      unasked: await context(() => tools.call("exec", { command: "id" })),
    };
    await fs.remove('out', { recursive: true });
    return { ...result, gone: !await fs.exists('out') };
  },
};
const context = (work) => work().then(() => "done", (error) => error.code);
"#,
    );
    fs::write(home.path().join(".env"), "SECRET=1").unwrap();
    for count in [1, 2] {
        let result = value(&call(home.path(), &["uses"]));
        let denied = "PERMISSION_DENIED";
        let wanted = json!({
            "text": "hällo", "bytes": [0, 255], "found": ["out/deep/a.txt"], "listed": ["b.bin", "deep"],
            "size": 6, "missing": "FILE_NOT_FOUND", "shielded": [denied, denied, denied], "nested": true,
            "at": "..", "count": count, "unasked": denied, "gone": true,
        });
        assert_eq!(result, wanted);
    }
}

#[test]
fn typescript_tool_reaches_only_granted_folders() {
    let home = built(
        r#"
const tried = (work) => work.then((done) => done ?? "done", (error) => error.code);
export const below = {
  description: "A test.", inputSchema: { type: "object" }, needsApproval: false,
  needs: { files: ["data", { path: "out/new", access: "read-write" }] },
  execute: async (args, { platform: { fs } }) => Promise.all([
    tried(fs.readFile("data/a.txt")),
    tried(fs.list("./data/")),
    tried(fs.writeFile("/out/new/b.txt", "b")),
    tried(fs.mkdir("out/new/deep/er")),
    tried(fs.writeFile("data/b.txt", "b")),
    tried(fs.readFile("tools.ts")),
    tried(fs.readFile("database")),
    tried(fs.readFile("data/../tools.ts")),
  ]),
};
"#,
    );
    for folder in ["data", "out/new"] {
        fs::create_dir_all(home.path().join(folder)).unwrap();
    }
    fs::write(home.path().join("data/a.txt"), "a").unwrap();
    fs::write(home.path().join("database"), "secret").unwrap();
    let result = value(&call(home.path(), &["below"]));
    let no = "PERMISSION_DENIED";
    assert_eq!(
        result,
        json!(["a", ["a.txt"], "done", "done", no, no, no, no])
    );
    assert!(home.path().join("out/new/deep/er").is_dir());
}

#[test]
fn typescript_tool_is_refused_rights_it_did_not_declare() {
    let home = built(
        r#"
export const asks = {
  description: "A test.", inputSchema: { type: "object" }, needs: {}, needsApproval: false,
  async execute(args, { platform, fetch, tools }) {
    const all = [
      () => platform.fs.readFile("tools.ts"),
      () => platform.executor.execute("id"),
      () => fetch("http://example.com/"),
      () => tools.call("exec", {}),
    ];
    const codes = [];
    for (const one of all) codes.push(await one().then(() => "done", (error) => error.code));
    return codes;
  },
};
"#,
    );
    let result = value(&call(home.path(), &["asks"]));
    assert_eq!(result, json!(vec!["PERMISSION_DENIED"; 4]));
}

#[cfg(unix)]
#[test]
fn typescript_tool_runs_commands_requests_and_timers() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..count]).into_owned();
            let answer = match request.starts_with("GET /old") {
                true => "HTTP/1.1 302 Found\r\nlocation: /new\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
                false => format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\nconnection: close\r\nx-saw: {}\r\n\r\n{{\"a\":\"h\u{e9}\"}}",
                    request.lines().next().unwrap()
                ),
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let home = built(
        r#"
export const reaches = {
  description: "A test.",
  inputSchema: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
  needs: { commands: ["echo *"], files: [{ path: ".", access: "read-write" }], hosts: [{ host: "127.0.0.1:PORT", methods: ["GET", "POST"] }] },
  async execute({ url }, { platform: { executor }, fetch }) {
    const start = Date.now();
    await Promise.all([1, 2, 3, 4].map(() => new Promise((done) => setTimeout(done, 1000))));
    const waited = Date.now() - start;
    const finished = await executor.execute({ command: "echo", args: ["hi"] });
    const [got, moved] = await Promise.all([fetch(url + "/a", { method: "POST", body: "the body" }), fetch(url + "/old")]);
    const random = Math.random();
    return {
      waited: waited >= 950 && waited < 3500, stdout: finished.stdout, status: got.status, json: await got.json(),
      saw: got.headers.get("x-saw"), redirected: moved.redirected, moved: moved.headers.get("x-saw"), random,
    };
  },
};
"#
        .replace("PORT", &port.to_string())
        .as_str(),
    );
    fs::create_dir_all(config(home.path())).unwrap();
    let settings =
        format!("sandbox: {{mode: none}}\nnetwork: {{allowedHosts: ['127.0.0.1:{port}']}}\n");
    fs::write(config(home.path()).join("config.yml"), settings).unwrap();
    let url = format!("url=http://127.0.0.1:{port}");
    let mut result = value(&call(home.path(), &["reaches", &url]));
    let first = result["random"].take();
    let wanted = json!({
        "waited": true, "stdout": "hi\n", "status": 200, "json": {"a": "hé"}, "saw": "POST /a HTTP/1.1",
        "redirected": true, "moved": "GET /new HTTP/1.1", "random": null,
    });
    assert_eq!(result, wanted);
    let again = value(&call(home.path(), &["reaches", &url]));
    assert_ne!(again["random"], first, "no two calls have the same");
}

#[test]
fn typescript_tool_sends_a_secret_that_it_never_sees() {
    use std::io::{Read as _, Write as _};
    const VALUE: &str = "s3cr3t-of-the-typescript-tool";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sent, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut request = vec![0; 4096];
        let count = stream.read(&mut request).unwrap();
        let request = String::from_utf8_lossy(&request[..count]).into_owned();
        sent.send(request).unwrap();
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let home = built(
        r#"
export const sends = {
  description: "A test.", inputSchema: { type: "object" }, needsApproval: false,
  needs: {
    hosts: [{ host: "127.0.0.1:PORT", methods: ["GET"] }],
    secrets: [{ name: "SITE_KEY", host: "127.0.0.1:PORT", header: "Authorization" }],
  },
  async execute(args, { fetch, env }) {
    const response = await fetch("http://127.0.0.1:PORT/", { headers: { Authorization: `Bearer ${env.SITE_KEY}` } });
    return { text: await response.text(), names: Object.keys(env), length: env.SITE_KEY.length };
  },
};
"#
        .replace("PORT", &port.to_string())
        .as_str(),
    );
    fs::create_dir_all(config(home.path())).unwrap();
    let settings = format!(
        "network: {{allowedHosts: ['127.0.0.1:{port}']}}\nsecrets: {{SITE_KEY: {{env: MY_SITE_KEY}}}}\n"
    );
    fs::write(config(home.path()).join("config.yml"), settings).unwrap();
    let output = mimir(
        home.path(),
        &["call", "sends", "--json", "--approve", "always"],
    )
    .env("MY_SITE_KEY", VALUE)
    .output()
    .unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = value(&outcome);
    assert_eq!(
        (&result["text"], &result["names"]),
        (&json!("ok"), &json!(["SITE_KEY"])),
        "{outcome}"
    );
    let request = received.recv().unwrap();
    assert!(
        request.contains(&format!("Bearer {VALUE}\r\n")),
        "{request}"
    );
    assert!(!outcome.to_string().contains(VALUE));
}

#[test]
fn tools_new_typescript_plugin_builds_and_runs() {
    let home = workspace(&[]);
    let home = home.path();
    let (exit, out, err) = run(home, &["tools", "new", "word-count", "--lang", "ts"]);
    assert_eq!(exit, 0, "{out}{err}");
    let output = mimir(home, &["tools", "build", "word-count"])
        .env("PATH", home)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let (exit, out, err) = run(home, &["call", "word_count", "name=you"]);
    assert_eq!((exit, out.trim()), (0, "Hello, you!"), "{err}");
}

/// The imports of the specification's examples. They are fetched from the npm registry, so this test is ignored by
/// default.
#[test]
#[ignore = "needs npm"]
fn typescript_bundles_zod_and_local_imports() {
    for (bundler, zod) in [
        ("esbuild", "zod@4"),
        ("rolldown", "zod@4"),
        ("esbuild", "zod@3"),
    ] {
        let home = workspace(&[]);
        let home = home.path();
        let packages = [bundler, zod, "zod-to-json-schema@3"];
        let packages = match zod {
            "zod@3" => &packages[..],
            _ => &packages[..2],
        };
        let install = std::process::Command::new("npm")
            .args(["install", "--no-audit", "--no-fund"])
            .args(packages)
            .current_dir(home)
            .output()
            .unwrap();
        assert!(install.status.success(), "{install:?}");
        fs::write(
            home.join("steps.ts"),
            "export async function* steps(n: number) { for (let i = 0; i < n; i++) yield i; }\n",
        )
        .unwrap();
        fs::write(
            home.join("fib.ts"),
            r#"
import { z } from 'zod';
import { defineTool } from 'mimir';
import { steps } from './steps';

/** Calculate the nth Fibonacci number */
export function calculateFibonacci({ n }: { n: number }): number {
  if (n <= 1) return n;
  let a = 0, b = 1;
  for (let i = 2; i <= n; i++) [a, b] = [b, a + b];
  return b;
}
export const calculateFibonacciSchema = z.object({
  n: z.number().int().min(0).describe('Position in sequence'),
});
export const sum = defineTool({
  description: 'Adds up.',
  inputSchema: z.object({ n: z.number().default(4) }).refine(({ n }) => n < 100, { message: 'too many', path: ['n'] }),
  needsApproval: false,
  async execute({ n }) {
    let sum = 0;
    for await (const step of steps(n)) sum += await Promise.resolve(step);
    return sum;
  },
});
"#,
        )
        .unwrap();
        let (exit, out, err) = run(home, &["tools", "build", "fib.ts"]);
        assert_eq!(exit, 0, "{bundler} {zod}: {out}{err}");
        let outcome = call(home, &["calculate_fibonacci", "n=10"]);
        assert_eq!(text(&outcome), "55");
        let described = info(home, "calculate_fibonacci").to_string();
        assert!(described.contains("Position in sequence"), "{described}");
        assert_eq!(text(&call(home, &["sum"])), "6");
        let (exit, _, err) = run(home, &["call", "sum", "n=100"]);
        assert!(exit == 2 && err.contains("n: too many"), "{exit} {err}");
        // An unresolved import is reported with its position.
        fs::write(
            home.join("odd.ts"),
            "import x from 'nowhere';\nexport default x;\n",
        )
        .unwrap();
        let (exit, out, err) = run(home, &["tools", "build", "odd.ts"]);
        assert!(exit != 0 && err.contains("nowhere"), "{out}{err}");
    }
}

/// Packages made for Node and for browsers, in tested versions.
const PACKAGES: [&str; 6] = [
    "axios@1.13.2",
    "cheerio@1.1.2",
    "papaparse@5.5.3",
    "handlebars@4.7.8",
    "csv-parse@6.1.0",
    "uuid@13.0.0",
];

#[test]
#[ignore = "needs npm"]
fn typescript_browser_packages_work_and_errors_name_the_file() {
    let home = workspace(&[]);
    let home = home.path();
    let install = std::process::Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "esbuild"])
        .args(PACKAGES)
        .current_dir(home)
        .output()
        .unwrap();
    assert!(install.status.success(), "{install:?}");
    fs::write(
        home.join("helper.ts"),
        "export function helped(rows: { a?: { b: number } }[]): number {\n  return rows[0].a!.b;\n}\n",
    )
    .unwrap();
    fs::write(
        home.join("uses.ts"),
        r#"import axios from "axios";
import * as cheerio from "cheerio";
import Papa from "papaparse";
import Handlebars from "handlebars";
import { parse } from "csv-parse/sync";
import { v4, validate } from "uuid";
import { helped } from "./helper";

const inputSchema = { type: "object" };
export const uses = {
  description: "Uses them all.", inputSchema, needsApproval: false,
  execute() {
    const ids = [v4(), v4()];
    return {
      axios: typeof axios.get,
      cheerio: cheerio.load("<p class=a>hi</p>")(".a").text(),
      papaparse: Papa.parse("a,b\n1,2", { header: true }).data,
      handlebars: Handlebars.compile("Hello {{name}}")({ name: "you" }),
      csv: parse("a,b\n1,2\n", { columns: true }),
      uuid: ids.every((id) => validate(id)) && ids[0] !== ids[1],
    };
  },
};
export const fails = {
  description: "Fails.", inputSchema, needsApproval: false,
  async execute() {
    await null;
    return helped([{}]);
  },
};
"#,
    )
    .unwrap();
    let (exit, out, err) = run(home, &["tools", "build", "uses.ts"]);
    assert_eq!(exit, 0, "{out}{err}");
    let wanted = json!({
        "axios": "function", "cheerio": "hi", "papaparse": [{"a": "1", "b": "2"}], "handlebars": "Hello you",
        "csv": [{"a": "1", "b": "2"}], "uuid": true,
    });
    assert_eq!(value(&call(home, &["uses"])), wanted);
    let (exit, out, err) = run(home, &["call", "fails"]);
    assert_ne!(exit, 0, "{out}");
    assert!(
        err.contains("(at helped (helper.ts:2:") && err.contains("at helped (helper.ts:2:"),
        "{err}"
    );
    assert!(err.contains("uses.ts:28:"), "{err}");
}
