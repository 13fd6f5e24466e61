//! A tool in the world of ironclaw (`near:agent` 0.4), which does what its argument says.

wit_bindgen::generate!({
    inline: r#"
        package near:agent@0.4.1;

        interface host {
            enum log-level { trace, debug, info, warn, error }
            log: func(level: log-level, message: string);
            now-millis: func() -> u64;
            workspace-read: func(path: string) -> option<string>;
            record http-response { status: u16, headers-json: string, body: list<u8> }
            enum http-error-kind { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }
            record http-failure { kind: http-error-kind, code: option<string>, message: option<string>, request-sent: bool }
            http-request: func(method: string, url: string, headers-json: string, body: option<list<u8>>, timeout-ms: option<u32>) -> result<http-response, http-failure>;
            tool-invoke: func(alias: string, params-json: string) -> result<string, string>;
            secret-exists: func(name: string) -> bool;
        }

        interface tool {
            record request { params: string, context: option<string> }
            enum error-kind { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }
            record guest-failure { kind: error-kind, code: option<string>, message: option<string> }
            variant response { success(string), failure(guest-failure) }
            execute: func(req: request) -> response;
            schema: func() -> string;
            description: func() -> string;
        }

        world sandboxed-tool {
            import host;
            export tool;
        }
    "#,
    world: "sandboxed-tool",
});

use exports::near::agent::tool::{ErrorKind, Guest, GuestFailure, Request, Response};
use near::agent::host;

struct Tool;

fn failure(kind: ErrorKind, message: String) -> Response {
    Response::Failure(GuestFailure {
        kind,
        code: Some("as_asked".to_owned()),
        message: Some(message),
    })
}

impl Guest for Tool {
    fn execute(request: Request) -> Response {
        host::log(host::LogLevel::Info, &request.params);
        let action = request.params.split('"').nth(3).unwrap_or_default();
        match action {
            "time" => Response::Success(format!("{{\"millis\":{}}}", host::now_millis())),
            "read" => match host::workspace_read("notes.txt") {
                Some(text) => Response::Success(text),
                None => failure(ErrorKind::OperationFailed, "no such file".to_owned()),
            },
            "fetch" => {
                match host::http_request("get", "http://127.0.0.1:9/", "{\"a\":\"b\"}", None, None)
                {
                    Ok(response) => Response::Success(response.headers_json),
                    Err(error) => failure(
                        ErrorKind::NetworkDenied,
                        format!("{:?}: {}", error.kind, error.message.unwrap_or_default()),
                    ),
                }
            }
            "authorized" => {
                let url = request.params.split('"').nth(7).unwrap_or_default();
                match host::http_request("get", url, "", None, None) {
                    Ok(response) => Response::Success(format!(
                        "{} {}",
                        host::secret_exists("AGENT_TOKEN"),
                        String::from_utf8_lossy(&response.body)
                    )),
                    Err(error) => {
                        failure(ErrorKind::NetworkDenied, error.message.unwrap_or_default())
                    }
                }
            }
            "invoke" => match host::tool_invoke("other", "{}") {
                Ok(text) => Response::Success(text),
                Err(error) => failure(ErrorKind::Executor, error),
            },
            "secret" => Response::Success(host::secret_exists("TOKEN").to_string()),
            other => failure(ErrorKind::Input, format!("unknown action {other}")),
        }
    }

    fn schema() -> String {
        r#"{"type":"object","properties":{"action":{"type":"string"},"url":{"type":"string"}},"required":["action"],"additionalProperties":false}"#.to_owned()
    }

    fn description() -> String {
        "Does what its argument says.".to_owned()
    }
}

export!(Tool);
