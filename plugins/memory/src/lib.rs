//! Memory: `memory_save`, `memory_get` and `memory_search`, over the files `.mimir/memory/*.md`.
//!
//! `name` validates the names of memories, `folder` reads and writes their files, `taint_marks` tracks the origin of
//! their text, `section` splits a text into sections for ranking, `rank` ranks by words, and `embeddings` by meaning,
//! with vectors from an endpoint.
//!
//! Out of scope: other folders. The host grants write access to this folder to this plugin only.

mod embeddings;
mod folder;
mod get;
mod lines;
mod name;
mod rank;
mod save;
mod search;
mod section;
mod store;
mod taint_marks;

pub use get::{Content, Got, Listed, MemoryGet};
pub use save::{MemorySave, Mode, Saved};
pub use search::{MemoryMatch, MemorySearch, SearchResult};

mimir_sdk::export!(MemoryGet, MemorySearch; assessed MemorySave);

#[cfg(test)]
mod kit;
#[cfg(test)]
mod tests;
