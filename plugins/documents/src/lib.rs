//! `read_document`: PDF and office documents as Markdown. Models call `read_file`; the host sends documents here.
//!
//! `pdf` reads the pages of PDF files, `word` and `slides` Microsoft's formats, `open_document` those of LibreOffice,
//! and `sheets` the tables of both. `package` opens the archives that contain them, and `markdown` writes the result.
//!
//! Out of scope: images in documents, and text in scanned pages.
//!
//! The crate is empty on other targets than WebAssembly; the tests of the workspace call the component.

#![cfg(target_os = "wasi")]

mod markdown;
mod open_document;
mod package;
mod pdf;
mod read;
mod sheets;
mod slides;
mod word;
mod xml;

pub use read::{DocumentContent, ReadDocument};

mimir_sdk::export!(ReadDocument);
