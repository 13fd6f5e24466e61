use mimir_core::DirectoryAccess;

use super::*;

/// The legacy example tool, unchanged.
const SEED: &str = include_str!("../../../cli/tests/suite/seed/run_tests.yml");

const SMALL: &str = "\
name: small
description: Does little.
schema: {type: object}
code: |
  export function execute() { return 1; }
";

fn needs(code: &str, more: &str) -> mimir_core::Needs {
    let text = format!(
        "name: a\ndescription: b\nschema: {{type: object}}\n{more}\ncode: |\n  export async function execute(args, {{ platform, tools }}) {{ {code} }}\n"
    );
    check("a.yml", &text).unwrap().definition.needs
}

fn refusal(text: &str) -> String {
    check("a.yml", text).unwrap_err().message
}

#[test]
fn definition_reads_the_legacy_tool_unchanged() {
    let checked = check("run_tests.yml", SEED).unwrap();
    let definition = &checked.definition;
    assert_eq!(definition.name.as_str(), "run_tests");
    assert_eq!((checked.enabled, checked.token_cost), (true, Some(450)));
    assert_eq!(definition.risk, RiskLevel::Medium);
    assert_eq!(definition.approval, Decision::Ask);
    assert_eq!(definition.group, ToolGroup::Runtime);
    let commands = definition.needs.commands.iter();
    let commands: Vec<_> = commands.map(|need| need.pattern.as_str()).collect();
    assert_eq!(commands, ["yarn test* *", "npm test* *", "vitest *"]);
    assert!(definition.needs.hosts.is_empty() && definition.needs.tools.is_empty());
    assert!(
        definition
            .input_schema
            .validate("it", &serde_json::json!({}))
            .is_err()
    );
}

#[test]
fn needs_follow_from_the_mentions_in_the_code() {
    assert!(needs("return 1", "").is_empty());
    let reads = needs("return platform.fs.readFile('a')", "");
    assert_eq!(reads.files[0].access, DirectoryAccess::Read);
    let writes = needs("await platform['fs'].writeFile('a', '')", "");
    assert_eq!(writes.files[0].access, DirectoryAccess::ReadWrite);
    let sends = needs("return fetch('https://example.com')", "");
    assert!(sends.hosts[0].is_any() && sends.files.is_empty());
    let calls = needs("return tools.call('read_file', {})", "");
    assert_eq!(calls.tools, ["read_file"]);
    let runs = needs("return platform.executor.execute({command: 'ls'})", "");
    assert_eq!(runs.commands[0].pattern, "*");
    // An allowlist narrows the mentioned needs and grants nothing by itself.
    let allow = "permissions: {allowlist: ['git status']}";
    assert!(needs("return 1", allow).is_empty());
    let narrow = needs("return platform.executor.execute({command: 'ls'})", allow);
    assert_eq!(narrow.commands[0].pattern, "git status");
    let none = needs(
        "return platform.executor.execute({command: 'ls'})",
        "permissions: {allowlist: []}",
    );
    assert!(none.commands.is_empty());
}

#[test]
fn needs_of_bash_explain_why_they_include_the_workspace() {
    let reason = |code: &str| {
        let text = format!(
            "name: a\ndescription: b\nschema: {{type: object}}\nruntime: bash\ncode: {code}\n"
        );
        let needs = check("a.yml", &text).unwrap().definition.needs;
        needs.files[0].reason.clone()
    };
    assert_eq!(reason("echo hi"), "bash can always read the workspace");
    assert_eq!(reason("echo hi > a.txt"), "the code accesses files");
}

#[test]
fn definition_auto_accept_decides_the_approval() {
    let approval = |permissions: &str, code: &str| {
        let text = format!("{SMALL}permissions: {{{permissions}}}\n").replace("return 1", code);
        check("a.yml", &text).unwrap().definition.approval
    };
    assert_eq!(approval("", "return 1"), Decision::Allow);
    assert_eq!(approval("", "return fetch('x')"), Decision::Ask);
    assert_eq!(approval("autoAccept: false", "return 1"), Decision::Ask);
    assert_eq!(
        approval("autoAccept: true", "return fetch('x')"),
        Decision::Allow
    );
}

#[test]
fn faults_have_the_line_of_the_key() {
    let cases = [
        ("name: small", "name: Small", "a.yml:1: "),
        ("description: Does little.", "description: ''", "a.yml:2: "),
        (
            "schema: {type: object}",
            "schema: {type: string}",
            "a.yml:3: ",
        ),
        ("schema: {type: object}", "schema: [", "a.yml:"),
        (
            "schema: {type: object}",
            "schema: {type: object}\nsurprise: 1",
            "a.yml:4:1: ",
        ),
        ("code: |", "runtime: perl\ncode: |", "a.yml:4:10: "),
        (
            "code: |",
            "permissions:\n  allowlist: ['g*t status']\ncode: |",
            "a.yml:5: ",
        ),
        (
            "code: |",
            "permissions:\n  allowlist: ['*']\ncode: |",
            "a.yml:5: `allowlist`: `*` does not name a program: begin it with one, or leave out `allowlist`",
        ),
        (
            "code: |",
            "permissions:\n  allowlist: ['** test']\ncode: |",
            "a.yml:5: `allowlist`: `** test` does not name a program",
        ),
        // Commands that node starts are not checked.
        (
            "code: |",
            "runtime: node\npermissions:\n  allowlist: ['git status']\ncode: |",
            "a.yml:6: `allowlist` has no effect",
        ),
        (
            "code: |\n  export function execute() {",
            "runtime: node\ncode: |\n  import fs from 'fs';\n  export function execute() { let = (;",
            "a.yml:7:",
        ),
        ("code: |", "tokenCost: -1\ncode: |", "a.yml:4:"),
        ("code: |", "tokenCost: 1000001\ncode: |", "a.yml:4: "),
        ("return 1;", "return (;", "a.yml:5:39: "),
        (
            "  export",
            "\n  const a = 1;\n  const a = 2;\n  export",
            "a.yml:6:9: ",
        ),
        (
            "  export",
            "  import fs from 'fs';\n  export",
            "a.yml:5:3: ",
        ),
        ("export function execute", "function other", "a.yml:5:3: "),
    ];
    for (from, to, prefix) in cases {
        let message = refusal(&SMALL.replacen(from, to, 1));
        assert!(message.starts_with(prefix), "{to}: {message}");
    }
    assert!(refusal("name: [").starts_with("a.yml:"));
    assert!(refusal("").starts_with("a.yml"));
}

#[test]
fn positions_need_a_block_scalar() {
    let folded = SMALL.replace(
        "code: |\n  export function execute() { return 1; }\n",
        "code: \"export function execute() {\\n\\n return (; }\"\n",
    );
    let message = refusal(&folded);
    assert!(message.starts_with("a.yml:4: "), "{message}");
}

#[test]
fn positions_ignore_properties_named_like_keys() {
    let text = "\
name: small
description: Does little.
schema:
  type: object
  properties:
    code: {type: string}
    name: {type: string}
    allowlist: &text {type: string}
    alias: *text
permissions:
  allowlist: ['g*t status']
code: |
  export function execute() { return (; }
";
    let message = refusal(text);
    assert!(message.starts_with("a.yml:11: "), "{message}");
    let fine = text.replace("g*t", "git");
    let message = refusal(&fine);
    assert!(message.starts_with("a.yml:13:39: "), "{message}");
}

#[test]
fn definition_rejects_deep_nesting_quickly() {
    for form in ["[", "{a: ", "- "] {
        let start = std::time::Instant::now();
        let message = refusal(&form.repeat((1 << 20) / form.len()));
        assert!(message.starts_with("a.yml:1:"), "{message}");
        assert!(
            start.elapsed().as_secs() < 60,
            "{form}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn faults_do_not_quote_file_content() {
    let secrets = [
        "root:*:20228:0:99999:7:::\ndaemon:*:20228:0:99999:7:::\n",
        "hunter2",
        "- hunter2",
        "hunter2: 1",
        "TOKEN=hunter2\n",
        "name: [hunter2]",
        "name: small\ndescription: d\nschema: {type: object}\nenabled: hunter2\ncode: x",
        "name: small\ndescription: d\nschema: {type: object}\nruntime: hunter2\ncode: x",
        "name: small\ndescription: d\nschema: {type: object}\npermissions: {riskLevel: 'hunter2`, expected `low'}\ncode: x",
        "name: small\n'hunter2`, expected one of `hunter2': 1",
        "? {hunter2: 1}\n: 2",
        "!hunter2 x",
        "*hunter2",
        "hunter2: 1\nhunter2: 2",
        "name: \"hunter2",
        "name: small\ndescription: d\nschema: {hunter2: 1, hunter2: 2}\ncode: x",
    ];
    for text in secrets {
        let message = refusal(text);
        let quotes_content =
            message.contains("hunter2") || message.contains("root") || message.contains('*');
        assert!(!quotes_content, "{text}: {message}");
    }
    // A word that resembles a key of a tool is quoted as misspelt.
    let message = refusal(&SMALL.replace("description:", "descripton:"));
    assert!(
        message.contains("unknown key `descripton`. Did you mean `description`"),
        "{message}"
    );
    for key in ["autoAccept: true", "riskLevel: low", "allowlist: []"] {
        let message = refusal(&format!("{key}\n{SMALL}"));
        let name = key.split(':').next().unwrap();
        assert!(
            message.contains(&format!("Did you mean `permissions.{name}`?")),
            "{message}"
        );
    }
    let message = refusal("name: small");
    assert!(message.contains("missing field `description`"), "{message}");
}

#[test]
fn faults_are_reported_all_at_once() {
    let text = "\
name: Small
description: ''
tokenCost: 2000000
schema: {type: string}
permissions: {allowlist: ['g*t']}
code: |
  let a = 1;
  let a = 2;
  let b = 3; let b = 4;
  export function execute() {}
";
    let messages = |text: &str| -> Vec<String> {
        let faults = check_all("a.yml", text).unwrap_err();
        faults.into_iter().map(|fault| fault.message).collect()
    };
    let faults = messages(text);
    let positions: Vec<&str> = faults
        .iter()
        .filter_map(|message| message.split(": ").next())
        .collect();
    let expected = [
        "a.yml:1",
        "a.yml:2",
        "a.yml:3",
        "a.yml:4",
        "a.yml:5",
        "a.yml:7:7",
        "a.yml:9:7",
    ];
    assert_eq!(positions, expected, "{faults:#?}");

    let unreadable = messages(
        "name: a\nnmae: b\nextra: 1\ndescription: d\nschema: {type: object}\ncode: |\n  let x = ;\n",
    );
    let positions: Vec<&str> = unreadable
        .iter()
        .filter_map(|message| message.split(": ").next())
        .collect();
    assert_eq!(
        positions,
        ["a.yml:2:1", "a.yml:3", "a.yml:7:11"],
        "{unreadable:#?}"
    );
}
