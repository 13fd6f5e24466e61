//! Workers on disk, `.mimir/workers/NAME.yml`, and the agent runtime of each.
//!
//! Workers may have come with a checkout. A worker has no more rights than its caller, uses the provider that the
//! settings name, and gets at most the turns, tokens and money of `agent`. But its text instructs a model. So until a
//! person has accepted the current file, models only see its name, and it is not run.
//!
//! The tools of a worker are determined in `mimir_core`, its turns are run by the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use mimir_agent::{AgentSetup, SessionBudget, Worker, WorkerRegistry, WorkerSettings, worker_call};
use mimir_core::config::AgentBudget;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::text::{prefix, visible};
use mimir_core::{Quarantined, Tool, ToolError, ToolErrorCode};
use sha2::{Digest as _, Sha256};

use crate::approval_store::UserApprovalStore;
use crate::interface::warn;
use crate::models::{ModelFactory, system_prompt};
use crate::settings::{check_yaml_text, config_key_lines, explain};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Folder of the worker files, relative to the workspace.
const FOLDER: &str = ".mimir/workers";

/// Maximum size of a file in bytes: its instructions are sent with each turn.
const MAX_FILE_SIZE: u64 = 256 << 10;

/// Maximum number of workers: each takes a line in the tool description that models read.
const MAX_WORKERS: usize = 100;

/// The workers of a workspace.
#[derive(Clone)]
pub struct WorkspaceWorkers {
    folder: PathBuf,
    workspace: WorkspaceFolder,
    user_dirs: UserDirs,
}

/// The current file of a worker.
pub struct WorkerFile {
    /// The name of the worker.
    pub name: String,
    /// The path of the file in messages.
    pub shown: String,
    /// The content of the file.
    pub text: String,
    /// sha256 of the name and the content.
    pub digest: String,
}

/// Description of a worker that the user has not accepted.
const NOT_ACCEPTED: &str = "(not accepted by the user yet: it cannot be called)";

impl WorkspaceWorkers {
    /// The workers of this workspace. Nothing is read yet.
    pub fn for_workspace(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Self {
        Self {
            folder: workspace.root().join(FOLDER),
            workspace: workspace.clone(),
            user_dirs: user_dirs.clone(),
        }
    }

    /// Reads the worker of this name, which the user must have accepted.
    pub fn find(&self, name: &str) -> Result<Worker, ToolError> {
        self.find_with_digest(name).map(|(worker, _)| worker)
    }

    /// Reads the worker of this name, with the digest of its file.
    fn find_with_digest(&self, name: &str) -> Result<(Worker, String), ToolError> {
        let names = self.names();
        match names.iter().any(|known| known == name) {
            true => {
                let (worker, digest) = self.read(name)?;
                match self.accepted().contains(&digest) {
                    true => Ok((worker, digest)),
                    false => Err(not_accepted(name)),
                }
            }
            false => {
                let near = did_you_mean(name, names.iter().map(String::as_str));
                let name = visible(prefix(name, 64));
                let message = format!("unknown worker `{name}`: not in {FOLDER}.{near}");
                Err(ToolError::not_found(message))
            }
        }
    }

    /// The names of the workers, sorted, at most [`MAX_WORKERS`].
    fn names(&self) -> Vec<String> {
        let mut names = self.stems(".yml");
        names.truncate(MAX_WORKERS);
        names
    }

    /// The names of all files with this extension, sorted.
    fn stems(&self, ending: &str) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let stem = name.strip_suffix(ending)?;
                (!stem.is_empty() && !stem.starts_with('.')).then(|| stem.to_owned())
            })
            .collect();
        names.sort();
        names
    }

    /// Files that look like workers but are not used: those with the wrong extension and those above the limit.
    fn left_out(&self) -> Vec<Quarantined> {
        let quarantined = |file: String, reason: String| Quarantined {
            location: visible(&format!("{FOLDER}/{file}")),
            code: ToolErrorCode::InvalidInput,
            reason,
        };
        let wrong_extension = self.stems(".yaml").into_iter().take(MAX_WORKERS);
        let wrong_extension = wrong_extension.map(|stem| {
            let why = "the file of a worker ends in .yml; rename it".to_owned();
            quarantined(format!("{stem}.yaml"), why)
        });
        let above_limit = self
            .stems(".yml")
            .into_iter()
            .skip(MAX_WORKERS)
            .take(MAX_WORKERS);
        let above_limit = above_limit.map(|stem| {
            let why = format!("there are more than {MAX_WORKERS} workers; remove some");
            quarantined(format!("{stem}.yml"), why)
        });
        wrong_extension.chain(above_limit).collect()
    }

    /// The files that can be read, each with true if the user has accepted it.
    pub fn files(&self) -> Vec<(WorkerFile, bool)> {
        let accepted = self.accepted();
        let files = self.names().into_iter();
        files
            .filter_map(|name| {
                let file = self.file(&name).ok()?;
                let is_accepted = accepted.contains(&file.digest);
                Some((file, is_accepted))
            })
            .collect()
    }

    /// The error that keeps the worker of this file from being called even if accepted; `None` if it is valid.
    pub fn fault(&self, file: &WorkerFile) -> Option<ToolError> {
        self.read(&file.name).err()
    }

    /// The digests of the files that the user has accepted.
    fn accepted(&self) -> BTreeSet<String> {
        let approval_store = UserApprovalStore::new(&self.user_dirs, &self.workspace);
        match approval_store.map(|approval_store| approval_store.read()) {
            Some(Ok(approvals)) => approvals.workers,
            Some(Err(error)) => {
                warn(error);
                BTreeSet::new()
            }
            None => BTreeSet::new(),
        }
    }

    fn file(&self, name: &str) -> Result<WorkerFile, ToolError> {
        let path = self.folder.join(format!("{name}.yml"));
        let shown = visible(&format!("{FOLDER}/{name}.yml"));
        let text = files::reject_links(self.workspace.root(), &path)
            .and_then(|()| files::read_text(&path, LinkPolicy::Refuse, MAX_FILE_SIZE));
        let text = text.map_err(|error| {
            ToolError::invalid_input(format!("{shown} cannot be read: {error}"))
        })?;
        let digest = format!("{:x}", Sha256::digest(format!("{name}\n{text}")));
        Ok(WorkerFile {
            name: name.to_owned(),
            shown,
            text,
            digest,
        })
    }

    fn read(&self, name: &str) -> Result<(Worker, String), ToolError> {
        let WorkerFile {
            shown,
            text,
            digest,
            ..
        } = self.file(name)?;
        let settings: WorkerSettings = serde_yaml::from_str(check_yaml_text(&shown, &text)?)
            .map_err(|error| explain(&shown, &error))?;
        let lines = config_key_lines(&text);
        let at = |key: &str| {
            let source = mimir_core::policy::RuleSource::new(shown.clone(), {
                let lines = lines.clone();
                move || lines
            });
            source.at(key)
        };
        let worker = Worker::new(name, &shown, lines.clone(), settings)
            .map_err(|(key, why)| ToolError::invalid_input(format!("{}: {why}", at(&key))));
        Ok((worker?, digest))
    }

    /// Adds the tool that calls workers, if there are any, and the workers that cannot be called.
    pub fn add_worker_tool(
        &self,
        models: &ModelFactory,
        session_budget: &SessionBudget,
        tools: &mut Vec<Tool>,
        quarantined: &mut Vec<Quarantined>,
    ) {
        quarantined.extend(self.left_out());
        let mut workers = Vec::new();
        let mut listed = BTreeMap::new();
        let names = self.names();
        let accepted = match names.is_empty() {
            true => BTreeSet::new(),
            false => self.accepted(),
        };
        // A stored approval covers all worker files, since any worker may call another one.
        let mut hasher = Sha256::new();
        for name in names {
            match self.read(&name) {
                Ok((worker, digest)) => {
                    hasher.update(&digest);
                    let description = match accepted.contains(&digest) {
                        true => worker.description(),
                        false => NOT_ACCEPTED.to_owned(),
                    };
                    hasher.update(&description);
                    listed.insert(name.clone(), digest);
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
        let registry = FileWorkerRegistry {
            workers: self.clone(),
            models: models.clone(),
            listed,
        };
        let digest = format!("{:x}", hasher.finalize());
        match worker_call(Arc::new(registry), session_budget.clone(), &workers, digest) {
            Ok(tool) => tools.push(tool),
            Err(error) => tracing::error!(%error, "workers cannot be called"),
        }
    }
}

fn not_accepted(name: &str) -> ToolError {
    let name = visible(prefix(name, 64));
    let message = format!(
        "the file of the worker `{name}`, {FOLDER}/{name}.yml, is new or changed and was not accepted"
    );
    let remedy =
        "`mimir policy accept` shows the file and asks; it is for a person to run".to_owned();
    ToolError::permission_denied(message).with_remedies([remedy])
}

/// Creates the agent runtime of this worker.
pub fn agent_setup(
    models: &ModelFactory,
    worker: &Worker,
    model_name: Option<&str>,
) -> Result<AgentSetup, ToolError> {
    let worker_model = worker.settings().model.as_deref();
    if let (None, Some(worker_model)) = (model_name, worker_model) {
        check_provider(models, worker, worker_model)?;
    }
    let (model, chosen) = models.model(model_name.or(worker_model))?;
    let settings = models.agent();
    let instructions = [
        settings.instructions.as_deref(),
        Some(&worker.settings().instructions),
    ];
    let instructions: Vec<&str> = instructions.into_iter().flatten().map(str::trim).collect();
    Ok(AgentSetup {
        model,
        price: chosen.price,
        system: system_prompt(models.root(), Some(&instructions.join("\n\n"))),
        budget: settings.over(AgentBudget::default()),
    })
}

/// Refuses a model of another provider: a worker's file must not send workspace contents to a provider that the
/// settings do not name.
fn check_provider(
    models: &ModelFactory,
    worker: &Worker,
    worker_model: &str,
) -> Result<(), ToolError> {
    let provider = worker_model.split('/').next().unwrap_or_default();
    if models.names_only_provider(provider) {
        return Ok(());
    }
    let configured = models.provider()?;
    if provider == configured {
        return Ok(());
    }
    let message = format!(
        "{}: the worker requests a model of `{}`, but `model` in the settings is one of `{configured}`; a worker must use the same provider",
        worker.at("model"),
        visible(prefix(provider, 64))
    );
    let remedy = "`mimir run --worker NAME --model PROVIDER/MODEL` asks another one".to_owned();
    Err(ToolError::invalid_input(message).with_remedies([remedy]))
}

/// The worker registry of a workspace, with the models of its settings.
struct FileWorkerRegistry {
    workers: WorkspaceWorkers,
    models: ModelFactory,
    /// The digest of each file at the time the tools were listed.
    listed: BTreeMap<String, String>,
}

impl WorkerRegistry for FileWorkerRegistry {
    fn find(&self, name: &str) -> Result<Worker, ToolError> {
        let (worker, digest) = self.workers.find_with_digest(name)?;
        match self.listed.get(name) == Some(&digest) {
            true => Ok(worker),
            false => {
                let name = visible(prefix(name, 64));
                let message =
                    format!("the worker `{name}` has changed since the tools were listed");
                let remedy = "try it again in a moment, or in a new session".to_owned();
                Err(ToolError::unavailable(message).with_remedies([remedy]))
            }
        }
    }

    fn agent_setup(&self, worker: &Worker) -> Result<AgentSetup, ToolError> {
        agent_setup(&self.models, worker, None)
    }
}
