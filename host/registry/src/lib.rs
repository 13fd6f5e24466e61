//! Client of OCI registries: references, digests, manifests, blobs, referrers and credentials; the layout of WebAssembly
//! artifacts; signatures; team bundles.
//!
//! A registry is not trusted: every manifest and blob is checked against its digest and size while it is received, every
//! response is bounded, and all requests go through [`mimir_net::HostClient`], which judges each redirect. Credentials
//! never follow a redirect to another host.
//!
//! This crate neither reads the environment nor starts programs: paths of credential files and the executor of
//! credential helpers are passed in.

mod auth;
mod client;
mod credentials;
mod digest;
mod error;
mod manifest;
mod reference;
pub mod signature;
pub mod team;
mod transport;
pub mod wasm_artifact;

pub use client::{COMPONENT_MAX, MANIFEST_MAX, Mirrors, NewArtifact, NewLayer, RegistryClient};
pub use credentials::{CredentialHelper, Credentials};
pub use digest::OciDigest;
pub use error::RegistryError;
pub use manifest::{
    Descriptor, IMAGE_INDEX, IMAGE_MANIFEST, ImageIndex, ImageManifest, ManifestPlatform,
    OciManifest, PulledIndex, PulledManifest,
};
pub use reference::OciReference;
