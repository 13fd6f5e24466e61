//! Workers on disk, `.mimir/workers/NAME.yml`, and what an agent of each is made of.
//!
//! They may have come with a checkout, and count all the same: a worker has no right that its caller has not, asks the
//! provider that the settings name, and has no more turns, tokens or money than `agent` gives.
//!
//! Never here: which tools a worker has (core's), and what it does (the agent's).

use std::path::PathBuf;
use std::sync::Arc;

use mimir_agent::{Hall, Purse, Staff, worker_call};
use mimir_core::config::Budget;
use mimir_core::files::{self, Links};
use mimir_core::names::did_you_mean;
use mimir_core::text::{prefix, visible};
use mimir_core::worker::{Worker, WorkerSettings};
use mimir_core::{Code, Quarantined, Tool, ToolError};
use sha2::{Digest as _, Sha256};

use crate::agent::{Models, system};
use crate::settings::{explain, lines_of, plain};
use crate::workspace::Workspace;

/// Where they are, below the workspace.
const FOLDER: &str = ".mimir/workers";

/// Bytes of a file: instructions are read with each turn.
const FILE_MOST: u64 = 256 << 10;

/// How many there may be: each is a line in what models read.
const MOST: usize = 100;

/// The workers of a workspace.
#[derive(Clone)]
pub struct Workers {
    folder: PathBuf,
    root: PathBuf,
}

impl Workers {
    /// Those of this workspace. Nothing is read yet.
    pub fn of(workspace: &Workspace) -> Self {
        Self {
            folder: workspace.root().join(FOLDER),
            root: workspace.root().to_owned(),
        }
    }

    /// The worker of this name.
    pub fn find(&self, name: &str) -> Result<Worker, ToolError> {
        let names = self.names();
        match names.iter().any(|known| known == name) {
            true => self.read(name),
            false => {
                let near = did_you_mean(name, names.iter().map(String::as_str));
                let name = visible(prefix(name, 64));
                let message = format!("there is no worker `{name}` in {FOLDER}.{near}");
                Err(ToolError::new(Code::NotFound, message))
            }
        }
    }

    /// The names of the files.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let stem = name.strip_suffix(".yml")?;
                (!stem.is_empty() && !stem.starts_with('.')).then(|| stem.to_owned())
            })
            .collect();
        names.sort();
        names.truncate(MOST);
        names
    }

    fn read(&self, name: &str) -> Result<Worker, ToolError> {
        let path = self.folder.join(format!("{name}.yml"));
        let shown = visible(&format!("{FOLDER}/{name}.yml"));
        let text = files::no_links(&self.root, &path)
            .and_then(|()| files::read_text(&path, Links::Refused, FILE_MOST));
        let text = text.map_err(|error| {
            ToolError::new(
                Code::InvalidInput,
                format!("{shown} cannot be read: {error}"),
            )
        })?;
        let settings: WorkerSettings =
            serde_yaml::from_str(plain(&shown, &text)?).map_err(|error| explain(&shown, &error))?;
        let lines = lines_of(&text);
        let at = |key: &str| {
            let source = mimir_core::policy::Source::new(shown.clone(), {
                let lines = lines.clone();
                move || lines
            });
            source.at(key)
        };
        Worker::new(name, &shown, lines.clone(), settings).map_err(|(key, why)| {
            ToolError::new(Code::InvalidInput, format!("{}: {why}", at(&key)))
        })
    }

    /// The tool that calls them, where there are any, and those that cannot be called.
    pub fn join(
        &self,
        models: &Models,
        purse: &Purse,
        tools: &mut Vec<Tool>,
        quarantined: &mut Vec<Quarantined>,
    ) {
        let mut workers = Vec::new();
        let mut digest = Sha256::new();
        for name in self.names() {
            match self.read(&name) {
                Ok(worker) => {
                    let description = worker.description();
                    digest.update(format!("{name}\n{description}\n"));
                    workers.push((name, description));
                }
                Err(error) => quarantined.push(Quarantined {
                    location: visible(&format!("{FOLDER}/{name}.yml")),
                    code: error.code,
                    reason: error.message,
                }),
            }
        }
        if workers.is_empty() {
            return;
        }
        let hall = OwnHall {
            workers: self.clone(),
            models: models.clone(),
        };
        let digest = format!("{:x}", digest.finalize());
        match worker_call(Arc::new(hall), purse.clone(), &workers, digest) {
            Ok(tool) => tools.push(tool),
            Err(error) => tracing::error!(%error, "workers cannot be called"),
        }
    }
}

/// What an agent of this worker is made of.
pub fn staff(models: &Models, worker: &Worker, wanted: Option<&str>) -> Result<Staff, ToolError> {
    let own = worker.settings().model.as_deref();
    if let (None, Some(own)) = (wanted, own) {
        same_provider(models, worker, own)?;
    }
    let (model, chosen) = models.model(wanted.or(own))?;
    let settings = models.agent();
    let told = [
        settings.instructions.as_deref(),
        Some(&worker.settings().instructions),
    ];
    let told: Vec<&str> = told.into_iter().flatten().map(str::trim).collect();
    Ok(Staff {
        model,
        price: chosen.price,
        system: system(models.root(), Some(&told.join("\n\n"))),
        budget: settings.over(Budget::default()),
    })
}

/// A worker's file does not send what is in the workspace to somebody whom the settings do not name.
fn same_provider(models: &Models, worker: &Worker, own: &str) -> Result<(), ToolError> {
    let provider = own.split('/').next().unwrap_or_default();
    let asked = models.provider()?;
    if provider == asked {
        return Ok(());
    }
    let message = format!(
        "{}: the worker wants a model of `{}`, and `model` in the settings is one of `{asked}`; a worker asks the same provider",
        worker.at("model"),
        visible(prefix(provider, 64))
    );
    let way = "`mimir run --worker NAME --model PROVIDER/MODEL` asks another one".to_owned();
    Err(ToolError::new(Code::InvalidInput, message).with_way_out([way]))
}

/// The workers of a workspace, and the models of its settings.
struct OwnHall {
    workers: Workers,
    models: Models,
}

impl Hall for OwnHall {
    fn find(&self, name: &str) -> Result<Worker, ToolError> {
        self.workers.find(name)
    }

    fn staff(&self, worker: &Worker) -> Result<Staff, ToolError> {
        staff(&self.models, worker, None)
    }
}
