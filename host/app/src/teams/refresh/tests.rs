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
