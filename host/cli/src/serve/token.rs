//! The bearer token for clients of an HTTP server.

use std::path::PathBuf;

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};

use mimir::private_files::{self, FileReaders};
use mimir::user_dirs::UserDirs;

/// The token of this user's servers.
pub struct ServeToken {
    /// The token itself.
    pub word: String,
    /// File that contains the token.
    pub file: PathBuf,
    /// True if the token was just created.
    pub is_new: bool,
}

/// File name of the token in the user's config folder.
const FILE: &str = "serve.token";

/// Minimum length of a token. A shorter one could be guessed. Generated tokens have 32 characters, but users can write
/// their own.
const MIN_TOKEN_LENGTH: usize = 16;

/// Maximum size of the token file.
const MAX_FILE_SIZE: u64 = 4096;

/// Reads the token of this user's servers. Creates one if there is no token file.
pub fn load_or_create(user_dirs: &UserDirs) -> Result<ServeToken, ToolError> {
    let Some(folder) = &user_dirs.config else {
        return Err(ToolError::unavailable(
            "cannot store the token without a user config folder; set MIMIR_CONFIG_DIR",
        ));
    };
    let file = folder.join(FILE);
    let shown = mimir_core::text::visible(&file.display().to_string());
    match files::read_text(&file, LinkPolicy::Follow, MAX_FILE_SIZE) {
        Ok(text) => {
            let word = text.trim().to_owned();
            if word.len() < MIN_TOKEN_LENGTH || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(ToolError::unavailable(format!(
                    "{shown} has no valid token: expected at least {MIN_TOKEN_LENGTH} characters without spaces; remove the file to create a new one"
                )));
            }
            Ok(ServeToken {
                word,
                file,
                is_new: false,
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let word = mimir_mcp::random_token()
                .ok_or_else(|| ToolError::unavailable("cannot get random bytes from the system"))?;
            let written = private_files::private_folder(folder).and_then(|()| {
                private_files::replace(&file, format!("{word}\n").as_bytes(), FileReaders::Owner)
            });
            written.map_err(|error| {
                ToolError::unavailable(format!("cannot write {shown}: {error}"))
            })?;
            Ok(ServeToken {
                word,
                file,
                is_new: true,
            })
        }
        Err(error) => Err(ToolError::unavailable(format!(
            "cannot read {shown}: {error}"
        ))),
    }
}
