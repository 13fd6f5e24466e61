use mimir_core::config::AuditFailureMode;
use mimir_core::{Decision, ToolErrorCode};

use super::*;

fn file(text: &str) -> Result<ConfigFile, ToolError> {
    let place = ConfigLocation {
        path: "config.yml".into(),
        shown: ".mimir/config.yml".into(),
        owner: ConfigOwner::User,
    };
    ConfigFile::parse(place, text)
}

fn fault(text: &str) -> String {
    let error = file(text).unwrap_err();
    assert_eq!(error.code, ToolErrorCode::InvalidInput);
    error.message
}

#[test]
fn config_unknown_key_error_has_line_and_suggestion() {
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
fn config_errors_in_values_and_yaml_have_a_line() {
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
fn console_settings_of_a_project_have_no_effect() {
    let owned = |owner: ConfigOwner, text: &str| ConfigFile {
        owner,
        ..file(text).unwrap()
    };
    let mine = "console:\n  roles:\n    admin: [email:me@example.com]\n";
    let theirs = "console:\n  roles:\n    admin: [group:everyone]\n";
    let user = || owned(ConfigOwner::User, mine);
    let project = || owned(ConfigOwner::Project, theirs);
    let console = |files: &[ConfigFile]| merge::merge_layers(files).unwrap().console;
    assert_eq!(console(&[user(), project()]), user().config.console);
    assert_eq!(console(&[project()]), None);
    let team = owned(ConfigOwner::Machine, theirs);
    assert_eq!(console(&[team, user()]), project().config.console);
}

#[test]
fn config_of_only_comments_is_valid() {
    assert!(file("# nothing\n").is_ok());
    assert!(file("").is_ok());
}

#[test]
fn config_tool_without_settings_is_an_empty_block() {
    for nothing in ["", "~", "null", "{}"] {
        let one = || file(&format!("tools:\n  git: {nothing}\n")).unwrap();
        assert_eq!(one().config.tools.each["git"], Default::default());
        let both = merge::merge_layers(&[one(), one()]).unwrap();
        assert!(both.tools.each.contains_key("git"), "{nothing}");
    }
    let message = fault("tools:\n  git: ~\n  A-B: ~\n");
    assert!(message.starts_with(".mimir/config.yml:2:"), "{message}");
    let message = fault("profile: compat\ntools: {exec: {enabled: 3}}\n");
    assert!(message.starts_with(".mimir/config.yml:1:"), "{message}");
}

#[test]
fn config_merge_prefers_workspace_and_unions_deny_lists() {
    let user = file("profile: compact\nlimits: {timeMs: 1000, fuel: 5}\ntools: {git: {approval: deny, deny: [a]}}\n").unwrap();
    let own = file("limits: {timeMs: 2000}\ntools: {git: {approval: allow, deny: [b]}}\n").unwrap();
    let config = merge::merge_layers(&[user, own]).unwrap();
    assert_eq!(config.limits.time_ms, Some(2000));
    assert_eq!(config.limits.fuel, Some(5));
    assert_eq!(config.profile, mimir_core::config::ToolProfile::Compact);
    assert_eq!(config.tools.each["git"].deny, ["a", "b"]);
    assert_eq!(
        config.tools.each["git"].approval.level(),
        Some(Decision::Allow),
        "the merged value is not that of the workspace"
    );
}

#[test]
fn config_merge_keeps_audit_refuse_from_either_file() {
    let says = |word: &str| file(&format!("audit: {{onFailure: {word}}}\n")).unwrap();
    let silent = || file("profile: fine\n").unwrap();
    for (user, own, wanted) in [
        (says("refuse"), says("run"), AuditFailureMode::Refuse),
        (says("run"), says("refuse"), AuditFailureMode::Refuse),
        (says("run"), silent(), AuditFailureMode::Run),
        (silent(), says("run"), AuditFailureMode::Run),
        (silent(), silent(), AuditFailureMode::Refuse),
    ] {
        let config = merge::merge_layers(&[user, own]).unwrap();
        assert_eq!(config.audit.on_failure, wanted);
    }
}

#[test]
fn config_reads_user_and_workspace_files() {
    let dir = tempfile::tempdir().unwrap();
    let places = UserDirs {
        config: Some(dir.path().join("user")),
        ..UserDirs::default()
    };
    let workspace = WorkspaceFolder::find(Some(dir.path())).unwrap();
    assert!(
        MergedSettings::read(&places, &workspace)
            .unwrap()
            .files
            .is_empty()
    );
    std::fs::create_dir_all(dir.path().join("user")).unwrap();
    std::fs::create_dir_all(workspace.mimir_dir()).unwrap();
    std::fs::write(dir.path().join("user/config.yml"), "profile: compact\n").unwrap();
    std::fs::write(workspace.config(), "policy: {deny: [git]}\n").unwrap();
    let settings = MergedSettings::read(&places, &workspace).unwrap();
    assert_eq!(settings.files.len(), 2);
    assert_eq!(settings.config.policy.deny, ["git"]);
    std::fs::write(workspace.config(), [0xff, 0xfe]).unwrap();
    assert!(MergedSettings::read(&places, &workspace).is_err());
}

fn team(text: &str) -> ConfigFile {
    ConfigFile {
        owner: ConfigOwner::Machine,
        ..file(text).unwrap()
    }
}

#[test]
fn team_settings_override_only_the_keys_they_set() {
    let user = || {
        file("profile: compact\naudit: {onFailure: run, keep: 3}\napprovals: {leaseDays: 30}\n")
            .unwrap()
    };
    let silent = merge::merge_layers(&[team("limits: {fuel: 2000}\n"), user()]).unwrap();
    assert_eq!((silent.audit.keep, silent.approvals.lease_days), (3, 30));
    assert_eq!(silent.audit.on_failure, AuditFailureMode::Run);
    assert_eq!(silent.profile, mimir_core::config::ToolProfile::Compact);
    let says = "profile: fine\naudit: {keep: 9, logArgs: true}\napprovals: {leaseDays: 1}\nsecrets: {A: {env: B}}\n";
    let above = merge::merge_layers(&[team(says), user()]).unwrap();
    assert_eq!((above.audit.keep, above.approvals.lease_days), (9, 1));
    assert!(above.audit.log_args && above.secrets.contains_key("A"));
    assert_eq!(above.profile, mimir_core::config::ToolProfile::Fine);
    let refuses = merge::merge_layers(&[team("audit: {onFailure: refuse}\n"), user()]).unwrap();
    assert_eq!(refuses.audit.on_failure, AuditFailureMode::Refuse);
    let alone = merge::merge_layers(&[team("audit: {onFailure: run}\n")]).unwrap();
    assert_eq!(alone.audit.on_failure, AuditFailureMode::Run);
    // An unaccepted file falls back to the files below it, and team settings still override the result.
    let unaccepted = ConfigFile {
        unaccepted: true,
        ..file("audit: {keep: 77, logArgs: false}\n").unwrap()
    };
    let held = merge::merge_layers(&[team(says), unaccepted]).unwrap();
    assert!(held.audit.keep == 9 && held.audit.log_args);
}

#[test]
fn trust_rules_have_the_layers_of_their_files() {
    let owned = |owner, key: &str, more: &str| ConfigFile {
        owner,
        ..file(&format!(
            "trust: [{{registry: r.example.com/{key}, keys: [/{key}.pub]}}]\n{more}"
        ))
        .unwrap()
    };
    let files = [
        owned(ConfigOwner::Machine, "machine", ""),
        owned(
            ConfigOwner::JoinedTeam,
            "first",
            "enforcement: {requireSignature: true}\n",
        ),
        owned(ConfigOwner::JoinedTeam, "second", ""),
        owned(
            ConfigOwner::User,
            "user",
            "enforcement: {requireSignature: true}\ntrustRoot: /user.json\n",
        ),
        owned(
            ConfigOwner::Project,
            "project",
            "trustRoot: /project.json\n",
        ),
    ];
    let merged = merge::merge_layers(&files).unwrap();
    let mut rules: Vec<_> = merged.trust.iter().collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.layer));
    let keys: Vec<_> = rules.iter().map(|rule| rule.keys[0].as_str()).collect();
    let expected = [
        "/machine.pub",
        "/first.pub",
        "/second.pub",
        "/user.pub",
        "/project.pub",
    ];
    assert_eq!(keys, expected);
    assert_eq!(merged.trust_layers.signature, Some(rules[1].layer));
    assert_eq!(merged.trust_root.as_deref(), Some("/user.json"));
    assert_eq!(merged.trust_layers.root, rules[3].layer);
}

/// A machine with its team file in `folder`.
#[cfg(unix)]
fn machine(folder: &std::path::Path) -> (UserDirs, WorkspaceFolder, PathBuf) {
    let path = folder.join("etc/team.yml");
    std::fs::create_dir_all(folder.join("etc")).unwrap();
    std::fs::create_dir_all(folder.join("work")).unwrap();
    let places = UserDirs {
        team: vec![path.clone()],
        ..UserDirs::default()
    };
    let workspace = WorkspaceFolder::find(Some(&folder.join("work"))).unwrap();
    (places, workspace, path)
}

#[test]
#[cfg(unix)]
fn team_file_behind_a_link_is_checked_like_the_file() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (places, workspace, path) = machine(folder.path());
    let read = || MergedSettings::read(&places, &workspace);
    let target = folder.path().join("safe/team.yml");
    symlink(&target, &path).unwrap();
    // The target is on a share that is not mounted.
    let error = read().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::FileNotFound);
    assert!(error.message.contains("behind a link"), "{}", error.message);
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::write(&target, "policy: {deny: [git]}\n").unwrap();
    assert_eq!(read().unwrap().files.len(), 1);
    // Who can write the folder of the link can replace it.
    let etc = folder.path().join("etc");
    std::fs::set_permissions(&etc, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = read().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied);
    assert!(error.message.ends_with("/etc'"), "{}", error.message);
    // A link in the place of the folder.
    std::fs::remove_dir_all(&etc).unwrap();
    symlink(folder.path().join("gone"), &etc).unwrap();
    assert_eq!(read().unwrap_err().code, ToolErrorCode::FileNotFound);
    std::fs::remove_file(&etc).unwrap();
    assert!(read().unwrap().files.is_empty());
}

#[test]
fn sync_settings_are_without_the_file_of_the_project() {
    let folder = tempfile::tempdir().unwrap();
    let user = folder.path().join("user");
    let work = folder.path().join("work");
    std::fs::create_dir_all(work.join(".mimir")).unwrap();
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("config.yml"), "network: {blockedPorts: [25]}\n").unwrap();
    let places = UserDirs {
        config: Some(user),
        ..UserDirs::default()
    };
    let workspace = WorkspaceFolder::find(Some(&work)).unwrap();
    for text in ["network: {mode: none}\n", "polcy: {}\n", "teams: {}\n"] {
        std::fs::write(work.join(".mimir/config.yml"), text).unwrap();
        let settings = MergedSettings::read_for_sync(&places, &workspace).unwrap();
        let network = &settings.config.network;
        assert_eq!(network.mode, None, "{text}");
        assert!(network.blocked_ports.is_some(), "{text}");
    }
}

#[test]
#[cfg(unix)]
fn team_file_writable_by_others_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (places, workspace, path) = machine(folder.path());
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let read = || MergedSettings::read(&places, &workspace);
    assert!(read().unwrap().files.is_empty());
    std::fs::write(&path, "policy: {deny: [git]}\n").unwrap();
    for (file, dir, refused) in [
        (0o644, 0o755, None),
        (0o600, 0o700, None),
        (0o664, 0o755, Some("team.yml")),
        (0o646, 0o755, Some("team.yml")),
        (0o644, 0o775, Some("etc")),
    ] {
        mode(&path, file);
        mode(&folder.path().join("etc"), dir);
        match (read(), refused) {
            (Ok(settings), None) => assert_eq!(settings.files[0].owner, ConfigOwner::Machine),
            (Err(error), Some(place)) => {
                assert_eq!(error.code, ToolErrorCode::PermissionDenied);
                let wanted = format!("/{place}'");
                let said = &error.message;
                assert!(
                    said.contains("chmod go-w '") && said.ends_with(&wanted),
                    "{said}"
                );
            }
            (other, _) => panic!("{file:o} {dir:o}: {other:?}"),
        }
    }
}

#[test]
#[cfg(unix)]
fn team_file_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (places, workspace, path) = machine(folder.path());
    let fails = |places: &UserDirs| MergedSettings::read(places, &workspace).unwrap_err();
    std::fs::write(&path, "profile: fine\npolcy: {}\n").unwrap();
    let broken = fails(&places);
    assert!(
        broken.message.contains("team.yml:2:1: unknown key `polcy`"),
        "{broken}"
    );
    std::fs::write(&path, [0xff]).unwrap();
    assert_eq!(fails(&places).code, ToolErrorCode::InvalidInput);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(fails(&places).message.contains("not a regular file"));
    for (named, why) in [
        ("relative.yml", "absolute path"),
        ("/no/such/file", "not there"),
    ] {
        let named = UserDirs {
            named_team: Some(named.into()),
            ..UserDirs::default()
        };
        assert!(fails(&named).message.contains(why), "{named:?}");
    }
}

#[test]
#[cfg(unix)]
fn team_files_of_machine_and_variable_merge_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut places, workspace, path) = machine(folder.path());
    std::fs::write(&path, "audit: {keep: 5}\n").unwrap();
    let named = folder.path().join("named.yml");
    std::fs::write(&named, "audit: {keep: 6, maxBytes: 9000}\n").unwrap();
    places.named_team = Some(named);
    let both = MergedSettings::read(&places, &workspace).unwrap();
    let audit = both.config.audit;
    assert_eq!(
        (audit.keep, audit.max_bytes),
        (5, 9000),
        "the machine's file does not take precedence"
    );
    assert_eq!(both.team().count(), 2);
    places.named_team = Some(path);
    assert_eq!(
        MergedSettings::read(&places, &workspace)
            .unwrap()
            .files
            .len(),
        1
    );
}

#[test]
fn config_relative_paths_resolve_from_user_config_files() {
    let text = "network: {extraRoots: [ca.pem, /etc/own.pem]}\ntools: {git: {network: {extraRoots: [git.pem]}}}\n";
    let read = |whose| {
        let place = ConfigLocation {
            path: "/home/me/mimir/config.yml".into(),
            shown: "config.yml".into(),
            owner: whose,
        };
        ConfigFile::parse(place, text).unwrap()
    };
    for whose in [
        ConfigOwner::User,
        ConfigOwner::Machine,
        ConfigOwner::NamedTeam,
    ] {
        let own_file = read(whose);
        let own = ["/home/me/mimir/ca.pem", "/etc/own.pem"];
        assert_eq!(own_file.config.network.extra_roots, own, "{whose:?}");
        let git = &own_file.config.tools.each["git"].network.extra_roots;
        assert_eq!(*git, ["/home/me/mimir/git.pem"], "{whose:?}");
        if whose.is_team() {
            continue;
        }
        // Also when merged with another file.
        let other = file("profile: fine\n").unwrap();
        let both = merge::merge_layers(&[own_file, other]).unwrap();
        assert_eq!(both.network.extra_roots, own);
    }
    let project = read(ConfigOwner::Project);
    assert_eq!(
        project.config.network.extra_roots,
        ["ca.pem", "/etc/own.pem"]
    );
}

#[test]
fn config_merge_does_not_mix_search_provider_and_key() {
    let user = file("webSearch: {provider: brave, key: OWN}\n").unwrap();
    let own = file("webSearch: {provider: searxng, url: 'https://s.example'}\n").unwrap();
    let both = merge::merge_layers(&[user.clone(), own]).unwrap();
    let search = both.web_search.unwrap();
    assert_eq!(
        (search.key, search.url.as_deref()),
        (None, Some("https://s.example"))
    );
    let neither = file("profile: fine\n").unwrap();
    let kept = merge::merge_layers(&[user, neither])
        .unwrap()
        .web_search
        .unwrap();
    assert_eq!(kept.key.as_deref(), Some("OWN"));
}

/// A project gives a model provider's name another address, to receive the user's key. The user has accepted the file.
#[test]
fn project_hosts_do_not_apply_to_requests_with_keys() {
    let of = |owner, text: &str| {
        let mut parsed = file(text).unwrap();
        parsed.owner = owner;
        parsed
    };
    let project = "network: {hosts: {api.openai.com: 127.0.0.1, own.example: 10.0.0.9, both.example: 127.0.0.1}}\n";
    let files = vec![
        of(
            ConfigOwner::User,
            "network: {hosts: {models.example: 10.0.0.1, both.example: 10.0.0.2}}\n",
        ),
        of(ConfigOwner::Project, project),
    ];
    let settings = MergedSettings {
        config: merge::merge_layers(&files).unwrap(),
        files,
        ..MergedSettings::default()
    };
    let address = |settings: &MergedSettings, name: &str| {
        let target =
            mimir_core::network::RequestTarget::parse(&format!("https://{name}/v1")).unwrap();
        let network = settings.policy().unwrap().own_network();
        let addresses = network.addresses(&target);
        addresses.map(|addresses| addresses[0].to_string())
    };
    // An accepted file counts for other requests, so that the difference is that of the method.
    assert_eq!(address(&settings, "api.openai.com").unwrap(), "127.0.0.1");
    let keyed = settings.without_project_hosts();
    for name in ["api.openai.com", "own.example"] {
        assert_eq!(address(&keyed, name), None, "{name}");
    }
    assert_eq!(address(&keyed, "models.example").unwrap(), "10.0.0.1");
    assert_eq!(address(&keyed, "both.example").unwrap(), "10.0.0.2");
}
