//! Tools in YAML files: the example of the specification, and the abilities and limits of scripts.

use std::fs;
use std::time::{Duration, Instant};

use crate::kit::scripts::{call, text, tool, workspace};
use crate::kit::{config, run};
use serde_json::Value;

#[cfg(unix)]
#[test]
fn script_of_the_specification_runs_tests_and_formats_output() {
    use std::os::unix::fs::PermissionsExt;

    let home = workspace(&[("run_tests.yml", include_str!("seed/run_tests.yml"))]);
    let bin = tempfile::tempdir().unwrap();
    let yarn = bin.path().join("yarn");
    let script =
        "#!/bin/sh\necho \"PASS $1\"\necho \"PASS $2\"\n[ \"$2\" = bad ] && echo FAIL it\nexit 0\n";
    fs::write(&yarn, script).unwrap();
    fs::set_permissions(&yarn, PermissionsExt::from_mode(0o755)).unwrap();
    // A tool keeps the name of a built-in tool that came later if a person has granted it.
    let file = ".mimir/tools/run_tests.yml";
    let (_, _, shown) = run(home.path(), &["tools", "trust", file]);
    let digest = shown.split("--digest ").nth(1).expect(&shown);
    let digest: String = digest.chars().take_while(char::is_ascii_hexdigit).collect();
    let (code, _, err) = run(home.path(), &["tools", "trust", file, "--digest", &digest]);
    assert_eq!(code, 0, "{err}");
    // The sandbox contains only programs of the system, and this one belongs to the test.
    fs::create_dir_all(config(home.path())).unwrap();
    fs::write(
        config(home.path()).join("config.yml"),
        "sandbox: {mode: none}\n",
    )
    .unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", bin.path().display());
    let said = |pattern: &str| {
        let pattern = format!("pattern={pattern}");
        let words = ["call", "run_tests", "--approve", "always", &pattern];
        let output = crate::kit::mimir(home.path(), &words)
            .env("PATH", &path)
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8(output.stdout).unwrap(), err)
    };
    assert_eq!(said("good").0.trim_end(), "✓ All 2 tests passed!");
    let (bad, err) = said("bad");
    assert!(bad.starts_with("✗ 1 tests failed (2 passed)"), "{bad}{err}");
    assert!(err.contains("Running tests matching: bad"), "{err}");
    // It needs approval, and no person was available.
    let (code, _, err) = run(home.path(), &["call", "run_tests", "pattern=x"]);
    assert_eq!(code, 3, "{err}");
}

#[test]
fn script_uses_its_granted_files_and_tools() {
    let code = "
export async function execute(args, { platform: { fs }, tools, conversation, config }) {
  await fs.mkdir('out/deep');
  await fs.writeFile('out/deep/a.txt', 'hällo');
  await fs.writeFile('out/b.bin', new Uint8Array([0, 255]));
  const missing = await fs.readFile('nope').catch((error) => error.code);
  const shielded = [
    await fs.readFile('.env').catch((error) => error.code),
    await fs.writeFile('.mimir/config.yml', '').catch((error) => error.code),
    await fs.readFile('../x').catch((error) => error.code),
  ];
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
  };
  await fs.remove('out', { recursive: true });
  return { ...result, gone: !await fs.exists('out') };
}";
    let home = workspace(&[("uses.yml", &tool("uses", code))]);
    fs::write(home.path().join(".env"), "SECRET=1").unwrap();
    let outcome = call(home.path(), &["uses"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    let wanted = serde_json::json!({
        "text": "hällo", "bytes": [0, 255], "found": ["out/deep/a.txt"], "listed": ["b.bin", "deep"],
        "size": 6, "missing": "FILE_NOT_FOUND", "shielded": ["PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED"], "nested": true, "at": "..", "gone": true,
    });
    assert_eq!(result, wanted);
}

#[cfg(unix)]
#[test]
fn script_commands_run_concurrently() {
    let code = "
export async function execute(args, { platform: { executor } }) {
  const start = Date.now();
  const all = await Promise.all([1, 2, 3, 4, 5].map(() => executor.execute({ command: 'sleep', args: ['2'] })));
  return { took: Date.now() - start, codes: all.map((one) => one.exitCode) };
}";
    let home = workspace(&[("five.yml", &tool("five", code))]);
    let outcome = call(home.path(), &["five"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    assert_eq!(
        result["codes"],
        serde_json::json!([0, 0, 0, 0, 0]),
        "{outcome:#}"
    );
    let took = result["took"].as_u64().unwrap();
    assert!(
        (2000..10_000).contains(&took),
        "{took} ms, and one after the other 10,000"
    );
}

#[test]
fn script_promises_follow_the_standard() {
    let code = "
export async function execute() {
  const order = [];
  queueMicrotask(() => order.push('micro'));
  setTimeout(() => order.push('timer'), 1);
  Promise.resolve().then(() => order.push('then')).finally(() => order.push('finally'));
  async function* numbers() { try { yield 1; yield await Promise.resolve(2); } finally { order.push('closed'); } }
  for await (const n of numbers()) { order.push(n); if (n === 2) break; }
  await new Promise((resolve) => setTimeout(resolve, 20));
  const settled = await Promise.allSettled([1, Promise.reject(new Error('no'))]);
  const any = await Promise.any([Promise.reject(1), 2]);
  const race = await Promise.race([new Promise(() => {}), 3]);
  const caught = await Promise.all([Promise.reject('x')]).catch((error) => error);
  const thenable = await { then(resolve) { resolve('t'); } };
  return { order, settled: settled.map((one) => one.status), any, race, caught, thenable, is: (async () => 1)() instanceof Promise };
}";
    let home = workspace(&[("order.yml", &tool("order", code))]);
    let outcome = call(home.path(), &["order"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    let wanted = serde_json::json!({
        "order": ["micro", "then", "finally", 1, 2, "closed", "timer"],
        "settled": ["fulfilled", "rejected"], "any": 2, "race": 3, "caught": "x", "thenable": "t", "is": true,
    });
    let mut got = result.clone();
    // The order of a generator's steps among the jobs is not specified.
    got["order"].as_array_mut().unwrap().sort_by_key(|one| {
        let all = wanted["order"].as_array().unwrap();
        all.iter().position(|other| other == one)
    });
    assert_eq!(got, wanted, "{result}");
}

#[test]
fn script_errors_have_lines_of_the_file() {
    let thrown = "
interface Unused { a: string }

function inner(): never {
  throw new RangeError('too much');
}
export async function execute() {
  await null;
  inner();
}";
    let home = workspace(&[
        ("thrown.yml", &tool("thrown", thrown)),
        (
            "broken.yml",
            &tool("broken", "export function execute() {\n  return (;\n}"),
        ),
        ("yaml.yml", "name: [\n"),
        ("good.yml", &tool("good", "export default () => 'fine'")),
    ]);
    let outcome = call(home.path(), &["thrown"]);
    assert_eq!(outcome["error"]["code"], "EXECUTION_ERROR");
    let message = outcome["error"]["message"].as_str().unwrap();
    let begin = "RangeError: too much (at inner (.mimir/tools/thrown.yml:9:";
    assert!(message.starts_with(begin), "{message}");
    let stack = outcome["error"]["details"]["stack"].as_array().unwrap();
    assert!(
        stack
            .iter()
            .any(|frame| frame.as_str().unwrap().contains("thrown.yml:13:")),
        "{stack:?}"
    );
    // An invalid file does not affect the others.
    assert_eq!(text(&call(home.path(), &["good"])), "fine");
    let (code, _, err) = run(home.path(), &["tools", "info", "broken"]);
    assert!(
        code != 0 && err.contains(".mimir/tools/broken.yml:6:13: "),
        "{err}"
    );
    let (code, _, err) = run(home.path(), &["tools", "info", "yaml"]);
    assert!(
        code != 0 && err.contains(".mimir/tools/yaml.yml:1:7: "),
        "{err}"
    );
}

/// Harmful scripts by name: the code, the expected error code, and a part of its message or of the text.
const HOSTILE: &[(&str, &str, &str, &str)] = &[
    (
        "never",
        "return new Promise(() => {})",
        "EXECUTION_ERROR",
        "never ends",
    ),
    ("text", "throw 'a text'", "EXECUTION_ERROR", "a text"),
    ("nothing", "throw null", "EXECUTION_ERROR", "threw null"),
    (
        "odd",
        "throw { toString() { throw 1 } }",
        "EXECUTION_ERROR",
        "cannot be displayed",
    ),
    (
        "microtasks",
        "const spin = () => Promise.resolve().then(spin); return spin()",
        "LIMIT_EXCEEDED",
        "limits.fuel",
    ),
    (
        "recursion",
        "const down = (n) => down(n + 1) + 1; return down(0)",
        "EXECUTION_ERROR",
        "Maximum call stack size exceeded",
    ),
    (
        "large",
        "return 'x'.repeat(100e6)",
        "LIMIT_EXCEEDED",
        "limits.outputBytes",
    ),
    (
        "memory",
        "const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))",
        "EXECUTION_ERROR",
        "out of memory",
    ),
    (
        "regex",
        "return /^(a+)+$/.test('a'.repeat(60) + 'b')",
        "LIMIT_EXCEEDED",
        "limits.fuel",
    ),
    (
        "forever",
        "while (true) {}",
        "LIMIT_EXCEEDED",
        "limits.fuel",
    ),
    (
        "wishes",
        "for (;;) setTimeout(() => {}, 1e9)",
        "LIMIT_EXCEEDED",
        "limits.fuel",
    ),
    (
        "sleeps",
        "return new Promise((resolve) => setTimeout(resolve, 1e9))",
        "TIMEOUT",
        "limits.timeMs",
    ),
    ("surrogates", "return 'a\\ud800b'", "", "a\u{fffd}b"),
    (
        "cyclic",
        "const a = {}; a.a = a; return a",
        "EXECUTION_ERROR",
        "circular",
    ),
    (
        "function",
        "return () => 1",
        "EXECUTION_ERROR",
        "neither text nor JSON",
    ),
    ("undefined", "", "", ""),
    ("object", "return { a: [1, null] }", "", "{\"a\":[1,null]}"),
    (
        "files",
        "return context['plat' + 'form']['f' + 's'].readFile('a')",
        "PERMISSION_DENIED",
        "not granted files",
    ),
    (
        "commands",
        "return context['plat' + 'form']['exec' + 'utor'].execute({ command: 'id' })",
        "PERMISSION_DENIED",
        "not granted commands",
    ),
    (
        "network",
        "return globalThis['fet' + 'ch']('http://127.0.0.1:9/')",
        "PERMISSION_DENIED",
        "not granted the network",
    ),
    (
        "calls",
        "return context['too' + 'ls'].call('read' + '_file', { path: 'a' })",
        "PERMISSION_DENIED",
        "not granted calls",
    ),
    (
        "engine",
        "JSON.stringify = () => '{'; JSON.parse = null; Object.prototype.then = 1; return 'x'",
        "",
        "x",
    ),
    (
        "storage",
        "return context.storage.set('a', () => 1)",
        "EXECUTION_ERROR",
        "only values with a JSON form",
    ),
    (
        "storage_unsaid",
        "return context['stor' + 'age'].get('a')",
        "PERMISSION_DENIED",
        "only a tool with `storage`",
    ),
    (
        "wish",
        "return context.storage.set('k'.repeat(300), 1)",
        "INVALID_INPUT",
        "1 to 256 bytes",
    ),
    (
        "model",
        "return context['l' + 'lm'].complete('hello')",
        "PERMISSION_DENIED",
        "not granted the language model",
    ),
    (
        "module",
        "return new Function('return import(\"fs\")')()",
        "EXECUTION_ERROR",
        "`import()` is not supported in text that is evaluated",
    ),
];

#[test]
fn script_that_is_hostile_ends_without_harm_to_others() {
    let quick = "limits: {fuel: 8000000000}\ntools: {bad_sleeps: {limits: {timeMs: 300}}}\n";
    let mut tools = vec![(
        "good.yml".to_owned(),
        tool("good", "export default () => 'fine'"),
    )];
    for (name, code, ..) in HOSTILE {
        let code = format!("export async function execute(args, context) {{ {code} }}");
        tools.push((format!("{name}.yml"), tool(&format!("bad_{name}"), &code)));
    }
    let tools: Vec<_> = tools
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let home = workspace(&tools);
    fs::create_dir_all(config(home.path())).unwrap();
    fs::write(config(home.path()).join("config.yml"), quick).unwrap();
    for (name, _, code, part) in HOSTILE {
        let start = Instant::now();
        let outcome = call(home.path(), &[&format!("bad_{name}")]);
        assert!(start.elapsed() < Duration::from_secs(60), "{name}");
        if code.is_empty() {
            assert_eq!(text(&outcome), *part, "{name}: {outcome:#}");
        } else {
            assert_eq!(outcome["error"]["code"], *code, "{name}: {outcome:#}");
            let message = outcome["error"]["message"].as_str().unwrap();
            assert!(message.contains(part), "{name}: {message}");
        }
        assert_eq!(text(&call(home.path(), &["good"])), "fine", "after {name}");
    }
}

#[test]
fn script_tool_that_is_disabled_is_refused() {
    let off = tool("off", "export default () => 1") + "enabled: false\n";
    let home = workspace(&[("off.yml", &off)]);
    let (code, _, err) = run(home.path(), &["call", "off"]);
    assert!(code == 3 && err.contains("POLICY_DENIED"), "{err}");
    assert!(err.contains("`mimir tools enable off`"), "{err}");
}

#[test]
fn tools_check_reads_a_script_without_running_it() {
    let home = workspace(&[]);
    let file = |text: &str| fs::write(home.path().join("one.yml"), text).unwrap();
    file(&tool(
        "one",
        "export function execute() { return fetch('x'); }",
    ));
    let (code, out, err) = run(home.path(), &["tools", "check", "one.yml", "--json"]);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["needs"]["hosts"][0]["host"], "*", "{report:#}");
    file(&tool(
        "one",
        "const a = 1;\nexport function execute() { return a +; }",
    ));
    let (code, _, err) = run(home.path(), &["tools", "check", "one.yml"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("one.yml:6:"), "{err}");
    let (code, _, err) = run(home.path(), &["tools", "check", "none.yml"]);
    assert!(code != 0 && err.contains("FILE_NOT_FOUND"), "{err}");
}

#[test]
fn tools_check_reads_python_and_bash_without_running_them() {
    let home = workspace(&[]);
    let check = |runtime: &str, code: &str| {
        let code = code.replace('\n', "\n  ");
        let text = format!(
            "name: one\ndescription: One.\nschema: {{type: object}}\nruntime: {runtime}\ncode: |\n  {code}\n"
        );
        fs::write(home.path().join("one.yml"), text).unwrap();
        let (code, _, err) = run(home.path(), &["tools", "check", "one.yml"]);
        (code, err)
    };
    for (runtime, code) in [
        ("python", "def execute(args, context):\n  return 'ok'"),
        ("python", "async def execute(args, context): return 1"),
        ("python", "from os.path import*\nprint(1)"),
        (
            "python",
            "def f():\n  global execute\n  def execute(args, context): return 1\nf()",
        ),
        ("python", "globals()['execute'] = lambda args, context: 1"),
        ("bash", "while read -r x; do\n  echo $x\ndone < f\nexit 3"),
    ] {
        let (status, err) = check(runtime, code);
        assert_eq!(status, 0, "{code}: {err}");
    }
    for (runtime, code, output) in [
        (
            "python",
            "def execute(args, context):\n  return (1",
            "one.yml:7:12: '(' was never closed",
        ),
        (
            "python",
            "def execute(a):\n\treturn 1\n  return 2",
            "one.yml:8:",
        ),
        (
            "python",
            "print('x' * 9)",
            "one.yml:6:3: the code has no function `execute",
        ),
        ("python", "def execute(a):\n  nonlocal x", "one.yml:7:"),
        ("bash", "echo a\nif true; then echo b", "one.yml:"),
        (
            "bash",
            "echo a\ndone",
            "one.yml:7:3: syntax error near unexpected token",
        ),
        ("bash", "echo 'a\n", "one.yml:"),
    ] {
        let (status, err) = check(runtime, code);
        assert_eq!(status, 2, "{code}: {err}");
        assert!(err.contains(output), "{code}: {err}");
        assert!(err.contains("INVALID_INPUT"), "{code}: {err}");
    }
    // The check runs no code.
    let (status, err) = check("bash", "echo it ran >&2; echo x > it-ran; exit 3");
    assert!(status == 0 && !err.contains("it ran"), "{err}");
    let code = "import sys\nsys.stderr.write('it ' + 'ran')\ndef execute(a): 1\nsys.exit(3)";
    let (status, err) = check("python", code);
    assert!(status == 0 && !err.contains("it ran"), "{err}");
    // The words in a comment are not a definition.
    let (status, err) = check("python", "# import *\nprint(1)");
    assert!(status == 2 && err.contains("no function"), "{err}");
    assert!(!home.path().join("it-ran").exists());
}
