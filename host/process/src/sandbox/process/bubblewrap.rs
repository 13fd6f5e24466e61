//! The same sandbox made by bubblewrap, where this process may not make it itself: some systems let no program have
//! namespaces but those that they know.
//!
//! What a command sees is the same; Landlock is missing, since bubblewrap applies none, and so is the way to a proxy,
//! since nothing of ours runs in its network. It is slower to start, and is used where nothing else is to be had.

mod held;
mod words;

use std::io;
use std::path::Path;
use std::process::Stdio;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::time::timeout;

use super::root::{Identity, Root};
use super::start::limits;
use super::{Gives, NAME, ProcessSandbox, SETUP_MOST, sys};
use crate::sandbox::{Child, Fault, Spec, find};
use held::{Held, Report};
use words::Words;

/// Where systems have it. A search path could name something else of this name.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// The first process of the namespace, and what it does: it starts the program and ends with it. It is one like all
/// others, filtered and without a right; bubblewrap's own is not, and whoever has the same user may look into it.
const FIRST: &str = "/bin/sh";
const RUNS: &str = "\"$@\"; exit $?";

/// The program, if this machine has it.
pub(super) fn find() -> Option<&'static Path> {
    PLACES
        .map(Path::new)
        .into_iter()
        .find(|path| path.is_file())
}

/// A command that is ready to be started by bubblewrap.
struct Ready {
    command: Command,
    /// What is open for it, as long as it starts.
    handed: Vec<OwnedFd>,
    root: Root,
}

impl ProcessSandbox {
    /// Starts a command with the help of `bwrap`.
    pub(super) async fn start_wrapped(
        &self,
        bwrap: &Path,
        spec: &Spec,
        gives: Gives,
    ) -> Result<Child, Fault> {
        let failed = Fault::io("a command could not be prepared");
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
        let ((status, to_status), (held_back, go)) = pipes()
            .and_then(|one| Ok((one, pipes()?)))
            .map_err(failed)?;
        let handed = vec![("--json-status-fd", to_status), ("--block-fd", held_back)];
        let mut ready = self.wrap(bwrap, spec, gives, handed)?;
        let groups = self.groups.make(&spec.bounds)?;
        let mut child = ready
            .command
            .spawn()
            .map_err(Fault::io("bubblewrap cannot be started"))?;
        drop(ready.handed);
        let no_status = Fault::io("bubblewrap cannot be heard");
        let mut report = Report::new(pipe::Receiver::from_owned_fd(status).map_err(no_status)?);
        let Ok(Some(first)) = timeout(SETUP_MOST, report.process()).await else {
            return Err(setup(&mut child).await);
        };
        let closed =
            || Fault::io("a command has no input or output")(io::ErrorKind::BrokenPipe.into());
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on it is gone with what is held.
        let held = Held::new(child, first, report, groups)?;
        held.bound(&limits(&spec.bounds))?;
        rustix::io::write(&go, b"0")
            .map_err(|error| Fault::io("a command could not be started")(error.into()))?;
        Ok(Child {
            stdin: Box::new(stdin.ok_or_else(closed)?),
            stdout: Box::new(stdout.ok_or_else(closed)?),
            stderr: Box::new(stderr.ok_or_else(closed)?),
            handle: Box::new(held),
            covered: ready.root.covered,
        })
    }

    /// The words for it, and what it is handed. `more` are options that take a descriptor.
    fn wrap(
        &self,
        bwrap: &Path,
        spec: &Spec,
        gives: Gives,
        more: Vec<(&'static str, OwnedFd)>,
    ) -> Result<Ready, Fault> {
        let filters = self.filters.as_ref();
        let filters = filters.map_err(|why| Fault::Unavailable {
            sandbox: NAME,
            why: why.clone(),
        })?;
        let found = find::resolve(&spec.program, &self.view.path, &spec.directory)?;
        let variables = self.variables(spec)?;
        let root = Root::new(&self.view, spec, gives)?;
        let Identity { user, group } = Identity::inside();
        let mut words = Words::default();
        for option in [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            "--as-pid-1",
        ] {
            words.word(option);
        }
        words.option("--cap-drop", "ALL");
        words.option("--hostname", "mimir");
        words.option("--uid", user.to_string());
        words.option("--gid", group.to_string());
        words
            .root(&root, gives)
            .map_err(Fault::io("a command could not be prepared"))?;
        for filter in filters {
            let bytes = filter
                .iter()
                .flat_map(words::instruction)
                .collect::<Vec<u8>>();
            let file = words::file(&bytes).map_err(Fault::io("a filter could not be prepared"))?;
            words.handing("--add-seccomp-fd", file);
        }
        for (option, descriptor) in more {
            words.handing(option, descriptor);
        }
        words.option("--chdir", &spec.directory);
        words.word("--");
        for word in [FIRST, "-c", RUNS, FIRST] {
            words.word(word);
        }
        words.word(&found.file);
        found
            .arguments
            .iter()
            .skip(1)
            .for_each(|argument| words.word(argument));
        let mut command = Command::new(bwrap);
        command
            .args(words.words)
            .env_clear()
            .envs(variables)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let handed = words.handed;
        sys::inherit(
            command.as_std_mut(),
            handed.iter().map(AsRawFd::as_raw_fd).collect(),
        );
        Ok(Ready {
            command,
            handed,
            root,
        })
    }

    /// Runs a command that does nothing.
    pub(super) fn try_wrapped(
        &self,
        bwrap: &Path,
        spec: &Spec,
        gives: Gives,
    ) -> Result<(), String> {
        let mut ready = self
            .wrap(bwrap, spec, gives, Vec::new())
            .map_err(|fault| fault.to_string())?;
        let ended = ready.command.as_std_mut().stdin(Stdio::null()).output();
        match ended {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(last_line(&output.stderr)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Why it has not started anything.
async fn setup(child: &mut tokio::process::Child) -> Fault {
    let mut said = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = timeout(SETUP_MOST, stderr.take(4096).read_to_end(&mut said)).await;
    }
    Fault::Setup {
        stage: format!("bubblewrap ({})", last_line(&said)),
        error: io::ErrorKind::Other.into(),
    }
}

fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let last = said.trim().lines().next_back().unwrap_or("it says nothing");
    mimir_core::text::visible(last.trim_start_matches("bwrap: "))
}
