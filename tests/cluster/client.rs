//! Clients of MCP, of both protocol generations, that answer approval forms and record what they see.

use std::time::Duration;

use serde_json::{Value, json};

use crate::history::{ClientAnswer, TestTool};
use crate::http::{HttpConnection, HttpTarget};

/// The stateless protocol.
const MODERN: &str = "2026-07-28";

/// The protocol with sessions.
const LEGACY: &str = "2025-11-25";

/// Maximum time of a call. Longer than any pause of a process, and than the time in which a lost worker is noticed.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The generation of a client's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientGeneration {
    /// 2026-07-28: each request stands alone.
    Stateless,
    /// 2025-11-25: sessions.
    Sessions,
}

/// The parts of a call.
#[derive(Debug, Clone)]
pub struct ToolRequest {
    /// The tool.
    pub tool: TestTool,
    /// The arguments.
    pub arguments: Value,
    /// Trace id, 32 hex digits.
    pub trace: String,
}

/// Answer of a call, and the approvals that the client gave for it.
#[derive(Debug)]
pub struct ToolResponse {
    /// The answer.
    pub answer: ClientAnswer,
    /// Number of forms that were answered with `once`.
    pub approvals: usize,
    /// `details.retryAfterMs` of an error.
    pub retry_after: Option<Duration>,
}

/// A client.
pub struct McpClient {
    target: HttpTarget,
    generation: ClientGeneration,
    /// True if the client can show forms.
    can_ask: bool,
    /// The kept connection.
    connection: Option<HttpConnection>,
    /// The session, once it has been initialized.
    session: Option<String>,
    next_id: u64,
}

impl McpClient {
    /// Creates a client, which connects with its first call.
    pub fn new(target: HttpTarget, generation: ClientGeneration) -> Self {
        Self {
            target,
            generation,
            can_ask: true,
            connection: None,
            session: None,
            next_id: 0,
        }
    }

    /// Creates a client that cannot show forms, so that a person has to answer elsewhere.
    pub fn without_forms(target: HttpTarget, generation: ClientGeneration) -> Self {
        Self {
            can_ask: false,
            ..Self::new(target, generation)
        }
    }

    /// Returns the session, or an empty text.
    pub fn session(&self) -> &str {
        self.session.as_deref().unwrap_or_default()
    }

    /// Forgets the session, so that the next call begins another one.
    pub fn forget_session(&mut self) {
        self.session = None;
        self.connection = None;
    }

    /// Begins a session, if the generation has sessions and none has begun.
    pub async fn initialize(&mut self) -> Result<(), String> {
        if self.generation == ClientGeneration::Stateless || self.session.is_some() {
            return Ok(());
        }
        let initialized = tokio::time::timeout(CALL_TIMEOUT, self.begin_session()).await;
        let initialized = initialized.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        if initialized.is_err() {
            self.forget_session();
        }
        initialized
    }

    async fn begin_session(&mut self) -> Result<(), String> {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": if self.can_ask { json!({"elicitation": {}}) } else { json!({}) },
            "clientInfo": {"name": "cluster-test", "version": "1"},
        });
        let target = self.target.clone();
        let body = message(self.take_id(), "initialize", params);
        let connection = self.connection().await?;
        let (head, response) = connection
            .request(&target, "POST", "/mcp", "", &body)
            .await?;
        let session = head.header("mcp-session-id").map(str::to_owned);
        let status = head.status;
        let text = response.text().await?;
        let session = session
            .filter(|_| status == 200)
            .ok_or_else(|| format!("HTTP {status}: {text}"))?;
        self.session = Some(session);
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        self.post_message(&note).await
    }

    /// Calls a tool once. Approval forms are answered with `once`.
    pub async fn call(&mut self, request: &ToolRequest) -> ToolResponse {
        let mut approvals = 0;
        let called = tokio::time::timeout(CALL_TIMEOUT, self.call_untimed(request, &mut approvals));
        let result = called
            .await
            .unwrap_or_else(|_| Err(CallFault::Lost("no answer in time".to_owned())));
        let (answer, retry_after) = match result {
            Ok(result) => parse_result(&result),
            Err(CallFault::Lost(text)) => {
                self.connection = None;
                (ClientAnswer::Unknown(text), None)
            }
            Err(CallFault::Rejected(text)) => (ClientAnswer::Rejected(text), None),
        };
        ToolResponse {
            answer,
            approvals,
            retry_after,
        }
    }

    async fn call_untimed(
        &mut self,
        request: &ToolRequest,
        approvals: &mut usize,
    ) -> Result<Value, CallFault> {
        let mut params = json!({
            "name": request.tool.name(),
            "arguments": request.arguments,
            "_meta": {"traceparent": format!("00-{}-00f067aa0ba902b7-01", request.trace)},
        });
        if self.generation == ClientGeneration::Stateless {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({"name": "cluster-test", "version": "1"});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = match self.can_ask {
                true => json!({"elicitation": {"form": {}}}),
                false => json!({}),
            };
        }
        // A call that needs approval is answered with a form, and sent again with the user's answer.
        for _ in 0..4 {
            let result = self.send_call(request, &params, approvals).await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            params["requestState"] = result["requestState"].clone();
            let requests = result["inputRequests"].as_object();
            let responses = requests
                .into_iter()
                .flatten()
                .map(|(name, _)| (name.clone(), approval_answer(request.tool)));
            params["inputResponses"] = Value::Object(responses.collect());
            *approvals += usize::from(request.tool == TestTool::Approved);
        }
        Err(CallFault::Rejected(
            "the call asked again and again".to_owned(),
        ))
    }

    /// Sends a request, and returns the result. Answers the server's forms on the way.
    async fn send_call(
        &mut self,
        request: &ToolRequest,
        params: &Value,
        approvals: &mut usize,
    ) -> Result<Value, CallFault> {
        let target = self.target.clone();
        let headers = self.call_headers(request);
        let post_headers = self.session_headers();
        let id = self.take_id();
        let body = message(id, "tools/call", params.clone());
        let connection = self.connection().await.map_err(CallFault::Lost)?;
        let sent = connection.request(&target, "POST", "/mcp", &headers, &body);
        let (head, mut response) = sent.await.map_err(CallFault::Lost)?;
        if !head.is_event_stream() || head.status != 200 {
            let text = response.text().await.map_err(CallFault::Lost)?;
            return parse_response(head.status, &text);
        }
        loop {
            let event = response.next_event().await.map_err(CallFault::Lost)?;
            let event = event
                .ok_or_else(|| CallFault::Lost("the stream ended without an answer".to_owned()))?;
            let value: Value = serde_json::from_str(&event)
                .map_err(|error| CallFault::Lost(format!("an event is not JSON: {error}")))?;
            if value["method"] == "elicitation/create" {
                let answer = json!({
                    "jsonrpc": "2.0", "id": value["id"], "result": approval_answer(request.tool),
                });
                *approvals += usize::from(request.tool == TestTool::Approved);
                // On another connection, which the proxy may give to another server.
                post(&target, &post_headers, &answer.to_string())
                    .await
                    .map_err(CallFault::Lost)?;
            } else if value["id"] == id {
                // The end of the stream, so that the connection can be used again.
                while response
                    .next_event()
                    .await
                    .map_err(CallFault::Lost)?
                    .is_some()
                {}
                return parse_response(200, &event);
            }
        }
    }

    /// Sends a message that has no response.
    async fn post_message(&self, body: &str) -> Result<(), String> {
        post(&self.target, &self.session_headers(), body).await
    }

    fn session_headers(&self) -> String {
        match &self.session {
            Some(session) => {
                format!("mcp-protocol-version: {LEGACY}\r\nmcp-session-id: {session}\r\n")
            }
            None => String::new(),
        }
    }

    fn call_headers(&self, request: &ToolRequest) -> String {
        match self.generation {
            ClientGeneration::Sessions => self.session_headers(),
            ClientGeneration::Stateless => format!(
                "mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: {}\r\n",
                request.tool.name()
            ),
        }
    }

    async fn connection(&mut self) -> Result<&mut HttpConnection, String> {
        if self.connection.is_none() {
            self.connection = Some(HttpConnection::connect(&self.target).await?);
        }
        self.connection
            .as_mut()
            .ok_or_else(|| "not connected".to_owned())
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// Failure of a call without a result.
enum CallFault {
    /// The connection failed.
    Lost(String),
    /// The server answered with an error.
    Rejected(String),
}

/// Posts a message on a connection of its own.
async fn post(target: &HttpTarget, headers: &str, body: &str) -> Result<(), String> {
    let mut connection = HttpConnection::connect(target).await?;
    let (head, response) = connection
        .request(target, "POST", "/mcp", headers, body)
        .await?;
    let status = head.status;
    let text = response.text().await?;
    match status {
        200..=299 => Ok(()),
        _ => Err(format!("HTTP {status}: {text}")),
    }
}

/// The answer to a form: yes for calls that are to be approved, no for all others.
fn approval_answer(tool: TestTool) -> Value {
    let answer = match tool {
        TestTool::Approved => "once",
        _ => "no",
    };
    json!({"action": "accept", "content": {"answer": answer}})
}

fn message(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn parse_response(status: u16, text: &str) -> Result<Value, CallFault> {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let value = match value {
        Some(value) if value["result"].is_object() || value["error"].is_object() => value,
        _ => return Err(CallFault::Rejected(format!("HTTP {status}: {text}"))),
    };
    match value["result"].is_object() {
        true => Ok(value["result"].clone()),
        // The error has the same facts as an outcome.
        false if value["error"]["data"]["code"].is_string() => Ok(json!({
            "_meta": {"mimir/outcome": {
                "code": value["error"]["data"]["code"],
                "details": value["error"]["data"],
            }},
            "content": [{"type": "text", "text": value["error"]["message"]}],
        })),
        false => Err(CallFault::Rejected(format!(
            "HTTP {status}: {}",
            value["error"]
        ))),
    }
}

/// Reads the outcome of a tool result.
fn parse_result(result: &Value) -> (ClientAnswer, Option<Duration>) {
    let outcome = &result["_meta"]["mimir/outcome"];
    let details = &outcome["details"];
    let retry_after = details["retryAfterMs"].as_u64().map(Duration::from_millis);
    let answer = match outcome["code"].as_str() {
        Some(code) => ClientAnswer::Failed {
            code: code.to_owned(),
            may_have_run: details["mayHaveRun"] == true,
            recorded: details["recorded"] == true,
            message: result["content"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        },
        None if result["isError"] == true => {
            ClientAnswer::Rejected(format!("an error without a code: {result}"))
        }
        None => ClientAnswer::Done {
            untrusted: outcome["label"]["trust"] == "untrusted",
        },
    };
    (answer, retry_after)
}

/// Checks that a server is ready.
pub async fn check_ready(target: &HttpTarget) -> Result<(), String> {
    match get(target, "/readyz").await? {
        (200, _) => Ok(()),
        (status, text) => Err(format!("{}: HTTP {status}: {text}", target.address)),
    }
}

/// Gets a page: status and text.
async fn get(target: &HttpTarget, path: &str) -> Result<(u16, String), String> {
    let request = async {
        let mut connection = HttpConnection::connect(target).await?;
        let (head, body) = connection.request(target, "GET", path, "", "").await?;
        let status = head.status;
        Ok((status, body.text().await?))
    };
    let answered = tokio::time::timeout(Duration::from_secs(5), request).await;
    answered.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}
