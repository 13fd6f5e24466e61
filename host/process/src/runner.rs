//! [`CommandRunner`] for sandboxes: runs permitted commands in the foreground or in the background.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mimir_commands::shell::{self, ShellDialect};
use mimir_core::ToolError;
use mimir_core::backend::BoxFuture;
use mimir_core::call::CallObserver;
use mimir_core::command::{
    CommandOutput, CommandProgram, CommandRunner, CommandTarget, JobId, JobOwner, JobStatus,
    OutputChunk, ParsedProgram, SessionConnection,
};
use mimir_core::config::{SandboxMode, SandboxSettings};
use mimir_core::output_lines::{OutputLines, PARTIAL_LINE_DELAY};
use mimir_core::pipeline::PermittedCommand;
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use crate::certificates::CertificateTrust;
use crate::command_settings;
use crate::jobs::BackgroundJobs;
use crate::missing_program;
use crate::run::run;
use crate::sandbox::{CommandSpec, Sandbox, SandboxError};
use crate::sessions::CommandSessions;
use crate::toolchain_files::selecting_file;

mod ready_sandbox;

pub(crate) use ready_sandbox::ReadySandbox;

/// Runs commands in the configured sandbox. The sandbox is chosen when the first command runs, so an unused sandbox
/// costs nothing, and an unavailable one fails only commands. Dropping this kills all background commands.
pub struct SandboxRunner {
    workspace: PathBuf,
    settings: SandboxSettings,
    /// The canonical path of the workspace as text, or `None` if there is no such text.
    root: OnceLock<Option<String>>,
    /// The sandbox of each requested target.
    slots: Mutex<Vec<(CommandTarget, Arc<SandboxSlot>)>>,
    jobs: BackgroundJobs,
    sessions: CommandSessions,
    trust: CertificateTrust,
}

/// Sandbox of a target. Locked while the sandbox is chosen: two concurrent choices would create two sandboxes, each
/// with its own control groups or containers.
type SandboxSlot = tokio::sync::Mutex<KnownSandbox>;

#[derive(Default)]
struct KnownSandbox {
    ready: Option<Arc<ReadySandbox>>,
    /// The error of the last choice, and the time until which the choice is not retried.
    failed: Option<(Instant, ToolError)>,
}

/// A choice that fails after more than `SLOW_FAILURE` is not retried for `FAILURE_TTL`: each call would wait again for
/// an unresponsive container engine.
const SLOW_FAILURE: Duration = Duration::from_secs(1);
const FAILURE_TTL: Duration = Duration::from_secs(10);

impl SandboxRunner {
    /// Creates a runner for commands in this folder. Nothing is checked before the first command.
    pub fn new(workspace: impl Into<PathBuf>, settings: SandboxSettings) -> Self {
        Self {
            workspace: workspace.into(),
            settings,
            root: OnceLock::new(),
            slots: Mutex::default(),
            jobs: BackgroundJobs::default(),
            sessions: CommandSessions::default(),
            trust: CertificateTrust::default(),
        }
    }

    /// Returns the spec of a command, with the resources shared in its session.
    fn spec(
        &self,
        ready: &ReadySandbox,
        permitted: &PermittedCommand,
        timeout: Option<Duration>,
    ) -> Result<CommandSpec, SandboxError> {
        let mut spec = ready.spec(permitted, timeout)?;
        // Other commands of the session could use the proxy of a command that has network access of its own.
        if !permitted.network().is_limited() {
            spec.session = Some(self.sessions.session(permitted.owner()));
        }
        let roots = &permitted.network().reach().roots;
        if let Some(bundle) = self.trust.bundle_for(&ready.workspace, roots)? {
            bundle.add_to_spec(&mut spec, ready.sandbox().enforces_path_rules());
        }
        Ok(spec)
    }

    /// Returns the sandbox of a target, and stores it. A failure, such as a missing image, may be fixed before the next
    /// command, so it is stored only if it was slow.
    async fn ready_sandbox(&self, target: CommandTarget) -> Result<Arc<ReadySandbox>, ToolError> {
        let slot = self.slot(target);
        let mut known = slot.lock().await;
        if let Some(ready) = &known.ready {
            return Ok(Arc::clone(ready));
        }
        let begun = Instant::now();
        if let Some((until, error)) = &known.failed
            && begun < *until
        {
            return Err(error.clone());
        }
        let settings = command_settings::settings_for_target(&self.settings, target)?;
        match ReadySandbox::choose(&self.workspace, settings).await {
            Ok(ready) => Ok(Arc::clone(known.ready.insert(Arc::new(ready)))),
            Err(fault) => {
                let error = fault.for_target(target);
                let slow = begun.elapsed() > SLOW_FAILURE;
                known.failed = slow.then(|| (Instant::now() + FAILURE_TTL, error.clone()));
                Err(error)
            }
        }
    }

    /// Returns the shell that will run scripts. If this may be a container, the shell is not known in advance.
    fn shell(&self) -> ShellDialect {
        let slot = self.slot(CommandTarget::Default);
        let known = slot.try_lock().ok();
        let ready = known.as_ref().and_then(|known| known.ready.as_ref());
        let is_bash = match (ready, self.settings.mode.unwrap_or_default()) {
            (Some(ready), _) => ready.runs_bash(),
            (None, SandboxMode::Container) => false,
            (None, SandboxMode::Auto) if self.settings.image.is_some() => false,
            (None, _) => every_sandbox_has_bash(),
        };
        if is_bash {
            ShellDialect::Bash
        } else {
            ShellDialect::Any
        }
    }

    fn slot(&self, target: CommandTarget) -> Arc<SandboxSlot> {
        let mut slots = self.slots.lock();
        if let Some((_, slot)) = slots.iter().find(|(known, _)| *known == target) {
            return Arc::clone(slot);
        }
        let slot = Arc::<SandboxSlot>::default();
        slots.push((target, Arc::clone(&slot)));
        slot
    }
}

/// Returns true if bash is in a `PATH` folder that is visible in every sandbox of this machine. A bash in another
/// folder may be invisible in the chosen sandbox, where `sh` would run the script instead.
fn every_sandbox_has_bash() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    folders.any(|folder| {
        let is_visible = folder.starts_with("/usr") || folder.starts_with("/bin");
        is_visible && folder.join("bash").is_file()
    })
}

/// Runs a command to its end, and reports its output to the observer while it runs.
async fn run_shown(
    sandbox: &dyn Sandbox,
    spec: &CommandSpec,
    observer: Arc<dyn CallObserver>,
) -> Result<CommandOutput, SandboxError> {
    let lines = Mutex::new(OutputLines::new(observer));
    let mut show = |stream, bytes: &[u8]| lines.lock().add(stream, bytes, Instant::now());
    let mut work = pin!(run(sandbox, spec, &mut show));
    let mut flush = tokio::time::interval(PARTIAL_LINE_DELAY);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let finished = loop {
        tokio::select! {
            biased;
            finished = &mut work => break finished,
            _ = flush.tick() => lines.lock().flush_partial_lines(Instant::now()),
        }
    };
    lines.lock().finish(Instant::now());
    finished
}

impl CommandRunner for SandboxRunner {
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        Ok(shell::read_script_for(program, self.shell())?)
    }

    fn version_file(&self, program: &str, folder: &str) -> Option<String> {
        selecting_file(&self.workspace, program, folder)
    }

    fn root(&self) -> Option<&str> {
        let real = || {
            let real = self.workspace.canonicalize().ok()?;
            real.to_str().map(|root| root.replace('\\', "/"))
        };
        self.root.get_or_init(real).as_deref()
    }

    fn confines_network(&self) -> bool {
        // Every other mode uses a proxy, has no network, or refuses to run the command.
        self.settings.mode != Some(SandboxMode::None)
    }

    fn sandbox_name<'a>(
        &'a self,
        target: CommandTarget,
        program: &'a str,
    ) -> BoxFuture<'a, Result<&'static str, ToolError>> {
        Box::pin(async move {
            let ready = self.ready_sandbox(target).await?;
            ready.sandbox().check_program(program, &ready.workspace)?;
            Ok(ready.sandbox().name())
        })
    }

    fn run(
        &self,
        command: PermittedCommand,
        observer: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, Result<CommandOutput, ToolError>> {
        Box::pin(async move {
            let target = command.command().target;
            let ready = self.ready_sandbox(target).await?;
            let spec = self.spec(&ready, &command, Some(command.timeout()))?;
            let finished = run_shown(ready.sandbox(), &spec, observer).await;
            let finished = finished.map_err(|fault| fault.for_target(target));
            Ok(missing_program::explain_missing_program(
                ready.sandbox(),
                (&spec, command.script()),
                finished?,
            )?)
        })
    }

    fn start(&self, command: PermittedCommand) -> BoxFuture<'_, Result<JobId, ToolError>> {
        Box::pin(async move {
            let ready = self.ready_sandbox(command.command().target).await?;
            // The command continues after the call, so the time limit of the call does not apply. The job stores the
            // output.
            let spec = CommandSpec {
                output_limit: 0,
                ..self.spec(&ready, &command, command.command().timeout)?
            };
            let command_text = command.command().program.text().into_owned();
            let (sandbox, owner) = (ready.sandbox(), command.owner());
            let ports = command.ports();
            if !ports.is_empty() {
                sandbox.shares_network()?;
            }
            let served = (!ports.is_empty()).then(|| self.sessions.name_ports(owner, ports));
            let started = self.jobs.start(sandbox, &spec, owner, command_text, served);
            Ok(started.await?)
        })
    }

    fn jobs(&self, owner: &JobOwner) -> Vec<JobStatus> {
        self.jobs.list(owner)
    }

    fn running_jobs(&self) -> Vec<(JobOwner, JobStatus)> {
        self.jobs.running()
    }

    fn output(&self, owner: &JobOwner, job: JobId, begin: u64) -> Result<OutputChunk, ToolError> {
        Ok(self.jobs.output(owner, job, begin)?)
    }

    fn stop<'a>(
        &'a self,
        owner: &'a JobOwner,
        job: JobId,
    ) -> BoxFuture<'a, Result<JobStatus, ToolError>> {
        Box::pin(async move { Ok(self.jobs.stop(owner, job).await?) })
    }

    fn served_ports(&self, session: &str) -> Vec<u16> {
        self.sessions.ports(session)
    }

    fn connect<'a>(
        &'a self,
        session: &'a str,
        port: u16,
    ) -> BoxFuture<'a, std::io::Result<SessionConnection>> {
        Box::pin(async move {
            let stream = self.sessions.connect(session, port).await?;
            Ok(SessionConnection::new(stream.into_std()?))
        })
    }

    fn end_session(&self, session: &str) {
        self.jobs.end_session(session);
        self.sessions.end_session(session);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use mimir_core::ToolErrorCode;

    #[test]
    fn script_for_a_container_is_parsed_without_assuming_bash() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, image, assumes_bash) in [
            (SandboxMode::None, None, true),
            (SandboxMode::Process, None, true),
            (SandboxMode::Auto, None, true),
            (SandboxMode::Auto, Some("x"), false),
            (SandboxMode::Container, Some("x"), false),
        ] {
            let settings = SandboxSettings {
                mode: Some(mode),
                image: image.map(str::to_owned),
                ..SandboxSettings::default()
            };
            let commands = SandboxRunner::new(folder.path(), settings);
            // Assumes that the test machine has bash.
            let read = |text: &str| {
                commands
                    .parse_program(&CommandProgram::Script(text.to_owned()))
                    .unwrap()
            };
            let unread = read("[[ a > g ]]").unknown;
            assert_eq!(unread.is_empty(), assumes_bash, "{mode:?}: {unread:?}");
            assert!(read("[ -f g ] && ls >/dev/null 2>&1").unknown.is_empty());
        }
    }

    #[tokio::test]
    async fn missing_engine_is_not_answered_with_running_without_a_sandbox() {
        let folder = tempfile::tempdir().unwrap();
        let settings = SandboxSettings {
            socket: Some(folder.path().join("missing").to_str().unwrap().to_owned()),
            ..SandboxSettings::default()
        };
        let commands = SandboxRunner::new(folder.path(), settings);
        let id = format!("sha256:{}", "ab".repeat(32)).parse().unwrap();
        let error = commands
            .sandbox_name(CommandTarget::Image(id), "node")
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable);
        let remedies = error.remedies.join("\n");
        assert!(remedies.contains("start Docker or Podman"), "{remedies}");
        assert!(remedies.contains("sandbox.socket"), "{remedies}");
        assert!(!remedies.contains("sandbox: none"), "{remedies}");
    }

    /// Listens like an engine that accepts connections and closes each after a while without a response.
    #[cfg(unix)]
    fn listen_silently(at: &Path) -> Arc<std::sync::atomic::AtomicUsize> {
        let listener = std::os::unix::net::UnixListener::bind(at).unwrap();
        let count = Arc::<std::sync::atomic::AtomicUsize>::default();
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                std::thread::sleep(SLOW_FAILURE + SLOW_FAILURE / 2);
                drop(connection);
            }
        });
        count
    }

    #[cfg(unix)]
    fn container_settings(socket: &Path) -> SandboxSettings {
        SandboxSettings {
            mode: Some(SandboxMode::Container),
            image: Some("x".into()),
            socket: Some(socket.to_str().unwrap().to_owned()),
            ..SandboxSettings::default()
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn engine_timeout_is_shared_and_blocks_no_other_target() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let connections = listen_silently(&socket);
        let commands = SandboxRunner::new(folder.path(), container_settings(&socket));
        let begun = Instant::now();
        let machine = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            // The sandbox of another target can be chosen meanwhile.
            assert!(
                commands
                    .ready_sandbox(CommandTarget::HostPrograms)
                    .await
                    .is_err()
            );
            begun.elapsed()
        };
        let default_sandbox = || commands.ready_sandbox(CommandTarget::Default);
        let (one, other, another, meanwhile) = tokio::join!(
            default_sandbox(),
            default_sandbox(),
            default_sandbox(),
            machine
        );
        assert!(meanwhile < SLOW_FAILURE, "{meanwhile:?}");
        for error in [one, other, another, default_sandbox().await] {
            assert_eq!(error.err().unwrap().code, ToolErrorCode::Unavailable);
        }
        assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn launch_with_a_silent_engine_is_asynchronous() {
        use mimir_core::launch::{LaunchSpec, ProcessLauncher as _};
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let _connections = listen_silently(&socket);
        let programs = crate::ProgramLauncher::new(folder.path(), folder.path().join("empty"));
        let launch = LaunchSpec {
            args: vec!["true".into()],
            sandbox: container_settings(&socket),
            ..LaunchSpec::default()
        };
        let begun = Instant::now();
        tokio::select! {
            _ = programs.launch(launch) => panic!("the launch returned although the engine does not answer"),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        assert!(begun.elapsed() < SLOW_FAILURE, "{:?}", begun.elapsed());
    }
}
