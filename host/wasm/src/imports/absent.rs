//! Imports whose host side is not built into this mimir: linked, and honest about it.

use crate::bindings::types::{Error, ErrorCode};
use crate::bindings::{commands, model, storage};
use crate::guest::Guest;

fn absent(what: &str) -> Error {
    Error {
        code: ErrorCode::Unavailable,
        message: format!("this mimir has no {what} for plugins"),
        details: None,
    }
}

impl commands::Host for Guest {
    async fn run(&mut self, _: commands::Command) -> wasmtime::Result<Result<commands::Finished, Error>> {
        Ok(Err(absent("commands")))
    }

    async fn run_shell(
        &mut self,
        _: String,
        _: Option<String>,
        _: Option<u64>,
    ) -> wasmtime::Result<Result<commands::Finished, Error>> {
        Ok(Err(absent("commands")))
    }
}

impl model::Host for Guest {
    async fn complete(&mut self, _: String, _: Option<u32>) -> wasmtime::Result<Result<String, Error>> {
        Ok(Err(absent("language model")))
    }
}

impl storage::Host for Guest {
    async fn get(&mut self, _: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        Ok(Err(absent("storage")))
    }

    async fn set(&mut self, _: String, _: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        Ok(Err(absent("storage")))
    }

    async fn delete(&mut self, _: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(Err(absent("storage")))
    }

    async fn keys(&mut self, _: String) -> wasmtime::Result<Result<Vec<String>, Error>> {
        Ok(Err(absent("storage")))
    }
}
