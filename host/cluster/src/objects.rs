//! Components and other files in the cluster, by their SHA-256.
//!
//! An object is a sequence of chunks and an end message with its size, each stored once and never replaced. The digest
//! is checked again when an object is read, so that nothing but the named bytes is ever used.

use std::path::Path;

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use bytes::Bytes;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::connection::{ACCESS_TIMEOUT, ClusterConnection, ClusterError};
use crate::ids::hex;
use crate::names;
use crate::request::RequestError;
use crate::streams::object_stream;

/// Size of a chunk. With its encoding, a chunk fits into a message of NATS's default maximum.
const CHUNK_SIZE: usize = 256 * 1024;

/// Number of chunks that are sent or read at the same time.
const PARALLEL_CHUNKS: usize = 4;

/// Maximum size of an object in bytes.
pub const OBJECT_SIZE_MAX: u64 = 512 * 1024 * 1024;

/// Name of the message that ends an object.
const END: &str = "end";

/// Error of an access to objects.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The object is not stored.
    #[error("object {0} is not stored in the cluster: publish it again")]
    Missing(String),
    /// The stored bytes do not have the digest that names them.
    #[error(
        "object {digest} is damaged: {text}; ask an administrator to remove it from the stream {stream}"
    )]
    Damaged {
        /// The digest.
        digest: String,
        /// The difference.
        text: String,
        /// The stream of objects.
        stream: &'static str,
    },
    /// The object is too large.
    #[error("an object of {size} bytes is too large: at most {OBJECT_SIZE_MAX} bytes are stored")]
    TooLarge {
        /// Size in bytes.
        size: u64,
    },
    /// The file cannot be written.
    #[error("cannot write an object: {0}")]
    Write(std::io::Error),
    /// The cluster has refused the access, or does not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// The store of components and other files.
#[derive(Clone)]
pub struct ComponentStore {
    connection: ClusterConnection,
}

#[derive(Serialize, Deserialize)]
struct ObjectEnd {
    size: u64,
}

impl ComponentStore {
    /// Creates access to the objects of this cluster.
    pub fn new(connection: ClusterConnection) -> Self {
        Self { connection }
    }

    /// Stores an object and returns its digest. An object that is stored already is not sent again.
    pub async fn put(&self, content: Bytes) -> Result<String, ObjectError> {
        let size = content.len() as u64;
        if size > OBJECT_SIZE_MAX {
            return Err(ObjectError::TooLarge { size });
        }
        let digest = object_digest(&content);
        if self.size(&digest).await? == Some(size) {
            return Ok(digest);
        }
        let chunks = content.len().div_ceil(CHUNK_SIZE);
        let sends = (0..chunks).map(|number| {
            let end = content.len().min((number + 1) * CHUNK_SIZE);
            let chunk = content.slice(number * CHUNK_SIZE..end);
            self.put_part(names::object_subject(&digest, &number.to_string()), chunk)
        });
        let mut sends = futures::stream::iter(sends).buffered(PARALLEL_CHUNKS);
        while let Some(sent) = sends.next().await {
            sent?;
        }
        drop(sends);
        let end = json!({ "size": size }).to_string();
        self.put_part(names::object_subject(&digest, END), end.into())
            .await?;
        Ok(digest)
    }

    /// Stores a message unless its subject has one, which then has the same content.
    async fn put_part(&self, subject: String, content: Bytes) -> Result<(), ObjectError> {
        let mut is_first = true;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
            let deadline = Instant::now() + ACCESS_TIMEOUT * 2;
            let sent =
                self.connection
                    .publish_stored(subject.clone(), headers, content.clone(), deadline);
            match sent.await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => return Ok(()),
                Err(RequestError::NotDelivered) if is_first => {
                    is_first = false;
                    let created = self.connection.ensure_stream(object_stream()).await;
                    created.map_err(|error| self.connection.error(error))?;
                }
                Err(error) => return Err(self.connection.error(error).into()),
            }
        }
    }

    /// Returns the size of a stored object, or `None` if it is not stored.
    pub async fn size(&self, digest: &str) -> Result<Option<u64>, ObjectError> {
        let Some(end) = self.part(digest, END).await? else {
            return Ok(None);
        };
        match serde_json::from_slice::<ObjectEnd>(&end) {
            Ok(end) if end.size <= OBJECT_SIZE_MAX => Ok(Some(end.size)),
            Ok(_) | Err(_) => Err(damaged(digest, "its size is not valid")),
        }
    }

    /// Reads an object into memory.
    pub async fn get(&self, digest: &str) -> Result<Vec<u8>, ObjectError> {
        let mut content = Vec::new();
        self.read(digest, &mut content).await?;
        Ok(content)
    }

    /// Reads an object into a new file, which gets its name only when its digest was checked. An existing file is
    /// replaced.
    pub async fn get_file(&self, digest: &str, path: &Path) -> Result<(), ObjectError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(ObjectError::Write)?;
        self.read(digest, &mut file).await?;
        file.as_file().sync_all().map_err(ObjectError::Write)?;
        file.persist(path)
            .map_err(|error| ObjectError::Write(error.error))?;
        Ok(())
    }

    /// Writes the chunks of an object and checks their digest.
    async fn read(
        &self,
        digest: &str,
        target: &mut impl std::io::Write,
    ) -> Result<(), ObjectError> {
        let size = self.size(digest).await?;
        let size = size.ok_or_else(|| ObjectError::Missing(digest.to_owned()))?;
        let chunks = size.div_ceil(CHUNK_SIZE as u64);
        let reads =
            (0..chunks).map(|number| async move { self.part(digest, &number.to_string()).await });
        let mut reads = futures::stream::iter(reads).buffered(PARALLEL_CHUNKS);
        let mut hasher = Sha256::new();
        let mut read = 0;
        while let Some(chunk) = reads.next().await {
            let chunk = chunk?.ok_or_else(|| damaged(digest, "a chunk is missing"))?;
            read += chunk.len() as u64;
            if read > size {
                return Err(damaged(digest, "it is longer than its size"));
            }
            hasher.update(&chunk);
            target.write_all(&chunk).map_err(ObjectError::Write)?;
        }
        if read != size || hex(&hasher.finalize()) != digest {
            return Err(damaged(digest, "its content has another SHA-256"));
        }
        target.flush().map_err(ObjectError::Write)
    }

    /// Returns a part of an object.
    async fn part(&self, digest: &str, part: &str) -> Result<Option<Vec<u8>>, ObjectError> {
        if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let query = json!({ "last_by_subj": names::object_subject(digest, part) });
        let deadline = Instant::now() + ACCESS_TIMEOUT * 2;
        let message = self
            .connection
            .read_message(names::OBJECT_STREAM, &query, deadline)
            .await
            .map_err(|error| self.connection.error(error))?;
        let content = message.map(|message| message.payload()).transpose();
        content.map_err(|error| damaged(digest, &error.to_string()))
    }
}

fn damaged(digest: &str, text: &str) -> ObjectError {
    ObjectError::Damaged {
        digest: digest.to_owned(),
        text: text.to_owned(),
        stream: names::OBJECT_STREAM,
    }
}

/// Returns the digest of an object: its SHA-256 in lower-case hex.
pub(crate) fn object_digest(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}
