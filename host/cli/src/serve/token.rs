//! The word that clients of a server over HTTP have to know.

use std::path::PathBuf;

use mimir_core::files::{self, Links};
use mimir_core::{Code, ToolError};

use crate::places::Places;
use crate::private::{self, Readers};

/// The token of this user's servers.
pub struct Token {
    /// The word itself.
    pub word: String,
    /// Where it is kept.
    pub file: PathBuf,
    /// Whether it has just been made.
    pub is_new: bool,
}

/// The file's name, beside the user's settings.
const FILE: &str = "serve.token";

/// Fewer letters can be guessed. A token of mimir's own has 32; a person may write another.
const SHORTEST: usize = 16;

/// No token is as long as this.
const LONGEST: u64 = 4096;

/// The token of this user's servers; a new one if there is none.
pub fn token(places: &Places) -> Result<Token, ToolError> {
    let unavailable = |why: String| ToolError::new(Code::Unavailable, why);
    let Some(folder) = &places.config else {
        return Err(unavailable(
            "there is no folder for your own settings, where the token is kept; set MIMIR_CONFIG_DIR".to_owned(),
        ));
    };
    let file = folder.join(FILE);
    let shown = mimir_core::text::visible(&file.display().to_string());
    match files::read_text(&file, Links::Followed, LONGEST) {
        Ok(text) => {
            let word = text.trim().to_owned();
            if word.len() < SHORTEST || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(unavailable(format!(
                    "{shown} has no token: {SHORTEST} letters or more, without spaces; remove it for a new one"
                )));
            }
            Ok(Token {
                word,
                file,
                is_new: false,
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let word = mimir_mcp::token()
                .ok_or_else(|| unavailable("this system has no randomness to give".to_owned()))?;
            let kept = private::private_folder(folder).and_then(|()| {
                private::replace(&file, format!("{word}\n").as_bytes(), Readers::Owner)
            });
            kept.map_err(|error| unavailable(format!("{shown} cannot be written: {error}")))?;
            Ok(Token {
                word,
                file,
                is_new: true,
            })
        }
        Err(error) => Err(unavailable(format!("{shown} cannot be read: {error}"))),
    }
}
