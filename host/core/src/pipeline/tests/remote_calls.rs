//! Tests of calls that other processes run.

use super::*;
use crate::call_switch::{CallSwitch, NoCallSwitch, StopNotice};
use crate::outcome::{ContentLabel, DataClass};
use crate::remote_pipeline::RemotePipeline;
use crate::wire::{OutcomeMessage, ToolMessage};

/// Passes calls to a pipeline that stands for another process.
struct Elsewhere {
    pipeline: Pipeline,
    fails: bool,
    hangs: bool,
    ended: Mutex<Vec<String>>,
    roles: Mutex<Vec<Option<String>>>,
}

impl RemotePipeline for Elsewhere {
    fn call<'a>(
        &'a self,
        call: Call,
        role: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Outcome, ToolError>> {
        Box::pin(async move {
            self.roles.lock().push(role.map(str::to_owned));
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if self.fails {
                return Err(ToolError::unavailable("no worker is ready"));
            }
            let message = OutcomeMessage::from(self.pipeline.call(call).await);
            Ok(message.into())
        })
    }

    fn end_session(&self, session: &str) {
        self.ended.lock().push(session.to_owned());
    }
}

struct Stopped;

impl CallSwitch for Stopped {
    fn stopped(&self) -> Option<StopNotice> {
        Some(StopNotice::new("ada".into(), SystemTime::now(), None))
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

struct Deployment {
    front: Bench,
    worker: Bench,
    elsewhere: Arc<Elsewhere>,
}

fn deployment(config: Value, set: impl FnOnce(&mut Elsewhere)) -> Deployment {
    deployment_with(config, Arc::new(NoCallSwitch), set)
}

fn deployment_with(
    config: Value,
    switch: Arc<dyn CallSwitch>,
    set: impl FnOnce(&mut Elsewhere),
) -> Deployment {
    let tools = vec![tool("reader"), tool("denied")];
    let listed = tools
        .iter()
        .map(|tool| ToolMessage::from_tool(tool).into_tool());
    let front = bench(listed.collect(), config, ApprovalAnswer::No);
    let worker = bench(tools, json!({}), ApprovalAnswer::No);
    let mut elsewhere = Elsewhere {
        pipeline: worker.pipeline.clone(),
        fails: false,
        hangs: false,
        ended: Mutex::default(),
        roles: Mutex::default(),
    };
    set(&mut elsewhere);
    let elsewhere = Arc::new(elsewhere);
    front.pipeline.connect(PipelineConnections {
        switch,
        state: None,
        remote: Some(Arc::clone(&elsewhere) as Arc<dyn RemotePipeline>),
    });
    Deployment {
        front,
        worker,
        elsewhere,
    }
}

#[tokio::test]
async fn remote_call_is_recorded_where_it_runs() {
    let both = deployment(json!({}), |_| ());
    let outcome = both.front.pipeline.call(call("reader", json!({}))).await;
    assert_eq!(outcome.text(), "done");
    assert!(both.front.audit.events.lock().is_empty());
    assert_eq!(both.worker.audit.events.lock().len(), 1);
    let label = both.front.pipeline.session_label("session");
    assert_eq!(
        (label.trust, label.data_class),
        (TrustLevel::Untrusted, DataClass::Public)
    );
    // The other process knows tools that this one does not list yet.
    let missing = both.front.pipeline.call(call("missing", json!({}))).await;
    assert_eq!(code(&missing), Some(ToolErrorCode::NotFound));
    assert_eq!(both.worker.audit.events.lock().len(), 2);
}

#[tokio::test]
async fn remote_call_that_reached_no_process_is_recorded_here() {
    let both = deployment(json!({}), |elsewhere| elsewhere.fails = true);
    let outcome = both.front.pipeline.call(call("reader", json!({}))).await;
    assert_eq!(outcome.text(), "no worker is ready");
    let events = both.front.audit.events.lock();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["code"], "UNAVAILABLE");
    assert_eq!(events[0]["tool"], "reader");
}

#[tokio::test]
async fn remote_call_that_is_dropped_is_recorded_where_it_runs() {
    let both = deployment(json!({}), |elsewhere| elsewhere.hangs = true);
    let mut running = Box::pin(both.front.pipeline.call(call("reader", json!({}))));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(running.as_mut().poll(&mut context).is_pending());
    drop(running);
    assert!(both.front.audit.events.lock().is_empty());
}

#[tokio::test]
async fn remote_call_is_refused_here_if_all_calls_are_stopped() {
    let both = deployment_with(json!({}), Arc::new(Stopped), |_| ());
    let outcome = both.front.pipeline.call(call("reader", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
    assert_eq!(both.front.audit.events.lock().len(), 1);
    assert!(both.elsewhere.roles.lock().is_empty());
}

#[tokio::test]
async fn remote_call_respects_the_rules_and_views_of_this_process() {
    let both = deployment(json!({"policy": {"deny": ["denied"]}}), |_| ());
    let denied = both.front.pipeline.call(call("denied", json!({}))).await;
    assert_eq!(code(&denied), Some(ToolErrorCode::PolicyDenied));
    let view = both.front.pipeline.restricted(|full| PipelineSnapshot {
        registry: full.registry.only(|tool| tool.name().as_str() != "reader"),
        policy: full.policy.clone(),
    });
    let hidden = view.call(call("reader", json!({}))).await;
    assert_eq!(code(&hidden), Some(ToolErrorCode::NotFound));
    assert!(both.elsewhere.roles.lock().is_empty());
    assert_eq!(both.front.audit.events.lock().len(), 2);
}

#[tokio::test]
async fn remote_call_carries_the_role() {
    let config = json!({"roles": {"reader": {"groups": ["all"], "tools": {"allow": ["reader"]}}}});
    let both = deployment(config, |_| ());
    let view = both
        .front
        .pipeline
        .restricted(|full| full.in_role("reader"));
    assert!(view.call(call("reader", json!({}))).await.is_ok());
    assert_eq!(*both.elsewhere.roles.lock(), [Some("reader".to_owned())]);
    let refused = view.call(call("denied", json!({}))).await;
    assert_eq!(code(&refused), Some(ToolErrorCode::PolicyDenied));
}

#[tokio::test]
async fn remote_session_ends_in_all_processes() {
    let both = deployment(json!({}), |_| ());
    both.front
        .pipeline
        .restore_session_label("session", &ContentLabel::worst("earlier"));
    both.front.pipeline.end_session("session");
    assert_eq!(*both.elsewhere.ended.lock(), ["session"]);
    let label = both.front.pipeline.session_label("session");
    assert_eq!(label.trust, TrustLevel::System);
}

#[tokio::test]
async fn remote_call_is_not_explained_here() {
    let both = deployment(json!({}), |_| ());
    let explained = both.front.pipeline.explain(call("reader", json!({}))).await;
    assert_eq!(explained.unwrap_err().code, ToolErrorCode::Unavailable);
}

#[tokio::test]
async fn remote_tool_without_a_connection_does_not_run() {
    let listed = ToolMessage::from_tool(&tool("reader")).into_tool();
    let bench = bench(vec![listed], json!({}), ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call("reader", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Internal));
}
