//! Reads the host's environment and arguments.

use mimir_guests::{Answer, Hostile, hostile, text};

struct Environment;

impl Hostile for Environment {
    fn call(_: String) -> Answer {
        let variables: Vec<_> = std::env::vars_os().collect();
        let arguments: Vec<_> = std::env::args_os().collect();
        let folder = wasip2::cli::environment::initial_cwd();
        text(format!("{variables:?} {arguments:?} {folder:?}"))
    }
}

hostile!(Environment);
