//! Imports whose host side is not built into this mimir: linked, and honest about it. A plugin that was
//! not granted them hears that first.

use crate::bindings::types::{Error, ErrorCode};
use crate::bindings::{model, storage};
use crate::guest::Guest;

fn absent(what: &str, granted: bool) -> Error {
    let (code, message) = match granted {
        true => (
            ErrorCode::Unavailable,
            format!("this mimir has no {what} for plugins"),
        ),
        false => (
            ErrorCode::PermissionDenied,
            format!("the tool was not granted {what}; its manifest must name the need"),
        ),
    };
    Error {
        code,
        message,
        details: None,
    }
}

impl model::Host for Guest {
    async fn complete(
        &mut self,
        _: String,
        _: Option<u32>,
    ) -> wasmtime::Result<Result<String, Error>> {
        Ok(Err(absent("language model", self.model)))
    }
}

impl storage::Host for Guest {
    async fn get(&mut self, _: String) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        Ok(Err(absent("storage", true)))
    }

    async fn set(&mut self, _: String, _: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        Ok(Err(absent("storage", true)))
    }

    async fn delete(&mut self, _: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(Err(absent("storage", true)))
    }

    async fn keys(&mut self, _: String) -> wasmtime::Result<Result<Vec<String>, Error>> {
        Ok(Err(absent("storage", true)))
    }
}
