//! Errors about programs that are not installed, with the way to install them.

use mimir_sdk::prelude::*;
use mimir_sdk::{Code, text};

/// Explains the failure to start `program` if it is not installed.
pub fn explain(error: Error, program: &str) -> Error {
    if *error.code() != Code::NotFound {
        return error;
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let remedy = match name {
        "cargo" | "rustc" => "install Rust with rustup (https://rustup.rs)",
        "rustfmt" => "run `rustup component add rustfmt`",
        "go" | "gofmt" => "install Go (https://go.dev/dl)",
        "node" | "npm" | "npx" | "yarn" | "pnpm" => "install Node.js (https://nodejs.org)",
        "python" | "python3" => "install Python 3",
        "ruff" => "run `pip install ruff` in the project's `.venv`",
        "black" => "run `pip install black` in the project's `.venv`",
        "clang-format" => "install clang-format, for example with `apt install clang-format`",
        "mvn" => "install Maven, or add the script `mvnw` to the project",
        "make" => "install make",
        _ => "install it, or name another one",
    };
    Error::not_found(format_args!(
        "the program `{}` was not found in the sandbox of commands: {remedy}",
        text::brief(name)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_error_names_the_way_to_install_it() {
        let error = Error::not_found("program `ruff` not found. Did you mean `groff`?");
        let explained = explain(error, ".venv/bin/ruff");
        assert_eq!(*explained.code(), Code::NotFound);
        assert!(
            explained.message().contains("pip install ruff"),
            "{explained:?}"
        );
        assert!(!explained.message().contains("groff"), "{explained:?}");
        let denied = explain(Error::permission_denied("no"), "ruff");
        assert_eq!(denied.message(), "no");
    }
}
