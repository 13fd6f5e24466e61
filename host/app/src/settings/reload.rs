//! Reloading of config files that change while mimir runs. The metadata of the files is polled, and changed files are
//! read again. An error is reported once, and the last valid content of the file stays in force, with the newest layers of
//! teams. If a team's layer cannot be read, no settings are in force, because it may contain restrictions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mimir_core::{Policy, ToolError};
use mimir_registry::OciDigest;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};

use crate::approval_store::UserApprovalStore;
use crate::servers::control::ServerControl;
use crate::teams;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

use super::{ConfigFile, ConfigLocation, MergedSettings};

/// Watcher of the config files, and of the files with accepted settings and grants.
pub struct SettingsWatcher {
    user_dirs: UserDirs,
    workspace: WorkspaceFolder,
    files: Arc<WatchedFiles>,
    /// Metadata of the files at the last read.
    seen: Vec<Option<ConfigFileStamp>>,
    /// Metadata of the files at the last check, if it differed from the last read.
    unsettled: Option<Vec<Option<ConfigFileStamp>>>,
    /// The time at which the tools of a team will be refused, because its bundle is too old.
    deadline: Option<Timestamp>,
    /// True if a file was so recent at the last read that a later change may not show in its metadata.
    was_recent: bool,
    content: SettingsContent,
    /// The last valid files of the user and the workspace.
    last_valid: Vec<ConfigFile>,
    grants: String,
}

/// Metadata of the watched files. The check before each call uses it, too.
pub struct WatchedFiles {
    paths: RwLock<Vec<PathBuf>>,
    /// The metadata of the content that calls obey. Files that have been read are not applied yet.
    applied: Mutex<Vec<Option<ConfigFileStamp>>>,
}

impl WatchedFiles {
    /// Returns true if calls do not yet obey the current content of a file. Costs one `stat` per file.
    pub fn changed(&self) -> bool {
        self.stamps() != *self.applied.lock()
    }

    fn stamps(&self) -> Vec<Option<ConfigFileStamp>> {
        let paths = self.paths.read();
        paths
            .iter()
            .map(|path| ConfigFileStamp::of_file(path))
            .collect()
    }
}

/// A change of the settings or grants.
pub struct SettingsChange {
    /// The new settings; `None` if they are unchanged. In place of a file that is not valid, the last valid one counts.
    pub settings: Option<(MergedSettings, Policy)>,
    /// The new error of reading the settings.
    pub fault: Option<ToolError>,
    /// The error because of which no settings are in force: a team's layer cannot be read.
    pub team_fault: Option<ToolError>,
    /// True if a file could not be read before, and all can be read now.
    pub recovered: bool,
    /// True if the grants have changed.
    pub grants_changed: bool,
}

/// Last read state, for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SettingsContent {
    /// The settings in force; `None` if a team's layer could not be read.
    in_force: Option<ValidContent>,
    /// The error of reading the files.
    fault: Option<String>,
}

/// The content of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ValidContent {
    /// Path, digest and acceptance of each file.
    files: Vec<(PathBuf, String, bool)>,
    server_control: ServerControl,
    /// Digest of each team's bundle. The flags are true if the team's tools are loaded, and if the bundle is too old.
    teams: Vec<(OciDigest, bool, bool)>,
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConfigFileStamp {
    length: u64,
    modified: Option<SystemTime>,
    /// Change time and inode, on platforms that have them.
    other: (i64, i64, u64),
}

/// Coarsest timestamp resolution of file systems. Two changes within this time may have the same timestamp.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_secs(2);

impl SettingsWatcher {
    /// Creates a watcher of the files that `settings` were read from. The first checks read all files.
    pub fn new(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        settings: &MergedSettings,
    ) -> Self {
        let mut watched = Self {
            user_dirs: user_dirs.clone(),
            workspace: workspace.clone(),
            files: Arc::new(WatchedFiles {
                paths: RwLock::new(watched_paths(user_dirs, workspace)),
                applied: Mutex::default(),
            }),
            // Empty, so that the files count as changed: `settings` may be slightly out of date.
            seen: Vec::new(),
            unsettled: None,
            deadline: deadline(settings),
            was_recent: false,
            content: SettingsContent {
                in_force: Some(settings_content(settings)),
                fault: None,
            },
            last_valid: settings.lower_files(),
            grants: String::new(),
        };
        watched.grants = watched.grants();
        watched
    }

    /// Reads the settings of this workspace from now on. The next checks read all files.
    pub(crate) fn follow_workspace(&mut self, workspace: &WorkspaceFolder) {
        self.workspace = workspace.clone();
        *self.files.paths.write() = watched_paths(&self.user_dirs, workspace);
        self.seen.clear();
        self.mark_applied();
        self.unsettled = None;
    }

    /// Checks the files, and reads them if two checks in a row see the same change. A file that is still being written
    /// is incomplete, and an incomplete policy denies less.
    pub fn check_for_change(&mut self) -> Option<SettingsChange> {
        let now = self.files.stamps();
        if now == self.seen {
            self.unsettled = None;
            // The files that a team's layer needs, such as keys, are not watched.
            let is_halted = self.content.in_force.is_none();
            if !self.was_recent && !self.is_past_deadline() && !is_halted {
                return None;
            }
        } else if self.unsettled.as_ref() != Some(&now) {
            self.unsettled = Some(now);
            return None;
        }
        self.was_recent = now.iter().flatten().any(ConfigFileStamp::is_recent);
        self.seen = now;
        self.unsettled = None;
        self.read()
    }

    fn is_past_deadline(&self) -> bool {
        let deadline = self.deadline;
        deadline.is_some_and(|deadline| Timestamp::now() >= deadline)
    }

    /// Records that calls obey what was read last.
    pub fn mark_applied(&self) {
        self.files.applied.lock().clone_from(&self.seen);
    }

    /// Returns the watched files.
    pub fn files(&self) -> Arc<WatchedFiles> {
        Arc::clone(&self.files)
    }

    fn read(&mut self) -> Option<SettingsChange> {
        let grants = self.grants();
        let grants_changed = grants != self.grants;
        self.grants = grants;
        let (settings, fault, team_fault) = self.read_settings();
        if let Some((settings, _)) = &settings {
            self.deadline = deadline(settings);
            self.last_valid = settings.lower_files();
        }
        let now = SettingsContent {
            in_force: settings
                .as_ref()
                .map(|(settings, _)| settings_content(settings)),
            fault: fault.as_ref().map(|error| error.message.clone()),
        };
        let before = std::mem::replace(&mut self.content, now);
        let now = &self.content;
        (before != *now || grants_changed).then(|| SettingsChange {
            settings: settings.filter(|_| before.in_force != now.in_force),
            recovered: before.fault.is_some() && now.fault.is_none(),
            fault: fault.filter(|_| before.fault != now.fault),
            team_fault,
            grants_changed,
        })
    }

    /// Reads the settings. Returns those in force, the error if a file is not valid, and the same error again if it
    /// concerns a team's layer, so that no settings are in force.
    fn read_settings(
        &self,
    ) -> (
        Option<(MergedSettings, Policy)>,
        Option<ToolError>,
        Option<ToolError>,
    ) {
        let (user_dirs, workspace) = (&self.user_dirs, &self.workspace);
        let read = MergedSettings::read(user_dirs, workspace)
            .and_then(|settings| settings.policy().map(|policy| (settings, policy)));
        let error = match read {
            Ok(settings) => return (Some(settings), None, None),
            Err(error) => error,
        };
        match MergedSettings::read_over_last_valid(user_dirs, workspace, &self.last_valid) {
            Ok(settings) => (Some(settings), Some(error), None),
            Err(error) => (None, Some(error.clone()), Some(error)),
        }
    }

    fn approval_store(&self) -> Option<UserApprovalStore> {
        UserApprovalStore::new(&self.user_dirs, &self.workspace)
    }

    /// Returns a digest of the current grants. The recorded use of an approval changes the file, but not the digest.
    fn grants(&self) -> String {
        let Some(approval_store) = self.approval_store() else {
            return String::new();
        };
        let all = match (approval_store.lock().read(), approval_store.read()) {
            (Ok(lock), Ok(approvals)) => format!("{lock:?} {:?}", approvals.grants),
            (Err(error), _) | (_, Err(error)) => error.to_string(),
        };
        format!("{:x}", Sha256::digest(all))
    }
}

/// Returns the paths of all files whose content decides about settings and grants.
fn watched_paths(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Vec<PathBuf> {
    let approvals = UserApprovalStore::new(user_dirs, workspace)
        .map(|approval_store| approval_store.path().to_owned());
    let configs = ConfigLocation::all_locations(user_dirs, workspace).into_iter();
    let paths = configs.map(|location| location.path).chain(approvals);
    let paths = paths.chain(ServerControl::path(user_dirs, workspace));
    let paths = paths.chain(teams::stamp_path(user_dirs));
    paths.chain([workspace.lock()]).collect()
}

fn settings_content(settings: &MergedSettings) -> ValidContent {
    let files = settings.files.iter();
    let files = files.map(|file| (file.path.clone(), file.digest(), file.unaccepted_text));
    let now = Timestamp::now();
    let teams = settings.teams.iter();
    let teams = teams.map(|team| {
        let is_outdated = team.outdated(now).is_some();
        (team.digest, team.membership.shared_tools, is_outdated)
    });
    ValidContent {
        files: files.collect(),
        server_control: settings.server_control.clone(),
        teams: teams.collect(),
    }
}

/// Returns the next time at which the tools of a team will be refused.
fn deadline(settings: &MergedSettings) -> Option<Timestamp> {
    let now = Timestamp::now();
    let teams = settings.teams.iter();
    let deadlines = teams.map(|team| team.deadline());
    deadlines.filter(|deadline| *deadline > now).min()
}

impl ConfigFileStamp {
    fn of_file(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let other = {
            use std::os::unix::fs::MetadataExt as _;
            (meta.ctime(), meta.ctime_nsec(), meta.ino())
        };
        #[cfg(not(unix))]
        let other = (0, 0, 0);
        Some(Self {
            length: meta.len(),
            modified: meta.modified().ok(),
            other,
        })
    }

    fn is_recent(&self) -> bool {
        let age = self.modified.map(|time| time.elapsed());
        // A time in the future never ages, so it is not recent.
        matches!(age, Some(Ok(age)) if age < TIMESTAMP_RESOLUTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a workspace with a config, and its watcher.
    fn watched(config: &str) -> (tempfile::TempDir, PathBuf, SettingsWatcher) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work/.mimir")).unwrap();
        let workspace = WorkspaceFolder::find(Some(&folder.path().join("work"))).unwrap();
        let user_dirs = UserDirs {
            config: Some(folder.path().join("user")),
            ..UserDirs::default()
        };
        let path = workspace.config();
        std::fs::write(&path, config).unwrap();
        let settings = MergedSettings::read(&user_dirs, &workspace).unwrap();
        let watched = SettingsWatcher::new(&user_dirs, &workspace, &settings);
        (folder, path, watched)
    }

    /// Returns the change that is reported after enough checks.
    fn settled(watched: &mut SettingsWatcher) -> Option<SettingsChange> {
        assert!(
            watched.check_for_change().is_none(),
            "a change was reported before the file settled"
        );
        watched.check_for_change()
    }

    #[test]
    fn files_count_as_changed_until_their_content_is_applied() {
        let (_folder, path, mut watched) = watched("policy: {deny: [git]}\n");
        let files = watched.files();
        assert!(settled(&mut watched).is_none());
        assert!(files.changed());
        watched.mark_applied();
        assert!(!files.changed());
        std::fs::write(&path, "policy: {deny: [git, exec]}\n").unwrap();
        assert!(settled(&mut watched).is_some());
        // A call that comes now must not run with the rules of before.
        assert!(files.changed());
        watched.mark_applied();
        assert!(!files.changed());
    }

    #[test]
    fn config_watcher_reports_each_change_or_error_once() {
        let (_folder, path, mut watched) = watched("policy: {deny: [git]}\n");
        assert!(
            settled(&mut watched).is_none(),
            "an unchanged config was reported"
        );
        std::fs::write(&path, "policy: {deny: [git, exec]}\n").unwrap();
        let change = settled(&mut watched).unwrap();
        let (settings, _) = change.settings.unwrap();
        assert_eq!(settings.config.policy.deny, ["git", "exec"]);
        assert!(!change.recovered && !change.grants_changed);
        assert!(watched.check_for_change().is_none());
        std::fs::write(&path, "polcy: {}\n").unwrap();
        let broken = settled(&mut watched).unwrap();
        assert!(broken.fault.unwrap().message.contains("unknown key"));
        assert!(broken.settings.is_none() && broken.team_fault.is_none());
        for _ in 0..3 {
            assert!(
                watched.check_for_change().is_none(),
                "the error was reported twice"
            );
        }
        std::fs::write(
            &path,
            "policy: {rules: [{decision: deny, match: [{}], noMatch: [{}]}]}\n",
        )
        .unwrap();
        let broken = settled(&mut watched).unwrap();
        assert!(broken.fault.is_some(), "a different error was not reported");
        std::fs::write(&path, "policy: {deny: [git, exec]}\n").unwrap();
        let recovered = settled(&mut watched).unwrap();
        // The same rules were in force all the time.
        assert!(recovered.recovered && recovered.settings.is_none());
        std::fs::remove_file(&path).unwrap();
        let gone = settled(&mut watched).unwrap().settings.unwrap();
        assert!(gone.0.files.is_empty());
    }

    #[test]
    fn config_watcher_waits_until_a_file_stops_changing() {
        let (_folder, path, mut watched) = watched("policy: {deny: [git]}\n");
        assert!(settled(&mut watched).is_none());
        for length in 1..5 {
            std::fs::write(&path, "#".repeat(length)).unwrap();
            assert!(watched.check_for_change().is_none(), "{length}");
        }
        assert!(watched.check_for_change().is_some());
    }

    #[test]
    fn config_watcher_finds_a_change_with_unchanged_metadata() {
        let (_folder, path, mut watched) = watched("policy: {deny: [git]}\n");
        assert!(settled(&mut watched).is_none());
        std::fs::write(&path, "policy: {deny: [abc]}\n").unwrap();
        // Simulates a file system whose metadata does not change.
        watched.seen = watched.files.stamps();
        assert!(watched.check_for_change().is_some());
    }

    #[test]
    fn config_watcher_reports_accepted_settings_and_new_grants() {
        let (_folder, _path, mut watched) = watched("tools: {git: {approval: allow}}\n");
        assert!(settled(&mut watched).is_none());
        let approval_store = watched.approval_store().unwrap();
        let content = watched.content.clone().in_force.unwrap();
        let digest = content.files[0].1.clone();
        approval_store
            .change(|approvals| approvals.settings.insert(digest))
            .unwrap();
        let accepted = settled(&mut watched).unwrap();
        assert!(accepted.settings.unwrap().0.withheld().is_empty());
        approval_store
            .change(|approvals| approvals.workspace.clear())
            .unwrap();
        assert!(
            settled(&mut watched).is_none(),
            "a change without effect was reported"
        );
        approval_store
            .change(|approvals| approvals.grants.insert("x".to_owned(), "y".to_owned()))
            .unwrap();
        let granted = settled(&mut watched).unwrap();
        assert!(granted.grants_changed && granted.settings.is_none());
    }
}
