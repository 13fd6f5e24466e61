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
    TeamBundle {
        version,
        team: TeamIdentity {
            org_id: ORG.to_owned(),
            name: "Acme".to_owned(),
        },
        issued_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        expires_at: "2027-01-01T00:00:00Z".parse().unwrap(),
        settings: String::new(),
        tools: Vec::new(),
        workers: Vec::new(),
        prompts: Vec::new(),
        skills: Vec::new(),
        keys: Vec::new(),
        revoked_keys: Vec::new(),
        models: Vec::new(),
    }
}

fn sign(bundle: &TeamBundle, key: &SigningKey) -> Vec<u8> {
    let payload = bundle.to_payload().unwrap();
    let envelope = DsseEnvelope::sign(BUNDLE_PAYLOAD_TYPE, &payload, key).unwrap();
    envelope.to_json().unwrap()
}

fn accept(
    envelope: &[u8],
    joined: &SigningKey,
    record: Option<&TeamRecord>,
) -> Result<AcceptedBundle, TeamError> {
    AcceptedBundle::check(envelope, ORG, &[public(joined)], record, now())
}

#[test]
fn team_bundle_of_a_trusted_key_is_accepted_and_loaded_again() {
    let key = key();
    let envelope = sign(&bundle(1), &key);
    let first = accept(&envelope, &key, None).unwrap();
    assert!(first.is_new && first.bundle.version == 1);
    let again = accept(&envelope, &key, Some(&first.record)).unwrap();
    assert!(!again.is_new);
    assert_eq!(again.record, first.record);
    let loaded = AcceptedBundle::of_record(&envelope, &first.record, &[public(&key)]).unwrap();
    assert_eq!(loaded.signer, public(&key));
    let newer = accept(&sign(&bundle(2), &key), &key, Some(&first.record)).unwrap();
    assert!(newer.is_new && newer.record.version == 2);
}

#[test]
fn team_bundle_that_is_rolled_back_or_replayed_is_refused() {
    let key = key();
    let first = sign(&bundle(1), &key);
    let second = accept(&sign(&bundle(2), &key), &key, None).unwrap();
    let error = accept(&first, &key, Some(&second.record)).unwrap_err();
    assert!(
        matches!(error, TeamError::Rollback { found: 1, seen: 2 }),
        "{error}"
    );
    let mut other = bundle(2);
    other.settings = "profile: compact\n".to_owned();
    let error = accept(&sign(&other, &key), &key, Some(&second.record)).unwrap_err();
    assert!(matches!(error, TeamError::SameVersion(2)), "{error}");
    // Leaving and joining again does not make an old bundle acceptable.
    let left = TeamRecord {
        left: true,
        ..second.record
    };
    assert!(accept(&first, &key, Some(&left)).is_err());
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
    let first = accept(&sign(&rotating, &old), &old, None).unwrap();
    // The new key is trusted because a bundle of the old one names it.
    let mut second = bundle(2);
    second.keys = vec![public(&new).to_pem()];
    second.revoked_keys = vec![public(&old).id()];
    let envelope = sign(&second, &new);
    assert!(
        accept(&envelope, &old, None).is_err(),
        "a stranger's key was accepted"
    );
    let second = accept(&envelope, &old, Some(&first.record)).unwrap();
    let loaded = AcceptedBundle::of_record(&envelope, &second.record, &[public(&old)]);
    assert_eq!(loaded.unwrap().signer, public(&new));
    let error = accept(&sign(&bundle(3), &old), &old, Some(&second.record)).unwrap_err();
    assert!(matches!(error, TeamError::Revoked(_)), "{error}");
    // The revocation stays after a bundle that does not repeat it.
    let mut third = bundle(3);
    third.keys = vec![public(&new).to_pem()];
    let third = accept(&sign(&third, &new), &old, Some(&second.record)).unwrap();
    assert!(accept(&sign(&bundle(4), &old), &old, Some(&third.record)).is_err());
}

#[test]
fn team_bundle_of_a_key_that_revokes_itself_stays_in_force() {
    let (old, new) = (key(), key());
    let mut last = bundle(1);
    last.keys = vec![public(&new).to_pem()];
    last.revoked_keys = vec![public(&old).id()];
    let envelope = sign(&last, &old);
    let accepted = accept(&envelope, &old, None).unwrap();
    assert!(AcceptedBundle::of_record(&envelope, &accepted.record, &[public(&old)]).is_ok());
    assert!(
        !accept(&envelope, &old, Some(&accepted.record))
            .unwrap()
            .is_new
    );
    assert!(accept(&sign(&bundle(2), &old), &old, Some(&accepted.record)).is_err());
    assert!(accept(&sign(&bundle(2), &new), &old, Some(&accepted.record)).is_ok());
}

#[test]
fn team_store_that_was_changed_or_has_other_keys_is_refused() {
    let (key, other) = (key(), key());
    let envelope = sign(&bundle(1), &key);
    let record = accept(&envelope, &key, None).unwrap().record;
    let changed = sign(&bundle(1), &other);
    assert!(AcceptedBundle::of_record(&changed, &record, &[public(&key)]).is_err());
    assert!(AcceptedBundle::of_record(&envelope, &record, &[public(&other)]).is_err());
    // With other keys, the trust starts anew, and versions do not count.
    let anew = accept(&sign(&bundle(1), &other), &other, Some(&record)).unwrap();
    assert!(anew.is_new);
}
