//! Assembles the agent from the configured model, a pipeline that follows file changes, and the conversation store.
//!
//! Out of scope: the agent loop (`mimir-agent`) and user input.

use mimir_agent::{Agent, AgentSetup, Conversation};
use mimir_core::config::AgentBudget;
use mimir_core::{Pipeline, RequestId, ToolError};

use crate::args::ApproveMode;
use crate::exit::CommandResult;
use crate::output::warn;
use crate::terminal::{StartedCommand, approver};
use mimir::conversations::ConversationStore;
use mimir::live_setup::{CHECK_INTERVAL, LiveSetup, PipelineUpdater};
use mimir::models::{self, ModelFactory};
use mimir::setup::HostSetup;
use mimir::teams::TeamRefresh;
use mimir::undo::UndoStore;
use mimir::workers;

mod change_diffs;
mod conversation_saver;
mod image_file;
mod json_events;
mod terminal_events;

pub use change_diffs::{ChangeDiffs, DiffEventSink};
pub use conversation_saver::{ConversationSaver, SavingEventSink};
pub use image_file::read_image;
pub use json_events::JsonEventWriter;
pub use terminal_events::TerminalEventSink;

/// An agent and its pipeline, which follows file changes.
pub struct AgentRuntime {
    live: LiveSetup,
    updater: PipelineUpdater,
    /// The agent.
    pub agent: Agent,
    /// The conversations of the workspace.
    pub conversations: ConversationStore,
}

impl AgentRuntime {
    /// Builds an agent with the model `model_name`, or with the configured one. With `worker`, the agent has the tools,
    /// instructions and budget of that worker. Fails if a tool of the worker is missing.
    pub async fn new(
        setup: HostSetup,
        model_name: Option<&str>,
        worker: Option<&str>,
        approve: ApproveMode,
        started: StartedCommand,
    ) -> Result<Self, ToolError> {
        // Report missing settings before the tools are loaded.
        let models = ModelFactory::from_setup(&setup);
        let worker = match worker {
            Some(name) => {
                let worker = setup.workers().find(name)?;
                Some(setup.worker_modules().add_tools_to(worker).await?)
            }
            None => None,
        };
        let agent_setup = match &worker {
            Some(worker) => {
                let agent_setup = workers::agent_setup(&models, worker, model_name)?;
                AgentSetup {
                    budget: worker.budget(agent_setup.budget),
                    ..agent_setup
                }
            }
            None => {
                let (model, chosen) = models.model(model_name)?;
                let settings = models.agent();
                AgentSetup {
                    model,
                    price: chosen.price,
                    system: models::system_prompt(models.root(), settings.instructions.as_deref()),
                    budget: settings.over(AgentBudget::default()),
                }
            }
        };
        // If this fails, the pipeline reports that it cannot record calls.
        let _ = setup.workspace.make_state();
        // Servers that have not been contacted yet are loaded, too, because the model must see their tools.
        let servers = setup.servers.servers();
        if servers.known().unseen > 0 {
            servers.load().await;
        }
        let live = LiveSetup::new(setup).await?;
        let setup = live.setup();
        let pipeline = setup.pipeline(live.snapshot(), approver(approve, started));
        if approve == ApproveMode::Ask {
            setup.share_questions_of_command(&pipeline);
        }
        let agent_pipeline = match worker {
            Some(worker) => {
                let missing = worker.missing(&pipeline.snapshot());
                if let Some((first, more)) = missing.split_first() {
                    more.iter().for_each(warn);
                    return Err(ToolError::invalid_input(first.clone()));
                }
                pipeline.restricted(move |snapshot| worker.restrict(snapshot))
            }
            None => pipeline.clone(),
        };
        let agent = Agent {
            model: agent_setup.model,
            pipeline: agent_pipeline,
            system: agent_setup.system,
            budget: agent_setup.budget,
            price: agent_setup.price,
            tools: None,
            parent: None,
            session_budget: Some(setup.budget.clone()),
        };
        Ok(Self {
            updater: PipelineUpdater::new(pipeline, &live),
            conversations: ConversationStore::for_workspace(
                &setup.user_dirs,
                &setup.workspace,
                models::vault(setup),
            ),
            agent,
            live,
        })
    }

    /// Returns the agent's pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.agent.pipeline
    }

    /// Returns the source of the differences that calls have made.
    pub fn change_diffs(&self) -> ChangeDiffs {
        let setup = self.live.setup();
        ChangeDiffs::new(
            UndoStore::for_workspace(&setup.workspace),
            models::vault(setup),
        )
    }

    /// Switches to another model.
    pub fn set_model(&mut self, model_name: &str) -> Result<(), ToolError> {
        let (model, chosen) =
            ModelFactory::from_setup(self.live.setup()).model(Some(model_name))?;
        (self.agent.model, self.agent.price) = (model, chosen.price);
        Ok(())
    }

    /// Refreshes the bundles of teams while the runtime follows file changes.
    pub fn refresh_teams(&mut self, refresh: TeamRefresh) {
        self.updater.refresh_teams(refresh);
    }

    /// Applies file changes at once. [`Self::run_with_reload`] applies them at the next check.
    pub async fn reload_now(&mut self) {
        for update in self.live.catch_up().await {
            self.updater.apply_update(self.live.setup(), update);
        }
    }

    /// Runs `work` while applying changes of tools, rules and grants.
    pub async fn run_with_reload<T>(&mut self, work: impl Future<Output = T>) -> CommandResult<T> {
        let updater = &self.updater;
        let follow = self.live.follow(CHECK_INTERVAL, |setup, update| {
            updater.apply_update(setup, update);
            Ok(())
        });
        tokio::select! {
            output = work => Ok(output),
            // `follow` returns only errors.
            result = follow => result.and_then(|()| {
                Err(ToolError::internal("following file changes failed").into())
            }),
        }
    }
}

/// Starts a new conversation.
pub fn new_conversation(agent: &Agent) -> Conversation {
    let id = RequestId::new(std::time::SystemTime::now());
    Conversation::new(id.to_string(), agent.model.name())
}
