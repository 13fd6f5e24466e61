use super::*;
use crate::signature::{KeyAlgorithm, SigningKey};
use crate::team::TeamIdentity;

const ORG: &str = "acme";

fn key() -> SigningKey {
    SigningKey::generate(KeyAlgorithm::Ed25519).unwrap()
}

fn public(key: &SigningKey) -> VerifyingKey {
    key.verifying_key().clone()
}

fn now() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

fn bundle(version: u64) -> TeamBundle {
    let team = TeamIdentity {
        org_id: ORG.to_owned(),
        name: "Acme".to_owned(),
    };
    let issued_at = "2026-01-01T00:00:00Z".parse().unwrap();
    let expires_at = "2027-01-01T00:00:00Z".parse().unwrap();
    TeamBundle::new(version, team, issued_at, expires_at)
}

fn sign(bundle: &TeamBundle, key: &SigningKey) -> Vec<u8> {
    let payload = bundle.to_payload().unwrap();
    let envelope = DsseEnvelope::sign(BUNDLE_PAYLOAD_TYPE, &payload, key).unwrap();
    envelope.to_json().unwrap()
}

fn accept(
    envelope: &[u8],
    joined: &SigningKey,
    history: Option<&TeamHistory>,
) -> Result<AcceptedBundle, TeamError> {
    AcceptedBundle::check(envelope, ORG, &[public(joined)], history, now())
}

/// Returns the history of a member after a bundle was put in force.
fn stored(envelope: &[u8], accepted: &AcceptedBundle) -> TeamHistory {
    TeamHistory {
        record: accepted.record.clone(),
        envelope: Some(envelope.to_vec()),
        predecessors: accepted.predecessors.clone(),
    }
}

/// Accepts the bundle, and returns what is stored.
fn put(
    bundle: &TeamBundle,
    key: &SigningKey,
    joined: &SigningKey,
    history: Option<&TeamHistory>,
) -> TeamHistory {
    let envelope = sign(bundle, key);
    stored(&envelope, &accept(&envelope, joined, history).unwrap())
}

/// Loads the bundle in force again.
fn load(history: &TeamHistory, joined: &SigningKey) -> Result<AcceptedBundle, TeamError> {
    let envelope = history.envelope.clone().unwrap();
    AcceptedBundle::of_history(&envelope, history, &[public(joined)])
}

#[test]
fn team_bundle_of_a_trusted_key_is_accepted_and_loaded_again() {
    let key = key();
    let envelope = sign(&bundle(1), &key);
    let first = accept(&envelope, &key, None).unwrap();
    assert!(first.is_new && first.bundle.version == 1);
    let history = stored(&envelope, &first);
    let again = accept(&envelope, &key, Some(&history)).unwrap();
    assert!(!again.is_new);
    assert_eq!(again.record, first.record);
    assert_eq!(load(&history, &key).unwrap().signer, public(&key));
    let newer = accept(&sign(&bundle(2), &key), &key, Some(&history)).unwrap();
    assert!(newer.is_new && newer.record.version == 2);
}

#[test]
fn team_bundle_that_is_rolled_back_or_replayed_is_refused() {
    let key = key();
    let first = sign(&bundle(1), &key);
    let mut second = put(&bundle(2), &key, &key, None);
    let error = accept(&first, &key, Some(&second)).unwrap_err();
    assert!(
        matches!(error, TeamError::Rollback { found: 1, seen: 2 }),
        "{error}"
    );
    let mut other = bundle(2);
    other.settings = "profile: compact\n".to_owned();
    let error = accept(&sign(&other, &key), &key, Some(&second)).unwrap_err();
    assert!(matches!(error, TeamError::SameVersion(2)), "{error}");
    // Leaving and joining again does not make an old bundle acceptable.
    second.record.left = true;
    second.envelope = None;
    assert!(accept(&first, &key, Some(&second)).is_err());
    // The bundle itself can be joined again, which puts it in force anew.
    let latest = sign(&bundle(2), &key);
    let again = accept(&latest, &key, Some(&second)).unwrap();
    assert!(again.is_new && !again.record.left);
    let late = bundle(2).expires_at;
    let check = |history: &TeamHistory| {
        AcceptedBundle::check(&latest, "acme", &[public(&key)], Some(history), late)
    };
    assert!(matches!(check(&second), Err(TeamError::Expired(_))));
    second.record.left = false;
    assert!(check(&second).is_ok());
}

#[test]
fn team_bundle_of_another_key_team_or_time_is_refused() {
    let (key, stranger) = (key(), key());
    let error = accept(&sign(&bundle(1), &stranger), &key, None).unwrap_err();
    assert!(matches!(error, TeamError::Signer), "{error}");
    assert_eq!(error.code(), ToolErrorCode::PolicyDenied);
    let mut other = bundle(1);
    other.team.org_id = "other".to_owned();
    let error = accept(&sign(&other, &key), &key, None).unwrap_err();
    assert!(matches!(error, TeamError::OtherTeam { .. }), "{error}");
    let mut expired = bundle(1);
    expired.expires_at = "2026-05-31T00:00:00Z".parse().unwrap();
    let error = accept(&sign(&expired, &key), &key, None).unwrap_err();
    assert!(matches!(error, TeamError::Expired(_)), "{error}");
    let mut early = bundle(1);
    early.issued_at = "2026-06-01T01:00:00Z".parse().unwrap();
    let error = accept(&sign(&early, &key), &key, None).unwrap_err();
    assert!(matches!(error, TeamError::NotYetValid(_)), "{error}");
    // A signature over another payload type is no signature of a bundle.
    let payload = bundle(1).to_payload().unwrap();
    let envelope = DsseEnvelope::sign("text/plain", &payload, &key).unwrap();
    assert!(accept(&envelope.to_json().unwrap(), &key, None).is_err());
    for cut in [0, 10, envelope.to_json().unwrap().len() - 5] {
        let half = &sign(&bundle(1), &key)[..cut];
        assert!(accept(half, &key, None).is_err(), "{cut}");
    }
}

#[test]
fn team_keys_are_rotated_and_revoked_by_bundles() {
    let (old, new) = (key(), key());
    let mut rotating = bundle(1);
    rotating.keys = vec![public(&new).to_pem()];
    let first = put(&rotating, &old, &old, None);
    // The new key is trusted because a bundle of the old one names it.
    let mut second = bundle(2);
    second.keys = vec![public(&new).to_pem()];
    second.revoked_keys = vec![public(&old).id()];
    assert!(
        accept(&sign(&second, &new), &old, None).is_err(),
        "a stranger's key was accepted"
    );
    let second = put(&second, &new, &old, Some(&first));
    assert_eq!(second.predecessors, [first.envelope.clone().unwrap()]);
    assert_eq!(load(&second, &old).unwrap().signer, public(&new));
    let error = accept(&sign(&bundle(3), &old), &old, Some(&second)).unwrap_err();
    assert!(matches!(error, TeamError::Revoked(_)), "{error}");
    // The revocation stays after a bundle that does not repeat it.
    let mut third = bundle(3);
    third.keys = vec![public(&new).to_pem()];
    let third = put(&third, &new, &old, Some(&second));
    assert_eq!(third.predecessors, second.predecessors, "the chain grows");
    assert_eq!(load(&third, &old).unwrap().signer, public(&new));
    assert!(accept(&sign(&bundle(4), &old), &old, Some(&third)).is_err());
    assert!(accept(&sign(&bundle(4), &new), &old, Some(&third)).is_ok());
}

#[test]
fn team_bundle_of_a_key_that_revokes_itself_stays_in_force() {
    let (old, new) = (key(), key());
    let mut last = bundle(1);
    last.keys = vec![public(&new).to_pem()];
    last.revoked_keys = vec![public(&old).id()];
    let history = put(&last, &old, &old, None);
    assert!(load(&history, &old).is_ok());
    assert!(
        !accept(&sign(&last, &old), &old, Some(&history))
            .unwrap()
            .is_new
    );
    assert!(accept(&sign(&bundle(2), &old), &old, Some(&history)).is_err());
    assert!(accept(&sign(&bundle(2), &new), &old, Some(&history)).is_ok());
}

#[test]
fn team_store_that_was_changed_or_has_other_keys_is_refused() {
    let (key, other) = (key(), key());
    let history = put(&bundle(1), &key, &key, None);
    let changed = sign(&bundle(1), &other);
    assert!(AcceptedBundle::of_history(&changed, &history, &[public(&key)]).is_err());
    assert!(load(&history, &other).is_err());
    // With keys that have nothing to do with the earlier ones, versions do not count.
    let anew = accept(&sign(&bundle(1), &other), &other, Some(&history)).unwrap();
    assert!(anew.is_new);
}

#[test]
fn team_keys_that_change_in_the_settings_lift_no_revocation_and_no_version() {
    let (old, new) = (key(), key());
    let mut first = bundle(5);
    first.keys = vec![public(&new).to_pem()];
    first.revoked_keys = vec![public(&old).id()];
    let history = put(&first, &old, &old, None);
    // The settings now name the announced key, and then both.
    for joined in [vec![public(&new)], vec![public(&old), public(&new)]] {
        let check = |bundle: &TeamBundle, key: &SigningKey| {
            AcceptedBundle::check(&sign(bundle, key), ORG, &joined, Some(&history), now())
        };
        let error = check(&bundle(4), &new).unwrap_err();
        assert!(matches!(error, TeamError::Rollback { .. }), "{error}");
        if joined.len() > 1 {
            let error = check(&bundle(6), &old).unwrap_err();
            assert!(matches!(error, TeamError::Revoked(_)), "{error}");
        }
        let newer = check(&bundle(6), &new).unwrap();
        assert!(newer.record.revoked.contains(&public(&old).id()));
    }
    // A new key whose bundle announces the earlier signer continues its versions.
    let third = key();
    let mut continuing = bundle(4);
    continuing.keys = vec![public(&old).to_pem()];
    let error = accept(&sign(&continuing, &third), &third, Some(&history)).unwrap_err();
    assert!(matches!(error, TeamError::Rollback { .. }), "{error}");
    // Even with unrelated keys, a revoked key stays revoked.
    let anew = put(&bundle(1), &third, &third, Some(&history));
    let error = accept(&sign(&bundle(9), &old), &old, Some(&anew)).unwrap_err();
    assert!(matches!(error, TeamError::Revoked(_)), "{error}");
}

#[test]
fn team_record_of_another_program_cannot_name_its_own_signer() {
    let (team, own) = (key(), key());
    let genuine = put(&bundle(1), &team, &team, None);
    let envelope = sign(&bundle(1_000_000), &own);
    let mut forged = genuine.clone();
    forged.envelope = Some(envelope.clone());
    forged.record.digest = OciDigest::of_bytes(&envelope);
    forged.record.version = 1_000_000;
    forged.record.signer = public(&own).to_pem();
    forged.record.next_keys = vec![public(&own).to_pem()];
    assert!(
        load(&forged, &team).is_err(),
        "the record's signer was trusted"
    );
    // Nor with a predecessor that the same key has signed.
    let mut announcing = bundle(2);
    announcing.keys = vec![public(&own).to_pem()];
    let announcing = sign(&announcing, &own);
    forged.record.predecessors = vec![OciDigest::of_bytes(&announcing)];
    forged.predecessors = vec![announcing];
    assert!(
        load(&forged, &team).is_err(),
        "an unproven predecessor was trusted"
    );
    assert!(accept(&envelope, &team, Some(&forged)).is_err());
    // Nor is a key accepted for the next bundle because the record names it.
    let mut next = genuine.clone();
    next.record.next_keys = vec![public(&own).to_pem()];
    assert!(accept(&sign(&bundle(2), &own), &team, Some(&next)).is_err());
    // Nor another version for the envelope.
    let mut other_version = genuine;
    other_version.record.version = 7;
    assert!(load(&other_version, &team).is_err());
}

#[test]
fn team_history_without_a_record_comes_from_the_envelopes_that_verify() {
    let (old, new, stranger) = (key(), key(), key());
    let mut first = bundle(4);
    first.keys = vec![public(&new).to_pem()];
    first.revoked_keys = vec![public(&old).id()];
    let first = put(&first, &old, &old, None);
    let second = put(&bundle(5), &new, &old, Some(&first));
    let envelopes = vec![
        sign(&bundle(99), &stranger),
        b"{}".to_vec(),
        second.envelope.clone().unwrap(),
        first.envelope.clone().unwrap(),
    ];
    let found = TeamHistory::recover(ORG, &[public(&old)], envelopes).unwrap();
    assert_eq!(found.record.version, 5);
    assert_eq!(found.record.revoked, [public(&old).id()]);
    assert_eq!(found.predecessors, second.predecessors);
    assert!(accept(&sign(&bundle(4), &new), &old, Some(&found)).is_err());
    let error = accept(&sign(&bundle(6), &old), &old, Some(&found)).unwrap_err();
    assert!(matches!(error, TeamError::Revoked(_)), "{error}");
    assert!(TeamHistory::recover(ORG, &[public(&stranger)], vec![]).is_none());
}
