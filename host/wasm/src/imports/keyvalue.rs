//! `wasi:keyvalue`: the plugin's storage between calls, for a component that was not written for mimir.
//!
//! A bucket is a prefix of the keys, so all buckets of a component share its storage and its limits. The two drafts
//! differ in the cursors of a listing and in the types of the atomic operations.

use mimir_core::pipeline::PluginStorage;
use mimir_core::storage::{KEY_MAX, VALUE_MAX};
use mimir_core::{BoxFuture, ToolError, ToolErrorCode};
use wasmtime::StoreContextMut;
use wasmtime::component::{
    ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType,
};
use wasmtime_wasi_io::IoView as _;

use crate::call::OUTPUT_LIMIT;
use crate::store_state::StoreState;

/// The prefixes of the interface names and the drafts that this host provides.
const FIRST_DRAFT: &str = "0.2.0-draft";
const SECOND_DRAFT: &str = "0.2.0-draft2";

/// Number of keys that one listing returns.
const KEYS_PER_PAGE: usize = 100;

/// Maximum number of bytes that the compare-and-swap operations of a call keep: those of sixteen of the largest values.
const MAX_SWAP_BYTES: usize = 16 * VALUE_MAX;

/// Separator of the bucket's name and the key. No bucket may contain it, so no two buckets share a key.
const SEPARATOR: char = '\u{1f}';

/// An open bucket.
pub(crate) struct KeyValueBucket {
    prefix: String,
}

/// A compare-and-swap operation in progress.
pub(crate) struct CompareAndSwap {
    key: String,
    current: Option<Vec<u8>>,
}

impl CompareAndSwap {
    /// Returns the number of bytes that the operation keeps.
    fn size(&self) -> usize {
        self.key.len() + self.current.as_ref().map_or(0, Vec::len)
    }
}

type BucketHandle = Resource<KeyValueBucket>;
type SwapHandle = Resource<CompareAndSwap>;

#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(variant)]
enum BucketError {
    #[component(name = "no-such-store")]
    NoSuchStore,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "other")]
    Other(String),
}

/// A page of keys in the first draft.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct NumberedPage {
    keys: Vec<String>,
    cursor: Option<u64>,
}

/// A page of keys in the second draft.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct NamedPage {
    keys: Vec<String>,
    cursor: Option<String>,
}

#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum SwapError {
    #[component(name = "store-error")]
    Store(BucketError),
    #[component(name = "cas-failed")]
    Failed(SwapHandle),
}

type ImportStore<'a> = StoreContextMut<'a, StoreState>;
type BucketResult<T> = Result<T, BucketError>;
type ValueList = Vec<Option<(String, Vec<u8>)>>;

/// A host function's result for the guest, or a trap.
type ImportFuture<'a, T> = Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>;

impl From<ToolError> for BucketError {
    fn from(error: ToolError) -> Self {
        match error.code {
            ToolErrorCode::PermissionDenied => BucketError::AccessDenied,
            _ => BucketError::Other(error.message),
        }
    }
}

/// Returns the storage key of a bucket's key.
fn storage_key(
    guest: &mut StoreState,
    bucket: &BucketHandle,
    key: &str,
) -> wasmtime::Result<String> {
    let prefix = &guest.table().get(bucket)?.prefix;
    Ok(format!("{prefix}{key}"))
}

/// Runs an operation on the storage of the call.
async fn with_storage<T>(
    guest: &mut StoreState,
    work: impl FnOnce(PluginStorage) -> BoxFuture<'static, Result<T, ToolError>>,
) -> BucketResult<T> {
    let done = match guest.storage() {
        Ok(storage) => work(storage).await,
        Err(error) => Err(error),
    };
    done.map_err(BucketError::from)
}

/// Returns the value of a storage key.
async fn stored_value(guest: &mut StoreState, key: String) -> BucketResult<Option<Vec<u8>>> {
    with_storage(guest, |storage| {
        Box::pin(async move { storage.get(key).await })
    })
    .await
}

/// Links both drafts.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    for draft in [FIRST_DRAFT, SECOND_DRAFT] {
        let mut store = linker.instance(&format!("wasi:keyvalue/store@{draft}"))?;
        add_store(&mut store)?;
        if draft == FIRST_DRAFT {
            store.func_wrap_async("[method]bucket.list-keys", list_numbered)?;
        } else {
            store.func_wrap_async("[method]bucket.list-keys", list_named)?;
        }
        add_batch(&mut linker.instance(&format!("wasi:keyvalue/batch@{draft}"))?)?;
    }
    let mut atomics = linker.instance("wasi:keyvalue/atomics@0.2.0-draft")?;
    atomics.func_wrap_async(
        "increment",
        |mut guest: ImportStore<'_>, (bucket, key, delta): (BucketHandle, String, u64)| {
            Box::new(async move {
                let add = move |old: u64| old.checked_add(delta);
                Ok((increment(guest.data_mut(), &bucket, &key, add).await?,))
            }) as ImportFuture<'_, (BucketResult<u64>,)>
        },
    )?;
    let mut atomics = linker.instance("wasi:keyvalue/atomics@0.2.0-draft2")?;
    atomics.func_wrap_async(
        "increment",
        |mut guest: ImportStore<'_>, (bucket, key, delta): (BucketHandle, String, i64)| {
            Box::new(async move {
                let add = move |old: i64| old.checked_add(delta);
                Ok((increment(guest.data_mut(), &bucket, &key, add).await?,))
            }) as ImportFuture<'_, (BucketResult<i64>,)>
        },
    )?;
    add_swap(&mut atomics)
}

fn add_store(store: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    store.resource(
        "bucket",
        ResourceType::host::<KeyValueBucket>(),
        |mut guest, rep| {
            let handle = Resource::<KeyValueBucket>::new_own(rep);
            guest.data_mut().table().delete(handle)?;
            Ok(())
        },
    )?;
    store.func_wrap(
        "open",
        |mut guest: ImportStore<'_>,
         (identifier,): (String,)|
         -> wasmtime::Result<(BucketResult<BucketHandle>,)> {
            if identifier.contains(SEPARATOR) {
                let message = "the name of a bucket cannot contain the character U+001F".to_owned();
                return Ok((Err(BucketError::Other(message)),));
            }
            // The handles keep the names, which are part of every key.
            if identifier.len() >= KEY_MAX {
                let message = format!(
                    "the name of a bucket must have less than {KEY_MAX} bytes, this one has {}",
                    identifier.len()
                );
                return Ok((Err(BucketError::Other(message)),));
            }
            let prefix = format!("{identifier}{SEPARATOR}");
            Ok((Ok(guest
                .data_mut()
                .table()
                .push(KeyValueBucket { prefix })?),))
        },
    )?;
    store.func_wrap_async(
        "[method]bucket.get",
        |mut guest: ImportStore<'_>, (bucket, key): (BucketHandle, String)| {
            Box::new(async move {
                let key = storage_key(guest.data_mut(), &bucket, &key)?;
                Ok((stored_value(guest.data_mut(), key).await,))
            }) as ImportFuture<'_, (BucketResult<Option<Vec<u8>>>,)>
        },
    )?;
    store.func_wrap_async(
        "[method]bucket.set",
        |mut guest: ImportStore<'_>, (bucket, key, value): (BucketHandle, String, Vec<u8>)| {
            Box::new(async move {
                let guest = guest.data_mut();
                let key = storage_key(guest, &bucket, &key)?;
                let set = with_storage(guest, |storage| {
                    Box::pin(async move { storage.set(key, value).await })
                });
                Ok((set.await,))
            }) as ImportFuture<'_, (BucketResult<()>,)>
        },
    )?;
    store.func_wrap_async(
        "[method]bucket.delete",
        |mut guest: ImportStore<'_>, (bucket, key): (BucketHandle, String)| {
            Box::new(async move {
                let guest = guest.data_mut();
                let key = storage_key(guest, &bucket, &key)?;
                let deleted = with_storage(guest, |storage| {
                    Box::pin(async move { storage.delete(key).await })
                });
                Ok((deleted.await,))
            }) as ImportFuture<'_, (BucketResult<()>,)>
        },
    )?;
    store.func_wrap_async(
        "[method]bucket.exists",
        |mut guest: ImportStore<'_>, (bucket, key): (BucketHandle, String)| {
            Box::new(async move {
                let key = storage_key(guest.data_mut(), &bucket, &key)?;
                let value = stored_value(guest.data_mut(), key).await;
                Ok((value.map(|value| value.is_some()),))
            }) as ImportFuture<'_, (BucketResult<bool>,)>
        },
    )
}

/// Returns one page of a bucket's keys, after those that `skip` selects by position and key, and true if there are more.
async fn page(
    guest: &mut StoreState,
    bucket: &BucketHandle,
    skip: impl Fn(usize, &str) -> bool,
) -> wasmtime::Result<BucketResult<(Vec<String>, bool)>> {
    let prefix = guest.table().get(bucket)?.prefix.clone();
    let length = prefix.len();
    let keys = with_storage(guest, |storage| {
        Box::pin(async move { storage.keys(prefix).await })
    });
    Ok(keys.await.map(|keys| {
        let keys = keys.iter().filter_map(|key| key.get(length..));
        let mut rest = keys.enumerate().filter(|(at, key)| !skip(*at, key));
        let page = rest.by_ref().take(KEYS_PER_PAGE);
        let page = page.map(|(_, key)| key.to_owned()).collect();
        (page, rest.next().is_some())
    }))
}

fn list_numbered(
    mut guest: ImportStore<'_>,
    (bucket, cursor): (BucketHandle, Option<u64>),
) -> ImportFuture<'_, (BucketResult<NumberedPage>,)> {
    Box::new(async move {
        let begin = usize::try_from(cursor.unwrap_or(0)).unwrap_or(usize::MAX);
        let page = page(guest.data_mut(), &bucket, |at, _| at < begin).await?;
        Ok((page.map(|(keys, has_more)| NumberedPage {
            cursor: has_more.then(|| begin.saturating_add(keys.len()) as u64),
            keys,
        }),))
    })
}

fn list_named(
    mut guest: ImportStore<'_>,
    (bucket, cursor): (BucketHandle, Option<String>),
) -> ImportFuture<'_, (BucketResult<NamedPage>,)> {
    Box::new(async move {
        let is_before =
            |_: usize, key: &str| cursor.as_ref().is_some_and(|last| key <= last.as_str());
        let page = page(guest.data_mut(), &bucket, is_before).await?;
        Ok((page.map(|(keys, has_more)| NamedPage {
            cursor: keys.last().filter(|_| has_more).cloned(),
            keys,
        }),))
    })
}

/// Returns the error for values that exceed the limit for results.
fn values_too_large(max_bytes: usize) -> ToolError {
    let limit = mimir_core::text::bytes(max_bytes as u64);
    let message = format!(
        "the values together are larger than {limit} ({OUTPUT_LIMIT}): ask for fewer keys at once"
    );
    ToolError::new(ToolErrorCode::LimitExceeded, message)
}

fn add_batch(batch: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    batch.func_wrap_async(
        "get-many",
        |mut guest: ImportStore<'_>, (bucket, keys): (BucketHandle, Vec<String>)| {
            Box::new(async move {
                let prefix = guest.data_mut().table().get(&bucket)?.prefix.clone();
                let max_bytes = guest.data().max_output;
                let values = with_storage(guest.data_mut(), |storage| {
                    Box::pin(async move {
                        let mut values = ValueList::new();
                        let mut left = max_bytes;
                        for key in keys {
                            let value = storage.get(format!("{prefix}{key}")).await?;
                            // A key may be asked for many times.
                            let size = key.len() + value.as_ref().map_or(0, Vec::len);
                            left = left
                                .checked_sub(size)
                                .ok_or_else(|| values_too_large(max_bytes))?;
                            values.push(value.map(|value| (key, value)));
                        }
                        Ok(values)
                    })
                });
                Ok((values.await,))
            }) as ImportFuture<'_, (BucketResult<ValueList>,)>
        },
    )?;
    batch.func_wrap_async(
        "set-many",
        |mut guest: ImportStore<'_>, (bucket, pairs): (BucketHandle, Vec<(String, Vec<u8>)>)| {
            Box::new(async move {
                let prefix = guest.data_mut().table().get(&bucket)?.prefix.clone();
                let done = with_storage(guest.data_mut(), |storage| {
                    Box::pin(async move {
                        for (key, value) in pairs {
                            storage.set(format!("{prefix}{key}"), value).await?;
                        }
                        Ok(())
                    })
                });
                Ok((done.await,))
            }) as ImportFuture<'_, (BucketResult<()>,)>
        },
    )?;
    batch.func_wrap_async(
        "delete-many",
        |mut guest: ImportStore<'_>, (bucket, keys): (BucketHandle, Vec<String>)| {
            Box::new(async move {
                let prefix = guest.data_mut().table().get(&bucket)?.prefix.clone();
                let done = with_storage(guest.data_mut(), |storage| {
                    Box::pin(async move {
                        for key in keys {
                            storage.delete(format!("{prefix}{key}")).await?;
                        }
                        Ok(())
                    })
                });
                Ok((done.await,))
            }) as ImportFuture<'_, (BucketResult<()>,)>
        },
    )
}

/// Adds to a number that is stored as decimal text; a missing value is 0.
async fn increment<N>(
    guest: &mut StoreState,
    bucket: &BucketHandle,
    key: &str,
    add: impl FnOnce(N) -> Option<N> + Send + 'static,
) -> wasmtime::Result<BucketResult<N>>
where
    N: std::str::FromStr + std::fmt::Display + Default + Send + 'static,
{
    let invalid = |reason: &str| ToolError::new(ToolErrorCode::InvalidInput, reason.to_owned());
    let key = storage_key(guest, bucket, key)?;
    let change = move |old: Option<&[u8]>| {
        let old = match old {
            None => N::default(),
            Some(bytes) => parse_number(bytes)
                .ok_or_else(|| invalid("the value is not a number, so it cannot be incremented"))?,
        };
        let new = add(old).ok_or_else(|| invalid("the number is too large to be incremented"))?;
        Ok(new.to_string().into_bytes())
    };
    let new = with_storage(guest, |storage| {
        Box::pin(async move { storage.update(key, change).await })
    });
    Ok(new.await.and_then(|bytes| {
        let lost = || BucketError::Other("the number was not stored".to_owned());
        parse_number(&bytes).ok_or_else(lost)
    }))
}

fn parse_number<N: std::str::FromStr>(bytes: &[u8]) -> Option<N> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

fn add_swap(atomics: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    atomics.resource(
        "cas",
        ResourceType::host::<CompareAndSwap>(),
        |mut guest, rep| {
            end_swap(guest.data_mut(), Resource::new_own(rep))?;
            Ok(())
        },
    )?;
    atomics.func_wrap_async(
        "[static]cas.new",
        |mut guest: ImportStore<'_>, (bucket, key): (BucketHandle, String)| {
            Box::new(async move {
                let key = storage_key(guest.data_mut(), &bucket, &key)?;
                Ok((begin_swap(guest.data_mut(), key).await?,))
            }) as ImportFuture<'_, (BucketResult<SwapHandle>,)>
        },
    )?;
    atomics.func_wrap(
        "[method]cas.current",
        |mut guest: ImportStore<'_>,
         (swap,): (SwapHandle,)|
         -> wasmtime::Result<(BucketResult<Option<Vec<u8>>>,)> {
            Ok((Ok(guest.data_mut().table().get(&swap)?.current.clone()),))
        },
    )?;
    atomics.func_wrap_async(
        "swap",
        |mut guest: ImportStore<'_>, (swap, value): (SwapHandle, Vec<u8>)| {
            Box::new(async move { Ok((finish_swap(guest.data_mut(), swap, value).await?,)) })
                as ImportFuture<'_, (Result<(), SwapError>,)>
        },
    )
}

async fn begin_swap(
    guest: &mut StoreState,
    key: String,
) -> wasmtime::Result<BucketResult<SwapHandle>> {
    let swap = match stored_value(guest, key.clone()).await {
        Ok(current) => CompareAndSwap { key, current },
        Err(error) => return Ok(Err(error)),
    };
    let kept = guest.swap_bytes + swap.size();
    if kept > MAX_SWAP_BYTES {
        let limit = mimir_core::text::bytes(MAX_SWAP_BYTES as u64);
        let message = format!(
            "the compare-and-swap operations in progress keep more than {limit}: finish or drop some of them first"
        );
        return Ok(Err(BucketError::Other(message)));
    }
    let handle = guest.table().push(swap)?;
    guest.swap_bytes = kept;
    Ok(Ok(handle))
}

/// Takes an operation out of the guest's handles.
fn end_swap(guest: &mut StoreState, handle: SwapHandle) -> wasmtime::Result<CompareAndSwap> {
    let swap = guest.table().delete(handle)?;
    guest.swap_bytes = guest.swap_bytes.saturating_sub(swap.size());
    Ok(swap)
}

/// Stores the value if the stored one is still the one that the operation began with.
async fn finish_swap(
    guest: &mut StoreState,
    swap: SwapHandle,
    value: Vec<u8>,
) -> wasmtime::Result<Result<(), SwapError>> {
    const CHANGED: &str = "the value has changed";
    let CompareAndSwap { key, current } = end_swap(guest, swap)?;
    let changed_key = key.clone();
    let change = move |old: Option<&[u8]>| {
        if old == current.as_deref() {
            Ok(value)
        } else {
            Err(ToolError::new(ToolErrorCode::AlreadyExists, CHANGED))
        }
    };
    let stored = match guest.storage() {
        Ok(storage) => storage.update(key, change).await,
        Err(error) => Err(error),
    };
    Ok(match stored {
        Ok(_) => Ok(()),
        Err(error) if error.code == ToolErrorCode::AlreadyExists => {
            match begin_swap(guest, changed_key).await? {
                Ok(next) => Err(SwapError::Failed(next)),
                Err(error) => Err(SwapError::Store(error)),
            }
        }
        Err(error) => Err(SwapError::Store(error.into())),
    })
}
