//! The import whose host side is not built into this mimir: linked, and honest about it.

use crate::bindings::storage;
use crate::bindings::types::{Error, ErrorCode};
use crate::guest::Guest;

fn absent() -> Error {
    Error {
        code: ErrorCode::Unavailable,
        message: "this mimir has no storage for plugins".to_owned(),
        details: None,
    }
}

impl storage::Host for Guest {
    async fn get(&mut self, _: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        Ok(Err(absent()))
    }

    async fn set(&mut self, _: String, _: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        Ok(Err(absent()))
    }

    async fn delete(&mut self, _: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(Err(absent()))
    }

    async fn keys(&mut self, _: String) -> wasmtime::Result<Result<Vec<String>, Error>> {
        Ok(Err(absent()))
    }
}
