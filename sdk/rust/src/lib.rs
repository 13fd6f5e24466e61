//! Write tools for mimir: a struct with docs, a function, and one line to export.
//!
//! ```
//! use mimir_sdk::prelude::*;
//!
//! /// Counts the words in a text.
//! #[derive(Deserialize, JsonSchema)]
//! struct WordCount {
//!     /// The text to count.
//!     text: String,
//! }
//! impl Tool for WordCount {
//!     type Output = String;
//!     fn run(self, _cx: &Context) -> Result<String> { Ok(self.text.split_whitespace().count().to_string()) }
//! }
//! mimir_sdk::export!(WordCount);
//! ```
//!
//! That is a whole plugin: a library crate of type `cdylib`, built for `wasm32-wasip2`. The tool is
//! called `word_count`, the doc comment of the struct is what the model reads when it chooses, and
//! the fields with their doc comments are the JSON Schema of the arguments. `mimir tools new NAME`
//! writes such a crate and `mimir tools build` puts it where mimir finds it.
//!
//! # Arguments
//!
//! Anything that serde can read and schemars can describe. `Option` and `#[serde(default)]` make a
//! field optional, `#[serde(rename_all = "camelCase")]` renames, `#[serde(deny_unknown_fields)]`
//! forbids what isn't there, `#[schemars(range(min = 1))]` bounds. A tool without arguments is
//! `struct Now {}`, with braces. The host checks arguments against the schema before the tool runs;
//! what passes and still doesn't fit the type is answered with `invalid-input` and its path.
//!
//! # Results
//!
//! A `String` or `&'static str` is text, `()` is nothing, [`Json`] is structured content with an
//! output schema (give it a better text twin with [`Json::worded`]), and [`Output`] is all of the
//! contract: several parts, pictures, sounds, files, an exit code.
//!
//! ```
//! use mimir_sdk::prelude::*;
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Stats { words: usize, lines: usize }
//!
//! /// Counts words and lines.
//! #[derive(Deserialize, JsonSchema)]
//! struct TextStats { text: String }
//! impl Tool for TextStats {
//!     type Output = Worded<Stats>;
//!     fn run(self, _cx: &Context) -> Result<Self::Output> {
//!         let stats = Stats { words: self.text.split_whitespace().count(), lines: self.text.lines().count() };
//!         let text = format!("{} words in {} lines", stats.words, stats.lines);
//!         Ok(Json(stats).worded(text))
//!     }
//! }
//! let tool = TextStats { text: "one two\nthree".into() };
//! assert_eq!(tool.run(&Context::at("."))?.text, "3 words in 2 lines");
//! # Ok::<(), Error>(())
//! ```
//!
//! Names of files and other text from outside can forge a line of the text that a model reads:
//! [`text::name`] writes them so that they can't. A tool that shows a part of a longer text cuts it with
//! [`pieces::piece`], so that its caller can't read a secret in halves that no host knows.
//!
//! # Failures
//!
//! `?` works on [`std::io::Error`], strings and JSON errors; [`Error`] has a constructor for each
//! code of the contract. A panic ends the call as a trap, and its message goes to the log.
//!
//! # Needs, approval, hints
//!
//! A tool starts with nothing: no files, no network, no commands. What it wants it declares in
//! [`Tool::needs`], each with a reason, and a person grants or doesn't. A tool that needs nothing
//! is allowed by default, any other asks; [`Tool::APPROVAL`] says otherwise. [`Tool::GROUP`],
//! [`Tool::RISK`] and [`Tool::HINTS`] inform policies; hints only ever tighten.
//!
//! ```
//! use mimir_sdk::prelude::*;
//!
//! /// Counts the lines of a file.
//! #[derive(Deserialize, JsonSchema)]
//! struct CountLines {
//!     /// Relative to the workspace root.
//!     path: String,
//! }
//! impl Tool for CountLines {
//!     type Output = String;
//!     const GROUP: Group = Group::Fs;
//!     const HINTS: Hints = Hints::NONE.read_only();
//!     fn needs() -> Needs { Needs::none().read(".", "to read the file that it is given") }
//!     fn run(self, cx: &Context) -> Result<String> {
//!         let path = cx.workspace().join(&self.path);
//!         let text = std::fs::read_to_string(&path).map_err(|e| Error::io(&e, &self.path))?;
//!         Ok(text.lines().count().to_string())
//!     }
//! }
//! ```
//!
//! # Judging calls
//!
//! A tool whose danger depends on its arguments implements [`Assess`] and is listed after
//! `assessed` in [`export!`]: `export!(ReadIt; assessed WriteIt)`. An assessor sees files read-only
//! and nothing else, and what it says can raise the decision; it lowers it only for plugins that a
//! person trusts.
//!
//! # The host
//!
//! [`log`], [`progress`], [`commands`], [`tools`], [`model`], [`storage`] are the host's side. A
//! component imports only those that its code calls, so what isn't called provably can't happen.
//!
//! # Tests
//!
//! A plugin is an ordinary crate: add `rlib` to its `crate-type`, make a [`Context::at`] some
//! directory and call [`Tool::run`]. The testkit crate runs the built component under the real
//! pipeline.

#[doc(hidden)]
pub mod bindings;
mod context;
mod error;
mod export;
mod host;
mod needs;
mod output;
pub mod pieces;
mod schema;
pub mod text;
mod tool;

pub use context::Context;
pub use error::{Code, Error, Result};
pub use host::{commands, log, model, progress, storage, tools};
pub use needs::Needs;
pub use output::{IntoOutput, Json, Output, Worded};
pub use tool::{Approval, Assess, Assessment, Group, Hints, Risk, Tool};
pub use {schemars, serde, serde_json};

/// What the expansion of [`export!`] calls. Not for hands.
#[doc(hidden)]
pub mod runtime {
    pub use crate::export::{Entry, NotAssessed, Package, Probe, assess, call, describe};
}

/// Everything that a tool names: `use mimir_sdk::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Approval, Assess, Assessment, Context, Error, Group, Hints, IntoOutput, Json, Needs,
        Output, Result, Risk, Tool, Worded,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}
