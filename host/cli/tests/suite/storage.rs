//! Stored values of tools in YAML files, and their requests to the model.

use crate::kit;
use crate::kit::scripts;
use std::fs;

use crate::kit::run;
use crate::kit::script::{Script, says};
use crate::kit::scripts::{call, text, tool};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with these tools: name, runtime, code.
fn workspace(tools: &[(&str, &str, &str)]) -> TempDir {
    let files = tools.iter().map(|(name, runtime, code)| {
        (
            format!("{name}.yml"),
            tool(&format!("{name}\nruntime: {runtime}"), code),
        )
    });
    let files: Vec<_> = files.collect();
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    scripts::workspace(&files)
}

/// Counts its calls, and returns the previous value.
const COUNTERS: [(&str, &str, &str); 3] = [
    (
        "in_ts",
        "typescript",
        "
export async function execute(args: {}, { storage }: any) {
  const before = await storage.get('count');
  const count: number = (before?.n ?? 0) + 1;
  await storage.set('count', { n: count });
  await storage.set('odd/../key', null);
  await storage.set('gone', 1);
  await storage.delete('gone');
  return [count, await storage.keys(), await storage.keys('odd'), (await storage.get('odd/../key')) === null,
    (await storage.get('gone')) === undefined];
}",
    ),
    (
        "in_python",
        "python",
        "
def execute(args, context):
    storage = context.storage
    count = storage.get('count', {'n': 0})['n'] + 1
    storage.set('count', {'n': count})
    storage.set('odd/../key', None)
    storage.set('gone', 1)
    storage.delete('gone')
    return [count, storage.keys(), storage.keys('odd'), storage.get('odd/../key', 1) is None,
        storage.get('gone') is None]",
    ),
    (
        "in_bash",
        "bash",
        "
count=$(( $(mimir-storage get count || echo 0) + 1 ))
mimir-storage set count $count
mimir-storage set odd/../key ''
mimir-storage set gone 1; mimir-storage delete gone
one() { if [ \"$1\" = \"$2\" ]; then echo true; else echo false; fi; }
mimir-storage get gone > /dev/null; gone=$?
echo \"[$count,[\\\"$(mimir-storage keys | paste -sd, | sed 's/,/\",\"/g')\\\"],[\\\"$(mimir-storage keys odd)\\\"],$(one \"$(mimir-storage get odd/../key)\" ''),$(one $gone 1)]\"",
    ),
];

#[test]
fn tool_storage_persists_between_calls_per_tool() {
    let home = workspace(&COUNTERS);
    for (name, ..) in COUNTERS {
        for count in [1, 2] {
            let told: Value = serde_json::from_str(text(&call(home.path(), &[name]))).unwrap();
            let wanted = json!([count, ["count", "odd/../key"], ["odd/../key"], true, true]);
            assert_eq!(told, wanted, "{name}");
        }
    }
    let (_, out, _) = run(home.path(), &["tools", "info", "in_ts"]);
    assert!(
        out.contains("\nStores between calls\n  - 2 values, "),
        "{out}"
    );
    assert!(out.contains(" in .mimir/state/storage/in_ts-"), "{out}");
    let (_, out, _) = run(home.path(), &["tools", "info", "in_ts", "--json"]);
    let info: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(info["kept"]["values"], 2, "{info:#}");
}

#[test]
fn run_code_has_no_tool_storage() {
    let home = workspace(&[]);
    for (language, code) in [
        (
            "python",
            "import mimir\ntry:\n    mimir.storage.get('a')\nexcept mimir.HostError as e:\n    print(e.code, e)",
        ),
        ("bash", "mimir-storage get a 2>&1"),
    ] {
        let arguments = json!({"language": language, "code": code, "backend": "wasm"}).to_string();
        let outcome = call(home.path(), &["run_code", &arguments]);
        assert!(
            outcome.to_string().contains("only a tool with `storage`"),
            "{outcome:#}"
        );
    }
}

#[test]
fn llm_complete_works_for_tools_granted_the_model() {
    let tools = [
        (
            "asks_ts",
            "typescript",
            "
export async function execute(args: {}, { llm }: any) {
  return 'it said ' + await llm.complete('a question', { maxTokens: 7 });
}",
        ),
        (
            "asks_python",
            "python",
            "
def execute(args, context):
    return 'it said ' + context.llm.complete('a question', max_tokens=7)",
        ),
    ];
    for (name, ..) in tools {
        let script = Script::start(vec![says("an answer")]);
        let home = workspace(&tools);
        let user = kit::config(home.path());
        fs::create_dir_all(&user).unwrap();
        let settings = format!(
            "model: local/m\nproviders: {{local: {{api: openai, url: \"{}\"}}}}\n",
            script.url
        );
        fs::write(user.join("config.yml"), settings).unwrap();
        let (_, needs, _) = run(home.path(), &["tools", "info", name]);
        assert!(needs.contains("model"), "{needs}");
        assert_eq!(text(&call(home.path(), &[name])), "it said an answer");
        let asked = script.asked();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].body.to_string().contains("a question"));
    }
}

#[test]
fn tools_remove_deletes_the_file_and_its_storage() {
    let home = workspace(&COUNTERS);
    assert_eq!(call(home.path(), &["in_ts"])["ok"], true);
    let tool = home.path().join(".mimir/tools/in_ts.yml");
    let (code, _, err) = run(home.path(), &["tools", "remove", "in_ts"]);
    assert!(code != 0 && err.contains("--yes"), "{err}");
    assert!(tool.exists());
    let (code, out, err) = run(
        home.path(),
        &["tools", "remove", "in_ts", "--yes", "--json"],
    );
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["removed"], ".mimir/tools/in_ts.yml");
    assert_eq!(told["values"], 2);
    assert!(!tool.exists());
    let kept = fs::read_dir(home.path().join(".mimir/state/storage")).unwrap();
    assert_eq!(kept.count(), 0);
    for (name, part) in [
        ("in_ts", "in_ts"),
        ("read_file", "`mimir tools disable`"),
        ("../../etc/passwd", "unknown tool"),
    ] {
        let (code, _, err) = run(home.path(), &["tools", "remove", name, "--yes"]);
        assert!(code != 0 && err.contains(part), "{name}: {err}");
    }
    // A broken file can be removed, too.
    fs::write(home.path().join(".mimir/tools/broken.wasm"), "no component").unwrap();
    let (code, _, err) = run(home.path(), &["tools", "remove", "broken", "--yes"]);
    assert_eq!(code, 0, "{err}");
    assert!(!home.path().join(".mimir/tools/broken.wasm").exists());
    assert_eq!(
        call(home.path(), &["in_bash"])["ok"],
        true,
        "others are left alone"
    );
}
