//! Tests of the end of a session: the tools discard what they hold for it.

use super::*;

/// Records the sessions that have ended.
#[derive(Default)]
struct HoldsSessions(Arc<Mutex<Vec<String>>>);

impl Backend for HoldsSessions {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async { RawResult::from(Ok(ToolOutput::default())) })
    }

    fn end_session(&self, session: &str) {
        self.0.lock().push(session.to_owned());
    }
}

#[tokio::test]
async fn ended_session_reaches_tools_that_a_view_hides() {
    let ended = Arc::default();
    let mut holder = tool("holder");
    holder.backend = Arc::new(HoldsSessions(Arc::clone(&ended)));
    let bench = bench(vec![holder], json!({}), ApprovalAnswer::No);
    let view = bench.pipeline.restricted(|full| PipelineSnapshot {
        registry: Registry::default(),
        policy: full.policy.clone(),
    });
    view.end_session("one");
    bench.pipeline.end_session("two");
    assert_eq!(*ended.lock(), ["one", "two"]);
}
