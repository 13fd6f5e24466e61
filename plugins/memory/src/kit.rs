//! Test fixtures: a workspace with memories, a store, and an endpoint.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use mimir_sdk::serde_json::{Value, json};
use mimir_sdk::{Context, Error, Result, serde_json};
use url::Url;

use crate::embeddings::{Response, Transport};
use crate::folder::{FOLDER, MemoryFolder};
use crate::save::{MemorySave, Mode, Saved};
use crate::store::Store;

/// A workspace with the folder that the host grants.
pub(crate) struct Workspace {
    dir: tempfile::TempDir,
    pub(crate) store: RecordingStore,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
        Self {
            dir,
            store: RecordingStore::default(),
        }
    }

    pub(crate) fn cx(&self) -> Context {
        Context::at(self.dir.path())
    }

    pub(crate) fn folder(&self) -> MemoryFolder {
        MemoryFolder::in_workspace(&self.cx())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(FOLDER).join(name)
    }

    pub(crate) fn put(&self, file: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.file(file), content).unwrap();
    }

    pub(crate) fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.file(file)).unwrap()
    }

    pub(crate) fn save(&self, name: &str, content: &str, mode: Mode) -> Result<Saved> {
        let save = MemorySave {
            name: name.to_owned(),
            content: content.to_owned(),
            mode,
        };
        save.save(&self.folder(), &self.store)
            .map(|saved| saved.value)
    }
}

/// A store that records reads.
#[derive(Default)]
pub(crate) struct RecordingStore {
    values: RefCell<BTreeMap<String, Vec<u8>>>,
    reads: RefCell<Vec<String>>,
}

impl RecordingStore {
    /// The keys that were read since the last call, by name or in a list.
    pub(crate) fn take_reads(&self) -> Vec<String> {
        self.reads.take()
    }

    pub(crate) fn stored_keys(&self) -> Vec<String> {
        self.values.borrow().keys().cloned().collect()
    }
}

impl Store for RecordingStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.values.borrow().get(key).cloned();
        if value.is_some() {
            self.reads.borrow_mut().push(key.to_owned());
        }
        Ok(value)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.values
            .borrow_mut()
            .insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.values.borrow_mut().remove(key);
        Ok(())
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let values = self.values.borrow();
        let keys: Vec<String> = values
            .keys()
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect();
        self.reads.borrow_mut().extend(keys.clone());
        Ok(keys)
    }
}

/// An embeddings endpoint that knows some words: a vector has one number for each group of synonyms.
#[derive(Default)]
pub(crate) struct Endpoint {
    /// The texts of each request.
    pub(crate) requests: RefCell<Vec<Vec<String>>>,
    /// Status and body of the reply, instead of vectors. Status 0 stands for a failed connection.
    pub(crate) canned_reply: RefCell<Option<(u16, String)>>,
}

const SYNONYMS: [&[&str]; 3] = [
    &["car", "vehicle", "automobile"],
    &["soup", "meal", "cook"],
    &["rain", "weather"],
];

impl Transport for Endpoint {
    fn post(&self, url: &Url, headers: &[(&str, String)], body: &[u8]) -> Result<Response> {
        assert_eq!(url.as_str(), "http://127.0.0.1:1/v1/embeddings");
        assert!(headers.iter().any(|(name, _)| *name == "content-type"));
        let body: Value = serde_json::from_slice(body).unwrap();
        let texts: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
        self.requests.borrow_mut().push(texts.clone());
        if let Some((status, body)) = &*self.canned_reply.borrow() {
            if *status == 0 {
                return Err(Error::network(body));
            }
            return Ok(Response {
                status: *status,
                body: body.clone().into_bytes(),
            });
        }
        let data = texts.iter().enumerate().rev().map(|(index, text)| {
            let text = text.to_lowercase();
            let has = |words: &&[&str]| f64::from(words.iter().any(|word| text.contains(word)));
            let vector: Vec<f64> = SYNONYMS.iter().map(has).chain([0.01]).collect();
            json!({ "index": index, "embedding": vector })
        });
        let body = json!({ "data": data.collect::<Vec<_>>() });
        Ok(Response {
            status: 200,
            body: body.to_string().into_bytes(),
        })
    }
}
