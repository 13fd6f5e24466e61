//! Tests of the settings that weaken protection.

use super::*;
use serde_json::json;

mod key_classes;

fn config(value: serde_json::Value) -> Config {
    serde_json::from_value(value).unwrap()
}

/// Returns the weakening keys of a file.
fn weakening_keys(file: &serde_json::Value, below: &Config) -> Vec<String> {
    config(file.clone()).weakening_keys(below, |key| {
        let pointer = format!("/{}", key.replace('.', "/"));
        file.pointer(&pointer).is_some()
    })
}

#[test]
fn config_default_values_that_weaken_are_listed_only_if_they_are_set() {
    let below = config(json!({
        "audit": {"durability": "fsync", "logArgs": true, "maxBytes": 9000, "keep": 90},
        "approvals": {"timeoutMs": 1000, "leaseDays": 1}, "tools": {"autoLoadCustomTools": false},
    }));
    for (file, key) in [
        (
            json!({"audit": {"durability": "write"}}),
            "audit.durability: write",
        ),
        (json!({"audit": {"logArgs": false}}), "audit.logArgs: false"),
        (
            json!({"audit": {"maxBytes": 16 << 20}}),
            "audit.maxBytes: 16777216",
        ),
        (json!({"audit": {"keep": 20}}), "audit.keep: 20"),
        (
            json!({"approvals": {"timeoutMs": 600_000}}),
            "approvals.timeoutMs",
        ),
        (
            json!({"approvals": {"leaseDays": 90}}),
            "approvals.leaseDays",
        ),
        (
            json!({"tools": {"autoLoadCustomTools": true}}),
            "tools.autoLoadCustomTools: true",
        ),
    ] {
        assert_eq!(weakening_keys(&file, &below), [key], "{file}");
    }
    for silent in [
        json!({}),
        json!({"audit": {"keep": 90}}),
        json!({"approvals": {"leaseDays": 1}}),
    ] {
        assert_eq!(weakening_keys(&silent, &below), Vec::<String>::new());
    }
}

#[test]
fn config_keys_that_weaken_the_policy_are_listed() {
    let below = config(json!({"limits": {"timeMs": 1000}, "tools": {"maxExecutionTime": 1000}}));
    for (file, key) in [
        (
            json!({"tools": {"maxExecutionTime": 1001}}),
            "tools.maxExecutionTime",
        ),
        (
            json!({"tools": {"a": {"approval": "auto"}}}),
            "tools.a.approval: allow",
        ),
        (json!({"sandbox": "none"}), "sandbox.mode"),
        (
            json!({"sandbox": {"networkAccess": true}}),
            "sandbox.networkAccess",
        ),
        (
            json!({"sandbox": {"bindMounts": ["/data"]}}),
            "sandbox.bindMounts: /data",
        ),
        (
            json!({"sandbox": {"maxMemoryMb": 9000}}),
            "sandbox.maxMemoryMb",
        ),
        (
            json!({"sandbox": {"maxProcesses": 5000}}),
            "sandbox.maxProcesses",
        ),
        (json!({"sandbox": {"image": "x"}}), "sandbox.image"),
        (
            json!({"sandbox": {"images": {"python": "x"}}}),
            "sandbox.images",
        ),
        (
            json!({"tools": {"a": {"approval": {"level": "allow"}}}}),
            "tools.a.approval: allow",
        ),
        (
            json!({"tools": {"a": {"reveal": [".env"]}}}),
            "tools.a.reveal: [.env]",
        ),
        (
            json!({"tools": {"a": {"redaction": {"exceptions": ["x"]}}}}),
            "tools.a.redaction.exceptions: [x]",
        ),
        (
            json!({"tools": {"a": {"labels": {"outputTrust": "user"}}}}),
            "tools.a.labels",
        ),
        (
            json!({"tools": {"a": {"labels": {"acceptsUntrusted": true}}}}),
            "tools.a.labels",
        ),
        (
            json!({"tools": {"a": {"labels": {"outputDataClass": "public"}}}}),
            "tools.a.labels",
        ),
        (
            json!({"tools": {"a": {"audit": {"logArgs": true}}}}),
            "tools.a.audit.logArgs: true",
        ),
        (
            json!({"tools": {"a": {"limits": {"timeMs": 2000}}}}),
            "tools.a.limits",
        ),
        (json!({"tools": {"a": {"retries": 1}}}), "tools.a.retries"),
        (
            json!({"tools": {"a": {"cache": {"ttlMs": 1000}}}}),
            "tools.a.cache",
        ),
        (
            json!({"tools": {"a": {"rules": [{"decision": "allow"}]}}}),
            "tools.a.rules[0]: allow",
        ),
        (
            json!({"policy": {"rules": [{"decision": "ask"}, {"decision": "allow"}]}}),
            "policy.rules[1]: allow",
        ),
        (
            json!({"execApprovals": {"mode": "full"}}),
            "execApprovals.mode: full",
        ),
        (
            json!({"execApprovals": {"mode": "allowlist"}}),
            "execApprovals.approvals",
        ),
        (
            json!({"approval": {"default": "ask", "tools": {"a": "preApproved", "b": "ask"}}}),
            "approval.tools.a: allow",
        ),
        (json!({"limits": {"memoryMb": 512}}), "limits"),
        (
            json!({"approval": {"default": "preApproved"}}),
            "approval.default: allow",
        ),
        (
            json!({"approval": {"default": "auto", "tools": {"a": "ask"}}}),
            "approval.default: allow",
        ),
        (
            json!({"approvals": {"leaseDays": 900}}),
            "approvals.leaseDays",
        ),
        (
            json!({"approvals": {"timeoutMs": 3, "leaseDays": 900}}),
            "approvals.leaseDays",
        ),
        (json!({"audit": {"logArgs": true}}), "audit.logArgs: true"),
        (json!({"secrets": {"KEY": {"env": "HOME"}}}), "secrets.KEY"),
        (
            json!({"webSearch": {"provider": "searxng", "url": "https://s.example"}}),
            "webSearch",
        ),
        (
            json!({"embeddings": {"url": "https://e.example/v1", "model": "m"}}),
            "embeddings",
        ),
        (json!({"browser": {"profile": "work"}}), "browser"),
        (json!({"model": "openai/x"}), "model: openai/x"),
        (
            json!({"providers": {"mine": {"url": "https://m.example"}}}),
            "providers.mine",
        ),
        (
            json!({"agent": {"instructions": "x"}}),
            "agent.instructions",
        ),
        (json!({"agent": {"maxTurns": 900}}), "agent"),
        (json!({"network": {"mode": "any"}}), "network.mode: any"),
        (
            json!({"network": {"allowedHosts": ["a.example"]}}),
            "network.allowedHosts: [a.example]",
        ),
        (
            json!({"network": {"blockedPorts": [25]}}),
            "network.blockedPorts",
        ),
        (
            json!({"network": {"blockPrivateIPs": false}}),
            "network.blockPrivateIPs: false",
        ),
        (
            json!({"network": {"blockMetadataEndpoints": false}}),
            "network.blockMetadataEndpoints: false",
        ),
        (
            json!({"network": {"hosts": {"a.example": "10.0.0.1"}}}),
            "network.hosts: [a.example]",
        ),
        (
            json!({"network": {"extraRoots": ["ca.pem"]}}),
            "network.extraRoots: [ca.pem]",
        ),
        (
            json!({"tools": {"a": {"network": {"mode": "any"}}}}),
            "tools.a.network.mode: any",
        ),
    ] {
        assert_eq!(weakening_keys(&file, &below), [key], "{file}");
    }
    let strict = config(json!({
        "tools": {"a": {
            "approval": {"level": "ask", "dangerPatterns": ["x"]}, "enabled": true, "deny": ["x"],
            "limits": {"timeMs": 500}, "rules": [{"decision": "deny"}],
            "labels": {"outputTrust": "untrusted", "outputDataClass": "secret", "acceptsUntrusted": false},
        }},
        "policy": {"deny": ["b"], "allow": ["a"]}, "execApprovals": {"mode": "deny"},
        "approvals": {"timeoutMs": 3000, "leaseDays": 7},
        "limits": {"fuel": 5, "timeMs": 900}, "agent": {"maxTurns": 3, "maxCost": 1},
        "network": {"mode": "none", "allowedHosts": [], "blockPrivateIPs": true},
        "sandbox": {"maxMemoryMb": 64, "maxProcesses": 9, "maxCpuPercent": 900},
    }));
    assert_eq!(
        strict.weakening_keys(&below, |_| true),
        Vec::<String>::new()
    );
}

#[test]
fn config_untrusted_file_tightens_the_limits_of_commands() {
    let user = json!({"maxMemoryMb": 100, "maxProcesses": 10, "maxCpuPercent": 50});
    for (below, tight, wide) in [
        (json!({}), (64, 9, 80), (9000, 5000, 80)),
        (user, (64, 9, 40), (200, 20, 90)),
    ] {
        let below = config(json!({"sandbox": below}));
        let clamped = |(memory, processes, cpu): (u64, u64, u32)| {
            let limits =
                json!({"maxMemoryMb": memory, "maxProcesses": processes, "maxCpuPercent": cpu});
            let mut file = config(json!({"sandbox": limits}));
            file.clamp_to(&below);
            file.sandbox
        };
        let tightened = clamped(tight);
        assert_eq!(
            (
                tightened.max_memory_mb,
                tightened.max_processes,
                tightened.max_cpu_percent
            ),
            (Some(tight.0), Some(tight.1), Some(tight.2))
        );
        let widened = clamped(wide);
        assert_eq!(widened.max_memory_mb, below.sandbox.max_memory_mb);
        assert_eq!(widened.max_processes, below.sandbox.max_processes);
        // Without a setting of the user, commands have no limit of processor time.
        assert_eq!(
            widened.max_cpu_percent,
            below.sandbox.max_cpu_percent.or(Some(80))
        );
    }
}

#[test]
fn config_untrusted_file_is_clamped_to_the_files_below() {
    let below = config(json!({"limits": {"timeMs": 1000}, "tools": {"maxExecutionTime": 800}}));
    let mut file = config(json!({
        "limits": {"timeMs": 5000, "fuel": 5}, "audit": {"logArgs": true},
        "approvals": {"timeoutMs": 1, "leaseDays": 900}, "secrets": {"KEY": {"env": "X"}}, "tools": {"a": {"limits": {"memoryMb": 9999, "fuel": 3}}},
    }));
    file.clamp_to(&below);
    assert_eq!(file.limits().wall.as_millis(), 800);
    assert_eq!(file.limits().fuel, 5);
    let tool = file.tools.each["a"].limits.over(file.limits());
    assert_eq!((tool.memory, tool.fuel), (Limits::default().memory, 3));
    assert_eq!(file.audit, below.audit);
    assert_eq!(
        file.approvals.timeout_ms, 1,
        "the shorter timeout was reverted"
    );
    assert_eq!(file.approvals.lease_days, below.approvals.lease_days);
    // A secret that is only masked is given to no tool.
    assert!(file.secrets.is_empty());
    assert_eq!(file.masked_only["KEY"].env, "X");
}
