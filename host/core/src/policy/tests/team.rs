//! A team's file: it ranks above the other files, and its limits are caps.

use serde_json::{Value, json};

use std::time::Duration;

use crate::config::Config;
use crate::limits::Limits;
use crate::pipeline::tests::tool;
use crate::policy::{Policy, PolicyFile};
use crate::tool::{Tool, ToolName};

fn config(value: Value) -> Config {
    serde_json::from_value(value).unwrap()
}

/// Creates the tool `sample` with the alias `alias`.
fn sample() -> Tool {
    let mut sample = tool("sample");
    sample.aliases = vec![ToolName::new("alias").unwrap()];
    sample
}

/// Creates a policy with a team's file and a user's file.
fn policy(team: Value, user: Value) -> Policy {
    let (team, user) = (config(team), config(user));
    let files = vec![
        PolicyFile::new(&team, "team.yml").unwrap().as_team(),
        PolicyFile::new(&user, "config.yml").unwrap(),
    ];
    Policy::from_files(&user, files)
}

/// Returns the limits of `sample` under both files.
fn limits(team: Value, user: Value) -> Limits {
    policy(team, user).limits(&sample())
}

#[test]
fn team_limits_are_a_cap() {
    let user = json!({"limits": {"timeMs": 90_000, "fuel": 5_000, "callsPerMinute": 100}});
    let own = limits(json!({}), user.clone());
    assert_eq!(
        (own.wall, own.fuel, own.calls_per_minute),
        (Duration::from_secs(90), 5_000, Some(100))
    );
    let capped = limits(
        json!({"limits": {"timeMs": 1_000, "fuel": 9_000, "callsPerMinute": 7}}),
        user.clone(),
    );
    let expected = Limits {
        wall: Duration::from_secs(1),
        calls_per_minute: Some(7),
        ..own
    };
    assert_eq!(capped, expected, "a limit is not the smaller of the two");
    let silent = limits(json!({"limits": {"callsPerMinute": 7}}), json!({}));
    assert_eq!(silent.calls_per_minute, Some(7));
    let wider = limits(json!({"limits": {"timeMs": 600_000}}), json!({}));
    assert_eq!(
        wider.wall,
        Limits::default().wall,
        "the cap raised the limit"
    );
    let longest = limits(json!({"tools": {"maxExecutionTime": 300}}), user);
    assert_eq!(longest.wall, Duration::from_millis(300));
}

#[test]
fn team_limits_apply_under_every_tool_name() {
    let team = json!({"limits": {"timeMs": 500}, "tools": {"alias": {"limits": {"timeMs": 2_000, "fuel": 1_500}}}});
    for name in ["sample", "alias"] {
        let user = json!({"tools": {name: {"limits": {"timeMs": 90_000, "fuel": 9_000}}}});
        let limits = limits(team.clone(), user);
        // A value for the tool wins over a value for all tools, as in every file.
        assert_eq!(
            (limits.wall, limits.fuel),
            (Duration::from_secs(2), 1_500),
            "{name}"
        );
    }
    let both = json!({"tools": {"sample": {"limits": {"fuel": 3_000}}, "alias": {"limits": {"fuel": 2_000}}}});
    assert_eq!(limits(both, json!({})).fuel, 2_000);
}

#[test]
fn team_audit_setting_wins_over_the_user() {
    let log = |name: &str, logs: bool| json!({"tools": {name: {"audit": {"logArgs": logs}}}});
    let logs = |team, user| policy(team, user).logs_arguments(&sample(), None);
    assert_eq!(logs(log("sample", true), log("sample", false)), Some(true));
    assert_eq!(logs(log("alias", true), log("sample", false)), Some(true));
    assert_eq!(logs(log("sample", false), log("sample", true)), Some(false));
    assert_eq!(logs(log("other", true), log("sample", false)), Some(false));
    assert_eq!(logs(json!({}), json!({})), None);
}
