//! A task with test tools and a scripted model.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use mimir_agent::{Agent, Conversation, Ended, Event, Face, Message, Provider};
use mimir_core::approval::NoLedger;
use mimir_core::audit::{AuditError, AuditSink};
use mimir_core::config::{Api, Budget, ChosenModel};
use mimir_core::network::{Entry, HostPattern, NetworkPolicy, Rules};
use mimir_core::outcome::Output;
use mimir_core::pipeline::{Approved, Ports, World};
use mimir_core::tool::{Definition, Hints, Origin, Trust};
use mimir_core::{
    Answer, Approver, Backend, BoxFuture, Card, Clock, Content, Decision, Group, Needs, Pipeline,
    Policy, Raw, Redactor, Registry, Risk, Schema, Source, Tool, ToolError, ToolName,
};
use mimir_net::{Client, Guard, Limits, PolicyAlone, Roots};
use serde_json::{Value, json};

pub use mimir_kit::scripted_model::{Script, Step, calls, says};

/// The supported protocols.
pub const APIS: [Api; 3] = [Api::Openai, Api::Responses, Api::Anthropic];

struct Now;

impl Clock for Now {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
    fn instant(&self) -> Instant {
        Instant::now()
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// An audit log in memory.
#[derive(Default)]
pub struct Memory(Mutex<Vec<Value>>);

impl Memory {
    /// The events of this kind.
    pub fn of(&self, kind: &str) -> Vec<Value> {
        let all = self.0.lock();
        all.iter()
            .filter(|event| event["event"] == kind)
            .cloned()
            .collect()
    }
}

impl AuditSink for Memory {
    fn record(&self, event: &mimir_core::Event) -> Result<(), AuditError> {
        let event = serde_json::to_value(event).unwrap();
        self.0.lock().push(event);
        Ok(())
    }
}

/// A person who always gives the same answer.
struct Person(Answer);

impl Approver for Person {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, Answer> {
        // A call with edited arguments asks again: allow it.
        let answer = match &self.0 {
            Answer::Edit(value) if card.arguments.contains("edited") => {
                let _ = value;
                Answer::Once
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
    /// Number of messages each time the conversation was saved.
    pub lengths: Mutex<Vec<usize>>,
    pub stop: tokio::sync::Notify,
}

impl Seen {
    /// The events of this name.
    pub fn of(&self, name: &str) -> Vec<Value> {
        let all = self.events.lock();
        all.iter()
            .filter(|event| event["event"] == name)
            .cloned()
            .collect()
    }

    /// The text of all answers.
    pub fn words(&self) -> String {
        let words = self.of("text");
        words
            .iter()
            .filter_map(|event| event["text"].as_str())
            .collect()
    }
}

impl Face for Seen {
    fn on(&self, event: Event<'_>) {
        let event = serde_json::to_value(event).unwrap();
        self.events.lock().push(event);
    }

    fn conversation(&self, talk: &Conversation) {
        self.lengths.lock().push(talk.messages.len());
    }

    fn stop_calls(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop.notified())
    }
}

/// A test tool: returns its argument `text`, `times` over, after `ms` milliseconds.
struct Echo {
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Backend for Echo {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let wait = call.arguments()["ms"].as_u64().unwrap_or(0);
            if wait > 0 {
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            let times = call.arguments()["times"].as_u64().unwrap_or(1);
            let text = call.arguments()["text"]
                .as_str()
                .unwrap_or("nothing")
                .repeat(usize::try_from(times).unwrap());
            Raw::from(Ok(Output {
                content: vec![Content::text(text)],
                ..Output::default()
            }))
        })
    }
}

fn tool(name: &str, approval: Decision, backend: Arc<Echo>) -> Tool {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"},"ms":{"type":"integer"},"times":{"type":"integer"}},"additionalProperties":false}"#;
    Tool {
        definition: Definition {
            name: ToolName::new(name).unwrap(),
            title: None,
            description: "gives a text back".into(),
            group: Group::System,
            input_schema: Schema::parse(schema).unwrap(),
            output_schema: None,
            approval,
            silent: false,
            risk: Risk::Low,
            hints: Hints::default(),
            needs: Needs::default(),
        },
        aliases: vec![],
        source: Source::BuiltIn,
        origin: Arc::new(Origin {
            prefix: String::new(),
            plugin: name.into(),
            version: "1.0.0".into(),
            location: "built-in".into(),
            digest: "00".into(),
            speaks: true,
            imports: vec![],
            proofs: vec![],
            listed: Vec::new(),
        }),
        trust: Trust::Trusted,
        granted: Needs::default(),
        changes: None,
        flags: Vec::new(),
        assessed: false,
        off: false,
        token_cost: None,
        backend,
    }
}

/// An agent with three tools: `echo` runs, `guarded` asks for approval, `stranger` returns untrusted text.
pub struct Room {
    pub agent: Agent,
    pub script: Script,
    pub audit: Arc<Memory>,
    pub seen: Seen,
    pub talk: Conversation,
    echo: Arc<Echo>,
}

impl Room {
    pub fn new(api: Api, steps: Vec<Step>) -> Self {
        Self::with(api, steps, Answer::No, json!({}))
    }

    /// A test agent with this answer of the person and these settings.
    pub fn with(api: Api, steps: Vec<Step>, answer: Answer, mut settings: Value) -> Self {
        let script = Script::start(steps);
        let audit = Arc::new(Memory::default());
        let echo = Arc::new(Echo {
            under_way: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        settings["tools"]["stranger"] = json!({"labels": {"outputTrust": "untrusted"}});
        let config = serde_json::from_value(settings).unwrap();
        let tools = vec![
            tool("echo", Decision::Allow, Arc::clone(&echo)),
            tool("guarded", Decision::Ask, Arc::clone(&echo)),
            tool("stranger", Decision::Allow, Arc::clone(&echo)),
        ];
        let world = World {
            registry: Registry::new(tools, vec![]),
            policy: Policy::new(&config, "config.yml").unwrap(),
        };
        let ports = Ports {
            approver: Arc::new(Person(answer)),
            ledger: Arc::new(NoLedger),
            vault: Arc::new(Redactor::new()),
            audit: Arc::clone(&audit) as Arc<_>,
            clock: Arc::new(Now),
            runner: Arc::new(mimir_core::command::NoRunner),
            model: Arc::new(mimir_core::model::NoModel),
        };
        let chosen = ChosenModel {
            provider: "local".into(),
            model: "m".into(),
            api,
            url: script.url.clone(),
            key: Some("KEY".into()),
            price: None,
        };
        let provider = Provider::new(
            chosen,
            client(&script.url),
            Arc::new(Keys),
            Arc::clone(&audit) as Arc<_>,
        );
        let agent = Agent {
            model: Arc::new(provider),
            pipeline: Pipeline::new(world, ports),
            system: "Be brief.".into(),
            budget: Budget::default(),
            price: None,
            tools: None,
            parent: None,
            purse: None,
        };
        Self {
            agent,
            script,
            audit,
            seen: Seen::default(),
            talk: Conversation::new("talk-1", ""),
            echo,
        }
    }

    /// Works on a task.
    pub async fn task(&mut self, words: &str) -> Result<Ended, ToolError> {
        self.talk.messages.push(Message::user(words));
        self.agent.task(&mut self.talk, &self.seen).await
    }

    /// The maximum number of calls that ran in parallel.
    pub fn at_a_time(&self) -> usize {
        self.echo.most.load(Ordering::SeqCst)
    }

    /// The text of the model's last answer.
    pub fn last(&self) -> &str {
        match self.talk.messages.last() {
            Some(Message::Assistant { text, .. }) => text,
            other => panic!("{other:?}"),
        }
    }
}

/// The API key, which is masked in provider messages.
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

/// A client that can only reach this address.
pub fn client(url: &str) -> Client {
    let origin = mimir_core::network::Target::parse(url)
        .unwrap()
        .origin()
        .to_string();
    let rules = Rules {
        allowed: vec![Entry::from(origin.parse::<HostPattern>().unwrap())],
        ..Rules::default()
    };
    let guard = Arc::new(Guard::new(NetworkPolicy::new(rules)));
    Client::new(
        guard,
        Arc::new(PolicyAlone),
        Roots::default(),
        Limits::default(),
        None,
    )
}
