//! The conformance tests of shared state. Every adapter passes them, whatever it is stored in.
//!
//! Each function takes the states of two processes that share one store. Keys are new in each test, so that all tests can
//! use one store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mimir_core::shared_state::{
    SharedState, SharedStateError, SharedStateHandle, StateArea, StateChange, StateEntry, StateKey,
    StateWatch,
};

/// Maximum time for a change to be seen. Reached only by a broken store.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two processes that share one store.
pub struct StatePair {
    /// The state of the first process.
    pub one: SharedStateHandle,
    /// The state of the second process.
    pub other: SharedStateHandle,
}

/// Runs all conformance tests.
pub async fn check_all(pair: &StatePair) {
    values_are_created_once(pair).await;
    updates_need_the_current_revision(pair).await;
    removals_need_the_given_revision(pair).await;
    revisions_are_never_used_again(pair).await;
    any_bytes_and_keys_are_stored(pair).await;
    areas_are_separate(pair).await;
    lists_are_sorted_and_filtered(pair).await;
    one_of_many_creators_wins(pair).await;
    no_update_is_lost(pair).await;
    lifetimes_end_and_are_renewed(pair).await;
    watch_reports_values_and_changes(pair).await;
    watch_reports_ended_lifetimes(pair).await;
    counts_are_exact(pair).await;
    values_that_are_too_large_are_refused(pair).await;
}

/// Returns a key that no other test uses.
fn new_key(name: &str) -> StateKey {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed).to_string();
    StateKey::new(["conformance", name, &count])
}

const AREA: StateArea = StateArea::Jobs;

async fn read(state: &dyn SharedState, area: StateArea, key: &StateKey) -> Option<Vec<u8>> {
    let entry = state.get(area, key).await.unwrap();
    entry.map(|entry| entry.value)
}

/// A created value is visible to the other process, which cannot create it again.
pub async fn values_are_created_once(pair: &StatePair) {
    let key = new_key("created");
    assert_eq!(read(&*pair.other, AREA, &key).await, None);
    let revision = pair.one.create(AREA, &key, b"a".to_vec(), None).await;
    let revision = revision.unwrap();
    let again = pair.other.create(AREA, &key, b"b".to_vec(), None).await;
    assert_eq!(again, Err(SharedStateError::Conflict));
    let found = pair.other.get(AREA, &key).await.unwrap();
    let value = b"a".to_vec();
    assert_eq!(
        found,
        Some(StateEntry {
            key,
            value,
            revision
        })
    );
}

/// An update fails if the other process has changed or removed the value.
pub async fn updates_need_the_current_revision(pair: &StatePair) {
    let key = new_key("updated");
    let first = pair.one.create(AREA, &key, b"a".to_vec(), None).await;
    let first = first.unwrap();
    let second = pair.other.update(AREA, &key, b"b".to_vec(), first, None);
    let second = second.await.unwrap();
    assert!(second > first);
    let late = pair.one.update(AREA, &key, b"c".to_vec(), first, None);
    assert_eq!(late.await, Err(SharedStateError::Conflict));
    assert_eq!(read(&*pair.one, AREA, &key).await, Some(b"b".to_vec()));
    pair.one.remove(AREA, &key, None).await.unwrap();
    let removed = pair.other.update(AREA, &key, b"d".to_vec(), second, None);
    assert_eq!(removed.await, Err(SharedStateError::Conflict));
    assert_eq!(read(&*pair.one, AREA, &key).await, None);
}

/// A removal with a revision fails if the value has another; without one, it always succeeds.
pub async fn removals_need_the_given_revision(pair: &StatePair) {
    let key = new_key("removed");
    let first = pair.one.create(AREA, &key, b"a".to_vec(), None).await;
    let first = first.unwrap();
    let second = pair.other.update(AREA, &key, b"b".to_vec(), first, None);
    let second = second.await.unwrap();
    let stale = pair.one.remove(AREA, &key, Some(first)).await;
    assert_eq!(stale, Err(SharedStateError::Conflict));
    assert!(read(&*pair.one, AREA, &key).await.is_some());
    pair.one.remove(AREA, &key, Some(second)).await.unwrap();
    assert_eq!(read(&*pair.other, AREA, &key).await, None);
    pair.one.remove(AREA, &key, None).await.unwrap();
    let missing = pair.one.remove(AREA, &key, Some(second)).await;
    assert_eq!(missing, Err(SharedStateError::Conflict));
}

/// A value that was removed and created again has another revision, so that no update takes it for the old one.
pub async fn revisions_are_never_used_again(pair: &StatePair) {
    let key = new_key("again");
    let first = pair.one.create(AREA, &key, b"a".to_vec(), None).await;
    let first = first.unwrap();
    pair.one.remove(AREA, &key, None).await.unwrap();
    let second = pair.other.create(AREA, &key, b"a".to_vec(), None).await;
    assert!(second.unwrap() > first);
    let stale = pair.one.update(AREA, &key, b"b".to_vec(), first, None);
    assert_eq!(stale.await, Err(SharedStateError::Conflict));
}

/// Values are any bytes, and keys are told apart by case.
pub async fn any_bytes_and_keys_are_stored(pair: &StatePair) {
    let base = new_key("bytes");
    let key = |name: &str| StateKey::new([base.as_str(), name]);
    let values: BTreeMap<StateKey, Vec<u8>> = BTreeMap::from([
        (key("a"), vec![]),
        (key("A"), vec![0, b'\n', 255, 0]),
        (key("con"), vec![b'x'; 100_000]),
        (key(&"long".repeat(100)), vec![1]),
        (StateKey::new([base.as_str(), "b", "c"]), vec![2]),
    ]);
    for (key, value) in &values {
        let created = pair.one.create(AREA, key, value.clone(), None).await;
        created.unwrap();
    }
    for (key, value) in &values {
        assert_eq!(read(&*pair.other, AREA, key).await.as_ref(), Some(value));
    }
}

/// Values of equal keys in different areas are independent.
pub async fn areas_are_separate(pair: &StatePair) {
    let key = new_key("areas");
    for area in StateArea::ALL {
        let value = area.as_str().as_bytes().to_vec();
        pair.one.create(area, &key, value, None).await.unwrap();
    }
    for area in StateArea::ALL {
        let value = area.as_str().as_bytes().to_vec();
        assert_eq!(read(&*pair.other, area, &key).await, Some(value));
    }
    pair.one.remove(AREA, &key, None).await.unwrap();
    assert_eq!(read(&*pair.other, AREA, &key).await, None);
    assert!(read(&*pair.other, StateArea::Control, &key).await.is_some());
}

/// A list has the values whose key begins with the parts of the prefix, sorted by key.
pub async fn lists_are_sorted_and_filtered(pair: &StatePair) {
    let prefix = new_key("lists");
    let below = |name: &str| StateKey::parse(&format!("{prefix}.{name}")).unwrap();
    let beside = StateKey::parse(&format!("{prefix}x.a")).unwrap();
    for key in [&below("c"), &beside, &below("a.b"), &below("a"), &prefix] {
        let created = pair.one.create(AREA, key, b"v".to_vec(), None).await;
        created.unwrap();
    }
    let list = pair.other.list(AREA, Some(&prefix)).await.unwrap();
    let keys: Vec<&StateKey> = list.iter().map(|entry| &entry.key).collect();
    let wanted = [&prefix, &below("a"), &below("a.b"), &below("c")];
    assert_eq!(keys, wanted);
    let all = pair.other.list(AREA, None).await.unwrap();
    assert!(all.iter().any(|entry| entry.key == beside));
    assert!(all.is_sorted_by(|one, other| one.key < other.key));
    let none = new_key("lists");
    assert_eq!(pair.other.list(AREA, Some(&none)).await.unwrap(), []);
}

/// Of 8 processes that create a value at the same time, one succeeds.
pub async fn one_of_many_creators_wins(pair: &StatePair) {
    for _ in 0..25 {
        let key = new_key("race");
        let racers = (0..8u8).map(|racer| {
            let state = racer_state(pair, racer);
            let key = key.clone();
            tokio::spawn(async move { state.create(AREA, &key, vec![racer], None).await })
        });
        let racers: Vec<_> = racers.collect();
        let mut winners = Vec::new();
        for (racer, task) in racers.into_iter().enumerate() {
            match task.await.unwrap() {
                Ok(_) => winners.push(u8::try_from(racer).unwrap()),
                Err(error) => assert_eq!(error, SharedStateError::Conflict),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(read(&*pair.one, AREA, &key).await, Some(winners));
    }
}

fn racer_state(pair: &StatePair, racer: u8) -> SharedStateHandle {
    let state = if racer.is_multiple_of(2) {
        &pair.one
    } else {
        &pair.other
    };
    SharedStateHandle::clone(state)
}

/// Processes that repeat their update after a conflict lose no update.
pub async fn no_update_is_lost(pair: &StatePair) {
    let key = new_key("counter");
    let created = pair.one.create(AREA, &key, b"0".to_vec(), None).await;
    created.unwrap();
    let adders = (0..8u8).map(|racer| {
        let (state, key) = (racer_state(pair, racer), key.clone());
        tokio::spawn(async move {
            for _ in 0..5 {
                add_one(&*state, &key).await;
            }
        })
    });
    for adder in adders.collect::<Vec<_>>() {
        adder.await.unwrap();
    }
    assert_eq!(read(&*pair.one, AREA, &key).await, Some(b"40".to_vec()));
}

async fn add_one(state: &dyn SharedState, key: &StateKey) {
    loop {
        let entry = state.get(AREA, key).await.unwrap().unwrap();
        let count: u32 = String::from_utf8(entry.value).unwrap().parse().unwrap();
        let value = (count + 1).to_string().into_bytes();
        let updated = state.update(AREA, key, value, entry.revision, None).await;
        match updated {
            Ok(_) => return,
            Err(error) => assert_eq!(error, SharedStateError::Conflict),
        }
    }
}

/// A value with a lifetime is removed at its end, and stays if it is updated with a new one. It can be created again
/// afterwards.
pub async fn lifetimes_end_and_are_renewed(pair: &StatePair) {
    let lifetime = Some(Duration::from_secs(3));
    let (short, kept) = (new_key("short"), new_key("kept"));
    let created = pair.one.create(AREA, &short, b"a".to_vec(), lifetime).await;
    let first = created.unwrap();
    let created = pair.one.create(AREA, &kept, b"a".to_vec(), lifetime).await;
    let kept_revision = created.unwrap();
    let renewed = pair
        .one
        .update(AREA, &kept, b"b".to_vec(), kept_revision, None);
    renewed.await.unwrap();
    tokio::time::timeout(PATIENCE, async {
        while read(&*pair.other, AREA, &short).await.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the lifetime ends");
    let late = pair.one.update(AREA, &short, b"b".to_vec(), first, None);
    assert_eq!(late.await, Err(SharedStateError::Conflict));
    let again = pair.other.create(AREA, &short, b"c".to_vec(), None).await;
    assert!(again.unwrap() > first);
    assert_eq!(read(&*pair.other, AREA, &kept).await, Some(b"b".to_vec()));
}

/// A watch first reports the existing values, then that they are current, then changes of both processes.
pub async fn watch_reports_values_and_changes(pair: &StatePair) {
    let (key, later) = (new_key("watched"), new_key("watched"));
    let created = pair.one.create(AREA, &key, b"a".to_vec(), None).await;
    let first = created.unwrap();
    let mut watch = pair.other.watch(AREA).await.unwrap();
    let mut found = None;
    loop {
        match next(&mut *watch).await {
            StateChange::Set(entry) if entry.key == key => found = Some(entry.value),
            StateChange::Current => break,
            StateChange::Set(_) | StateChange::Removed(_) => {}
        }
    }
    assert_eq!(found, Some(b"a".to_vec()));
    let updated = pair.one.update(AREA, &key, b"b".to_vec(), first, None);
    updated.await.unwrap();
    wait_for_value(&mut *watch, &key, b"b").await;
    let created = pair.other.create(AREA, &later, b"c".to_vec(), None).await;
    created.unwrap();
    wait_for_value(&mut *watch, &later, b"c").await;
    pair.one.remove(AREA, &key, None).await.unwrap();
    wait_for_removal(&mut *watch, &key).await;
}

/// A watch reports values whose lifetime has ended.
pub async fn watch_reports_ended_lifetimes(pair: &StatePair) {
    let mut watch = pair.other.watch(AREA).await.unwrap();
    let key = new_key("expires");
    let lifetime = Some(Duration::from_secs(3));
    let created = pair.one.create(AREA, &key, b"a".to_vec(), lifetime).await;
    created.unwrap();
    wait_for_value(&mut *watch, &key, b"a").await;
    wait_for_removal(&mut *watch, &key).await;
}

async fn next(watch: &mut dyn StateWatch) -> StateChange {
    let change = tokio::time::timeout(PATIENCE, watch.next()).await;
    change.expect("a change").expect("the store is open")
}

async fn wait_for_value(watch: &mut dyn StateWatch, key: &StateKey, value: &[u8]) {
    loop {
        if let StateChange::Set(entry) = next(watch).await
            && entry.key == *key
            && entry.value == value
        {
            return;
        }
    }
}

async fn wait_for_removal(watch: &mut dyn StateWatch, key: &StateKey) {
    loop {
        if next(watch).await == StateChange::Removed(key.clone()) {
            return;
        }
    }
}

/// Of 24 events that several processes count at the same time, as many are counted as the limit says. Later ones are
/// counted again after the period.
pub async fn counts_are_exact(pair: &StatePair) {
    let (key, other_key) = (new_key("count"), new_key("count"));
    let window = Duration::from_secs(60);
    let events = (0..24u8).map(|racer| {
        let (state, key) = (racer_state(pair, racer), key.clone());
        tokio::spawn(async move { state.count_within(&key, 10, window).await.unwrap() })
    });
    let mut counted = 0;
    for event in events.collect::<Vec<_>>() {
        counted += u32::from(event.await.unwrap());
    }
    assert_eq!(counted, 10);
    assert!(!pair.other.count_within(&key, 10, window).await.unwrap());
    let other = pair.one.count_within(&other_key, 10, window).await;
    assert!(other.unwrap(), "each key has its own limit");
    let (short, second) = (new_key("count"), Duration::from_secs(1));
    assert!(pair.one.count_within(&short, 1, second).await.unwrap());
    tokio::time::timeout(PATIENCE, async {
        while !pair.other.count_within(&short, 1, second).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the period ends");
    let none = pair.one.count_within(&new_key("count"), 0, window).await;
    assert!(!none.unwrap(), "a limit of 0 allows nothing");
}

/// A value that is too large is refused, and nothing is stored.
pub async fn values_that_are_too_large_are_refused(pair: &StatePair) {
    let key = new_key("large");
    let value = vec![b'x'; 8 << 20];
    let size = value.len();
    let refused = pair.one.create(AREA, &key, value, None).await.unwrap_err();
    match refused {
        SharedStateError::TooLarge { size: named, max } => {
            assert_eq!(named, size);
            assert!(max < size);
        }
        other => panic!("{other}"),
    }
    assert_eq!(read(&*pair.other, AREA, &key).await, None);
}

/// A store that cannot be reached is reported within seconds, by every access. Call it after the store has ended.
pub async fn unreachable_store_is_reported(state: &dyn SharedState) {
    let key = new_key("unreachable");
    let second = Duration::from_secs(1);
    let refused = async {
        [
            state.get(AREA, &key).await.err(),
            state.create(AREA, &key, vec![1], None).await.err(),
            state.update(AREA, &key, vec![1], 1, None).await.err(),
            state.remove(AREA, &key, None).await.err(),
            state.list(AREA, None).await.err(),
            state.count_within(&key, 1, second).await.err(),
        ]
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await;
    for error in refused.expect("no access hangs") {
        assert!(
            matches!(error, Some(SharedStateError::Unreachable { .. })),
            "{error:?}"
        );
    }
}
