//! Tools that only a worker has: a module beside its file, and an npm package.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::run;
use crate::kit::script::{Script, calls, says};
use crate::workers::{home, offered_tools, task};

const CALC: &str = "instructions: You calculate.\ntoolsets:\n  custom:\n    module: ./tools.ts\n    tools: [calculateFibonacci]\n    approval: {default: ask, tools: {calculateFibonacci: preApproved}}\n";

/// The module of the specification, with a JSON Schema instead of one that needs a package.
const FIBONACCI: &str = r#"
/** Calculate the nth Fibonacci number */
export function calculateFibonacci({ n }: { n: number }): number {
  let [a, b] = [0, 1];
  for (let i = 0; i < n; i++) [a, b] = [b, a + b];
  return a;
}
export const calculateFibonacciSchema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
export const unlisted = { description: "x", inputSchema: { type: "object" }, execute: () => "x" };
"#;

/// Reads a file, with the approval that the worker's file sets.
const READER: &str = r#"
export const firstLine = {
  description: "Reads the first line of a file.",
  inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  needs: { files: ["."] },
  execute: async ({ path }, { platform }) => (await platform.fs.readFile(path)).split("\n")[0],
};
"#;

fn custom(tools: &str, approval: &str) -> String {
    format!(
        "instructions: Work.\ntoolsets:\n  filesystem: {{}}\n  custom: {{module: ./tools.ts, tools: [{tools}], approval: {{default: {approval}}}}}\n"
    )
}

fn write_module(home: &TempDir, text: &str) {
    fs::write(home.path().join(".mimir/workers/tools.ts"), text).unwrap();
}

/// The message of a task that must fail.
fn failure(home: &Path, worker: &str) -> String {
    let (code, out, err) = run(home, &["run", "x", "--worker", worker]);
    assert_ne!(code, 0, "{out}");
    err
}

#[test]
fn worker_module_is_built_for_its_worker_alone() {
    let script = Script::start(vec![
        calls("calculate_fibonacci", json!({"n": 10})),
        calls("unlisted", json!({})),
        says("done"),
        calls("calculate_fibonacci", json!({"n": 10})),
        says("done"),
    ]);
    let home = home(&script, "", &[("calc", CALC)]);
    write_module(&home, FIBONACCI);
    let (code, end) = task(home.path(), &["--worker", "calc"]);
    assert_eq!(code, 0, "{end}");
    let requests = script.asked();
    assert_eq!(offered_tools(&requests[0]), ["calculate_fibonacci"]);
    let results = requests[2].results();
    assert!(
        results[0].contains("\n55\n"),
        "preApproved does not ask: {results:?}"
    );
    assert!(results[1].starts_with("NOT_FOUND"), "{results:?}");
    let (_, out, _) = run(home.path(), &["tools", "list"]);
    assert!(!out.contains("calculate_fibonacci"), "{out}");
    // A change of the module takes effect in the next task.
    write_module(&home, &FIBONACCI.replace("[0, 1]", "[0, 2]"));
    let (code, end) = task(home.path(), &["--worker", "calc"]);
    assert_eq!(code, 0, "{end}");
    let requests = script.asked();
    let results = requests.last().unwrap().results();
    assert!(results[0].contains("\n110\n"), "{results:?}");
}

#[test]
fn worker_module_works_in_a_called_worker_and_asks_by_default() {
    let script = Script::start(vec![
        calls("worker_call", json!({"worker": "calc", "task": "x"})),
        calls("calculate_fibonacci", json!({"n": 10})),
        says("asked"),
        says("done"),
    ]);
    let settings = "tools: {worker_call: {approval: allow}}\n";
    let asking = CALC.replace("preApproved", "ask");
    let home = home(&script, settings, &[("calc", &asking)]);
    write_module(&home, FIBONACCI);
    let (code, end) = task(home.path(), &[]);
    assert_eq!(code, 0, "{end}");
    let requests = script.asked();
    assert!(!offered_tools(&requests[0]).contains(&"calculate_fibonacci".to_owned()));
    let results = requests[2].results();
    assert!(results[0].starts_with("APPROVAL_DENIED"), "{results:?}");
    assert_eq!(requests[3].results(), ["asked"]);
}

#[test]
fn worker_module_has_the_rights_granted_to_its_current_build() {
    let read = || calls("first_line", json!({"path": "notes.txt"}));
    let script = Script::start(vec![
        read(),
        says("1"),
        read(),
        says("2"),
        read(),
        says("3"),
    ]);
    let home = home(
        &script,
        "",
        &[("reader", &custom("firstLine", "preApproved"))],
    );
    write_module(&home, READER);
    let result = || {
        let (code, end) = task(home.path(), &["--worker", "reader"]);
        assert_eq!(code, 0, "{end}");
        script.asked().last().unwrap().results().remove(0)
    };
    let refused = result();
    assert!(refused.starts_with("APPROVAL_DENIED"), "{refused}");
    let location = ".mimir/workers/tools.ts";
    let (code, _, err) = run(home.path(), &["tools", "trust", location]);
    assert_eq!(code, 3, "{err}");
    let decision = "`first_line` runs without a question in the worker `reader`";
    let (shown, _) = err.split_once("nothing was granted").unwrap();
    assert!(shown.contains(decision), "{err}");
    let digest = err.split("--digest ").nth(1).unwrap();
    let digest: String = digest.chars().take_while(char::is_ascii_hexdigit).collect();
    let trust = ["tools", "trust", location, "--digest", &digest];
    let (code, _, err) = run(home.path(), &trust);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains(decision) && !err.contains("still asks"),
        "{err}"
    );
    assert_eq!(result(), "the answer is 42");
    write_module(&home, &READER.replace("[0],", "[0] + \"!\","));
    let refused = result();
    assert!(refused.starts_with("APPROVAL_DENIED"), "{refused}");
    let (code, _, err) = run(home.path(), &["tools", "revoke", location]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn worker_module_tools_of_the_same_name_are_trusted_by_location() {
    let script = Script::start(vec![]);
    let reader = custom("firstLine", "ask");
    let other = reader.replace("tools.ts", "other.ts");
    let home = home(&script, "", &[("reader", &reader), ("other", &other)]);
    write_module(&home, READER);
    fs::write(home.path().join(".mimir/workers/other.ts"), READER).unwrap();
    let (code, _, err) = run(home.path(), &["tools", "trust", "first_line"]);
    assert_ne!(code, 0, "{err}");
    assert!(
        err.contains("name one of `.mimir/workers/other.ts`, `.mimir/workers/tools.ts`"),
        "{err}"
    );
    let (_, _, err) = run(home.path(), &["tools", "trust", ".mimir/workers/other.ts"]);
    assert!(
        err.contains("`first_line` asks you before each call in the worker `other`"),
        "{err}"
    );
    assert!(!err.contains("the worker `reader`"), "{err}");
}

#[test]
fn worker_module_faults_name_the_file_and_the_remedy() {
    let script = Script::start(vec![]);
    let outside = CALC.replace("./tools.ts", "../../../tools.ts");
    let clash = custom("readFile", "ask");
    let unknown = custom("calculateFibonaci", "ask");
    let workers = [
        ("calc", CALC),
        ("outside", &outside),
        ("clash", &clash),
        ("unknown", &unknown),
    ];
    let home = home(&script, "", &workers);
    let missing = failure(home.path(), "calc");
    assert!(
        missing.contains("no tools are loaded from `./tools.ts`")
            && missing.contains("beside the worker's file"),
        "{missing}"
    );
    let outside = failure(home.path(), "outside");
    assert!(
        outside.contains(".mimir/workers/outside.yml:4: `../../../tools.ts` is not valid"),
        "{outside}"
    );
    write_module(&home, FIBONACCI);
    let unknown = failure(home.path(), "unknown");
    assert!(
        unknown.contains(
            "`./tools.ts` exports no tool `calculateFibonaci`. Did you mean `calculate_fibonacci`?"
        ),
        "{unknown}"
    );
    let module = FIBONACCI.replace("calculateFibonacci", "readFile");
    write_module(&home, &module);
    let clash = failure(home.path(), "clash");
    assert!(
        clash.contains("the tool `read_file` of `./tools.ts` has the name of a tool of built-in/"),
        "{clash}"
    );
    write_module(&home, "export const x: = 1;\n");
    let broken = failure(home.path(), "calc");
    assert!(broken.contains(".mimir/workers/tools.ts:1:17"), "{broken}");
    // With a bundler on the PATH, a person has to run it; without one, the message says so.
    write_module(&home, &format!("import {{ z }} from 'zod';\n{FIBONACCI}"));
    let imports = failure(home.path(), "calc");
    assert!(
        imports.contains("`mimir tools build .mimir/workers/tools.ts`")
            || imports.contains("no bundler was found"),
        "{imports}"
    );
    assert_eq!(script.asked().len(), 0);
}

#[test]
#[cfg(unix)]
fn worker_module_is_not_read_through_a_link() {
    let script = Script::start(vec![]);
    let home = home(&script, "", &[("calc", CALC)]);
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("tools.ts");
    fs::write(&target, FIBONACCI).unwrap();
    std::os::unix::fs::symlink(&target, home.path().join(".mimir/workers/tools.ts")).unwrap();
    let linked = failure(home.path(), "calc");
    assert!(linked.contains("is a link"), "{linked}");
}

const EXTERNAL: &str = "instructions: Work.\ntoolsets:\n  external:\n    package: \"@kit/tools@1.2.3\"\n    import: webTools\n    prefix: kit_\n    approval: {default: ask, tools: {web_search: preApproved}}\n";

/// Installs the package `@kit/tools`, as npm does.
fn install_package(home: &Path, version: &str) {
    let folder = home.join("node_modules/@kit/tools");
    fs::create_dir_all(&folder).unwrap();
    let facts = json!({"name": "@kit/tools", "version": version, "main": "index.js"});
    fs::write(folder.join("package.json"), facts.to_string()).unwrap();
    let module = r#"
exports.webTools = {
  web_search: {
    type: "function",
    description: "Searches.",
    parameters: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
    execute: async ({ query }) => `found ${query}`,
  },
  careful: { description: "x", needsApproval: true, inputSchema: { type: "object" }, execute: () => "x" },
};
"#;
    fs::write(folder.join("index.js"), module).unwrap();
}

#[test]
fn worker_package_must_be_installed_in_its_version_and_built() {
    let script = Script::start(vec![]);
    let home = home(&script, "", &[("ext", EXTERNAL)]);
    let missing = failure(home.path(), "ext");
    assert!(
        missing.contains(".mimir/workers/ext.yml:4: the package `@kit/tools` is not installed")
            && missing.contains("`npm install --ignore-scripts --save-exact @kit/tools@1.2.3`"),
        "{missing}"
    );
    install_package(home.path(), "1.2.4");
    let other = failure(home.path(), "ext");
    assert!(
        other.contains("but the version 1.2.4 is installed"),
        "{other}"
    );
    install_package(home.path(), "1.2.3");
    let unbuilt = failure(home.path(), "ext");
    assert!(
        unbuilt.contains("`mimir tools build .mimir/workers/ext.yml` bundles it"),
        "{unbuilt}"
    );
}

/// A bundler for the module of the package `@kit/tools`. It looks for the package as esbuild does, from the folder of the
/// module upwards.
#[cfg(target_os = "linux")]
const BUNDLER: &str = r#"#!/bin/sh
for arg; do case $arg in --outfile=*) out=${arg#--outfile=};; esac; done
module=$(sed -n 's/^export \* as module from "\(.*\)";$/\1/p' "$1")
folder=$(dirname "$module")
while [ ! -e "$folder/node_modules/@kit/tools/index.js" ]; do
  [ "$folder" != / ] || exit 1
  folder=$(dirname "$folder")
done
package=$(readlink -f "$folder/node_modules/@kit/tools/index.js")
{
  echo 'var __module = (() => { const exports = {};'
  cat "$package"
  echo 'const all = exports;'
  sed -e '/^import /d' -e 's/^export default /const tools = /' "$module"
  echo 'return { module: { default: tools } }; })();'
} > "$out"
echo "{\"version\":3,\"sources\":[\"$package\"],\"mappings\":\"\"}" > "$out.map"
"#;

/// A workspace with the worker `ext`, the bundler, and the package, whose tool returns `answer`.
#[cfg(target_os = "linux")]
fn home_with_package(script: &Script, answer: &str) -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home(script, "", &[("ext", EXTERNAL)]);
    install_package(home.path(), "1.2.3");
    write_package(&home.path().join("node_modules/@kit/tools"), answer);
    let program = home.path().join("node_modules/.bin/esbuild");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, BUNDLER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    home
}

/// Writes the code of the package, whose tool returns `answer`.
#[cfg(target_os = "linux")]
fn write_package(folder: &Path, answer: &str) {
    let module = format!(
        "exports.webTools = {{ web_search: {{ description: \"Searches.\", parameters: {{ type: \"object\" }}, execute: () => \"{answer}\" }} }};\n"
    );
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("index.js"), module).unwrap();
}

#[cfg(target_os = "linux")]
fn build_package(home: &Path) {
    let (code, _, err) = run(home, &["tools", "build", ".mimir/workers/ext.yml"]);
    assert_eq!(code, 0, "{err}");
}

/// The result of the package's tool, which the script calls first.
#[cfg(target_os = "linux")]
fn package_answer(home: &Path, script: &Script) -> String {
    let (code, end) = task(home, &["--worker", "ext"]);
    assert_eq!(code, 0, "{end}");
    script.asked().last().unwrap().results().remove(0)
}

#[test]
#[cfg(target_os = "linux")]
fn worker_package_build_belongs_to_its_workspace_and_content() {
    let start = || Script::start(vec![calls("kit_web_search", json!({})), says("done")]);
    let scripts = [start(), start()];
    let [one, other] = [(&scripts[0], "of one"), (&scripts[1], "of other")]
        .map(|(script, answer)| home_with_package(script, answer));
    build_package(one.path());
    let unbuilt = failure(other.path(), "ext");
    assert!(unbuilt.contains("is not built"), "{unbuilt}");
    build_package(other.path());
    let answer = package_answer(one.path(), &scripts[0]);
    assert!(answer.contains("of one"), "{answer}");
    let answer = package_answer(other.path(), &scripts[1]);
    assert!(answer.contains("of other"), "{answer}");
    // The version is the same, but the code is not.
    write_package(&one.path().join("node_modules/@kit/tools"), "changed");
    let unbuilt = failure(one.path(), "ext");
    assert!(
        unbuilt.contains("is not built for its current content"),
        "{unbuilt}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn worker_package_is_not_replaced_by_files_of_the_build_folder() {
    let script = Script::start(vec![calls("kit_web_search", json!({})), says("done")]);
    let home = home_with_package(&script, "installed");
    let planted = ".mimir/workers/.mimir-build/node_modules/@kit/tools";
    write_package(&home.path().join(planted), "planted");
    build_package(home.path());
    let answer = package_answer(home.path(), &script);
    assert!(answer.contains("installed"), "{answer}");
}

fn npm_install(home: &Path, packages: &[&str]) {
    let install = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
        .args(packages)
        .current_dir(home)
        .output()
        .unwrap();
    assert!(install.status.success(), "{install:?}");
}

#[test]
#[ignore = "needs npm"]
fn worker_package_is_bundled_by_a_person() {
    let script = Script::start(vec![
        calls("kit_web_search", json!({"query": "mimir"})),
        calls("kit_careful", json!({})),
        says("done"),
    ]);
    let home = home(&script, "", &[("ext", EXTERNAL)]);
    npm_install(home.path(), &["esbuild"]);
    install_package(home.path(), "1.2.3");
    let build = ["tools", "build", ".mimir/workers/ext.yml", "--json"];
    let (code, out, err) = run(home.path(), &build);
    assert_eq!(code, 0, "{out}{err}");
    let built: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        built["built"][0],
        json!({"location": ".mimir/workers/ext.yml#external", "tools": ["kit_web_search", "kit_careful"]})
    );
    let (code, end) = task(home.path(), &["--worker", "ext"]);
    assert_eq!(code, 0, "{end}");
    let requests = script.asked();
    assert_eq!(
        offered_tools(&requests[0]),
        ["kit_careful", "kit_web_search"]
    );
    let results = requests[2].results();
    assert!(results[0].contains("\nfound mimir\n"), "{results:?}");
    assert!(results[1].starts_with("APPROVAL_DENIED"), "{results:?}");
    // Another version of the package has to be built again.
    let any = EXTERNAL.replace("@1.2.3", "");
    fs::write(home.path().join(".mimir/workers/ext.yml"), any).unwrap();
    install_package(home.path(), "1.2.4");
    run(home.path(), &["policy", "accept", "--yes"]);
    let unbuilt = failure(home.path(), "ext");
    assert!(unbuilt.contains("is not built"), "{unbuilt}");
}

#[test]
#[ignore = "needs npm"]
fn worker_module_imports_the_ai_sdk_and_zod() {
    let script = Script::start(vec![calls("greet", json!({"name": "Ada"})), says("done")]);
    let worker = "instructions: Work.\ntoolsets:\n  custom: {module: ./tools.ts, tools: [greet], approval: {default: preApproved}}\n";
    let home = home(&script, "", &[("greeter", worker)]);
    npm_install(home.path(), &["esbuild", "ai@5", "zod@4"]);
    let module = r#"
import { tool } from "ai";
import { z } from "zod";
export const greet = tool({
  description: "Greets someone.",
  inputSchema: z.object({ name: z.string(), mark: z.string().default("!") }),
  execute: async ({ name, mark }) => `Hello, ${name}${mark}`,
});
"#;
    write_module(&home, module);
    let unbuilt = failure(home.path(), "greeter");
    assert!(
        unbuilt.contains("`mimir tools build .mimir/workers/tools.ts` bundles it"),
        "{unbuilt}"
    );
    let (code, out, err) = run(home.path(), &["tools", "build", ".mimir/workers/tools.ts"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!home.path().join(".mimir/tools").exists());
    let (code, end) = task(home.path(), &["--worker", "greeter"]);
    assert_eq!(code, 0, "{end}");
    let results = script.asked()[1].results();
    assert!(results[0].contains("\nHello, Ada!\n"), "{results:?}");
}
