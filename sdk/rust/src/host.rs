//! Functions of the host. Each module is one import of the contract; a component imports only the modules that its code
//! calls.
//!
//! In native tests, outside of a component, log lines go to stderr, progress is dropped, and all other functions fail
//! with `unavailable`.

/// Log lines; the host adds the time, limits their size and redacts secrets.
pub mod log {
    #[cfg(target_family = "wasm")]
    use crate::bindings::mimir::tool::log::{Level, write};

    macro_rules! levels {
        ($($(#[$doc:meta])* $name:ident => $level:ident;)*) => {
            $($(#[$doc])*
            pub fn $name(message: impl AsRef<str>) {
                #[cfg(target_family = "wasm")]
                write(Level::$level, message.as_ref());
                #[cfg(not(target_family = "wasm"))]
                eprintln!(concat!(stringify!($name), ": {}"), message.as_ref());
            })*
        };
    }

    levels! {
        /// Details for the author of the tool.
        debug => Debug;
        /// Normal events.
        info => Info;
        /// Unexpected, but not a failure.
        warn => Warn;
        /// A failure.
        error => Error;
    }
}

/// Progress of a long call, shown to the person.
pub mod progress {
    /// Reports that `done` of `total` units are finished, and describes the current step in `message`. The tool chooses
    /// the unit; `total` is `None` if it is not known.
    pub fn report(done: u64, total: Option<u64>, message: Option<&str>) {
        #[cfg(target_family = "wasm")]
        crate::bindings::mimir::tool::progress::report(done, total, message);
        #[cfg(not(target_family = "wasm"))]
        let _ = (done, total, message);
    }
}

pub mod commands;

/// Calls of other tools. The policy applies to these calls as to any other.
pub mod tools {
    use serde::Serialize;

    use crate::error::Result;
    use crate::output::Output;

    /// Calls a tool by its name and returns its output.
    pub fn call(name: &str, arguments: impl Serialize) -> Result<Output> {
        let arguments = serde_json::to_string(&arguments)?;
        #[cfg(target_family = "wasm")]
        return Ok(crate::bindings::mimir::tool::tools::call(name, &arguments)?.into());
        #[cfg(not(target_family = "wasm"))]
        {
            let _ = (name, arguments);
            Err(super::unavailable("tools"))
        }
    }
}

/// Completions from the configured model.
pub mod model {
    use crate::error::Result;

    /// Returns the model's reply, of at most `max_tokens` tokens..
    pub fn complete(prompt: &str, max_tokens: Option<u32>) -> Result<String> {
        #[cfg(target_family = "wasm")]
        return Ok(crate::bindings::mimir::tool::model::complete(
            prompt, max_tokens,
        )?);
        #[cfg(not(target_family = "wasm"))]
        {
            let _ = (prompt, max_tokens);
            Err(super::unavailable("the model"))
        }
    }
}

/// Small values stored between calls, private to the plugin and to the workspace: at most 1,000 values, 1 MB each and
/// 16 MB in total. [`set`](storage::set) fails with `limit-exceeded` beyond these limits.
pub mod storage {
    use crate::error::Result;

    /// Returns the value of a key, or `None` if the key does not exist.
    pub fn get(key: &str) -> Result<Option<Vec<u8>>> {
        #[cfg(target_family = "wasm")]
        return Ok(crate::bindings::mimir::tool::storage::get(key)?);
        #[cfg(not(target_family = "wasm"))]
        {
            let _ = key;
            Err(super::unavailable("storage"))
        }
    }

    /// Sets the value of a key.
    pub fn set(key: &str, value: &[u8]) -> Result<()> {
        #[cfg(target_family = "wasm")]
        return Ok(crate::bindings::mimir::tool::storage::set(key, value)?);
        #[cfg(not(target_family = "wasm"))]
        {
            let _ = (key, value);
            Err(super::unavailable("storage"))
        }
    }

    /// Removes a key.
    pub fn delete(key: &str) -> Result<()> {
        #[cfg(target_family = "wasm")]
        return Ok(crate::bindings::mimir::tool::storage::delete(key)?);
        #[cfg(not(target_family = "wasm"))]
        {
            let _ = key;
            Err(super::unavailable("storage"))
        }
    }

    /// Lists the keys that begin with a prefix.
    pub fn keys(prefix: &str) -> Result<Vec<String>> {
        #[cfg(target_family = "wasm")]
        return Ok(crate::bindings::mimir::tool::storage::keys(prefix)?);
        #[cfg(not(target_family = "wasm"))]
        {
            let _ = prefix;
            Err(super::unavailable("storage"))
        }
    }
}

#[cfg(target_family = "wasm")]
fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(not(target_family = "wasm"))]
fn unavailable(what: &str) -> crate::error::Error {
    crate::error::Error::unavailable(format_args!(
        "{what} can be reached only from inside a component"
    ))
}
