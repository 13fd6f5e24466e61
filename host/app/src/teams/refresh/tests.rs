use mimir_registry::signature::{DsseEnvelope, KeyAlgorithm, SigningKey};
use mimir_registry::team::{AcceptedBundle, BUNDLE_PAYLOAD_TYPE, TeamBundle, TeamIdentity};

use super::*;
use crate::settings::{ConfigFile, ConfigLocation, ConfigOwner};
use crate::user_dirs::UserDirs;

/// A member with these keys in the block `teams`, whose bundle was checked at `checked`.
fn member(keys: &str, checked: Timestamp) -> (tempfile::TempDir, TeamInForce) {
    let key = SigningKey::generate(KeyAlgorithm::Ed25519).unwrap();
    let identity = TeamIdentity {
        org_id: "acme".to_owned(),
        name: "Acme".to_owned(),
    };
    let issued_at = "2026-01-01T00:00:00Z".parse().unwrap();
    let expires_at = "2026-12-01T00:00:00Z".parse().unwrap();
    let bundle = TeamBundle::new(1, identity, issued_at, expires_at);
    let payload = bundle.to_payload().unwrap();
    let envelope = DsseEnvelope::sign(BUNDLE_PAYLOAD_TYPE, &payload, &key).unwrap();
    let envelope = envelope.to_json().unwrap();
    let public = [key.verifying_key().clone()];
    let accepted = AcceptedBundle::check(&envelope, "acme", &public, None, checked).unwrap();
    let home = tempfile::tempdir().unwrap();
    let user_dirs = UserDirs {
        config: Some(home.path().to_owned()),
        ..UserDirs::default()
    };
    let store = TeamStore::new(&user_dirs, "acme").unwrap();
    std::fs::create_dir_all(store.folder()).unwrap();
    let lock = store.lock().unwrap();
    store.put(&envelope, &accepted).unwrap();
    drop(lock);
    let pem = serde_json::to_string(&public[0].to_pem()).unwrap();
    let folder = serde_json::to_string(&home.path().display().to_string()).unwrap();
    let text = format!(
        "teams: {{enabled: true, orgId: acme, reference: {folder}, keys: [{pem}], {keys}}}\n"
    );
    let location = ConfigLocation {
        path: home.path().join("config.yml"),
        shown: "config.yml".to_owned(),
        owner: ConfigOwner::User,
    };
    let file = ConfigFile::parse(location, &text).unwrap();
    let membership = super::super::memberships(&[file]).unwrap().remove(0);
    let team = TeamInForce::read(&user_dirs, membership).unwrap();
    (home, team)
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

#[test]
fn team_is_outdated_after_max_age_hours() {
    let checked: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let (_home, team) = member("maxAgeHours: 5", checked);
    assert_eq!(team.outdated(checked + hours(4)), None);
    assert_eq!(team.deadline(), checked + hours(5));
    let outdated = team.outdated(checked + hours(5)).unwrap();
    assert_eq!(outdated.limit, "teams.maxAgeHours: 5");
    assert!(
        outdated.text.contains("mimir team sync"),
        "{}",
        outdated.text
    );
    assert_eq!(outdated.locations, "team:acme/");
    // A clock that was set back does not make an old bundle new.
    assert!(team.outdated(checked - hours(1)).is_some());
    let (_home, team) = member("maxAgeHours: 8760", checked);
    let expired = team
        .outdated("2026-12-01T00:00:00Z".parse().unwrap())
        .unwrap();
    assert_eq!(expired.limit, "expiresAt");
    // The default is a week.
    let (_home, team) = member("refreshMinutes: 1", checked);
    assert!(team.outdated(checked + hours(167)).is_none());
    assert!(team.outdated(checked + hours(168)).is_some());
}

#[test]
fn check_by_a_publisher_renews_only_the_bundle_in_force() {
    let checked: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let (_home, team) = member("maxAgeHours: 5", checked);
    let store = team.store();
    let noted = || store.record().unwrap().unwrap().checked_at;
    assert!(!store.note_check(&team.digest, checked).unwrap());
    assert!(!store.note_check(&team.digest, checked - hours(1)).unwrap());
    let other = mimir_registry::OciDigest::of_bytes(b"other");
    assert!(!store.note_check(&other, checked + hours(1)).unwrap());
    assert_eq!(noted(), checked);
    assert!(store.note_check(&team.digest, checked + hours(4)).unwrap());
    assert_eq!(noted(), checked + hours(4));
    store.leave().unwrap();
    assert!(!store.note_check(&team.digest, checked + hours(9)).unwrap());
}

#[test]
fn team_refresh_follows_refresh_minutes() {
    let checked: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let (_home, team) = member("refreshMinutes: 90", checked);
    let minutes = |minutes| SignedDuration::from_mins(minutes);
    let pause = |after| time_to_check(&team, checked + minutes(after)).as_secs();
    assert_eq!(
        (pause(0), pause(30), pause(90), pause(500)),
        (5400, 3600, 0, 0)
    );
    assert_eq!(team.membership.refresh.as_secs(), 5400);
    let (_home, team) = member("maxAgeHours: 1", checked);
    assert_eq!(time_to_check(&team, checked).as_secs(), 3600);
}

/// A bundle of the team `acme` in a folder, and a setup whose user may join it.
struct Publication {
    home: tempfile::TempDir,
    key: SigningKey,
}

impl Publication {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["bundle", "work/.mimir", "user"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        Self {
            home,
            key: SigningKey::generate(KeyAlgorithm::Ed25519).unwrap(),
        }
    }

    fn publish(&self, version: u64) {
        let identity = TeamIdentity {
            org_id: "acme".to_owned(),
            name: "Acme".to_owned(),
        };
        let bundle = TeamBundle::new(
            version,
            identity,
            "2026-01-01T00:00:00Z".parse().unwrap(),
            "9000-01-01T00:00:00Z".parse().unwrap(),
        );
        let payload = bundle.to_payload().unwrap();
        let envelope = DsseEnvelope::sign(BUNDLE_PAYLOAD_TYPE, &payload, &self.key).unwrap();
        let path = self.home.path().join("bundle/team.json");
        std::fs::write(path, envelope.to_json().unwrap()).unwrap();
    }

    fn user_dirs(&self) -> UserDirs {
        UserDirs {
            config: Some(self.home.path().join("user")),
            ..UserDirs::default()
        }
    }

    fn configure(&self, text: &str) {
        std::fs::write(self.home.path().join("user/config.yml"), text).unwrap();
    }

    fn join(&self) {
        let folder = self.home.path().join("bundle").display().to_string();
        let block = serde_json::json!({"teams": {"enabled": true, "orgId": "acme", "reference": folder,
            "keys": [self.key.verifying_key().to_pem()], "refreshMinutes": 1}});
        self.configure(&block.to_string());
    }

    fn setup(&self) -> HostSetup {
        let work = self.home.path().join("work");
        let workspace = crate::workspace::WorkspaceFolder::find(Some(&work)).unwrap();
        let user_dirs = self.user_dirs();
        let settings =
            crate::settings::MergedSettings::read_without_teams(&user_dirs, &workspace).unwrap();
        HostSetup::from_parts(user_dirs, workspace, settings)
    }

    /// Waits until this version is in force.
    async fn wait_for(&self, version: u64) {
        let store = TeamStore::new(&self.user_dirs(), "acme").unwrap();
        loop {
            if let Ok(Some(record)) = store.record()
                && record.version == version
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn team_refresh_follows_a_team_that_is_joined_and_left_while_it_runs() {
    let publication = Publication::new();
    publication.publish(1);
    let setup = publication.setup();
    let mut running = spawn_refresh(&setup);
    assert!(running.tasks.is_empty());
    // Joined after the start: even a bundle that is missing is fetched.
    publication.join();
    running.follow(&setup);
    assert_eq!(running.tasks.len(), 1);
    publication.wait_for(1).await;
    // Unchanged files do not restart anything, so that a check in progress is not lost.
    let files = running.files.clone();
    let id = running.tasks[0].id();
    running.follow(&setup);
    assert_eq!((running.tasks[0].id(), &running.files), (id, &files));
    // An invalid file stops nothing: it is reported with the settings.
    publication.configure("teams: [");
    running.follow(&setup);
    assert_eq!(running.tasks.len(), 1);
    publication.configure("");
    running.follow(&setup);
    assert!(running.tasks.is_empty());
}

#[tokio::test]
async fn team_refresh_takes_a_bundle_that_is_published_while_it_runs() {
    let publication = Publication::new();
    publication.publish(1);
    publication.join();
    let running = spawn_refresh(&publication.setup());
    assert_eq!(running.tasks.len(), 1);
    publication.wait_for(1).await;
    drop(running);
    publication.publish(2);
    // A minute later, the bundle is checked at once.
    let store = TeamStore::new(&publication.user_dirs(), "acme").unwrap();
    let mut record = store.record().unwrap().unwrap();
    record.checked_at = now() - SignedDuration::from_mins(2);
    let lock = store.lock().unwrap();
    store.write_record(&record).unwrap();
    drop(lock);
    let running = spawn_refresh(&publication.setup());
    assert_eq!(running.tasks.len(), 1);
    publication.wait_for(2).await;
}
