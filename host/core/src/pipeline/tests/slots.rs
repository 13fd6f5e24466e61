//! Tests of the limit of concurrent calls per plugin.

use std::sync::atomic::Ordering;
use std::task::Waker;

use super::*;

/// Creates a tool that never returns, and its backend.
fn hanging() -> (Tool, Arc<Fake>) {
    let backend = Arc::new(Fake {
        hang: true,
        ..Fake::default()
    });
    let tool = Tool {
        backend: backend.clone(),
        ..tool("hang")
    };
    (tool, backend)
}

fn policy(concurrent: usize) -> Policy {
    let config = json!({"limits": {"concurrent": concurrent}});
    Policy::new(&serde_json::from_value(config).unwrap(), "config.yml").unwrap()
}

#[tokio::test]
async fn slots_limit_follows_the_policy_of_each_call() {
    let (hang, backend) = hanging();
    let bench = bench(vec![hang.clone()], json!({}), ApprovalAnswer::No);
    let mut calls = Vec::new();
    // A limit, and the number of running calls after a call under it was made.
    for (concurrent, running) in [(1, 1), (1, 1), (3, 2), (2, 2), (3, 3), (64, 4)] {
        bench.pipeline.replace(PipelineSnapshot {
            registry: Registry::new(vec![hang.clone()], vec![]),
            policy: policy(concurrent),
        });
        let mut call = Box::pin(bench.pipeline.call(call("hang", json!({}))));
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        calls.push(call);
        assert_eq!(
            backend.calls.load(Ordering::SeqCst),
            running,
            "{concurrent}"
        );
    }
}
