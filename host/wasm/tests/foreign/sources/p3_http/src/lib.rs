//! A server of WASI 0.3: answers in a stream, sends a request itself, or streams without end.

wit_bindgen::generate!({ path: "wit", world: "wasi:http/service", generate_all });

use exports::wasi::http::handler::Guest;
use wasi::http::client;
use wasi::http::types::{ErrorCode, Fields, Request, Response, Scheme};
use wasi::random::random::get_random_bytes;

struct Server;

/// Sends a request to a host that nothing was granted for.
async fn fetch() -> Result<Response, ErrorCode> {
    let (_, trailers) = wit_future::new(|| Ok(None));
    let (request, _) = Request::new(Fields::new(), None, trailers, None);
    let _ = request.set_scheme(Some(&Scheme::Http));
    let _ = request.set_authority(Some("127.0.0.1:9"));
    let _ = request.set_path_with_query(Some("/"));
    client::send(request).await
}

impl Guest for Server {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let path = request.get_path_with_query().unwrap_or_default();
        if path == "/fetch" {
            return fetch().await;
        }
        let (mut writer, body) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            while path == "/endless" && writer.write_all(vec![b'x'; 4096]).await.is_empty() {}
            let text = format!("{path} {}", get_random_bytes(4).len());
            writer.write_all(text.into_bytes()).await;
        });
        let (_, trailers) = wit_future::new(|| Ok(None));
        let (response, _) = Response::new(Fields::new(), Some(body), trailers);
        let _ = response.set_status_code(202);
        Ok(response)
    }
}

export!(Server);
