//! Tests of the end of a session, when tools discard what they hold for it, and of shared sessions.

use super::*;
use crate::call::SessionSharing;
use crate::skill_grant::{SkillConsent, SkillGrant, SkillPermission};

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

struct AlwaysAccepted;

impl SkillConsent for AlwaysAccepted {
    fn is_in_force(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn shared_session_gets_no_permissions_of_skills() {
    let bench = bench(Vec::new(), json!({}), ApprovalAnswer::No);
    let grant = || SkillGrant {
        skill: "s".to_owned(),
        folder: ".mimir/skills/s".to_owned(),
        permissions: vec![SkillPermission::Tool("write_file".to_owned())],
        consent: Arc::new(AlwaysAccepted),
    };
    let sessions = &bench.pipeline.0.sessions;
    sessions.get("own").activate_skill(grant());
    assert_eq!(sessions.get("own").skills().len(), 1);
    sessions.get("all").mark_shared(SessionSharing::OneUser);
    sessions.get("all").activate_skill(grant());
    assert!(sessions.get("all").skills().is_empty());
    // Permissions end when a second client may use the session.
    sessions.get("own").mark_shared(SessionSharing::AnyClient);
    assert!(sessions.get("own").skills().is_empty());
}
