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
//! This is a complete plugin: a library crate of type `cdylib`, built for `wasm32-wasip2`. The tool is called
//! `word_count`, the doc comment of the struct is the description that the model reads, and the fields with their doc
//! comments are the JSON Schema of the arguments. `mimir tools new NAME` creates such a crate and `mimir tools build`
//! puts it where mimir finds it.
//!
//! # Arguments
//!
//! The arguments can be any type that serde can read and schemars can describe. `Option` and `#[serde(default)]` make a
//! field optional, `#[serde(rename_all = "camelCase")]` renames fields, `#[serde(deny_unknown_fields)]` rejects unknown
//! fields, `#[schemars(range(min = 1))]` sets bounds. A tool without arguments is `struct Now {}`, with braces. The
//! host validates the arguments against the schema before the tool runs. Arguments that pass this validation but do not
//! fit the type fail with `invalid-input`, and the error names the path of the argument.
//!
//! # Results
//!
//! A `String` or `&'static str` is text, `()` is an empty result, [`Json`] is structured content with an output schema
//! (give it a better text form with [`Json::worded`]), and [`Output`] covers everything else: several parts, images,
//! audio, files, an exit code.
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
//! A file name or other external text can forge a line of the result that a model reads: escape it with [`text::name`].
//! A tool that returns a part of a longer text cuts the text with [`pieces::piece`]. Otherwise a caller could read a
//! secret in two halves, neither of which the host would recognize and redact.
//!
//! # Failures
//!
//! `?` works on [`std::io::Error`], strings and JSON errors; [`Error`] has a constructor for each code of the contract.
//! A panic ends the call with a trap, and the panic message goes to the log.
//!
//! # Needs, approval, hints
//!
//! A tool starts without any permissions: no files, no network, no commands. It declares its needs in [`Tool::needs`],
//! files, hosts, commands and secrets with a reason, and a person grants or denies them. Calls of a tool without needs
//! are allowed by default. Calls of any other tool ask each time, even after the grant, unless [`Tool::APPROVAL`] or the
//! settings allow them. Policies can use [`Tool::GROUP`], [`Tool::RISK`] and [`Tool::HINTS`]; hints can only make a
//! decision stricter.
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
//! # Assessing calls
//!
//! A tool whose risk depends on its arguments implements [`Assess`] and is listed after `assessed` in [`export!`]:
//! `export!(ReadIt; assessed WriteIt)`. An assessor can read the granted files and has no other access. An assessment
//! can always make the decision stricter; it can relax the decision only for plugins that a person trusts.
//!
//! # The host
//!
//! [`log`], [`progress`], [`commands`], [`tools`], [`model`] and [`storage`] are functions of the host. A component
//! imports only the modules that its code calls, so a missing import proves that the component cannot use that module.
//!
//! # Tests
//!
//! A plugin is an ordinary crate: add `rlib` to its `crate-type`, create a context with [`Context::at`] and call
//! [`Tool::run`]. The crate `mimir-testkit` runs the built component in the real pipeline.

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

/// Functions for the expansion of [`export!`]. Not for direct use.
#[doc(hidden)]
pub mod runtime {
    pub use crate::export::{Entry, NotAssessed, Package, Probe, assess, call, describe};
}

/// Common imports of a plugin: `use mimir_sdk::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Approval, Assess, Assessment, Context, Error, Group, Hints, IntoOutput, Json, Needs,
        Output, Result, Risk, Tool, Worded,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}
