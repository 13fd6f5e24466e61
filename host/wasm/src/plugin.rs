//! A single component: the location of its bytes, its description, and its code once it is called.

use std::io::{self, ErrorKind, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use mimir_core::Code;
use mimir_core::files::{self, Links};
use tokio::sync::OnceCell;
use wasmtime::component::{Component, InstancePre};

use crate::backend::OwnFolders;
use crate::call::Callee;
use crate::compile::{CompileLimits, Lane, Request};
use crate::describe::Kind;
use crate::digest::Hash;
use crate::error::HostError;
use crate::guest::Guest;
use crate::host::WasmHost;
use crate::http::Clients;

/// The location of a component's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    /// In the executable.
    Bundled(&'static [u8]),
    /// In a file.
    File(PathBuf),
}

/// A component. Loaded when it is first called, and cached from then on.
pub(crate) struct Plugin {
    pub(crate) host: Arc<WasmHost>,
    pub(crate) bytes: Bytes,
    /// Its display name: a file name, or a built-in's name.
    pub(crate) place: String,
    pub(crate) digest: Hash,
    pub(crate) kind: Kind,
    /// The folders below `.mimir` that it may write to.
    pub(crate) own: OwnFolders,
    /// The connections of its tools.
    pub(crate) clients: Arc<Clients>,
    code: OnceCell<Arc<Callee>>,
}

/// Maximum size of a component's file. Language engines reach 40 MB.
pub(crate) const FILE_MAX: u64 = 256 << 20;

impl Bytes {
    /// Reads the component. The hashed bytes are the bytes that run.
    pub(crate) fn read(&self, place: &str) -> Result<std::borrow::Cow<'static, [u8]>, HostError> {
        match self {
            Bytes::Bundled(bytes) => Ok((*bytes).into()),
            Bytes::File(path) => {
                let bytes = files::read(path, Links::Followed, FILE_MAX);
                Ok(bytes.map_err(|error| unread(place, &error))?.into())
            }
        }
    }

    /// Hashes the component without loading the file into memory.
    pub(crate) fn digest(&self, place: &str) -> Result<Hash, HostError> {
        let path = match self {
            Bytes::Bundled(bytes) => return Ok(Hash::of(bytes)),
            Bytes::File(path) => path,
        };
        let file = files::open(path, Links::Followed);
        let hashed = file.and_then(|file| Hash::of_reader(file.take(FILE_MAX + 1)));
        match hashed.map_err(|error| unread(place, &error))? {
            (_, length) if length > FILE_MAX => Err(unread(place, &ErrorKind::FileTooLarge.into())),
            (digest, _) => Ok(digest),
        }
    }
}

/// Returns the error for a file that cannot be read as a component.
fn unread(place: &str, error: &io::Error) -> HostError {
    match error.kind() {
        ErrorKind::FileTooLarge => {
            let most = mimir_core::text::bytes(FILE_MAX);
            let message = format!("{place} is larger than {most}, the limit for components");
            HostError::Component(message, Code::LimitExceeded)
        }
        ErrorKind::InvalidInput => {
            let message = format!("{place} is not a regular file");
            HostError::Component(message, Code::InvalidInput)
        }
        _ => HostError::read(place, error),
    }
}

impl Plugin {
    pub(crate) fn new(
        host: Arc<WasmHost>,
        bytes: Bytes,
        place: String,
        digest: Hash,
        kind: Kind,
    ) -> Self {
        Self {
            host,
            bytes,
            place,
            digest,
            kind,
            own: OwnFolders::default(),
            clients: Arc::default(),
            code: OnceCell::new(),
        }
    }

    /// Returns the code if it is already loaded.
    pub(crate) fn loaded(&self) -> Option<&Arc<Callee>> {
        self.code.get()
    }

    /// Returns the code, ready to be instantiated: compiled within these limits if it is not in the cache.
    pub(crate) async fn callee(
        self: &Arc<Self>,
        limits: CompileLimits,
    ) -> Result<&Arc<Callee>, HostError> {
        if let Some(callee) = self.code.get() {
            return Ok(callee);
        }
        // The file is hashed even if its code is in the cache: the file that runs must be the one that was granted.
        self.check_digest()?;
        let request = Request {
            digest: self.digest,
            name: self.place.clone(),
            lane: match self.bytes {
                Bytes::Bundled(_) => Lane::BuiltIn,
                Bytes::File(_) => Lane::Custom,
            },
            limits,
        };
        let plugin = Arc::clone(self);
        let component = self.host.component(request, move || plugin.check()).await?;
        let link = || async {
            let pre = self.link(&component)?;
            Ok(Arc::new(Callee::new(pre, &self.kind, &self.place)?))
        };
        self.code.get_or_try_init(link).await
    }

    /// Checks that the file is the one that was described. Built-in bytes were hashed when mimir was built and cannot
    /// change.
    fn check_digest(&self) -> Result<(), HostError> {
        match &self.bytes {
            Bytes::File(_) if self.bytes.digest(&self.place)? != self.digest => {
                Err(HostError::Changed(self.place.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Reads the component and checks that it is the one that was described.
    fn check(&self) -> Result<std::borrow::Cow<'static, [u8]>, HostError> {
        let bytes = self.bytes.read(&self.place)?;
        if matches!(self.bytes, Bytes::File(_)) && Hash::of(&bytes) != self.digest {
            return Err(HostError::Changed(self.place.clone()));
        }
        Ok(bytes)
    }

    fn link(&self, component: &Component) -> Result<InstancePre<Guest>, HostError> {
        self.host
            .running()?
            .linker
            .instantiate_pre(component)
            .map_err(|error| {
                let message = format!(
                    "{} imports an interface that mimir does not provide: {error:#}",
                    self.place
                );
                HostError::Component(message, Code::InvalidInput)
            })
    }
}
