//! The tool `worker_call`: budgets of workers that call workers, and workers without some of their tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mimir_agent::{
    AgentSetup, Model, SessionBudget, TaskEnd, Worker, WorkerRegistry, WorkerSettings, worker_call,
};
use mimir_core::config::{AgentBudget, TokenPrice};
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Call, CallContext, Policy, Registry, ToolError};
use serde_json::{Value, json};

use crate::kit::{APIS, Step, TestAgent, calls, says};

/// The price of the test models, which report 100 tokens sent and 10 received per reply.
const PRICE: TokenPrice = TokenPrice::new(10.0, 100.0);

/// A registry with one worker, `nest`.
struct OneWorker {
    worker: Worker,
    model: Arc<dyn Model>,
}

impl WorkerRegistry for OneWorker {
    fn find(&self, _: &str) -> Result<Worker, ToolError> {
        Ok(self.worker.clone())
    }

    fn agent_setup(&self, _: &Worker) -> Result<AgentSetup, ToolError> {
        Ok(AgentSetup {
            model: Arc::clone(&self.model),
            price: Some(PRICE),
            system: String::new(),
            budget: AgentBudget::default(),
        })
    }
}

fn call_nest() -> Step {
    calls("worker_call", json!({"worker": "nest", "task": "x"}))
}

/// An agent that may call the worker `nest`, and the model of the worker.
struct AgentWithWorker {
    test: TestAgent,
    worker: TestAgent,
}

impl AgentWithWorker {
    /// Creates an agent that calls the worker once. The worker has these settings, and always calls itself.
    fn new(settings: Value) -> Self {
        let mut test = TestAgent::new(APIS[0], vec![call_nest(), says("done")]);
        let worker = TestAgent::new(APIS[0], vec![call_nest()]);
        let settings: WorkerSettings = serde_json::from_value(settings).unwrap();
        let registry = OneWorker {
            worker: Worker::new("nest", "nest.yml", BTreeMap::new(), settings).unwrap(),
            model: Arc::clone(&worker.agent.model),
        };
        let session_budget = SessionBudget::default();
        let workers = [("nest".to_owned(), "nests".to_owned())];
        let digest = "00".to_owned();
        let tool = worker_call(Arc::new(registry), session_budget.clone(), &workers, digest);
        let config = json!({"tools": {"worker_call": {"approval": "allow"}}});
        let config = serde_json::from_value(config).unwrap();
        test.agent.pipeline.replace(PipelineSnapshot {
            registry: Registry::new([tool.unwrap()], vec![]),
            policy: Policy::new(&config, "config.yml").unwrap(),
        });
        test.agent.session_budget = Some(session_budget);
        test.agent.price = Some(PRICE);
        Self { test, worker }
    }

    /// Runs a task. Returns the result of the worker call, and the number of requests of the worker.
    async fn run(&mut self) -> (String, u64) {
        assert_eq!(self.test.task("go").await, Ok(TaskEnd::Finished));
        let result = self.test.script.asked()[1].results().remove(0);
        (result, self.worker.script.asked().len() as u64)
    }
}

#[tokio::test]
async fn worker_budget_includes_the_usage_of_nested_workers() {
    // Each reply has 110 tokens and costs 0.002.
    for (budget, max_replies, limit) in [
        (json!({"maxTurns": 3}), 3, "its limit of model turns"),
        (json!({"maxTokens": 1_000}), 9, "its limit of tokens"),
        (json!({"maxCost": 0.02}), 10, "its limit of cost"),
    ] {
        let settings =
            json!({"instructions": "x", "budget": budget, "toolsets": {"workers": ["nest"]}});
        let mut agent = AgentWithWorker::new(settings);
        let (result, replies) = agent.run().await;
        assert!(
            result.contains("the worker `nest` has reached") && result.contains(limit),
            "{result}"
        );
        assert!((2..=max_replies).contains(&replies), "{budget}: {replies}");
        // The usage of all workers is added to the session's once.
        let spent = agent.test.conversation.spent;
        assert_eq!(
            (spent.turns, spent.tokens()),
            (2 + replies, 110 * (2 + replies)),
            "{budget}"
        );
    }
}

#[tokio::test]
async fn worker_call_runs_without_missing_tools_and_logs_them() {
    let settings = json!({"instructions": "x", "budget": {"maxTurns": 1}, "toolsets": {"mcp": {"hub": {}},
        "custom": {"module": "m", "tools": ["fib"]}}});
    let mut agent = AgentWithWorker::new(settings);
    let (result, replies) = agent.run().await;
    assert!(result.contains("its limit of model turns"), "{result}");
    assert_eq!(replies, 1, "the worker was refused");
    let logged = agent.test.seen.log.0.lock().join("\n");
    for expected in ["the tools of `m`", "the tools of the server `hub`"] {
        assert!(logged.contains(expected), "{expected}: {logged}");
    }
}

#[tokio::test]
async fn worker_calls_carry_the_user_of_the_call_that_started_the_worker() {
    let settings =
        json!({"instructions": "x", "budget": {"maxTurns": 1}, "toolsets": {"workers": ["nest"]}});
    let agent = AgentWithWorker::new(settings);
    let context = CallContext {
        user: Some("anna".to_owned()),
        ..CallContext::new_session(SystemTime::now())
    };
    let arguments = json!({"worker": "nest", "task": "x"});
    let mut call = Call::new("worker_call", arguments, context);
    call.caller = Some("provider anna".into());
    agent.test.agent.pipeline.call(call).await;
    let calls = agent.test.audit.events("call");
    assert!(calls.len() >= 2, "{calls:?}");
    for call in &calls {
        assert_eq!(call["user"], "anna", "{call}");
    }
}
