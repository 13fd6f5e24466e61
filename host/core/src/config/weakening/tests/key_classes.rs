//! Classification of every config key: a key weakens protection, with a sample that is listed, or it is harmless.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Config, config, weakening_keys};

/// Strict settings of a user, which each sample weakens.
fn strict() -> Config {
    config(json!({
        "tools": {"autoLoadCustomTools": false, "maxExecutionTime": 1},
        "limits": {"callsPerMinute": 1},
        "agent": {"maxCost": 0.1},
        "approvals": {"timeoutMs": 1, "leaseDays": 1},
        "audit": {"durability": "fsync", "logArgs": true},
        "sandbox": {"maxMemoryMb": 1, "maxCpuPercent": 1, "maxProcesses": 1},
        "mcp": {"enabled": false},
    }))
}

/// Keys that weaken protection, with the value of a sample. A key stands for all keys below it if these are compared as
/// one.
fn weakening() -> Vec<(String, Value)> {
    let rule = json!([{"decision": "allow"}]);
    let mut keys: Vec<(String, Value)> = [
        ("agent.contextTokens", json!(1_000_000)),
        ("agent.instructions", json!("x")),
        ("agent.maxAnswerTokens", json!(1_000_000)),
        ("agent.maxCost", json!(9)),
        ("agent.maxTimeMs", json!(80_000_000)),
        ("agent.maxTokens", json!(9_000_000)),
        ("agent.maxToolCalls", json!(9_000)),
        ("agent.maxTurns", json!(9_000)),
        ("agent.retries", json!(99)),
        ("approval.default", json!("auto")),
        ("approval.tools", json!({"a": "preApproved"})),
        ("approvals.leaseDays", json!(90)),
        ("approvals.timeoutMs", json!(600_000)),
        ("approvals.unattended", json!("wait")),
        ("audit.durability", json!("write")),
        ("audit.keep", json!(1)),
        ("audit.logArgs", json!(false)),
        ("audit.maxBytes", json!(4096)),
        ("audit.onFailure", json!("run")),
        ("browser", json!({"profile": "work"})),
        ("alerts", json!({"webhook": "https://h.example"})),
        (
            "cluster",
            json!({"route": [{"tools": "*", "labels": {"zone": "us"}}]}),
        ),
        ("console", json!({"roles": {"admin": ["group:a"]}})),
        ("telemetry", json!({"endpoint": "http://127.0.0.1:4318"})),
        (
            "embeddings",
            json!({"url": "https://e.example/v1", "model": "m"}),
        ),
        ("execApprovals.mode", json!("full")),
        ("mcp.enabled", json!(true)),
        ("mcp.marks", json!("minimal")),
        ("mcp.registry", json!("https://r.example")),
        ("mcp.servers", json!({"a": {"command": "x"}})),
        ("model", json!("openai/x")),
        ("policy.rules", rule.clone()),
        ("providers", json!({"mine": {"url": "https://m.example"}})),
        ("registries.catalogs", json!(["tools.json"])),
        ("registries.mirrors", json!({"r.example": ["m.example"]})),
        ("roles", json!({"admin": {"groups": ["v"]}})),
        ("sandbox.bindMounts", json!(["/data"])),
        ("sandbox.image", json!("x")),
        ("sandbox.images", json!({"python": "x"})),
        ("sandbox.maxCpuPercent", json!(90)),
        ("sandbox.maxMemoryMb", json!(9000)),
        ("sandbox.maxProcesses", json!(5000)),
        ("sandbox.mode", json!("none")),
        ("sandbox.networkAccess", json!(true)),
        ("sandbox.socket", json!("/x.sock")),
        ("secrets", json!({"KEY": {"env": "HOME"}})),
        ("tools.autoLoadCustomTools", json!(true)),
        ("tools.maxExecutionTime", json!(2)),
        ("tools.*.approval.level", json!("allow")),
        (
            "tools.*.approval.conditions.unknownHostRequiresApproval",
            json!(true),
        ),
        ("tools.*.audit.logArgs", json!(true)),
        ("tools.*.cache", json!({"ttlMs": 1000})),
        ("tools.*.labels.acceptsUntrusted", json!(true)),
        ("tools.*.labels.outputDataClass", json!("public")),
        ("tools.*.labels.outputTrust", json!("user")),
        ("tools.*.redaction.exceptions", json!(["x"])),
        ("tools.*.retries", json!(1)),
        ("tools.*.reveal", json!([".env"])),
        ("tools.*.rules", rule),
        ("trust", json!([{"registry": "r.example/*", "keys": ["k"]}])),
        ("trustRoot", json!("/x.json")),
        (
            "webSearch",
            json!({"provider": "searxng", "url": "https://s.example"}),
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .to_vec();
    for block in ["network", "tools.*.network"] {
        for (key, value) in [
            ("allowedHosts", json!(["a.example"])),
            ("blockMetadataEndpoints", json!(false)),
            ("blockPrivateIPs", json!(false)),
            ("blockedPorts", json!([25])),
            ("extraRoots", json!(["ca.pem"])),
            ("hosts", json!({"a.example": "10.0.0.1"})),
            ("mode", json!("any")),
        ] {
            keys.push((format!("{block}.{key}"), value));
        }
    }
    let schema = Config::schema();
    for block in ["limits", "tools.*.limits"] {
        let limits = schema["$defs"]["LimitSettings"]["properties"].as_object();
        for (limit, _) in limits.unwrap() {
            // More than every default.
            keys.push((format!("{block}.{limit}"), json!(limit_sample(limit))));
        }
    }
    keys
}

fn limit_sample(limit: &str) -> u64 {
    match limit {
        "fuel" => 1 << 50,
        _ => u64::from(u32::MAX),
    }
}

/// Keys that only restrict, that do not concern protection, or that count only with another key.
const HARMLESS: [&str; 20] = [
    "agent.compaction",
    "enforcement",
    // Counts with `execApprovals.mode: allowlist` in the same file, which is listed.
    "execApprovals.approvals",
    "files.deny",
    "policy.allow",
    "policy.deny",
    "policy.groups",
    "profile",
    // Refused in the file of a project.
    "teams",
    "toolDiscovery",
    "toolDiscoveryTokens",
    "tools.showTokenCosts",
    "tools.tokenPrice",
    "tools.*.approval.conditions.methodRequiresApproval",
    "tools.*.approval.dangerPatterns",
    // Only `false` is valid.
    "tools.*.audit.logOutput",
    "tools.*.deny",
    // Replaces the author's `off` only; calls are decided as for any tool.
    "tools.*.enabled",
    "tools.*.execution",
    "tools.*.server",
];

/// Adds the path of each key of a schema that has no keys below it. Names of entries are `*`.
fn collect_leaves<'a>(
    schema: &'a Value,
    root: &'a Value,
    path: &str,
    open: &mut Vec<&'a str>,
    leaves: &mut BTreeSet<String>,
) {
    let before = leaves.len();
    if let Some(name) = schema["$ref"].as_str() {
        if open.contains(&name) {
            return;
        }
        open.push(name);
        let target = root.pointer(name.trim_start_matches('#')).unwrap();
        collect_leaves(target, root, path, open, leaves);
        open.pop();
        return;
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        for one in schema[list].as_array().into_iter().flatten() {
            if one["$ref"].is_string() || one["properties"].is_object() {
                collect_leaves(one, root, path, open, leaves);
            }
        }
    }
    let join = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        collect_leaves(value, root, &join(key), open, leaves);
    }
    let entry = &schema["additionalProperties"];
    if entry.is_object() {
        collect_leaves(entry, root, &join("*"), open, leaves);
    }
    if schema["items"]["$ref"].is_string() {
        collect_leaves(&schema["items"], root, path, open, leaves);
    }
    if leaves.len() == before && !path.is_empty() {
        leaves.insert(path.to_owned());
    }
}

/// Returns a file that sets only this key.
fn sample(key: &str, value: Value) -> Value {
    key.rsplit('.').fold(value, |below, part| {
        let part = if part == "*" { "a" } else { part };
        json!({ part: below })
    })
}

fn covers(class: &str, key: &str) -> bool {
    let rest = key.strip_prefix(class);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[test]
fn config_every_key_is_classified_and_the_weakening_ones_are_listed() {
    let schema = Config::schema();
    let mut leaves = BTreeSet::new();
    collect_leaves(&schema, &schema, "", &mut Vec::new(), &mut leaves);
    // Words instead of a block.
    let is_word = |leaf: &String| {
        let longer = format!("{leaf}.");
        leaves.iter().any(|other| other.starts_with(&longer))
    };
    let keys: Vec<&String> = leaves.iter().filter(|leaf| !is_word(leaf)).collect();
    assert!(keys.len() > 150, "{keys:?}");
    let weakening = weakening();
    let mut classes: Vec<&str> = weakening.iter().map(|(key, _)| key.as_str()).collect();
    classes.extend(HARMLESS);
    for key in &keys {
        let count = classes.iter().filter(|class| covers(class, key)).count();
        assert_eq!(
            count, 1,
            "{key}: add a new key to one of the lists; if it weakens protection, also to `weakening_keys` and `clamp_to`"
        );
    }
    for class in classes {
        let is_known = keys.iter().any(|key| covers(class, key));
        assert!(is_known, "{class} is not a key");
    }
    let below = strict();
    for (key, value) in weakening {
        let file = sample(&key, value);
        let found = weakening_keys(&file, &below);
        assert_eq!(found.len(), 1, "{file}: {found:?}");
    }
}

/// Rules among the keys that weaken protection, whose samples an administrator of a shared server may set.
const WEAKENING_RULES: [&str; 11] = [
    "approval.default",
    "approval.tools",
    "limits",
    "network.allowedHosts",
    "policy.rules",
    "tools.maxExecutionTime",
    "tools.*.approval.conditions.unknownHostRequiresApproval",
    "tools.*.approval.level",
    "tools.*.limits",
    "tools.*.network.allowedHosts",
    "tools.*.rules",
];

/// Rules among the other keys.
const HARMLESS_RULES: [&str; 9] = [
    "execApprovals.approvals",
    "files.deny",
    "policy.allow",
    "policy.deny",
    "policy.groups",
    "tools.*.approval.conditions.methodRequiresApproval",
    "tools.*.approval.dangerPatterns",
    "tools.*.deny",
    "tools.*.enabled",
];

#[test]
fn config_rule_keys_are_those_about_calls_only() {
    let is_rule = |key: &str| {
        let path: Vec<&str> = key.split('.').collect();
        Config::is_rule_key(&path)
    };
    for (key, _) in weakening() {
        let expected = WEAKENING_RULES.iter().any(|rule| covers(rule, &key));
        assert_eq!(is_rule(&key), expected, "{key}");
    }
    for key in HARMLESS {
        assert_eq!(is_rule(key), HARMLESS_RULES.contains(&key), "{key}");
    }
    for key in [
        "",
        "tools",
        "tools.exec",
        "network",
        "execApprovals",
        "files",
        "policys.deny",
    ] {
        assert!(!is_rule(key), "{key}");
    }
}
