//! `wasi:http` for guests without a network: linked, so that every component loads, and refused.

use std::future::Future;

use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// Refuses every request.
pub(crate) struct NoNetwork;

type Sent = (
    http::Response<WasiBody>,
    Box<dyn Future<Output = Result<(), Error>> + Send>,
);

impl WasiHttpHooks for NoNetwork {
    fn send_request(
        &mut self,
        _: http::Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }
}
