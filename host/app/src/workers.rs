//! Workers from the files `.mimir/workers/NAME.yml` and from the bundles of teams, and the agent setup of a worker.
//!
//! Worker files may have come with a checkout. A worker has no more rights than its caller, uses the configured
//! provider, and is limited by the budget in `agent`. But the text of a worker instructs a model. Until the user has
//! accepted the current file, models therefore only see the name of the worker, and the worker is not run. A team's
//! signature stands for that. A worker of a team replaces one of the workspace with its name.
//!
//! Out of scope: the tools of a worker (`mimir_core`) and its turns (`mimir_agent`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use mimir_agent::{AgentSetup, SessionBudget, Worker, WorkerRegistry, WorkerSettings, worker_call};
use mimir_core::backend::BoxFuture;
use mimir_core::config::AgentBudget;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::text::{prefix, visible};
use mimir_core::{Quarantined, Tool, ToolError, ToolErrorCode};
use mimir_registry::team::BundledFile;
use sha2::{Digest as _, Sha256};

use crate::approval_store::UserApprovalStore;
use crate::interface::warn;
use crate::models::{ModelFactory, system_prompt};
use crate::settings::{check_yaml_text, config_key_lines, explain};
use crate::teams::TeamInForce;
use crate::user_dirs::UserDirs;
use crate::worker_modules::WorkerModules;
use crate::workspace::WorkspaceFolder;

/// Folder of the worker files, relative to the workspace.
const FOLDER: &str = ".mimir/workers";

/// Maximum size of a worker file in bytes, because its instructions are sent with each turn.
const MAX_FILE_SIZE: u64 = 256 << 10;

/// Maximum number of workers, because each adds a line to a tool description that models read.
const MAX_WORKERS: usize = 100;

/// The workers of a workspace.
#[derive(Clone)]
pub struct WorkspaceWorkers {
    folder: PathBuf,
    workspace: WorkspaceFolder,
    user_dirs: UserDirs,
    teams: Vec<Arc<TeamInForce>>,
    /// The config file that disables the workers of the workspace.
    disabled_by: Option<String>,
}

/// The current file of a worker.
pub struct WorkerFile {
    /// The name of the worker.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
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
    /// Creates a handle to the workers of a workspace. Reads nothing.
    pub fn for_workspace(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Self {
        Self {
            folder: workspace.settings_root().join(FOLDER),
            workspace: workspace.clone(),
            user_dirs: user_dirs.clone(),
            teams: Vec::new(),
            disabled_by: None,
        }
    }

    /// Disables the workers of the workspace, because this config file sets `enforcement.disableLocalTools`.
    #[must_use]
    pub fn disable_local(mut self, file: &str) -> Self {
        self.disabled_by = Some(file.to_owned());
        self
    }

    /// Adds the workers of teams.
    #[must_use]
    pub fn with_teams(mut self, teams: &[Arc<TeamInForce>]) -> Self {
        self.teams = teams.to_vec();
        self
    }

    /// Returns the team with a worker of this name, and the worker's file.
    fn team_file(&self, name: &str) -> Option<(&TeamInForce, &BundledFile)> {
        let path = format!("{name}.yml");
        self.teams.iter().find_map(|team| {
            let mut files = team.bundle.workers.iter();
            Some((team.as_ref(), files.find(|file| file.path == path)?))
        })
    }

    /// Returns true if the user has accepted the file with this digest, or a team has signed it.
    fn is_accepted(&self, name: &str, digest: &str, accepted: &BTreeSet<String>) -> bool {
        accepted.contains(digest) || self.team_file(name).is_some()
    }

    /// Reads the worker of this name. Fails if the user has not accepted the current file.
    pub fn find(&self, name: &str) -> Result<Worker, ToolError> {
        self.find_with_digest(name).map(|(worker, _)| worker)
    }

    /// Reads a worker even if the user has not accepted its file. The result must not be run.
    pub fn read_worker(&self, name: &str) -> Result<Worker, ToolError> {
        self.read(name).map(|(worker, _)| worker)
    }

    /// Like [`Self::find`], with the digest of the worker's file.
    fn find_with_digest(&self, name: &str) -> Result<(Worker, String), ToolError> {
        let names = self.names();
        if !names.iter().any(|known| known == name) {
            if let Some(by) = &self.disabled_by
                && self.stems(".yml").iter().any(|own| own == name)
            {
                return Err(disabled(name, by));
            }
            let near = did_you_mean(name, names.iter().map(String::as_str));
            let name = visible(prefix(name, 64));
            let message = format!("unknown worker `{name}`: not in {FOLDER}.{near}");
            return Err(ToolError::not_found(message));
        }
        let (worker, digest) = self.read(name)?;
        if self.is_accepted(name, &digest, &self.accepted()) {
            Ok((worker, digest))
        } else {
            Err(not_accepted(name))
        }
    }

    /// Returns the sorted names of the first [`MAX_WORKERS`] workers.
    fn names(&self) -> Vec<String> {
        let mut names = self.own_names();
        names.truncate(MAX_WORKERS);
        let of_teams = self.teams.iter().flat_map(|team| &team.bundle.workers);
        let of_teams = of_teams.filter_map(|file| file.path.strip_suffix(".yml"));
        names.extend(of_teams.map(str::to_owned));
        names.sort();
        names.dedup();
        names
    }

    /// Returns the sorted names of the workspace's own workers, unless they are disabled.
    fn own_names(&self) -> Vec<String> {
        match self.disabled_by {
            Some(_) => Vec::new(),
            None => self.stems(".yml"),
        }
    }

    /// Returns the sorted names of all files that end in `ending`, without the ending.
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

    /// Returns the files that are ignored: those that end in `.yaml`, and those above [`MAX_WORKERS`]; or all if the
    /// workers of the workspace are disabled.
    fn left_out(&self) -> Vec<Quarantined> {
        if let Some(by) = &self.disabled_by {
            let own = self.stems(".yml").into_iter().take(MAX_WORKERS);
            let own = own.map(|stem| Quarantined {
                location: visible(&format!("{FOLDER}/{stem}.yml")),
                code: ToolErrorCode::PolicyDenied,
                reason: disabled(&stem, by).message,
            });
            return own.collect();
        }
        let quarantined = |file: String, reason: String| Quarantined {
            location: visible(&format!("{FOLDER}/{file}")),
            code: ToolErrorCode::InvalidInput,
            reason,
        };
        let wrong_extension = self.stems(".yaml").into_iter().take(MAX_WORKERS);
        let wrong_extension = wrong_extension.map(|stem| {
            let why = "the name of a worker file ends in .yml; rename the file".to_owned();
            quarantined(format!("{stem}.yaml"), why)
        });
        let above_limit = self
            .stems(".yml")
            .into_iter()
            .skip(MAX_WORKERS)
            .take(MAX_WORKERS);
        let above_limit = above_limit.map(|stem| {
            let why = format!("too many workers: expected at most {MAX_WORKERS}; remove some");
            quarantined(format!("{stem}.yml"), why)
        });
        let own = self.stems(".yml").into_iter();
        let replaced = own.filter_map(|stem| Some((self.team_file(&stem)?.0.shown(), stem)));
        let replaced = replaced.map(|(team, stem)| {
            let why = format!("{team} has a worker of this name, which is used; rename the file");
            quarantined(format!("{stem}.yml"), why)
        });
        wrong_extension.chain(above_limit).chain(replaced).collect()
    }

    /// Returns the readable worker files. The flag is true if the user has accepted the file.
    pub fn files(&self) -> Vec<(WorkerFile, bool)> {
        let accepted = self.accepted();
        let files = self.names().into_iter();
        files
            .filter_map(|name| {
                let file = self.file(&name).ok()?;
                let is_accepted = self.is_accepted(&name, &file.digest, &accepted);
                Some((file, is_accepted))
            })
            .collect()
    }

    /// Returns the error in a worker file; `None` if the file is valid.
    pub fn fault(&self, file: &WorkerFile) -> Option<ToolError> {
        self.read(&file.name).err()
    }

    /// Returns the digests of the accepted worker files.
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
        if let Some((team, file)) = self.team_file(name) {
            let text = team.read_text(file)?;
            return Ok(WorkerFile {
                name: name.to_owned(),
                path: team.store().blob(&file.digest),
                shown: format!("{}: workers/{}", team.shown(), file.path),
                digest: format!("{:x}", Sha256::digest(format!("{name}\n{text}"))),
                text,
            });
        }
        let path = self.folder.join(format!("{name}.yml"));
        let shown = visible(&format!("{FOLDER}/{name}.yml"));
        let text = files::reject_links(self.workspace.settings_root(), &path)
            .and_then(|()| files::read_text(&path, LinkPolicy::Refuse, MAX_FILE_SIZE));
        let text = text.map_err(|error| {
            ToolError::invalid_input(format!("{shown} cannot be read: {error}"))
        })?;
        let digest = format!("{:x}", Sha256::digest(format!("{name}\n{text}")));
        Ok(WorkerFile {
            name: name.to_owned(),
            path,
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

    /// Adds the tool `worker_call` to `tools` if there are workers, and unusable worker files to `quarantined`.
    pub fn add_worker_tool(
        &self,
        models: &ModelFactory,
        session_budget: &SessionBudget,
        modules: impl FnOnce() -> WorkerModules,
        tools: &mut Vec<Tool>,
        quarantined: &mut Vec<Quarantined>,
    ) {
        quarantined.extend(self.left_out());
        let mut workers = Vec::new();
        let mut listed = BTreeMap::new();
        let names = self.names();
        let accepted = if names.is_empty() {
            BTreeSet::new()
        } else {
            self.accepted()
        };
        // The digest covers all worker files, because a worker may call any other: a stored approval ends when one
        // changes.
        let mut hasher = Sha256::new();
        for name in names {
            match self.read(&name) {
                Ok((worker, digest)) => {
                    hasher.update(&digest);
                    let description = if self.is_accepted(&name, &digest, &accepted) {
                        worker.description()
                    } else {
                        NOT_ACCEPTED.to_owned()
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
            modules: modules(),
            listed,
        };
        let digest = format!("{:x}", hasher.finalize());
        match worker_call(Arc::new(registry), session_budget.clone(), &workers, digest) {
            Ok(tool) => tools.push(tool),
            Err(error) => tracing::error!(%error, "workers cannot be called"),
        }
    }
}

/// Returns the error about a worker of the workspace, which the file `by` disables.
fn disabled(name: &str, by: &str) -> ToolError {
    let (name, by) = (visible(prefix(name, 64)), visible(by));
    let message = format!(
        "the worker `{name}` of this workspace cannot be called: {by} sets `enforcement.disableLocalTools`"
    );
    let remedy =
        "use a worker of your team, or ask the administrator of the team to publish this one";
    ToolError::policy_denied(message).with_remedies([remedy.to_owned()])
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

/// Returns the agent setup of a worker, with the model `model_name`, the worker's own model or the configured one.
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

/// Refuses a model of a provider that the settings do not use, so that a worker file cannot send workspace content to
/// it.
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
    let remedy =
        "`mimir run --worker NAME --model PROVIDER/MODEL` uses another provider".to_owned();
    Err(ToolError::invalid_input(message).with_remedies([remedy]))
}

/// Worker registry of a workspace. It refuses workers whose file has changed since the tools were listed.
struct FileWorkerRegistry {
    workers: WorkspaceWorkers,
    models: ModelFactory,
    modules: WorkerModules,
    /// Digest of each worker file when the tools were listed, by name.
    listed: BTreeMap<String, String>,
}

impl WorkerRegistry for FileWorkerRegistry {
    fn find(&self, name: &str) -> Result<Worker, ToolError> {
        let (worker, digest) = self.workers.find_with_digest(name)?;
        if self.listed.get(name) == Some(&digest) {
            return Ok(worker);
        }
        let name = visible(prefix(name, 64));
        let message = format!("the worker `{name}` has changed since the tools were listed");
        let remedy = "try again in a moment, or in a new session".to_owned();
        Err(ToolError::unavailable(message).with_remedies([remedy]))
    }

    fn with_own_tools(&self, worker: Worker) -> BoxFuture<'_, Result<Worker, ToolError>> {
        Box::pin(self.modules.add_tools_to(worker))
    }

    fn agent_setup(&self, worker: &Worker) -> Result<AgentSetup, ToolError> {
        agent_setup(&self.models, worker, None)
    }
}
