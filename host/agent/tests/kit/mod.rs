//! A task with test tools and a scripted model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mimir_agent::{
    Agent, AgentEvent, AgentEventSink, Conversation, Message, ModelProvider, TaskEnd, ToolCall,
};
use mimir_core::approval::NoApprovalStore;
use mimir_core::call::{CallObserver, CallProgress, LogLine};
use mimir_core::config::{AgentBudget, ChosenModel, ProviderApi};
use mimir_core::network::{AllowedHost, HostPattern, NetworkPolicy, NetworkRules};
use mimir_core::outcome::ToolOutput;
use mimir_core::pipeline::{Approved, PipelinePorts, PipelineSnapshot};
use mimir_core::tool::{ToolDefinition, ToolHints, ToolOrigin, ToolTrust};
use mimir_core::{
    ApprovalAnswer, Approver, Backend, BoxFuture, Card, Content, Decision, Needs, Pipeline, Policy,
    RawResult, Redactor, Registry, RiskLevel, Schema, Tool, ToolError, ToolGroup, ToolName,
    ToolSource,
};
use mimir_kit::{MemoryAudit, SystemClock};
use mimir_net::{HostClient, PolicyGuard, PolicyOnly, RequestLimits, TlsRoots};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use mimir_kit::scripted_model::{Script, Step, calls, says};

/// The supported protocols.
pub const APIS: [ProviderApi; 3] = [
    ProviderApi::Openai,
    ProviderApi::Responses,
    ProviderApi::Anthropic,
];

/// An approver with a fixed answer.
struct FixedApprover(ApprovalAnswer);

impl Approver for FixedApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        // A call with edited arguments asks again, and has to be allowed then.
        let answer = match &self.0 {
            ApprovalAnswer::Edit(value) if card.arguments.contains("edited") => {
                let _ = value;
                ApprovalAnswer::Once
            }
            answer => answer.clone(),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// An event sink that stores the events.
#[derive(Default)]
pub struct Seen {
    pub events: Mutex<Vec<Value>>,
    /// The number of messages at each save of the conversation.
    pub lengths: Mutex<Vec<usize>>,
    pub stop: tokio::sync::Notify,
    /// The lines that calls logged.
    pub log: Arc<CallLog>,
}

/// A call observer that stores the logged lines.
#[derive(Default)]
pub struct CallLog(pub Mutex<Vec<String>>);

impl CallObserver for CallLog {
    fn progress(&self, _: CallProgress) {}

    fn log(&self, line: LogLine) {
        self.0.lock().push(line.text);
    }
}

impl Seen {
    /// Returns the events of a kind, such as `text`.
    pub fn of(&self, name: &str) -> Vec<Value> {
        let all = self.events.lock();
        all.iter()
            .filter(|event| event["event"] == name)
            .cloned()
            .collect()
    }

    /// Returns the streamed text of all answers.
    pub fn words(&self) -> String {
        let words = self.of("text");
        words
            .iter()
            .filter_map(|event| event["text"].as_str())
            .collect()
    }
}

impl AgentEventSink for Seen {
    fn handle_event(&self, event: AgentEvent<'_>) {
        let event = serde_json::to_value(event).unwrap();
        self.events.lock().push(event);
    }

    fn conversation_changed(&self, conversation: &Conversation) {
        self.lengths.lock().push(conversation.messages.len());
    }

    fn observer(&self, _: &ToolCall) -> Arc<dyn CallObserver> {
        Arc::clone(&self.log) as Arc<_>
    }

    fn calls_stop_requested(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop.notified())
    }
}

/// The beginning of a PNG file with 300 x 200 pixels.
pub fn picture() -> Vec<u8> {
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x2c\0\0\0\xc8".to_vec()
}

/// A test tool, which returns its argument `text`, repeated `times` times, after `ms` milliseconds. With `image`, it
/// also returns an image.
struct Echo {
    running: AtomicUsize,
    max_running: AtomicUsize,
}

impl Backend for Echo {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.max_running.fetch_max(now, Ordering::SeqCst);
            let wait = call.arguments()["ms"].as_u64().unwrap_or(0);
            if wait > 0 {
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            let times = call.arguments()["times"].as_u64().unwrap_or(1);
            let text = call.arguments()["text"]
                .as_str()
                .unwrap_or("nothing")
                .repeat(usize::try_from(times).unwrap());
            let mut content = vec![Content::text(text)];
            if call.arguments()["image"] == true {
                content.push(Content::Image {
                    data: picture(),
                    mime_type: "image/png".into(),
                });
            }
            RawResult::from(Ok(ToolOutput {
                content,
                ..ToolOutput::default()
            }))
        })
    }
}

fn tool(name: &str, approval: Decision, backend: Arc<Echo>) -> Tool {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"},"ms":{"type":"integer"},"times":{"type":"integer"},"image":{"type":"boolean"}},"additionalProperties":false}"#;
    Tool::new(
        ToolDefinition {
            name: ToolName::new(name).unwrap(),
            title: None,
            description: "returns a text".into(),
            group: ToolGroup::System,
            input_schema: Schema::parse(schema).unwrap(),
            output_schema: None,
            approval,
            silent: false,
            risk: RiskLevel::Low,
            hints: ToolHints::default(),
            needs: Needs::default(),
        },
        ToolSource::BuiltIn,
        Arc::new(ToolOrigin {
            plugin: name.into(),
            version: "1.0.0".into(),
            location: "built-in".into(),
            digest: "00".into(),
            declares_needs: true,
            ..ToolOrigin::default()
        }),
        ToolTrust::Trusted,
        backend,
    )
}

/// A test agent with three tools: `echo` is allowed, `guarded` needs approval, `stranger` returns untrusted text.
pub struct TestAgent {
    pub agent: Agent,
    pub script: Script,
    pub audit: Arc<MemoryAudit>,
    pub seen: Seen,
    pub conversation: Conversation,
    echo: Arc<Echo>,
}

impl TestAgent {
    pub fn new(api: ProviderApi, steps: Vec<Step>) -> Self {
        Self::with(api, steps, ApprovalAnswer::No, json!({}))
    }

    /// Creates a test agent with a fixed answer to approval questions and with settings.
    pub fn with(
        api: ProviderApi,
        steps: Vec<Step>,
        answer: ApprovalAnswer,
        mut settings: Value,
    ) -> Self {
        let script = Script::start(steps);
        let audit = Arc::new(MemoryAudit::default());
        let echo = Arc::new(Echo {
            running: AtomicUsize::new(0),
            max_running: AtomicUsize::new(0),
        });
        settings["tools"]["stranger"] = json!({"labels": {"outputTrust": "untrusted"}});
        let config = serde_json::from_value(settings).unwrap();
        let tools = vec![
            tool("echo", Decision::Allow, Arc::clone(&echo)),
            tool("guarded", Decision::Ask, Arc::clone(&echo)),
            tool("stranger", Decision::Allow, Arc::clone(&echo)),
        ];
        let snapshot = PipelineSnapshot {
            registry: Registry::new(tools, vec![]),
            policy: Policy::new(&config, "config.yml").unwrap(),
        };
        let ports = PipelinePorts {
            approver: Arc::new(FixedApprover(answer)),
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::clone(&audit) as Arc<_>,
            clock: Arc::new(SystemClock),
            runner: Arc::new(mimir_core::command::NoCommandRunner),
            model: Arc::new(mimir_core::language_model::NoLanguageModel),
        };
        let chosen = ChosenModel {
            provider: "local".into(),
            model: "m".into(),
            api,
            url: script.url.clone(),
            key: Some("KEY".into()),
            price: None,
            vision: None,
        };
        let provider = ModelProvider::new(
            chosen,
            client(&script.url),
            Arc::new(Keys),
            Arc::clone(&audit) as Arc<_>,
        );
        let agent = Agent {
            model: Arc::new(provider),
            pipeline: Pipeline::new(snapshot, ports),
            system: "Be brief.".into(),
            budget: AgentBudget::default(),
            price: None,
            tools: None,
            parent: None,
            session_budget: None,
        };
        Self {
            agent,
            script,
            audit,
            seen: Seen::default(),
            conversation: Conversation::new("talk-1", ""),
            echo,
        }
    }

    /// Adds a user message and runs the task.
    pub async fn task(&mut self, words: &str) -> Result<TaskEnd, ToolError> {
        self.conversation.messages.push(Message::user(words));
        self.agent
            .run_task(&mut self.conversation, &self.seen)
            .await
    }

    /// Returns the maximum number of calls that ran in parallel.
    pub fn at_a_time(&self) -> usize {
        self.echo.max_running.load(Ordering::SeqCst)
    }

    /// Returns the text of the model's last answer.
    pub fn last(&self) -> &str {
        match self.conversation.messages.last() {
            Some(Message::Assistant { text, .. }) => text,
            other => panic!("{other:?}"),
        }
    }
}

/// The API key, which must be masked in provider messages.
pub const KEY: &str = "key-of-the-test-5417";

struct Keys;

impl mimir_core::redact::Vault for Keys {
    fn redactor(&self) -> Result<Redactor, mimir_core::redact::VaultError> {
        Ok(Redactor::new().with_values([("KEY", KEY)]))
    }

    fn secret(&self, name: &str) -> Result<Option<String>, mimir_core::redact::VaultError> {
        Ok((name == "KEY").then(|| KEY.to_owned()))
    }
}

/// Creates a client that can only reach the origin of `url`.
pub fn client(url: &str) -> HostClient {
    let origin = mimir_core::network::RequestTarget::parse(url)
        .unwrap()
        .origin()
        .to_string();
    let rules = NetworkRules {
        allowed: vec![AllowedHost::from(origin.parse::<HostPattern>().unwrap())],
        ..NetworkRules::default()
    };
    let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
    HostClient::new(
        guard,
        Arc::new(PolicyOnly),
        TlsRoots::default(),
        RequestLimits::default(),
        None,
    )
}
