//! Programs that try to escape or to exceed their limits, with one file per kind.

mod beside;
mod descriptors;
mod files;
mod hungry;
mod kernel;
mod lingering;
mod mounts;
pub mod network;
mod output;
mod protected;
mod renamed;
mod sockets;
