//! Tasks that become background calls: any server answers for them when the one that made them has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::backend::BoxFuture;
use mimir_core::background_calls::{BackgroundCalls, BackgroundPhase, BackgroundStatus};
use mimir_core::wire::OutcomeMessage;
use mimir_core::{Outcome, RequestId, Tool, ToolError, ToolErrorCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::kit::{fake, text_result, tool};
use crate::replicas::{Deployment, request, task_capabilities, task_request};

/// A background call, with the values with which it was made.
#[derive(Clone)]
struct KeptCall {
    owner: String,
    request_id: String,
    id: String,
    phase: BackgroundPhase,
}

/// Background calls in memory, which end when the test says so.
#[derive(Default)]
struct MemoryBackground {
    calls: Mutex<Vec<KeptCall>>,
    released: Mutex<Vec<String>>,
    is_unreachable: Mutex<bool>,
    /// True if no worker stores the call.
    is_stalled: AtomicBool,
}

impl MemoryBackground {
    fn set_phase(&self, phase: BackgroundPhase) {
        self.calls
            .lock()
            .iter_mut()
            .for_each(|call| call.phase = phase);
    }

    fn find(&self, owner: &str, id: &str) -> Result<Option<KeptCall>, ToolError> {
        if *self.is_unreachable.lock() {
            return Err(ToolError::unavailable("no state"));
        }
        let calls = self.calls.lock();
        let found = calls
            .iter()
            .find(|call| call.owner == owner && call.id == id);
        Ok(found.cloned())
    }
}

impl BackgroundCalls for MemoryBackground {
    fn keep<'a>(
        &'a self,
        owner: &'a str,
        request_id: &'a RequestId,
        tool: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        assert_eq!(tool, "slow");
        let call = KeptCall {
            owner: owner.to_owned(),
            request_id: request_id.as_str().to_owned(),
            id: id.to_owned(),
            phase: BackgroundPhase::Running,
        };
        self.calls.lock().push(call);
        Box::pin(async {
            if self.is_stalled.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }

    fn release(&self, request_id: &RequestId) {
        self.released.lock().push(request_id.as_str().to_owned());
    }

    fn status<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<BackgroundStatus>, ToolError>> {
        Box::pin(async move {
            let found = self.find(owner, id)?;
            Ok(found.map(|call| BackgroundStatus {
                phase: call.phase,
                tool: "slow".to_owned(),
                created_ms: 1_000,
                updated_ms: 3_000,
                message: Some("half".to_owned()),
                lifetime_ms: 60_000,
            }))
        })
    }

    fn outcome<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Outcome>, ToolError>> {
        Box::pin(async move {
            let found = self.find(owner, id)?;
            let done = found.filter(|call| call.phase == BackgroundPhase::Done);
            let error = ToolError::new(ToolErrorCode::InvalidPath, "the worker's result");
            Ok(done.map(|_| OutcomeMessage::failed(error).into()))
        })
    }

    fn cancel<'a>(&'a self, owner: &'a str, id: &'a str) -> BoxFuture<'a, Result<bool, ToolError>> {
        Box::pin(async move {
            let found = self.find(owner, id)?;
            let is_open = found.is_some_and(|call| call.phase == BackgroundPhase::Running);
            if is_open {
                self.set_phase(BackgroundPhase::Cancelled);
            }
            Ok(is_open)
        })
    }
}

fn slow() -> Vec<Tool> {
    let run = fake(|_| async move {
        std::future::pending::<()>().await;
        text_result("never")
    });
    vec![tool("slow", run)]
}

/// Starts servers, and a task at the first one, which is killed.
async fn lost_task() -> (Deployment, Arc<MemoryBackground>, Value) {
    let background = Arc::<MemoryBackground>::default();
    let shared = Arc::clone(&background) as Arc<dyn BackgroundCalls>;
    let deployment = Deployment::start_with(slow, Some(shared)).await;
    let params = json!({"name": "slow", "arguments": {}});
    let created = request(
        deployment.http(0),
        "tools/call",
        params,
        task_capabilities(),
    )
    .await;
    let task = created["result"]["taskId"].clone();
    assert!(task.is_string(), "{created}");
    deployment.network.kill("a");
    (deployment, background, task)
}

#[tokio::test]
async fn kept_task_of_a_killed_replica_has_the_result_of_the_worker() {
    let (deployment, background, task) = lost_task().await;
    let kept = background.calls.lock().clone();
    assert_eq!(kept.len(), 1, "kept once");
    assert!(
        !task.as_str().unwrap().contains(&kept[0].id),
        "the id does not name the task"
    );
    let state = task_request(deployment.http(1), "tasks/get", &task).await;
    assert_eq!(state["result"]["status"], "working", "{state}");
    assert_eq!(state["result"]["taskId"], task, "{state}");
    assert_eq!(state["result"]["statusMessage"], "half", "{state}");
    background.set_phase(BackgroundPhase::Done);
    for at in [1, 2] {
        let state = task_request(deployment.http(at), "tasks/get", &task).await;
        assert_eq!(state["result"]["status"], "completed", "{state}");
        let outcome = &state["result"]["result"]["_meta"]["mimir/outcome"];
        assert_eq!(outcome["code"], "INVALID_PATH", "{state}");
        assert_eq!(state["result"]["ttlMs"], 62_000, "{state}");
    }
    // A task that has ended stays as it is.
    let late = task_request(deployment.http(1), "tasks/cancel", &task).await;
    assert!(late["error"].is_null(), "{late}");
    let forged = Value::String(task.as_str().unwrap().replacen("t-", "c-", 1));
    for method in ["tasks/get", "tasks/cancel"] {
        let unknown = task_request(deployment.http(1), method, &forged).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    }
}

#[tokio::test]
async fn kept_task_of_a_killed_replica_is_cancelled_by_another() {
    let (deployment, background, task) = lost_task().await;
    let cancelled = task_request(deployment.http(1), "tasks/cancel", &task).await;
    assert!(cancelled["error"].is_null(), "{cancelled}");
    let state = task_request(deployment.http(2), "tasks/get", &task).await;
    assert_eq!(state["result"]["status"], "cancelled", "{state}");
    let update = request(
        deployment.http(1),
        "tasks/update",
        json!({"taskId": task, "inputResponses": {}}),
        task_capabilities(),
    )
    .await;
    assert_eq!(update["error"]["data"]["code"], "UNAVAILABLE", "{update}");
    *background.is_unreachable.lock() = true;
    for method in ["tasks/get", "tasks/cancel"] {
        let failed = task_request(deployment.http(1), method, &task).await;
        assert_eq!(failed["error"]["data"]["code"], "UNAVAILABLE", "{failed}");
    }
}

#[tokio::test]
async fn kept_task_of_another_owner_is_not_shown() {
    let (deployment, background, task) = lost_task().await;
    background.calls.lock()[0].owner = "user\nanother".to_owned();
    let state = task_request(deployment.http(1), "tasks/get", &task).await;
    let outcome = &state["result"]["result"]["_meta"]["mimir/outcome"];
    assert_eq!(outcome["code"], "UNAVAILABLE", "{state}");
    let refused = task_request(deployment.http(1), "tasks/cancel", &task).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn kept_task_is_left_to_its_worker_when_its_server_is_closed() {
    let (deployment, background, _) = lost_task().await;
    deployment
        .http(0)
        .close(std::time::Duration::from_secs(2))
        .await;
    let request_id = background.calls.lock()[0].request_id.clone();
    deployment.replicas[0].server.recorded(1).await;
    assert_eq!(*background.released.lock(), [request_id]);
}

#[tokio::test]
async fn call_whose_client_leaves_before_its_task_is_kept_is_stopped() {
    let background = Arc::<MemoryBackground>::default();
    background.is_stalled.store(true, Ordering::SeqCst);
    let shared = Arc::clone(&background) as Arc<dyn BackgroundCalls>;
    let deployment = Deployment::start_with(slow, Some(shared)).await;
    let http = deployment.http(0).clone();
    let call = tokio::spawn(async move {
        let params = json!({"name": "slow", "arguments": {}});
        request(&http, "tools/call", params, task_capabilities()).await
    });
    while background.calls.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    let recorded = deployment.replicas[0].server.recorded(1).await;
    assert_eq!(recorded, ["CANCELLED"]);
    assert!(background.released.lock().is_empty());
}
