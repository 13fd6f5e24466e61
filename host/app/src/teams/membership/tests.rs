use std::fs;

use mimir_core::policy::EnforcedTools;
use mimir_registry::signature::{DsseEnvelope, KeyAlgorithm, SigningKey};
use mimir_registry::team::{AcceptedBundle, BUNDLE_PAYLOAD_TYPE, TeamBundle, TeamIdentity};

use super::*;

/// A machine whose file requires the team `acme`, with its bundle in force.
struct Machine {
    home: tempfile::TempDir,
    user_dirs: UserDirs,
    workspace: WorkspaceFolder,
    key: SigningKey,
}

impl Machine {
    fn new(settings: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("work/.mimir")).unwrap();
        fs::create_dir_all(at("user")).unwrap();
        let user_dirs = UserDirs {
            config: Some(at("user")),
            team: vec![at("team.yml")],
            named_team: Some(at("named.yml")),
            ..UserDirs::default()
        };
        let machine = Self {
            workspace: WorkspaceFolder::find(Some(&at("work"))).unwrap(),
            key: SigningKey::generate(KeyAlgorithm::Ed25519).unwrap(),
            user_dirs,
            home,
        };
        let pem = machine.key.verifying_key().to_pem();
        machine.write("team.yml", &block("acme", &pem));
        machine.write("named.yml", "");
        machine.put("acme", settings);
        machine
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Puts a bundle in force.
    fn put(&self, org_id: &str, settings: &str) {
        let team = TeamIdentity {
            org_id: org_id.to_owned(),
            name: org_id.to_owned(),
        };
        let issued_at = "2026-01-01T00:00:00Z".parse().unwrap();
        let expires_at = "9000-01-01T00:00:00Z".parse().unwrap();
        let bundle = TeamBundle {
            settings: settings.to_owned(),
            ..TeamBundle::new(1, team, issued_at, expires_at)
        };
        let payload = bundle.to_payload().unwrap();
        let envelope = DsseEnvelope::sign(BUNDLE_PAYLOAD_TYPE, &payload, &self.key).unwrap();
        let envelope = envelope.to_json().unwrap();
        let keys = [self.key.verifying_key().clone()];
        let now = super::super::team_in_force::now();
        let accepted = AcceptedBundle::check(&envelope, org_id, &keys, None, now).unwrap();
        let store = TeamStore::new(&self.user_dirs, org_id).unwrap();
        let _lock = store.lock().unwrap();
        store.put(&envelope, &accepted).unwrap();
    }

    fn read(&self) -> Result<MergedSettings, ToolError> {
        MergedSettings::read(&self.user_dirs, &self.workspace)
    }
}

fn block(org_id: &str, key: &str) -> String {
    let key = serde_json::to_string(key).unwrap();
    format!(
        "teams: {{enabled: true, orgId: {org_id}, reference: registry.example.com/a/b, keys: [{key}]}}\n"
    )
}

#[test]
fn team_policy_of_a_variable_is_below_the_bundle_that_the_machine_requires() {
    let machine = Machine::new("profile: fine\n");
    machine.write("named.yml", "profile: compact\n");
    let settings = machine.read().unwrap();
    let owners: Vec<ConfigOwner> = settings.files.iter().map(|file| file.owner).collect();
    assert_eq!(
        owners,
        [
            ConfigOwner::Machine,
            ConfigOwner::JoinedTeam,
            ConfigOwner::NamedTeam
        ]
    );
    let layers = settings.layer_values(&["profile".to_owned()]);
    let owners: Vec<ConfigOwner> = layers.iter().map(|layer| layer.owner).collect();
    assert_eq!(owners, [ConfigOwner::JoinedTeam, ConfigOwner::NamedTeam]);
    // The file can disable no tool that the required team enforces, and the team only its own.
    assert_eq!(settings.files[0].disables, EnforcedTools::All);
    let own = EnforcedTools::At("team:acme/".to_owned());
    assert_eq!(settings.files[1].disables, own);
    assert_eq!(settings.files[2].disables, EnforcedTools::None);
}

#[test]
fn team_of_the_user_is_ignored_below_a_required_one() {
    let machine = Machine::new("");
    let pem = machine.key.verifying_key().to_pem();
    machine.put("own", "");
    for name in ["user/config.yml", "named.yml"] {
        machine.write(name, &block("own", &pem));
        let settings = machine.read().unwrap();
        let teams = settings.teams.iter();
        let teams: Vec<&str> = teams.map(|team| team.membership.org_id.as_str()).collect();
        assert_eq!(teams, ["acme"], "{name}");
        machine.write(name, "");
    }
    // Without the required team, the user's own counts.
    machine.write("team.yml", "");
    machine.write("user/config.yml", &block("own", &pem));
    assert_eq!(machine.read().unwrap().teams.len(), 1);
}

#[test]
#[cfg(unix)]
fn team_key_file_of_the_machine_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let machine = Machine::new("");
    let key = machine.write("acme.pub", &machine.key.verifying_key().to_pem());
    machine.write("team.yml", &block("acme", &key.display().to_string()));
    let mode = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    assert!(machine.read().is_ok());
    mode(0o666);
    let error = machine.read().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied);
    assert!(
        error.message.contains("the key of the team is not trusted"),
        "{}",
        error.message
    );
}

#[test]
fn team_files_are_listed_in_the_order_in_which_they_count() {
    use ConfigOwner::{JoinedTeam, Machine as MachineFile, NamedTeam, Project, User};
    let machine = Machine::new("");
    let owners = |machine: &Machine| -> Vec<ConfigOwner> {
        let locations = locations_with_bundles(&machine.user_dirs, &machine.workspace);
        locations.iter().map(|location| location.owner).collect()
    };
    assert_eq!(
        owners(&machine),
        [MachineFile, JoinedTeam, NamedTeam, User, Project]
    );
    let pem = machine.key.verifying_key().to_pem();
    machine.write("team.yml", "");
    for name in ["named.yml", "user/config.yml"] {
        machine.write("named.yml", "");
        machine.write(name, &block("acme", &pem));
        assert_eq!(
            owners(&machine),
            [MachineFile, NamedTeam, JoinedTeam, User, Project],
            "{name}"
        );
    }
}

#[test]
fn team_source_in_the_machine_file_does_not_mean_a_team_of_the_user() {
    let machine = Machine::new("");
    let pem = machine.key.verifying_key().to_pem();
    let only = "enforcement: {allowTools: ['source:teams']}\n";
    let refusal = |org_id: &str| {
        let mut tool = mimir_core::Tool::new(
            mimir_core::tool::ToolDefinition {
                name: mimir_core::ToolName::new("scan").unwrap(),
                title: None,
                description: String::new(),
                group: mimir_core::ToolGroup::System,
                input_schema: mimir_core::Schema::parse("{\"type\": \"object\"}").unwrap(),
                output_schema: None,
                approval: mimir_core::Decision::Allow,
                silent: false,
                risk: mimir_core::RiskLevel::Low,
                hints: mimir_core::ToolHints::default(),
                needs: mimir_core::Needs::default(),
            },
            mimir_core::ToolSource::Teams,
            std::sync::Arc::new(mimir_core::tool::ToolOrigin {
                location: format!("team:{org_id}/scan.wasm"),
                ..mimir_core::tool::ToolOrigin::default()
            }),
            mimir_core::tool::ToolTrust::Trusted,
            std::sync::Arc::new(NoBackend),
        );
        tool.enforced = true;
        let policy = machine.read().unwrap().policy().unwrap();
        policy.refusal(&tool).map(|reason| reason.text)
    };
    machine.write("team.yml", &format!("{only}{}", block("acme", &pem)));
    assert_eq!(refusal("acme"), None);
    // Without a team of the machine, one that the user has joined, or named by a variable, does not take its place.
    machine.write("team.yml", only);
    for name in ["user/config.yml", "named.yml"] {
        machine.write(name, &block("acme", &pem));
        let text = refusal("acme").unwrap();
        assert!(text.contains("does not require"), "{name}: {text}");
    }
    // The same line in a file that a variable names means the team that this file requires.
    machine.write("team.yml", "");
    machine.write("named.yml", &format!("{only}{}", block("acme", &pem)));
    assert_eq!(refusal("acme"), None);
    machine.write("named.yml", only);
    machine.write("user/config.yml", &block("acme", &pem));
    assert!(refusal("acme").is_some());
    machine.write("named.yml", "");
    machine.write("user/config.yml", &format!("{only}{}", block("acme", &pem)));
    assert_eq!(refusal("acme"), None);
}

/// A backend that is never called.
struct NoBackend;

impl mimir_core::Backend for NoBackend {
    fn run(
        &self,
        _: mimir_core::pipeline::Approved,
    ) -> mimir_core::BoxFuture<'_, mimir_core::RawResult> {
        unreachable!("the tool is not called")
    }
}

#[test]
fn team_membership_that_is_ignored_is_listed() {
    let machine = Machine::new("");
    let pem = machine.key.verifying_key().to_pem();
    machine.put("own", "");
    machine.write("user/config.yml", &block("own", &pem));
    let settings =
        MergedSettings::read_without_teams(&machine.user_dirs, &machine.workspace).unwrap();
    let (counting, ignored) = all_memberships(&settings.files).unwrap();
    let ids = |memberships: &[TeamMembership]| -> Vec<String> {
        let ids = memberships.iter().map(|membership| &membership.org_id);
        ids.cloned().collect()
    };
    assert_eq!(
        (ids(&counting), ids(&ignored)),
        (vec!["acme".to_owned()], vec!["own".to_owned()])
    );
}
