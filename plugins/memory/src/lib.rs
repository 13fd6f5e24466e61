//! Memory: `memory_save`, `memory_get` and `memory_search`, over the files `.mimir/memory/*.md`.
//!
//! `name` checks the names of memories, `folder` reads and writes their files, `words_of` tracks the origin of their
//! text, `part` splits a text into passages for ranking, `rank` ranks by words and `meaning` by vectors of an
//! embeddings endpoint.
//!
//! Out of scope: other folders. The host grants this one to this plugin, and no other tool may write to it.

mod folder;
mod get;
mod meaning;
mod name;
mod part;
mod rank;
mod save;
mod search;
mod shown;
mod store;
mod words_of;

pub use get::{Content, Got, Listed, MemoryGet};
pub use save::{MemorySave, Mode, Saved};
pub use search::{Found, Hit, MemorySearch};

mimir_sdk::export!(MemoryGet, MemorySearch; assessed MemorySave);

#[cfg(test)]
mod kit;
#[cfg(test)]
mod tests;
