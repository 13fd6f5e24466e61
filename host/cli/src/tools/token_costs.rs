//! Token cost of a tool: the number that its author has declared, or the number of tokens in its definition, as clients
//! of a format receive it. Counts are cached per user, so that the tokenizer is only loaded for new definitions.

use std::io;
use std::path::{Path, PathBuf};

use mimir_core::Tool;
use mimir_tokens::{TokenCountCache, TokenCountKey};
use serde::Serialize;

use crate::args::DefinitionFormat;
use crate::output::definitions::tool_definition;
use mimir::private_files::{self, FileReaders, OwnerOnly};
use mimir::user_dirs::UserDirs;

/// Token cost of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TokenCost {
    /// Number of tokens.
    #[serde(rename = "tokenCost")]
    pub tokens: u32,
    /// True if the author has declared the number in `tokenCost`.
    #[serde(rename = "tokenCostStated")]
    pub stated: bool,
}

/// Token counts and their cache file.
pub struct TokenCosts {
    path: Option<PathBuf>,
    cache: TokenCountCache,
}

/// Name of the cache file. Changes of the tokenizer or the definition formats need another name.
const FILE: &str = "tokens-o200k-1.txt";

impl TokenCosts {
    /// Loads the cached counts of this user.
    pub fn open(user_dirs: &UserDirs) -> Self {
        let path = user_dirs.cache.as_ref().map(|cache| cache.join(FILE));
        Self {
            cache: TokenCountCache::parse(path.as_deref().map(read).unwrap_or_default()),
            path,
        }
    }

    /// Returns the cost of a tool for clients of this format.
    pub fn tool_cost(&mut self, tool: &Tool, format: DefinitionFormat) -> TokenCost {
        match tool.token_cost {
            Some(tokens) => TokenCost {
                tokens,
                stated: true,
            },
            None => TokenCost {
                tokens: self.count_definition(tool, format),
                stated: false,
            },
        }
    }

    fn count_definition(&mut self, tool: &Tool, format: DefinitionFormat) -> u32 {
        let definition = &tool.definition;
        let (name, schema) = (tool.name().as_str(), definition.input_schema.as_str());
        let text = || tool_definition(tool, format).to_string();
        // The key is made of the parts of a definition, so that a cached definition is not built.
        let key = |format| {
            TokenCountKey::from_parts([format, name, definition.description.as_str(), schema])
        };
        match format {
            DefinitionFormat::Openai => self.cached_or_counted(key("openai"), text),
            DefinitionFormat::Anthropic => self.cached_or_counted(key("anthropic"), text),
            DefinitionFormat::OpenApi3 => self.cached_or_counted(key("openApi3"), text),
            // Not by parts, because this format also contains titles, hints and the output schema.
            DefinitionFormat::Mcp => self.text_tokens(&text()),
        }
    }

    /// Counts the tokens of a text.
    pub fn text_tokens(&mut self, text: &str) -> u32 {
        self.cached_or_counted(TokenCountKey::from_parts(["text", text]), || {
            text.to_owned()
        })
    }

    fn cached_or_counted(&mut self, key: TokenCountKey, text: impl FnOnce() -> String) -> u32 {
        if let Some(tokens) = self.cache.get(key) {
            return tokens;
        }
        let tokens = mimir_tokens::count(&text());
        self.cache.put(key, tokens);
        tokens
    }

    /// Saves new counts. If that fails, they are counted again the next time.
    pub fn save(&self) {
        let (Some(path), Some(text)) = (&self.path, self.cache.text()) else {
            return;
        };
        if let Err(error) = write(path, &text) {
            tracing::debug!(%error, "cannot save token counts");
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private_files::private_folder(folder)?;
    }
    private_files::replace(path, text.as_bytes(), FileReaders::Owner)
}

/// Reads the cache file. Returns an empty text if it cannot be read, or if other users can write it.
fn read(path: &Path) -> String {
    match private_files::read(path, OwnerOnly::Writing) {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => {
            tracing::debug!(%error, "cannot read token counts");
            String::new()
        }
    }
}
