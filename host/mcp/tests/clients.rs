//! rmcp's own client, in both protocol generations.

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorData, Implementation, ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, RequestContext, RoleClient, RunningService,
};
use serde_json::json;

use crate::approvals::careful;
use crate::kit::TestServer;

/// A client whose user gives this answer to every question.
struct Person(&'static str);

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("person", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        assert!(matches!(
            request,
            ElicitRequestParams::FormElicitationParams { .. }
        ));
        let content = json!({ "answer": self.0 });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }
}

async fn connected(
    test_server: &TestServer,
    person: Person,
    lifecycle: ClientLifecycleMode,
) -> RunningService<RoleClient, Person> {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let server = test_server.server.clone();
    tokio::spawn(async move {
        let never = std::future::pending();
        server.serve(reader, writer, never).await
    });
    person.serve_with_lifecycle(ours, lifecycle).await.unwrap()
}

#[tokio::test]
async fn rmcp_client_lists_calls_and_asks_in_both_generations() {
    let modern = || ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    for (answer, refused) in [("once", false), ("no", true)] {
        for lifecycle in [ClientLifecycleMode::Initialize, modern()] {
            let (careful, _) = careful();
            let test_server = TestServer::new(vec![careful]);
            let client = connected(&test_server, Person(answer), lifecycle).await;
            let tools = client.list_all_tools().await.unwrap();
            assert_eq!(tools.len(), 1);
            let call = CallToolRequestParams::new("careful");
            let result = client.call_tool(call).await.unwrap();
            assert_eq!(result.is_error, Some(refused), "{answer}: {result:?}");
            client.cancel().await.unwrap();
        }
    }
}
