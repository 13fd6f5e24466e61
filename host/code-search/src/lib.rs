//! `search_code`: finds passages, definitions and uses of names in the code of a workspace, with an index that is kept
//! up to date. With an embeddings endpoint, it also finds passages by meaning (`meaning`).
//!
//! A call updates the index (`refresh`) with the files that `source_tree` selects, and searches it (`search`).
//! `source_file` reads files; `lexer`, `definitions` and `words` find in them what is indexed. `store` keeps the index
//! in the state folder, in the form of `codec`. Each result is read from its file again, by the path rules of its call.
//!
//! Out of scope: changing files, and texts that are not words of code; `file_search` finds any text.

mod codec;
mod definitions;
mod ignore_rules;
mod index;
mod index_key;
mod language;
mod lexer;
mod meaning;
mod open_index;
mod refresh;
mod search;
mod search_task;
mod source_file;
mod source_tree;
mod store;
mod tool;
mod words;

pub use meaning::{EmbeddingRequest, EmbeddingResponse, EmbeddingTransport};
pub use tool::{CodeSearch, SEARCH_CODE};
