use mimir_core::config::OnFailure;
use mimir_core::{Code, Decision};

use super::*;

fn file(text: &str) -> Result<ConfigFile, ToolError> {
    ConfigFile::parse("config.yml".into(), ".mimir/config.yml".into(), text)
}

fn fault(text: &str) -> String {
    let error = file(text).unwrap_err();
    assert_eq!(error.code, Code::InvalidInput);
    error.message
}

#[test]
fn an_unknown_key_has_a_line_and_the_nearest_name() {
    let message = fault("profile: fine\npolcy:\n  deny: []\n");
    assert!(message.starts_with(".mimir/config.yml:2:1: "), "{message}");
    assert!(
        message.contains("unknown key `polcy`. Did you mean `policy`?"),
        "{message}"
    );
    let message = fault("tools:\n  git:\n    enable: true\n");
    assert!(message.starts_with(".mimir/config.yml:3:5: "), "{message}");
    assert!(message.contains("Did you mean `enabled`"), "{message}");
}

#[test]
fn wrong_values_and_broken_yaml_have_a_line() {
    let message = fault("tools:\n  git:\n    approval: alow\n");
    assert!(
        message.contains(":3:") && message.contains("Did you mean `allow`"),
        "{message}"
    );
    let message = fault("limits:\n  timeMs: soon\n");
    assert!(message.contains(":2:"), "{message}");
    let message = fault("a: [1\nb: 2\n");
    assert!(message.starts_with(".mimir/config.yml:"), "{message}");
    let message = fault("policy:\n  deny: []\n  deny: []\n");
    assert!(message.contains("deny"), "{message}");
}

#[test]
fn comments_alone_are_a_config() {
    assert!(file("# nothing\n").is_ok());
    assert!(file("").is_ok());
}

#[test]
fn the_workspace_wins_and_nothing_forbidden_is_allowed_again() {
    let user = file("profile: compact\nlimits: {timeMs: 1000, fuel: 5}\ntools: {git: {approval: deny, deny: [a]}}\n").unwrap();
    let own = file("limits: {timeMs: 2000}\ntools: {git: {approval: allow, deny: [b]}}\n").unwrap();
    let config = merge::layers(&[user, own]).unwrap();
    assert_eq!(config.limits.time_ms, Some(2000));
    assert_eq!(config.limits.fuel, Some(5));
    assert_eq!(config.profile, mimir_core::config::Profile::Compact);
    assert_eq!(config.tools.each["git"].deny, ["a", "b"]);
    assert_eq!(
        config.tools.each["git"].approval.level(),
        Some(Decision::Allow),
        "the policy asks both files"
    );
}

#[test]
fn a_record_that_one_file_insists_on_is_kept() {
    let says = |word: &str| file(&format!("audit: {{onFailure: {word}}}\n")).unwrap();
    let silent = || file("profile: fine\n").unwrap();
    for (user, own, wanted) in [
        (says("refuse"), says("run"), OnFailure::Refuse),
        (says("run"), says("refuse"), OnFailure::Refuse),
        (says("run"), silent(), OnFailure::Run),
        (silent(), says("run"), OnFailure::Run),
        (silent(), silent(), OnFailure::Refuse),
    ] {
        let config = merge::layers(&[user, own]).unwrap();
        assert_eq!(config.audit.on_failure, wanted);
    }
}

#[test]
fn both_files_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places {
        config: Some(dir.path().join("user")),
        ..Places::default()
    };
    let workspace = Workspace::find(Some(dir.path())).unwrap();
    assert!(
        Settings::read(&places, &workspace)
            .unwrap()
            .files
            .is_empty()
    );
    std::fs::create_dir_all(dir.path().join("user")).unwrap();
    std::fs::create_dir_all(workspace.dot()).unwrap();
    std::fs::write(dir.path().join("user/config.yml"), "profile: compact\n").unwrap();
    std::fs::write(workspace.config(), "policy: {deny: [git]}\n").unwrap();
    let settings = Settings::read(&places, &workspace).unwrap();
    assert_eq!(settings.files.len(), 2);
    assert_eq!(settings.config.policy.deny, ["git"]);
    std::fs::write(workspace.config(), [0xff, 0xfe]).unwrap();
    assert!(Settings::read(&places, &workspace).is_err());
}
