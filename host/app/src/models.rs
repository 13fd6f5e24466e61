//! Creation of the configured models, with their provider, key and price.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_agent::ModelProvider;
use mimir_core::ToolError;
use mimir_core::audit::AuditSink;
use mimir_core::config::{AgentBudget, AgentSettings, ChosenModel, ModelAddressFile};
use mimir_core::redact::Vault;

use crate::servers;
use crate::settings::MergedSettings;
use crate::setup::HostSetup;

mod configured_model;
mod system;

pub use configured_model::ConfiguredModel;
pub use system::system_prompt;

/// Factory of models, with the settings and secrets that it needs.
#[derive(Clone)]
pub struct ModelFactory {
    settings: MergedSettings,
    root: PathBuf,
    vault: Arc<dyn Vault>,
    audit: Arc<dyn AuditSink>,
}

/// Returns the vault of the secrets that are masked in model output.
pub fn vault(setup: &HostSetup) -> Arc<dyn Vault> {
    Arc::clone(&setup.vault) as Arc<dyn Vault>
}

impl ModelFactory {
    /// Creates a factory with the settings of this setup.
    pub fn from_setup(setup: &HostSetup) -> Self {
        Self {
            settings: setup.settings.clone(),
            root: setup.workspace.root().to_owned(),
            vault: vault(setup),
            audit: setup.audit(),
        }
    }

    /// Returns the workspace folder, in which agents work.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the settings of agents.
    pub fn agent(&self) -> &AgentSettings {
        &self.settings.config.agent
    }

    /// Returns the name of the configured model's provider.
    pub fn provider(&self) -> Result<String, ToolError> {
        Ok(self.resolve_model(None)?.provider)
    }

    /// Returns true if the settings have a block for this provider but choose no model.
    pub fn names_only_provider(&self, provider: &str) -> bool {
        let config = &self.settings.config;
        config.model.is_none() && config.providers.contains_key(provider)
    }

    fn resolve_model(&self, model_name: Option<&str>) -> Result<ChosenModel, ToolError> {
        self.settings
            .config
            .chosen_model(model_name)
            .map_err(|message| {
                let is_about_models =
                    |key: &&String| key.starts_with("model") || key.starts_with("providers");
                let withheld = self.settings.withheld().iter().find(is_about_models);
                let remedy = withheld.map(|key| {
                    format!(
                        "the project's settings have {key}, which is ignored until you run `mimir policy accept`"
                    )
                });
                ToolError::invalid_input(message).with_remedies(remedy)
            })
    }

    /// Refuses a model of a team's list at an address that the team has not set.
    fn check_address(&self, chosen: &ChosenModel) -> Result<(), ToolError> {
        let files = self.settings.files.iter();
        let files = files.map(|file| ModelAddressFile {
            shown: &file.shown,
            is_team: file.owner.is_team(),
            config: &file.config,
        });
        let files: Vec<_> = files.collect();
        self.settings.config.check_model_address(chosen, &files)
    }

    /// Creates the model `model_name` (`PROVIDER/MODEL`), or the configured one. Fails if `agent.maxCost` is set and
    /// the price of the model is not known.
    pub fn model(
        &self,
        model_name: Option<&str>,
    ) -> Result<(Arc<ModelProvider>, ChosenModel), ToolError> {
        let chosen = self.resolve_model(model_name)?;
        self.settings.config.check_model(&chosen)?;
        self.check_address(&chosen)?;
        if self.agent().max_cost.is_some() && chosen.price.is_none() {
            let (provider, model) = (&chosen.provider, &chosen.model);
            return Err(ToolError::invalid_input(format!(
                "agent.maxCost is set, but the price of {provider}/{model} is not known; set providers.{provider}.prices.{model}: {{input: …, output: …}}, for a million tokens"
            )));
        }
        // The key of the provider is sent only to the host itself.
        let settings = servers::without_project_network(&self.settings);
        let client = servers::client(&settings, &self.root, &chosen.url)?;
        let (vault, audit) = (Arc::clone(&self.vault), Arc::clone(&self.audit));
        let provider = ModelProvider::new(chosen.clone(), client, vault, audit);
        provider.check().map_err(ToolError::from)?;
        Ok((Arc::new(provider), chosen))
    }
}

/// Returns the model that tools may query. It is created on the first query.
pub fn completer(setup: &HostSetup) -> ConfiguredModel {
    let config = &setup.settings.config;
    let name = config.chosen_model(None).map_err(|message| {
        let remedy = "`model: PROVIDER/MODEL` in the settings names one".to_owned();
        ToolError::unavailable(message).with_remedies([remedy])
    });
    let shown = name.map(|chosen| format!("{}/{}", chosen.provider, chosen.model));
    let budget = config.agent.over(AgentBudget::default());
    let models = ModelFactory::from_setup(setup);
    ConfiguredModel::new(shown, budget, setup.budget.clone(), move || {
        models.model(None)
    })
}
