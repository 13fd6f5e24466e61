//! A program that was not written for mimir: fetches the URL in its first argument through `wasi:http` and prints the
//! response.

#![expect(clippy::unwrap_used, reason = "a panic here is a failed test there")]

use std::io::Write;

use wasip2::cli::environment::get_arguments;
use wasip2::exports::cli::run::Guest;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

struct Get;

impl Guest for Get {
    fn run() -> Result<(), ()> {
        let url = get_arguments().into_iter().nth(1).unwrap();
        let (authority, path) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let request = OutgoingRequest::new(Fields::new());
        request.set_scheme(Some(&Scheme::Http)).unwrap();
        request.set_authority(Some(authority)).unwrap();
        request
            .set_path_with_query(Some(&format!("/{path}")))
            .unwrap();
        let answer = handle(request, None).map_err(|error| eprintln!("{error:?}"))?;
        answer.subscribe().block();
        let response = answer.get().unwrap().unwrap();
        let response = response.map_err(|error| eprintln!("{error:?}"))?;
        let body = response.consume().unwrap();
        let stream = body.stream().unwrap();
        loop {
            match stream.blocking_read(1 << 16) {
                Ok(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
                Err(StreamError::Closed) => return std::io::stdout().flush().map_err(drop),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

wasip2::cli::command::export!(Get);
