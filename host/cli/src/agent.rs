//! The agent, joined with what it needs: the model that the settings name, the way out to it, the pipeline with
//! everything that follows the files, and the place where conversations are kept.
//!
//! Never here: the loop (`mimir-agent`'s), and what a person types.

use std::sync::Arc;

use mimir_agent::{Agent, Conversation, Provider};
use mimir_core::config::{Budget, ChosenModel};
use mimir_core::redact::Vault;
use mimir_core::{Code, Pipeline, RequestId, ToolError};

use crate::args::Approve;
use crate::exit::Failure;
use crate::live::{EVERY, Keeper, Live};
use crate::output::note;
use crate::secrets::{Secrets, UserVault};
use crate::servers;
use crate::setup::Setup;
use crate::terminal::approver;

mod completer;
mod script;
mod shelf;
mod shown;
mod system;

pub use completer::OwnModel;
pub use script::Lines;
pub use shelf::Shelf;
pub use shown::Shown;

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
    /// An agent that asks the model of the settings, or `wanted`.
    pub async fn new(
        setup: Setup,
        wanted: Option<&str>,
        approve: Approve,
    ) -> Result<Self, ToolError> {
        // What is missing is said before anything is loaded.
        let (model, chosen) = model(&setup, wanted)?;
        let _ = setup.workspace.make_state();
        // A model is told of the tools that are there: those of servers that nobody has asked yet, too.
        let servers = setup.servers.all();
        if servers.known().unseen > 0 {
            servers.load().await;
        }
        let live = Live::new(setup).await?;
        let setup = live.setup();
        let pipeline = setup.pipeline(live.world(), approver(approve));
        let settings = &setup.settings.config.agent;
        let agent = Agent {
            model,
            pipeline: pipeline.clone(),
            system: system::system(setup.workspace.root(), settings.instructions.as_deref()),
            budget: settings.over(Budget::default()),
            price: chosen.price,
            tools: None,
        };
        Ok(Self {
            keeper: Keeper::new(pipeline, setup),
            shelf: Shelf::new(setup.workspace.state(), vault(setup)),
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
        let (model, chosen) = model(self.live.setup(), Some(wanted))?;
        (self.agent.model, self.agent.price) = (model, chosen.price);
        Ok(())
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
    let secrets = setup.settings.config.secrets.clone();
    Arc::new(UserVault::new(Secrets::new(&setup.places), secrets))
}

/// The model that is asked.
fn model(setup: &Setup, wanted: Option<&str>) -> Result<(Arc<Provider>, ChosenModel), ToolError> {
    let bad = |message: String| ToolError::new(Code::InvalidInput, message);
    let config = &setup.settings.config;
    let chosen = config.chosen_model(wanted).map_err(|message| {
        let about = |key: &&String| key.starts_with("model") || key.starts_with("providers");
        let withheld = setup.settings.withheld().iter().find(about);
        let way = withheld.map(|key| {
            format!("the project's settings have {key}, which counts after `mimir policy accept`")
        });
        bad(message).with_way_out(way)
    })?;
    if config.agent.max_cost.is_some() && chosen.price.is_none() {
        let (provider, model) = (&chosen.provider, &chosen.model);
        return Err(bad(format!(
            "agent.maxCost is set, and what {provider}/{model} costs is not known; set providers.{provider}.prices.{model}: {{input: …, output: …}}, for a million tokens"
        )));
    }
    let client = servers::client(&setup.settings, setup.workspace.root(), &chosen.url)?;
    let provider = Provider::new(chosen.clone(), client, vault(setup), setup.audit());
    provider.check().map_err(ToolError::from)?;
    Ok((Arc::new(provider), chosen))
}

/// The model that tools may ask, of the settings as they are now. Nothing is made before one does.
pub fn completer(setup: &Setup) -> OwnModel {
    let config = &setup.settings.config;
    let name = config.chosen_model(None).map_err(|message| {
        let way = "`model: PROVIDER/MODEL` in the settings names one".to_owned();
        ToolError::new(Code::Unavailable, message).with_way_out([way])
    });
    let most = config.agent.over(Budget::default()).answer_tokens;
    let shown = name
        .as_ref()
        .map(|chosen| format!("{}/{}", chosen.provider, chosen.model));
    let shown = shown.map_err(Clone::clone);
    let (settings, root) = (setup.settings.clone(), setup.workspace.root().to_owned());
    let (vault, audit) = (vault(setup), setup.audit());
    OwnModel::new(shown, most, move || {
        let chosen = name.clone()?;
        let client = servers::client(&settings, &root, &chosen.url)?;
        Ok(Arc::new(Provider::new(
            chosen,
            client,
            Arc::clone(&vault),
            Arc::clone(&audit) as _,
        )))
    })
}

/// Keeps a conversation, and says so if it cannot be.
pub fn keep(shelf: &Shelf, talk: &Conversation) {
    if let Err(error) = shelf.keep(talk) {
        note(format_args!(
            "the conversation is not kept: {}",
            error.message
        ));
    }
}
