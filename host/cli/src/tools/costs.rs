//! What a tool costs in a prompt: what its author says, else the tokens of its definition, exactly as a client of a
//! format is given it. Counts are kept in the user's cache, so that the tokenizer is made only for what is new.

use std::io;
use std::path::{Path, PathBuf};

use mimir_core::Tool;
use mimir_tokens::{Book, Key};
use serde::Serialize;

use crate::args::Format;
use crate::output::definitions::definition;
use crate::places::Places;
use crate::private::{self, Closed, Readers};

/// What a tool costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// In tokens.
    #[serde(rename = "tokenCost")]
    pub tokens: u32,
    /// Whether its author says so, in `tokenCost`.
    #[serde(rename = "tokenCostStated")]
    pub stated: bool,
}

/// Counts, and the book that they are kept in.
pub struct Costs {
    path: Option<PathBuf>,
    book: Book,
}

/// The file of the book. Counts of another tokenizer, or of definitions in another form, would be in another file.
const FILE: &str = "tokens-o200k-1.txt";

impl Costs {
    /// The counts of this user.
    pub fn open(places: &Places) -> Self {
        let path = places.cache.as_ref().map(|cache| cache.join(FILE));
        Self {
            book: Book::read(path.as_deref().map(read).unwrap_or_default()),
            path,
        }
    }

    /// What the tool costs clients of this format.
    pub fn of(&mut self, tool: &Tool, format: Format) -> Cost {
        match tool.token_cost {
            Some(tokens) => Cost {
                tokens,
                stated: true,
            },
            None => Cost {
                tokens: self.counted(tool, format),
                stated: false,
            },
        }
    }

    fn counted(&mut self, tool: &Tool, format: Format) -> u32 {
        let said = &tool.definition;
        let (name, schema) = (tool.name().as_str(), said.input_schema.as_str());
        let written = || definition(tool, format).to_string();
        // Of these the definition is made, and of nothing else.
        let parts = |format| Key::of([format, name, said.description.as_str(), schema]);
        match format {
            Format::Openai => self.known(parts("openai"), written),
            Format::Anthropic => self.known(parts("anthropic"), written),
            // More is in this one: titles, hints, the schema of results.
            Format::Mcp => self.text(&written()),
        }
    }

    /// The tokens of a text.
    pub fn text(&mut self, text: &str) -> u32 {
        self.known(Key::of(["text", text]), || text.to_owned())
    }

    fn known(&mut self, key: Key, text: impl FnOnce() -> String) -> u32 {
        if let Some(tokens) = self.book.get(key) {
            return tokens;
        }
        let tokens = mimir_tokens::count(&text());
        self.book.put(key, tokens);
        tokens
    }

    /// Writes down what was counted. What cannot be kept is counted again the next time.
    pub fn keep(&self) {
        let (Some(path), Some(text)) = (&self.path, self.book.text()) else {
            return;
        };
        if let Err(error) = write(path, &text) {
            tracing::debug!(%error, "counts of tokens are not kept");
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private::private_folder(folder)?;
    }
    private::replace(path, text.as_bytes(), Readers::Owner)
}

/// What others could have written is not believed.
fn read(path: &Path) -> String {
    match private::read(path, Closed::Writing) {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => {
            tracing::debug!(%error, "counts of tokens are not read");
            String::new()
        }
    }
}
