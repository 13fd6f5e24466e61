//! Assembles the agent: the configured model, its transport, the pipeline that follows file changes, and the
//! conversation store.
//!
//! Out of scope: the agent loop (`mimir-agent`) and user input.

use mimir_agent::{Agent, Conversation, Staff};
use mimir_core::config::Budget;
use mimir_core::{Code, Pipeline, RequestId, ToolError};

use crate::args::Approve;
use crate::exit::Failure;
use crate::output::warn;
use crate::terminal::{Started, approver};
use mimir::conversations::Shelf;
use mimir::live::{EVERY, Keeper, Live};
use mimir::models::{self, Models};
use mimir::setup::Setup;
use mimir::workers;

mod saver;
mod script;
mod shown;

pub use saver::{Saver, Saving};
pub use script::Lines;
pub use shown::Shown;

/// A pipeline that follows file changes, and an agent that uses it.
pub struct Bench {
    live: Live,
    keeper: Keeper,
    /// The agent.
    pub agent: Agent,
    /// The conversations of the workspace.
    pub shelf: Shelf,
}

impl Bench {
    /// Builds an agent for the configured model, or for `wanted`; with a worker's name, it has that worker's tools
    /// only.
    pub async fn new(
        setup: Setup,
        wanted: Option<&str>,
        worker: Option<&str>,
        approve: Approve,
        started: Started,
    ) -> Result<Self, ToolError> {
        // Check for missing settings before anything is loaded.
        let models = Models::of(&setup);
        let worker = worker.map(|name| setup.workers().find(name)).transpose()?;
        let staff = match &worker {
            Some(worker) => {
                let staff = workers::staff(&models, worker, wanted)?;
                Staff {
                    budget: worker.budget(staff.budget),
                    ..staff
                }
            }
            None => {
                let (model, chosen) = models.model(wanted)?;
                let settings = models.agent();
                Staff {
                    model,
                    price: chosen.price,
                    system: models::system(models.root(), settings.instructions.as_deref()),
                    budget: settings.over(Budget::default()),
                }
            }
        };
        let _ = setup.workspace.make_state();
        // The model sees the tools of all servers, including servers that have not been contacted yet.
        let servers = setup.servers.all();
        if servers.known().unseen > 0 {
            servers.load().await;
        }
        let live = Live::new(setup).await?;
        let setup = live.setup();
        let pipeline = setup.pipeline(live.world(), approver(approve, started));
        let own = match worker {
            Some(worker) => {
                // A worker without its tools cannot do its job, so a missing tool is an error.
                let missing = worker.missing(&pipeline.world());
                if let Some((first, more)) = missing.split_first() {
                    more.iter().for_each(warn);
                    return Err(ToolError::new(Code::InvalidInput, first.clone()));
                }
                pipeline.within(move |world| worker.narrow(world))
            }
            None => pipeline.clone(),
        };
        let agent = Agent {
            model: staff.model,
            pipeline: own,
            system: staff.system,
            budget: staff.budget,
            price: staff.price,
            tools: None,
            parent: None,
            purse: Some(setup.purse.clone()),
        };
        Ok(Self {
            keeper: Keeper::new(pipeline, &live),
            shelf: Shelf::of(&setup.places, &setup.workspace, models::vault(setup)),
            agent,
            live,
        })
    }

    /// The call context.
    pub fn pipeline(&self) -> &Pipeline {
        &self.agent.pipeline
    }

    /// Switches to another model.
    pub fn choose(&mut self, wanted: &str) -> Result<(), ToolError> {
        let (model, chosen) = Models::of(self.live.setup()).model(Some(wanted))?;
        (self.agent.model, self.agent.price) = (model, chosen.price);
        Ok(())
    }

    /// Applies file changes at once; [`Self::following`] does so with a delay.
    pub async fn catch_up(&mut self) {
        for news in self.live.catch_up().await {
            self.keeper.take_up(self.live.setup(), news);
        }
    }

    /// Runs a future while following changes of tools, rules and grants.
    pub async fn following<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let keeper = &self.keeper;
        let follow = self.live.follow(EVERY, |setup, news| {
            keeper.take_up(setup, news);
            Ok(())
        });
        tokio::select! {
            done = work => Ok(done),
            // Following ends only with an error.
            followed = follow => followed.and_then(|()| {
                Err(ToolError::new(Code::Internal, "following file changes failed").into())
            }),
        }
    }
}

/// Starts a new conversation.
pub fn conversation(agent: &Agent) -> Conversation {
    let id = RequestId::new(std::time::SystemTime::now());
    Conversation::new(id.to_string(), agent.model.name())
}
