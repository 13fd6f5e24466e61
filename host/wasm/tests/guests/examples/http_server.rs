//! A server of `wasi:http` 0.2, as written for `wasmtime serve`, Spin or wasmCloud. Some paths misbehave on purpose.

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam,
};

struct Server;

fn read_body(request: &IncomingRequest) -> Vec<u8> {
    let Ok(body) = request.consume() else {
        return Vec::new();
    };
    let Ok(stream) = body.stream() else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    while let Ok(chunk) = stream.blocking_read(4096) {
        bytes.extend(chunk);
    }
    bytes
}

fn respond(
    reply: ResponseOutparam,
    status: u16,
    mime: &str,
    chunks: impl Iterator<Item = Vec<u8>>,
    finish: bool,
) {
    let headers = Fields::new();
    let _ = headers.append("content-type", mime.as_bytes());
    let response = OutgoingResponse::new(headers);
    let _ = response.set_status_code(status);
    let Ok(body) = response.body() else {
        return;
    };
    ResponseOutparam::set(reply, Ok(response));
    if let Ok(stream) = body.write() {
        for chunk in chunks {
            if stream.blocking_write_and_flush(&chunk).is_err() {
                break;
            }
        }
    }
    if finish {
        let _ = OutgoingBody::finish(body, None);
    } else {
        // Left open when the handler returns.
        std::mem::forget(body);
    }
}

impl Guest for Server {
    fn handle(request: IncomingRequest, reply: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        let once = |text: String| std::iter::once(text.into_bytes());
        match path.split('?').next().unwrap_or_default() {
            "/hello" => {
                let method = matches!(request.method(), Method::Get);
                let id = request.headers().get("x-id").concat();
                let text = format!(
                    "get={method} path={path} id={}",
                    String::from_utf8_lossy(&id)
                );
                respond(reply, 200, "text/plain", once(text), true);
            }
            "/echo" => respond(
                reply,
                201,
                "application/octet-stream",
                read_body(&request).chunks(4096).map(<[u8]>::to_vec),
                true,
            ),
            "/open" => respond(reply, 200, "text/plain", once("partial".to_owned()), false),
            "/endless" => respond(
                reply,
                200,
                "text/plain",
                std::iter::repeat(vec![b'x'; 4096]),
                true,
            ),
            "/spin" => loop {
                std::hint::black_box(0);
            },
            "/panic" => panic!("on purpose"),
            "/error" => ResponseOutparam::set(reply, Err(ErrorCode::ConfigurationError)),
            "/silent" => {}
            _ => respond(
                reply,
                404,
                "text/plain",
                once("no such page".to_owned()),
                true,
            ),
        }
    }
}

wasip2::http::proxy::export!(Server);
