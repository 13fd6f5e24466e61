//! The configured models, each with its provider, key and price.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_agent::Provider;
use mimir_core::audit::AuditSink;
use mimir_core::config::{AgentSettings, Budget, ChosenModel};
use mimir_core::redact::Vault;
use mimir_core::{Code, ToolError};

use crate::secrets::{Secrets, UserVault};
use crate::servers;
use crate::settings::Settings;
use crate::setup::Setup;

mod completer;
mod system;

pub use completer::OwnModel;
pub use system::system;

/// The settings and secrets that models are created from.
#[derive(Clone)]
pub struct Models {
    settings: Settings,
    root: PathBuf,
    vault: Arc<dyn Vault>,
    audit: Arc<dyn AuditSink>,
}

/// The vault of secrets that are masked in model output.
pub fn vault(setup: &Setup) -> Arc<dyn Vault> {
    let secrets = Secrets::new(&setup.places);
    Arc::new(UserVault::new(secrets, &setup.settings.config))
}

impl Models {
    /// The models of these settings.
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

    /// The settings of agents.
    pub fn agent(&self) -> &AgentSettings {
        &self.settings.config.agent
    }

    /// The name of the provider of the configured model.
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
                    "the project's settings have {key}, which is ignored until you run `mimir policy accept`"
                )
            });
                ToolError::new(Code::InvalidInput, message).with_way_out(way)
            })
    }

    /// The configured model, or `wanted`.
    pub fn model(&self, wanted: Option<&str>) -> Result<(Arc<Provider>, ChosenModel), ToolError> {
        let chosen = self.chosen(wanted)?;
        if self.agent().max_cost.is_some() && chosen.price.is_none() {
            let (provider, model) = (&chosen.provider, &chosen.model);
            return Err(ToolError::new(
                Code::InvalidInput,
                format!(
                    "agent.maxCost is set, but the price of {provider}/{model} is not known; set providers.{provider}.prices.{model}: {{input: …, output: …}}, for a million tokens"
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

/// The model that tools may query, with the current settings. It is created by the first query.
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
