//! The agent, joined with what it needs: the model that the settings name, the way out to it, the pipeline with
//! everything that follows the files, and the place where conversations are kept.
//!
//! Never here: the loop (`mimir-agent`'s), and what a person types.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_agent::{Agent, Conversation, Provider, Staff};
use mimir_core::audit::AuditSink;
use mimir_core::config::{AgentSettings, Budget, ChosenModel};
use mimir_core::redact::Vault;
use mimir_core::{Code, Pipeline, RequestId, ToolError};

use crate::args::Approve;
use crate::exit::Failure;
use crate::live::{EVERY, Keeper, Live};
use crate::output::warn;
use crate::secrets::{Secrets, UserVault};
use crate::servers;
use crate::settings::Settings;
use crate::setup::Setup;
use crate::terminal::{Started, approver};
use crate::workers;

mod completer;
mod saver;
mod script;
mod shelf;
mod shown;
mod system;

pub use completer::OwnModel;
pub use saver::{Saver, Saving};
pub use script::Lines;
pub use shelf::Shelf;
pub use shown::Shown;
pub use system::system;

/// What the models of the settings are made from.
#[derive(Clone)]
pub struct Models {
    settings: Settings,
    root: PathBuf,
    vault: Arc<dyn Vault>,
    audit: Arc<dyn AuditSink>,
}

/// A pipeline that follows the files, and an agent over it.
pub struct Bench {
    live: Live,
    keeper: Keeper,
    /// The agent.
    pub agent: Agent,
    /// The conversations of the workspace.
    pub shelf: Shelf,
}

impl Bench {
    /// An agent that asks the model of the settings, or `wanted`; as the worker of this name, with its tools alone.
    pub async fn new(
        setup: Setup,
        wanted: Option<&str>,
        worker: Option<&str>,
        approve: Approve,
        started: Started,
    ) -> Result<Self, ToolError> {
        // What is missing is said before anything is loaded.
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
                    system: system::system(&models.root, settings.instructions.as_deref()),
                    budget: settings.over(Budget::default()),
                }
            }
        };
        let _ = setup.workspace.make_state();
        // A model is told of the tools that are there: those of servers that nobody has asked yet, too.
        let servers = setup.servers.all();
        if servers.known().unseen > 0 {
            servers.load().await;
        }
        let live = Live::new(setup).await?;
        let setup = live.setup();
        let pipeline = setup.pipeline(live.world(), approver(approve, started));
        let own = match worker {
            Some(worker) => {
                // A worker without its tools would do something else than it was written for.
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
            shelf: Shelf::of(&setup.places, &setup.workspace, vault(setup)),
            agent,
            live,
        })
    }

    /// The one road.
    pub fn pipeline(&self) -> &Pipeline {
        &self.agent.pipeline
    }

    /// Asks another model from now on.
    pub fn choose(&mut self, wanted: &str) -> Result<(), ToolError> {
        let (model, chosen) = Models::of(self.live.setup()).model(Some(wanted))?;
        (self.agent.model, self.agent.price) = (model, chosen.price);
        Ok(())
    }

    /// Takes up at once what has changed in the files, as [`Self::following`] does after a while.
    pub async fn catch_up(&mut self) {
        for news in self.live.catch_up().await {
            self.keeper.take_up(self.live.setup(), news);
        }
    }

    /// Does this while tools, rules and grants are kept as the files have them.
    pub async fn following<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let keeper = &self.keeper;
        let follow = self.live.follow(EVERY, |setup, news| {
            keeper.take_up(setup, news);
            Ok(())
        });
        tokio::select! {
            done = work => Ok(done),
            // It goes on until something fails.
            followed = follow => followed.and_then(|()| {
                Err(ToolError::new(Code::Internal, "the files are no longer followed").into())
            }),
        }
    }
}

/// A conversation that begins.
pub fn conversation(agent: &Agent) -> Conversation {
    let id = RequestId::new(std::time::SystemTime::now());
    Conversation::new(id.to_string(), agent.model.name())
}

fn vault(setup: &Setup) -> Arc<dyn Vault> {
    let secrets = Secrets::new(&setup.places);
    Arc::new(UserVault::new(secrets, &setup.settings.config))
}

impl Models {
    /// Those of these settings.
    pub fn of(setup: &Setup) -> Self {
        Self {
            settings: setup.settings.clone(),
            root: setup.workspace.root().to_owned(),
            vault: vault(setup),
            audit: setup.audit(),
        }
    }

    /// The folder that agents work in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How agents work.
    pub fn agent(&self) -> &AgentSettings {
        &self.settings.config.agent
    }

    /// The provider of the model of the settings.
    pub fn provider(&self) -> Result<String, ToolError> {
        Ok(self.chosen(None)?.provider)
    }

    fn chosen(&self, wanted: Option<&str>) -> Result<ChosenModel, ToolError> {
        self.settings
            .config
            .chosen_model(wanted)
            .map_err(|message| {
                let about =
                    |key: &&String| key.starts_with("model") || key.starts_with("providers");
                let withheld = self.settings.withheld().iter().find(about);
                let way = withheld.map(|key| {
                format!(
                    "the project's settings have {key}, which counts after `mimir policy accept`"
                )
            });
                ToolError::new(Code::InvalidInput, message).with_way_out(way)
            })
    }

    /// The model of the settings, or `wanted`.
    pub fn model(&self, wanted: Option<&str>) -> Result<(Arc<Provider>, ChosenModel), ToolError> {
        let chosen = self.chosen(wanted)?;
        if self.agent().max_cost.is_some() && chosen.price.is_none() {
            let (provider, model) = (&chosen.provider, &chosen.model);
            return Err(ToolError::new(
                Code::InvalidInput,
                format!(
                    "agent.maxCost is set, and what {provider}/{model} costs is not known; set providers.{provider}.prices.{model}: {{input: …, output: …}}, for a million tokens"
                ),
            ));
        }
        let client = servers::client(&self.settings, &self.root, &chosen.url)?;
        let (vault, audit) = (Arc::clone(&self.vault), Arc::clone(&self.audit));
        let provider = Provider::new(chosen.clone(), client, vault, audit);
        provider.check().map_err(ToolError::from)?;
        Ok((Arc::new(provider), chosen))
    }
}

/// The model that tools may ask, of the settings as they are now. Nothing is made before one does.
pub fn completer(setup: &Setup) -> OwnModel {
    let config = &setup.settings.config;
    let name = config.chosen_model(None).map_err(|message| {
        let way = "`model: PROVIDER/MODEL` in the settings names one".to_owned();
        ToolError::new(Code::Unavailable, message).with_way_out([way])
    });
    let shown = name.map(|chosen| format!("{}/{}", chosen.provider, chosen.model));
    let budget = config.agent.over(Budget::default());
    let models = Models::of(setup);
    OwnModel::new(shown, budget, setup.purse.clone(), move || {
        models.model(None)
    })
}
