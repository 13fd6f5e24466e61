//! The shared state of a cluster, in key-value buckets of JetStream.
//!
//! All reads go to the leader of a bucket, so that an access that has returned is visible to every process. Changes
//! carry the expected sequence of the key (compare-and-set) and an id of their own, by which a change whose
//! acknowledgement was lost is found again.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures::StreamExt as _;
use mimir_core::backend::BoxFuture;
use mimir_core::shared_state::{
    SharedState, SharedStateError, StateArea, StateEntry, StateKey, StateRevision, StateWatch,
};
use serde_json::json;
use tokio::time::Instant;

use crate::connection::{ACCESS_TIMEOUT, ClusterConnection};
use crate::ids::random_hex;
use crate::names;
use crate::request::{RequestError, code, pause_before_retry};
use crate::stream_message::StreamMessage;
use crate::streams::{StreamAnswer, area_stream};

mod count;
mod lifetimes;
mod watch;

use count::EventCounters;
use lifetimes::SeenLifetimes;
use watch::NatsWatch;

/// Header with the operation of a removed key, as key-value clients write it.
const OPERATION_HEADER: &str = "KV-Operation";

/// Header of the markers by which JetStream reports the end of a lifetime.
const MARKER_HEADER: &str = "Nats-Marker-Reason";

/// Header with the id of a change.
const CHANGE_HEADER: &str = "Mimir-Change";

/// Header with the lifetime of a value.
const LIFETIME_HEADER: &str = "Nats-TTL";

/// Lifetime of the marker of a removed key.
const REMOVED_LIFETIME: Duration = Duration::from_secs(10);

/// Bytes of a message that are kept free for its headers.
const HEADER_RESERVE: usize = 4096;

/// Number of values of a list that are read at the same time.
const PARALLEL_READS: usize = 32;

/// The shared state of a cluster.
#[derive(Clone)]
pub struct NatsState {
    access: Arc<StateAccess>,
    /// For tasks on the runtime of calls.
    call_access: Arc<StateAccess>,
}

/// Access to the buckets, as tasks of the connection's runtime share it.
struct StateAccess {
    connection: ClusterConnection,
    counters: EventCounters,
    lifetimes: Arc<SeenLifetimes>,
}

/// The last message of a key.
struct BucketValue {
    value: Vec<u8>,
    revision: StateRevision,
    /// True if the key was removed, or its lifetime has ended.
    is_removed: bool,
    /// Id of the change that has written it.
    change: Option<String>,
    /// The lifetime with which it was stored, as JetStream spells it.
    lifetime: Option<String>,
}

impl NatsState {
    /// Creates the shared state of this cluster.
    pub fn new(connection: ClusterConnection) -> Self {
        let lifetimes = Arc::new(SeenLifetimes::default());
        let access = |connection: ClusterConnection| {
            Arc::new(StateAccess {
                connection,
                counters: EventCounters::default(),
                lifetimes: Arc::clone(&lifetimes),
            })
        };
        Self {
            call_access: access(connection.for_calls()),
            access: access(connection),
        }
    }

    /// Returns the connection.
    pub fn connection(&self) -> &ClusterConnection {
        &self.access.connection
    }

    /// Runs an access for calls on their own runtime, for others on that of the connection, so that it also completes for
    /// callers that block. It completes even if the caller is dropped.
    fn run<T, F>(
        &self,
        access: impl FnOnce(Arc<StateAccess>) -> F,
    ) -> BoxFuture<'static, Result<T, SharedStateError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, SharedStateError>> + Send + 'static,
    {
        let used = if self.connection().is_on_call_runtime() {
            &self.call_access
        } else {
            &self.access
        };
        self.run_with(used, access)
    }

    fn run_with<T, F>(
        &self,
        used: &Arc<StateAccess>,
        access: impl FnOnce(Arc<StateAccess>) -> F,
    ) -> BoxFuture<'static, Result<T, SharedStateError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, SharedStateError>> + Send + 'static,
    {
        let location = self.location();
        let runtime = used.connection.runtime();
        let task = runtime.spawn(access(Arc::clone(used)));
        Box::pin(async move {
            task.await.unwrap_or_else(|_| {
                Err(SharedStateError::Unreachable {
                    location,
                    text: "the connection was closed".to_owned(),
                })
            })
        })
    }
}

impl SharedState for NatsState {
    fn get<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
    ) -> BoxFuture<'a, Result<Option<StateEntry>, SharedStateError>> {
        let key = key.clone();
        let read = move |access: Arc<StateAccess>| async move {
            let stored = access.read_current(area, &key, deadline()).await?;
            Ok(stored.and_then(|stored| stored.entry(key)))
        };
        if self.connection().is_on_call_runtime() {
            // A read that its caller drops need not complete.
            return Box::pin(read(Arc::clone(&self.call_access)));
        }
        self.run_with(&self.access, read)
    }

    fn create<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>> {
        let key = key.clone();
        self.run(|access| async move { access.create(area, &key, value, lifetime).await })
    }

    fn update<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        value: Vec<u8>,
        revision: StateRevision,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<StateRevision, SharedStateError>> {
        let key = key.clone();
        self.run(|access| async move {
            let change = StateUpdate::value(value, Some(revision), lifetime);
            access.write(area, &key, &change, deadline()).await
        })
    }

    fn remove<'a>(
        &'a self,
        area: StateArea,
        key: &'a StateKey,
        revision: Option<StateRevision>,
    ) -> BoxFuture<'a, Result<(), SharedStateError>> {
        let key = key.clone();
        self.run(|access| async move { access.remove(area, &key, revision).await })
    }

    fn list<'a>(
        &'a self,
        area: StateArea,
        prefix: Option<&'a StateKey>,
    ) -> BoxFuture<'a, Result<Vec<StateEntry>, SharedStateError>> {
        let prefix = prefix.cloned();
        self.run(|access| async move { access.list(area, prefix.as_ref()).await })
    }

    fn watch(
        &self,
        area: StateArea,
    ) -> BoxFuture<'_, Result<Box<dyn StateWatch>, SharedStateError>> {
        self.run_with(&self.access, |access| async move {
            let watch = NatsWatch::start(access, area).await?;
            Ok(Box::new(watch) as Box<dyn StateWatch>)
        })
    }

    fn count_within<'a>(
        &'a self,
        key: &'a StateKey,
        max: u32,
        window: Duration,
    ) -> BoxFuture<'a, Result<bool, SharedStateError>> {
        let key = key.clone();
        self.run(|access| async move { access.count_within(&key, max, window).await })
    }

    fn location(&self) -> String {
        self.connection().servers().to_owned()
    }
}

/// Returns the deadline of an access that begins now.
fn deadline() -> Instant {
    Instant::now() + ACCESS_TIMEOUT
}

/// A change of a key.
struct StateUpdate {
    value: Bytes,
    /// The expected revision: 0 if the key must not exist. `None` replaces any value.
    revision: Option<StateRevision>,
    lifetime: Option<Duration>,
    is_removal: bool,
}

impl StateUpdate {
    fn value(value: Vec<u8>, revision: Option<StateRevision>, lifetime: Option<Duration>) -> Self {
        Self {
            value: value.into(),
            revision,
            lifetime,
            is_removal: false,
        }
    }

    fn headers(&self, id: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CHANGE_HEADER, id);
        if let Some(revision) = self.revision {
            headers.insert(
                async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
                revision.to_string(),
            );
        }
        if let Some(lifetime) = self.lifetime {
            let seconds = lifetime.as_millis().div_ceil(1000).max(1);
            headers.insert(LIFETIME_HEADER, format!("{seconds}s"));
        }
        if self.is_removal {
            headers.insert(OPERATION_HEADER, "DEL");
        }
        headers
    }
}

impl StateAccess {
    async fn create(
        &self,
        area: StateArea,
        key: &StateKey,
        value: Vec<u8>,
        lifetime: Option<Duration>,
    ) -> Result<StateRevision, SharedStateError> {
        let deadline = deadline();
        let mut change = StateUpdate::value(value, Some(0), lifetime);
        loop {
            match self.write(area, key, &change, deadline).await {
                Err(SharedStateError::Conflict) => {}
                result => return result,
            }
            // The marker of a removed key counts as its value until it expires.
            change.revision = match self.read_current(area, key, deadline).await? {
                Some(stored) if stored.is_removed => Some(stored.revision),
                Some(_) => return Err(SharedStateError::Conflict),
                None => Some(0),
            };
            if Instant::now() >= deadline {
                return Err(SharedStateError::Conflict);
            }
        }
    }

    async fn remove(
        &self,
        area: StateArea,
        key: &StateKey,
        revision: Option<StateRevision>,
    ) -> Result<(), SharedStateError> {
        let change = StateUpdate {
            value: Bytes::new(),
            revision,
            lifetime: Some(REMOVED_LIFETIME),
            is_removal: true,
        };
        self.write(area, key, &change, deadline()).await.map(drop)
    }

    /// Writes a change, and looks for it if the acknowledgement is lost.
    async fn write(
        &self,
        area: StateArea,
        key: &StateKey,
        change: &StateUpdate,
        deadline: Instant,
    ) -> Result<StateRevision, SharedStateError> {
        let max = self.value_max();
        if change.value.len() > max {
            return Err(SharedStateError::TooLarge {
                size: change.value.len(),
                max,
            });
        }
        let id = random_hex::<16>()
            .map_err(|error| self.unreachable(format!("no random numbers: {error}")))?;
        // An answer that is lost leaves half of the time to look for the change.
        let write_deadline =
            Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        loop {
            let subject = names::state_subject(area, key.as_str());
            let result = self
                .connection
                .publish_stored(
                    subject,
                    change.headers(&id),
                    change.value.clone(),
                    write_deadline,
                )
                .await;
            match result {
                Ok(stored) => return Ok(stored.seq),
                Err(error) if error.is_conflict() => return Err(SharedStateError::Conflict),
                Err(RequestError::NotDelivered) => {
                    self.create_missing_stream(area, write_deadline).await?;
                    if !pause_before_retry(write_deadline).await {
                        return Err(self.unreachable(RequestError::NotDelivered));
                    }
                }
                Err(error) if error.is_transient() && pause_before_retry(write_deadline).await => {}
                Err(error @ (RequestError::Timeout | RequestError::Connection(_))) => {
                    return self
                        .find_change(area, key, change, &id, deadline, error)
                        .await;
                }
                Err(error) if error.code() == Some(code::MESSAGE_TOO_LARGE) => {
                    return Err(SharedStateError::TooLarge {
                        size: change.value.len(),
                        max,
                    });
                }
                Err(error) => return Err(self.error(area, error)),
            }
        }
    }

    /// Looks for a change whose acknowledgement was lost.
    async fn find_change(
        &self,
        area: StateArea,
        key: &StateKey,
        change: &StateUpdate,
        id: &str,
        deadline: Instant,
        error: RequestError,
    ) -> Result<StateRevision, SharedStateError> {
        let unknown = || self.unreachable(format!("{error}; the change may have been made"));
        let stored = self
            .read(area, key, deadline)
            .await
            .map_err(|_| unknown())?;
        match stored {
            Some(stored) if stored.change.as_deref() == Some(id) => Ok(stored.revision),
            // With another value in its place, the change cannot be made any more.
            Some(stored)
                if change
                    .revision
                    .is_some_and(|expected| stored.revision > expected) =>
            {
                Err(SharedStateError::Conflict)
            }
            _ => Err(unknown()),
        }
    }

    /// Returns the last message of a key, from the leader of the bucket.
    async fn read(
        &self,
        area: StateArea,
        key: &StateKey,
        deadline: Instant,
    ) -> Result<Option<BucketValue>, SharedStateError> {
        let subject = names::state_subject(area, key.as_str());
        let query = json!({ "last_by_subj": subject });
        // Without a bucket, no value was ever written.
        let message = self
            .connection
            .read_message(&names::bucket_stream(area), &query, deadline)
            .await
            .map_err(|error| self.error(area, error))?;
        let value = message.map(BucketValue::decode).transpose();
        value.map_err(|error| {
            self.unreachable(format!("the answer of JetStream is not valid: {error}"))
        })
    }

    /// Returns the last message of a key like [`Self::read`]. Before, removes a value that the servers should have removed,
    /// because its lifetime has ended.
    async fn read_current(
        &self,
        area: StateArea,
        key: &StateKey,
        deadline: Instant,
    ) -> Result<Option<BucketValue>, SharedStateError> {
        let found = self.read(area, key, deadline).await?;
        let Some(stored) = found.as_ref().filter(|stored| !stored.is_removed) else {
            self.lifetimes.forget(area, key);
            return Ok(found);
        };
        let (revision, lifetime) = (stored.revision, stored.lifetime.as_deref());
        if !self.lifetimes.has_ended(area, key, revision, lifetime) {
            return Ok(found);
        }
        self.lifetimes.forget(area, key);
        match self.remove(area, key, Some(revision)).await {
            Ok(()) => tracing::warn!(
                key = key.as_str(),
                "removed a value of {area} that was not renewed and that the NATS servers have kept"
            ),
            // It was renewed or removed meanwhile.
            Err(SharedStateError::Conflict) => {}
            Err(_) => return Ok(found),
        }
        self.read(area, key, deadline).await
    }

    async fn list(
        &self,
        area: StateArea,
        prefix: Option<&StateKey>,
    ) -> Result<Vec<StateEntry>, SharedStateError> {
        let deadline = deadline();
        let filter = match prefix {
            Some(prefix) => names::state_subject(area, &format!("{prefix}.>")),
            None => names::state_subject(area, ">"),
        };
        let name = format!("STREAM.INFO.{}", names::bucket_stream(area));
        let mut keys: Vec<StateKey> = prefix.cloned().into_iter().collect();
        let mut offset = 0;
        loop {
            let body = json!({ "subjects_filter": filter, "offset": offset });
            let answer = match self
                .connection
                .api::<StreamAnswer>(&name, &body, deadline)
                .await
            {
                Ok(answer) => answer,
                Err(error) if error.code() == Some(code::STREAM_NOT_FOUND) => return Ok(Vec::new()),
                Err(error) => return Err(self.error(area, error)),
            };
            let subjects = answer.state.subjects.unwrap_or_default();
            let page = subjects.len();
            let start = names::state_subject(area, "");
            let found = subjects
                .keys()
                .filter_map(|subject| subject.strip_prefix(&start));
            keys.extend(found.filter_map(StateKey::parse));
            // JetStream returns up to 100,000 subjects at a time.
            if page < 100_000 {
                break;
            }
            offset += page;
        }
        let reads = keys.into_iter().map(|key| async move {
            let stored = self.read_current(area, &key, deadline).await?;
            Ok(stored.and_then(|stored| stored.entry(key)))
        });
        let mut reads = futures::stream::iter(reads).buffer_unordered(PARALLEL_READS);
        let mut entries = Vec::new();
        while let Some(entry) = reads.next().await {
            entries.extend(entry?);
        }
        entries.sort_by(|a: &StateEntry, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// Creates the bucket of an area unless it exists.
    async fn create_missing_stream(
        &self,
        area: StateArea,
        deadline: Instant,
    ) -> Result<(), SharedStateError> {
        let name = names::bucket_stream(area);
        let exists = self.connection.stream_exists(&name, deadline).await;
        if exists.map_err(|error| self.error(area, error))? {
            return Ok(());
        }
        let created = self.connection.ensure_stream(area_stream(area)).await;
        created.map_err(|error| self.error(area, error))
    }

    /// Returns the maximum size of a value. Reads encode it in base64, and must fit into a message too.
    fn value_max(&self) -> usize {
        (self.connection.client().max_payload() / 4 * 3).saturating_sub(HEADER_RESERVE)
    }

    fn error(&self, area: StateArea, error: RequestError) -> SharedStateError {
        let location = self.connection.servers().to_owned();
        if error.is_full() {
            return SharedStateError::Full {
                location,
                text: error.to_string(),
            };
        }
        match error {
            RequestError::Forbidden(_) => SharedStateError::Forbidden { location, area },
            error @ RequestError::NoStream(_) => SharedStateError::NotPrepared {
                location,
                text: error.to_string(),
            },
            error => self.unreachable(error),
        }
    }

    fn unreachable(&self, text: impl ToString) -> SharedStateError {
        SharedStateError::Unreachable {
            location: self.connection.servers().to_owned(),
            text: text.to_string(),
        }
    }
}

impl BucketValue {
    fn decode(message: StreamMessage) -> Result<Self, base64::DecodeError> {
        let headers = message.headers()?;
        let header = |name: &str| {
            let mut all = headers.iter();
            let found =
                all.find(|(found, _)| AsRef::<str>::as_ref(found).eq_ignore_ascii_case(name));
            found
                .and_then(|(_, values)| values.first())
                .map(|value| value.as_str())
        };
        Ok(Self {
            value: message.payload()?,
            revision: message.seq,
            is_removed: is_removed(header(OPERATION_HEADER), header(MARKER_HEADER)),
            change: header(CHANGE_HEADER).map(str::to_owned),
            lifetime: header(LIFETIME_HEADER).map(str::to_owned),
        })
    }

    fn entry(self, key: StateKey) -> Option<StateEntry> {
        (!self.is_removed).then_some(StateEntry {
            key,
            value: self.value,
            revision: self.revision,
        })
    }
}

/// Returns true if a message with these headers says that its key was removed.
fn is_removed(operation: Option<&str>, marker: Option<&str>) -> bool {
    matches!(operation, Some("DEL" | "PURGE")) || marker.is_some()
}
