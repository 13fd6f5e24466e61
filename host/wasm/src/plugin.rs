//! One component: where its bytes are, what it is, and its code once something calls it.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use mimir_core::Code;
use mimir_core::files::{self, Links};
use tokio::sync::OnceCell;
use wasmtime::component::{Component, InstancePre};

use crate::backend::OwnFolders;
use crate::call::Callee;
use crate::compile;
use crate::describe::Kind;
use crate::digest::Hash;
use crate::error::HostError;
use crate::guest::Guest;
use crate::host::WasmHost;
use crate::http::Clients;

/// Where the bytes of a component are.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    /// In the binary.
    Bundled(&'static [u8]),
    /// In a file.
    File(PathBuf),
}

/// One component. Loaded when it is first called, and then kept.
pub(crate) struct Plugin {
    pub(crate) host: Arc<WasmHost>,
    pub(crate) bytes: Bytes,
    /// How people know it: a file name, or a built-in's name.
    pub(crate) place: String,
    pub(crate) digest: Hash,
    pub(crate) kind: Kind,
    /// Which folders of mimir's own it may write to.
    pub(crate) own: OwnFolders,
    /// The connections of its tools.
    pub(crate) clients: Arc<Clients>,
    code: OnceCell<Arc<Callee>>,
}

/// The largest file that is taken for a component. Engines of languages reach 40 MB.
pub(crate) const FILE_MAX: u64 = 256 << 20;

impl Bytes {
    /// Reads the component. The bytes that are hashed are the bytes that run.
    pub(crate) fn read(&self, place: &str) -> Result<std::borrow::Cow<'static, [u8]>, HostError> {
        match self {
            Bytes::Bundled(bytes) => Ok((*bytes).into()),
            Bytes::File(path) => {
                let bytes = files::read(path, Links::Followed, FILE_MAX);
                let bytes = bytes.map_err(|error| match error.kind() {
                    ErrorKind::FileTooLarge => {
                        let most = mimir_core::text::bytes(FILE_MAX);
                        let message = format!(
                            "{place} is larger than {most}, the most that a component may have"
                        );
                        HostError::Component(message, Code::LimitExceeded)
                    }
                    ErrorKind::InvalidInput => {
                        let message = format!("{place} is not a regular file");
                        HostError::Component(message, Code::InvalidInput)
                    }
                    _ => HostError::read(place, &error),
                })?;
                Ok(bytes.into())
            }
        }
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

    /// The code, if it is loaded already.
    pub(crate) fn loaded(&self) -> Option<&Arc<Callee>> {
        self.code.get()
    }

    /// The code, ready to be instantiated.
    pub(crate) async fn callee(self: &Arc<Self>) -> Result<&Arc<Callee>, HostError> {
        let load = || async {
            let pre = match self.cached()? {
                Some(pre) => pre,
                None => {
                    let plugin = Arc::clone(self);
                    let work = move || plugin.compile();
                    let (host, digest) = (&self.host, self.digest);
                    let compiled = host
                        .works()
                        .component(host.cache(), digest, &self.place, work);
                    self.link(&compiled.await?)?
                }
            };
            Ok(Arc::new(Callee::new(pre, &self.kind, &self.place)?))
        };
        self.code.get_or_try_init(load).await
    }

    /// The code from the cache. The file is hashed all the same: what was granted is what runs.
    fn cached(&self) -> Result<Option<InstancePre<Guest>>, HostError> {
        self.check()?;
        let running = self.host.running()?;
        match compile::cached(&running.engine, self.host.cache(), &self.digest) {
            Some(component) => self.link(&component).map(Some),
            None => Ok(None),
        }
    }

    fn check(&self) -> Result<std::borrow::Cow<'static, [u8]>, HostError> {
        let bytes = self.bytes.read(&self.place)?;
        // Bundled bytes were hashed when mimir was built and cannot change.
        if matches!(self.bytes, Bytes::File(_)) && Hash::of(&bytes) != self.digest {
            return Err(HostError::Changed(self.place.clone()));
        }
        Ok(bytes)
    }

    fn compile(&self) -> Result<Component, HostError> {
        let bytes = self.check()?;
        let running = self.host.running()?;
        let tell = |event| self.host.tell(event);
        let cache = self.host.cache();
        compile::compile(
            &running.engine,
            cache,
            &self.digest,
            &self.place,
            &bytes,
            &tell,
        )
    }

    fn link(&self, component: &Component) -> Result<InstancePre<Guest>, HostError> {
        self.host
            .running()?
            .linker
            .instantiate_pre(component)
            .map_err(|error| {
                let message = format!(
                    "{} imports something that mimir does not have: {error:#}",
                    self.place
                );
                HostError::Component(message, Code::InvalidInput)
            })
    }
}
