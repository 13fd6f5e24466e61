//! Programs that want out, or want more than they are given: one file per way.

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
