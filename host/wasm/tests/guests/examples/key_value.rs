//! A component with `wasi:keyvalue`, in the second draft as wasmCloud has it, and `open` and `increment` of the first
//! one, as Spin has it.

wit_bindgen::generate!({
    inline: r#"
        package test:guest;

        interface first {
            use wasi:keyvalue/store@0.2.0-draft.{bucket};
        }

        world guest {
            import wasi:keyvalue/store@0.2.0-draft2;
            import wasi:keyvalue/atomics@0.2.0-draft2;
            import wasi:keyvalue/batch@0.2.0-draft2;
            import wasi:keyvalue/store@0.2.0-draft;
            import wasi:keyvalue/atomics@0.2.0-draft;
            export put: func(bucket: string, key: string, value: string) -> result<_, string>;
            export get: func(bucket: string, key: string) -> result<option<string>, string>;
            export list-all: func(bucket: string) -> result<list<string>, string>;
            export count: func(bucket: string, key: string, by: s64) -> result<s64, string>;
            export count-first: func(bucket: string, key: string, by: u64) -> result<u64, string>;
            export replace: func(bucket: string, key: string, between: option<string>, value: string) -> result<string, string>;
            export flood: func() -> u32;
        }

        package wasi:keyvalue@0.2.0-draft2 {
            interface store {
                variant error { no-such-store, access-denied, other(string) }
                record key-response { keys: list<string>, cursor: option<string> }
                open: func(identifier: string) -> result<bucket, error>;
                resource bucket {
                    get: func(key: string) -> result<option<list<u8>>, error>;
                    set: func(key: string, value: list<u8>) -> result<_, error>;
                    delete: func(key: string) -> result<_, error>;
                    exists: func(key: string) -> result<bool, error>;
                    list-keys: func(cursor: option<string>) -> result<key-response, error>;
                }
            }
            interface atomics {
                use store.{bucket, error};
                variant cas-error { store-error(error), cas-failed(cas) }
                resource cas {
                    new: static func(bucket: borrow<bucket>, key: string) -> result<cas, error>;
                    current: func() -> result<option<list<u8>>, error>;
                }
                increment: func(bucket: borrow<bucket>, key: string, delta: s64) -> result<s64, error>;
                swap: func(cas: cas, value: list<u8>) -> result<_, cas-error>;
            }
            interface batch {
                use store.{bucket, error};
                get-many: func(bucket: borrow<bucket>, keys: list<string>) -> result<list<option<tuple<string, list<u8>>>>, error>;
                set-many: func(bucket: borrow<bucket>, key-values: list<tuple<string, list<u8>>>) -> result<_, error>;
                delete-many: func(bucket: borrow<bucket>, keys: list<string>) -> result<_, error>;
            }
        }

        package wasi:keyvalue@0.2.0-draft {
            interface store {
                variant error { no-such-store, access-denied, other(string) }
                record key-response { keys: list<string>, cursor: option<u64> }
                open: func(identifier: string) -> result<bucket, error>;
                resource bucket {
                    get: func(key: string) -> result<option<list<u8>>, error>;
                    list-keys: func(cursor: option<u64>) -> result<key-response, error>;
                }
            }
            interface atomics {
                use store.{bucket, error};
                increment: func(bucket: borrow<bucket>, key: string, delta: u64) -> result<u64, error>;
            }
        }
    "#,
    world: "guest",
    generate_all,
});

use wasi::keyvalue0_2_0_draft as first;
use wasi::keyvalue0_2_0_draft2::{atomics, batch, store};

struct Component;

fn open(name: &str) -> Result<store::Bucket, String> {
    store::open(name).map_err(|error| error.to_string())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Guest for Component {
    fn put(bucket: String, key: String, value: String) -> Result<(), String> {
        let bucket = open(&bucket)?;
        let pairs = [(key.clone(), value.into_bytes())];
        batch::set_many(&bucket, &pairs).map_err(|error| error.to_string())?;
        let exists = bucket.exists(&key).map_err(|error| error.to_string())?;
        exists
            .then_some(())
            .ok_or_else(|| "it is not there".to_owned())
    }

    fn get(bucket: String, key: String) -> Result<Option<String>, String> {
        let value = open(&bucket)?
            .get(&key)
            .map_err(|error| error.to_string())?;
        Ok(value.map(text))
    }

    fn list_all(bucket: String) -> Result<Vec<String>, String> {
        let bucket = open(&bucket)?;
        let (mut keys, mut cursor) = (Vec::new(), None);
        loop {
            let page = bucket
                .list_keys(cursor.as_deref())
                .map_err(|error| error.to_string())?;
            keys.extend(page.keys);
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(keys);
            }
        }
    }

    fn count(bucket: String, key: String, by: i64) -> Result<i64, String> {
        atomics::increment(&open(&bucket)?, &key, by).map_err(|error| error.to_string())
    }

    fn count_first(bucket: String, key: String, by: u64) -> Result<u64, String> {
        let bucket = first::store::open(&bucket).map_err(|error| error.to_string())?;
        first::atomics::increment(&bucket, &key, by).map_err(|error| error.to_string())
    }

    fn replace(
        bucket: String,
        key: String,
        between: Option<String>,
        value: String,
    ) -> Result<String, String> {
        let bucket = open(&bucket)?;
        let operation = atomics::Cas::new(&bucket, &key).map_err(|error| error.to_string())?;
        if let Some(other) = between {
            bucket
                .set(&key, other.as_bytes())
                .map_err(|error| error.to_string())?;
        }
        match atomics::swap(operation, value.as_bytes()) {
            Ok(()) => Ok("swapped".to_owned()),
            Err(atomics::CasError::StoreError(error)) => Err(error.to_string()),
            Err(atomics::CasError::CasFailed(next)) => {
                let current = next.current().map_err(|error| error.to_string())?;
                Ok(format!("changed to {}", text(current.unwrap_or_default())))
            }
        }
    }

    fn flood() -> u32 {
        let mut buckets = Vec::new();
        loop {
            match store::open(&buckets.len().to_string()) {
                Ok(bucket) => buckets.push(bucket),
                Err(_) => return buckets.len() as u32,
            }
        }
    }
}

export!(Component);
