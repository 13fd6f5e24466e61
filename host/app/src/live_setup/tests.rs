use mimir_audit::AuditLog;
use mimir_core::config::Config;
use mimir_core::{Call, CallContext, Outcome, Pipeline, RequestId, ToolErrorCode};
use serde_json::json;

use super::pipeline_updater::{PipelineUpdater, RestartSettings};
use super::*;
use crate::host::UnattendedApprover;
use crate::settings::MergedSettings;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Pipeline that follows file changes, in a workspace with this user config.
struct Running {
    folder: tempfile::TempDir,
    pipeline: Pipeline,
}

/// Check interval: fast enough for a test, slow enough that two checks see the same state of a file.
const SOON: Duration = Duration::from_millis(10);

/// Runs `work` while the pipeline follows file changes.
async fn running<W: Future<Output = ()>>(config: &str, work: impl FnOnce(Running) -> W) {
    running_with(SOON, config, work).await;
}

/// Runs `work` while the pipeline follows file changes, with checks at this interval.
async fn running_with<W: Future<Output = ()>>(
    every: Duration,
    config: &str,
    work: impl FnOnce(Running) -> W,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    for new in ["work/.mimir/state", "user"] {
        std::fs::create_dir_all(path.join(new)).unwrap();
    }
    std::fs::write(path.join("work/notes.txt"), "notes").unwrap();
    std::fs::write(path.join("user/config.yml"), config).unwrap();
    let places = UserDirs {
        config: Some(path.join("user")),
        team: vec![path.join("team.yml")],
        ..UserDirs::default()
    };
    let workspace = WorkspaceFolder::find(Some(&path.join("work"))).unwrap();
    let settings = MergedSettings::read(&places, &workspace).unwrap();
    let setup = HostSetup::from_parts(places, workspace, settings);
    let mut live = LiveSetup::new(setup).await.unwrap();
    let pipeline = live
        .setup()
        .pipeline(live.snapshot(), Arc::new(UnattendedApprover));
    let keeper = PipelineUpdater::new(pipeline.clone(), &live);
    let follow = live.follow(every, |setup, news| {
        keeper.apply_update(setup, news);
        Ok::<(), ToolError>(())
    });
    tokio::select! {
        ended = follow => panic!("it goes on: {ended:?}"),
        () = work(Running { folder, pipeline }) => {}
    }
}

impl Running {
    fn config(&self, text: &str) {
        std::fs::write(self.folder.path().join("user/config.yml"), text).unwrap();
    }

    /// Writes a file of the administrator (`team.yml`) or the project.
    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.folder.path().join(path), text).unwrap();
    }

    async fn read(&self) -> Outcome {
        let request_id = RequestId::new(std::time::SystemTime::now());
        let context = CallContext {
            session_id: request_id.to_string(),
            request_id,
            conversation_id: None,
            user: None,
        };
        let arguments = json!({"path": "notes.txt"});
        let call = Call::new("read_file".to_owned(), arguments, context);
        self.pipeline.call(call).await
    }

    /// Waits until calls end with this code, or succeed.
    async fn becomes(&self, code: Option<ToolErrorCode>) {
        for _ in 0..1000 {
            if self.read().await.result().err().map(|error| error.code) == code {
                return;
            }
            tokio::time::sleep(SOON).await;
        }
        panic!("no call has ended with {code:?}");
    }

    fn recorded(&self) -> String {
        let log = self.folder.path().join("work/.mimir/state/audit.jsonl");
        assert!(AuditLog::at(&log).snapshot().unwrap().bytes() > 0);
        std::fs::read_to_string(log).unwrap()
    }
}

const ALLOWED: &str = "tools: {read_file: {approval: allow}}\n";

#[tokio::test]
async fn config_reload_ignores_a_broken_file_until_fixed() {
    running(ALLOWED, async |running: Running| {
        running.becomes(None).await;
        running.config("policy: {deny: [read_file]}\n");
        running.becomes(Some(ToolErrorCode::PolicyDenied)).await;
        running.config("policy: {dney: []}\n");
        for _ in 0..20 {
            tokio::time::sleep(SOON).await;
            let outcome = running.read().await;
            assert!(!outcome.is_ok(), "the last valid rules are not in force");
        }
        running.config(ALLOWED);
        running.becomes(None).await;
        let record = running.recorded();
        let changes = record.lines().filter(|line| line.contains("config-change"));
        let (good, bad): (Vec<_>, Vec<_>) = changes.partition(|line| line.contains("\"ok\":true"));
        assert_eq!((good.len(), bad.len()), (2, 1), "{record}");
    })
    .await;
}

#[tokio::test]
async fn config_change_applies_to_the_next_call() {
    // The interval never elapses: only the call triggers a check.
    running_with(Duration::MAX, ALLOWED, async |running: Running| {
        running.becomes(None).await;
        for _ in 0..5 {
            running.config("policy: {deny: [read_file]}\n");
            let denied = running.read().await;
            assert_eq!(
                denied.result().unwrap_err().code,
                ToolErrorCode::PolicyDenied
            );
            running.config("policy: {dney: []}\n");
            let denied = running.read().await;
            assert!(!denied.is_ok(), "the last valid rules are not in force");
            running.config(ALLOWED);
            assert!(running.read().await.is_ok());
        }
    })
    .await;
}

#[tokio::test]
async fn tools_reload_when_files_or_the_setting_change() {
    running(ALLOWED, async |running: Running| {
        let left_out = || running.pipeline.snapshot().registry.quarantined().len();
        let until = async |count, when: &str| {
            for _ in 0..1000 {
                if left_out() == count {
                    return;
                }
                tokio::time::sleep(SOON).await;
            }
            panic!("{when}: {} and not {count}", left_out());
        };
        until(0, "before").await;
        let tools = running.folder.path().join("work/.mimir/tools");
        std::fs::create_dir(&tools).unwrap();
        std::fs::write(tools.join("one.wasm"), "no component").unwrap();
        until(1, "with a file").await;
        std::fs::write(tools.join("two.yml"), "name: two\n").unwrap();
        until(2, "with a script").await;
        let whole =
            "name: two\ndescription: b\nschema: {type: object}\ncode: 'export default () => 1'\n";
        std::fs::write(tools.join("two.yml"), whole).unwrap();
        until(1, "with a script that is whole").await;
        assert!(running.pipeline.snapshot().registry.get("two").is_some());
        running.config("tools: {autoLoadCustomTools: false}\n");
        until(0, "switched off").await;
        running.config(ALLOWED);
        until(1, "switched on").await;
        std::fs::remove_file(tools.join("one.wasm")).unwrap();
        until(0, "without it").await;
    })
    .await;
}

#[tokio::test]
async fn live_setup_starts_before_plugins_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for new in ["work/.mimir/tools", "user"] {
        std::fs::create_dir_all(path.join(new)).unwrap();
    }
    std::fs::write(path.join("work/.mimir/tools/one.wasm"), "no component").unwrap();
    let places = UserDirs {
        config: Some(path.join("user")),
        ..UserDirs::default()
    };
    let workspace = WorkspaceFolder::find(Some(&path.join("work"))).unwrap();
    let settings = MergedSettings::read(&places, &workspace).unwrap();
    let mut live = LiveSetup::new_uncompiled(HostSetup::from_parts(places, workspace, settings))
        .await
        .unwrap();
    let registry = live.snapshot().registry;
    assert!(registry.get("read_file").is_some() && registry.get("run_code").is_some());
    assert_eq!(
        registry.quarantined().len(),
        0,
        "the component was described too early"
    );
    let mut described = live.described();
    assert!(!*described.borrow());
    let left_out = Mutex::new(0);
    let follow = live.follow(SOON, |_, news| {
        if let SetupUpdate::Snapshot { snapshot, .. } = news {
            *left_out.lock() = snapshot.registry.quarantined().len();
        }
        Ok::<(), ToolError>(())
    });
    tokio::select! {
        ended = follow => panic!("it goes on: {ended:?}"),
        done = described.wait_for(|done| *done) => assert!(done.is_ok()),
    }
    assert_eq!(
        *left_out.lock(),
        1,
        "the description was not applied in time"
    );
}

#[test]
fn config_reload_names_settings_that_need_a_restart_once() {
    let config = |text: &str| serde_yaml::from_str::<Config>(text).unwrap();
    let restart = RestartSettings::new(MergedSettings::default());
    let later = |text: &str| restart.take_new(&config(text));
    assert!(later(ALLOWED).is_empty());
    let audit = "audit: {keep: 3}\n";
    let both = "audit: {keep: 3}\napprovals: {leaseDays: 1}\n";
    assert_eq!(later(audit), ["audit"]);
    assert!(later(audit).is_empty());
    assert_eq!(later(both), ["approvals"]);
    assert!(later(both).is_empty());
    // Its initial value was restored meanwhile.
    assert!(later(audit).is_empty());
    assert_eq!(later(both), ["approvals"]);
    // Secrets are in force at once.
    assert!(later(&format!("{both}secrets: {{A: {{env: B}}}}\n")).is_empty());
}

#[tokio::test]
async fn secrets_that_a_project_adds_are_masked_at_once() {
    running(ALLOWED, async |running: Running| {
        // A variable that is set wherever tests run.
        let secret = std::env::var("PATH").unwrap();
        let work = running.folder.path().join("work");
        std::fs::write(work.join("notes.txt"), &secret).unwrap();
        let escaped = format!("{secret:?}");
        let escaped = escaped.trim_matches('"');
        let reads = async || format!("{:?}", running.read().await.result().unwrap());
        assert!(reads().await.contains(escaped));
        let project = work.join(".mimir/config.yml");
        // The file is not accepted, so no tool gets the secret.
        std::fs::write(&project, "secrets: {ADDED: {env: PATH}}\n").unwrap();
        let mut checks = 0;
        while reads().await.contains(escaped) {
            checks += 1;
            assert!(checks < 1000, "the value is not masked");
            tokio::time::sleep(SOON).await;
        }
        // A secret that is removed stays masked until the program ends.
        std::fs::write(&project, "secrets: {OTHER: {env: MIMIR_TEST_UNSET}}\n").unwrap();
        for _ in 0..20 {
            tokio::time::sleep(SOON).await;
            assert!(!reads().await.contains(escaped));
        }
    })
    .await;
}

const TEAM: &str = "team.yml";
const PROJECT: &str = "work/.mimir/config.yml";

#[tokio::test]
async fn team_rules_are_in_force_while_a_lower_file_is_not_valid() {
    running(ALLOWED, async |running: Running| {
        running.becomes(None).await;
        running.write(PROJECT, "polcy: {}\n");
        running.config("polcy: {}\n");
        tokio::time::sleep(10 * SOON).await;
        // The last valid files count.
        assert!(running.read().await.is_ok());
        running.write(TEAM, "policy: {deny: [read_file]}\n");
        running.becomes(Some(ToolErrorCode::PolicyDenied)).await;
        running.write(TEAM, "");
        running.becomes(None).await;
        // A valid file counts although another one is not.
        running.config("policy: {deny: [read_file]}\n");
        running.becomes(Some(ToolErrorCode::PolicyDenied)).await;
    })
    .await;
}

#[tokio::test]
async fn calls_are_refused_while_a_team_file_is_not_valid() {
    running(ALLOWED, async |running: Running| {
        running.becomes(None).await;
        running.write(TEAM, "polcy: {deny: [read_file]}\n");
        running.becomes(Some(ToolErrorCode::PolicyDenied)).await;
        let refused = running.read().await;
        let error = refused.result().unwrap_err();
        assert!(error.message.contains("cannot be read"), "{error}");
        assert!(error.remedies.concat().contains("unknown key"), "{error:?}");
        assert!(
            running
                .recorded()
                .contains("calls are refused until they can")
        );
        // A change of other files does not lift it.
        running.config(&format!("{ALLOWED}# changed\n"));
        tokio::time::sleep(10 * SOON).await;
        assert!(!running.read().await.is_ok());
        running.write(TEAM, "policy: {deny: [git]}\n");
        running.becomes(None).await;
    })
    .await;
}

#[tokio::test]
async fn calls_are_refused_after_a_team_changed_what_needs_a_restart() {
    let sandbox = "sandbox: {mode: container}\n";
    running(ALLOWED, async |running: Running| {
        running.becomes(None).await;
        // The user's own change only waits for the next start.
        running.config(&format!("{ALLOWED}{sandbox}"));
        tokio::time::sleep(10 * SOON).await;
        assert!(running.read().await.is_ok());
        running.config(ALLOWED);
        for changed in [sandbox, "audit: {durability: fsync}\n"] {
            running.write(TEAM, changed);
            running.becomes(Some(ToolErrorCode::PolicyDenied)).await;
            let refused = running.read().await;
            let error = refused.result().unwrap_err();
            let key = changed.split(':').next().unwrap();
            let wanted = format!("has changed `{key}`");
            assert!(
                error.message.contains("restart mimir") && error.message.contains(&wanted),
                "{error}"
            );
            assert!(running.recorded().contains(&wanted));
            running.write(TEAM, "");
            running.becomes(None).await;
        }
    })
    .await;
}
