//! rmcp alone, with the same tools and without policy checks: in this process, or in a separate one over stdio or
//! HTTP.

use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::process::Command;

/// The argument with which this program starts itself as such a server; the next argument is the transport.
pub const CHILD: &str = "--rmcp";

/// Tools that each echo their arguments.
#[derive(Clone)]
pub struct Bare(pub Arc<Vec<Tool>>);

impl Bare {
    /// One tool, equal to that of the guest `echo`.
    fn echo() -> Self {
        let schema = json!({"type": "object"}).as_object().cloned();
        let tool = Tool::new("echo", "Says what it was told.", schema.unwrap_or_default());
        Self(Arc::new(vec![tool]))
    }
}

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let output = Value::Object(request.arguments.unwrap_or_default()).to_string();
        Ok(CallToolResult::success(vec![ContentBlock::text(output)]).into())
    }
}

/// The command that starts such a server.
pub fn command(over: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, over]);
    command
}

/// The server process, until its client disconnects or it is killed. Over HTTP it prints its address, as mimir does.
pub fn child(over: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match over {
            "stdio" => {
                let served = Bare::echo().serve(rmcp::transport::stdio()).await;
                let _ = served.unwrap().waiting().await;
            }
            "http" => {
                let config = StreamableHttpServerConfig::default().with_json_response(true);
                let sessions = Arc::new(LocalSessionManager::default());
                let service = StreamableHttpService::new(|| Ok(Bare::echo()), sessions, config);
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                eprintln!("http://{}/mcp", listener.local_addr().unwrap());
                let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
                let router = axum::Router::new().fallback_service(service);
                axum::serve(listener, router).await.unwrap();
            }
            other => panic!("`{other}` is nothing that it is served over"),
        }
    });
}
