//! The same sandbox made by bubblewrap, where this process may not make it itself: some systems let no program have
//! namespaces but those that they know.
//!
//! A command sees the same as there, with these exceptions. Landlock is missing, since bubblewrap applies none.
//! Commands of one session share no network and no temporary folder. A shell starts the command: it writes the signal
//! that ended the command into its output, passes on no variable whose name is not valid in a shell, and calls the
//! program by its path. Whether a file is a program is looked at before it starts, and not told by the kernel: one of a
//! kind that only a handler of this machine runs (`binfmt_misc`) is refused. It is slower to start, and is used where
//! nothing else is available.
//!
//! Bubblewrap itself is in no sandbox, so it is started with no variable at all; those of the command it reads, like all
//! its options, from a file in memory: what stands in its words can be read by every user of this machine.

mod held;
mod image;
mod words;

use std::io::{self, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::time::timeout;

use super::cgroup;
use super::root::{Identity, Root};
use super::start::limits;
use super::{Gives, NAME, ProcessSandbox, SETUP_MOST};
use crate::sandbox::environment::PROXY;
use crate::sandbox::{Child, Fault, Spec, find, input_writer, sys};
use held::{Held, Report};
use words::Words;

/// Where systems have it. A search path could name something else of this name.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// The first process of the namespace, and what it does: it starts the program and ends with it. It is one like all
/// others, filtered and without a right; bubblewrap's own is not, and whoever has the same user may look into it.
const FIRST: &str = "/bin/sh";
const RUNS: &str = "\"$@\"; exit $?";

/// Words that bubblewrap takes, all together (`MAX_ARGS`).
const WORDS_MOST: usize = 9_000;

/// Descriptors that are left for others of this process, beside those that are open already: pipes, groups, and what
/// other commands open meanwhile.
const LEFT_OPEN: usize = 64;

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
        let groups = self.groups.make(&spec.bounds, cgroup::FIRST)?;
        let mut child = ready.command.spawn().map_err(not_started)?;
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
        let mut held = Held::new(child, first, report, groups)?;
        held.bound(&limits(&spec.bounds, self.memory_of_each(&spec.bounds)))?;
        if let Some(proxy) = &spec.proxy {
            let serving = held.let_out(proxy).await;
            held.serving = Some(serving.map_err(Fault::io("a command cannot be let out"))?);
        }
        rustix::io::write(&go, b"0")
            .map_err(|error| Fault::io("a command could not be started")(error.into()))?;
        Ok(Child {
            stdin: input_writer(stdin),
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
        let filter = self.filter.as_ref();
        let filter = filter.map_err(|why| Fault::Unavailable {
            sandbox: NAME,
            why: why.clone(),
        })?;
        let found = find::resolve(&spec.program, &self.view.path, &spec.directory)?;
        let variables = self.variables(spec, PROXY)?;
        let root = Root::new(&self.view, spec, gives, None)?;
        if !spec.directory.is_dir() || !image::is_in(&root, &spec.directory) {
            return Err(Fault::NoDirectory(spec.directory.display().to_string()));
        }
        image::check(&found, &spec.directory, &root)?;
        room(&root)?;
        let Identity { user, group } = Identity::inside();
        let mut words = Words::default();
        for (name, value) in &variables {
            words.option("--setenv", name);
            words.word(value);
        }
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
        words.root(&root, gives).map_err(prepared)?;
        let filter: Vec<u8> = filter.iter().flat_map(words::instruction).collect();
        let file = words::file(&filter).map_err(Fault::io("a filter could not be prepared"))?;
        words.handing("--seccomp", file);
        for (option, descriptor) in more {
            words.handing(option, descriptor);
        }
        words.option("--chdir", &spec.directory);
        let own = [FIRST, "-c", RUNS, FIRST];
        let arguments = found.arguments.get(1..).unwrap_or_default();
        // Its own name, `--args`, the descriptor, `--` and the program.
        let all = words.words.len() + own.len() + arguments.len() + 5;
        if all > WORDS_MOST {
            return Err(too_much(format!(
                "bubblewrap takes {WORDS_MOST} words, and these are {all}: one for each argument of the command, and \
                 up to five for each file that is read-only or hidden",
            )));
        }
        let handed = words.kept().map_err(prepared)?;
        let mut command = Command::new(bwrap);
        command
            .arg("--args")
            .arg(handed.words.as_raw_fd().to_string())
            .arg("--")
            .args(own)
            .arg(&found.file)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(spec.stdin.stdio())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let handed = handed.all();
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
        let command = ready
            .command
            .as_std_mut()
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if !ends_within(&child, SETUP_MOST).map_err(|error| error.to_string())? {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it was not done after {} s", SETUP_MOST.as_secs()));
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(());
        }
        let mut said = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            // All that could write there has gone with it.
            let _ = stderr.take(4096).read_to_end(&mut said);
        }
        Err(last_line(&said))
    }
}

/// Whether it is gone by then.
fn ends_within(child: &std::process::Child, most: Duration) -> io::Result<bool> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let until = Timespec::try_from(most).map_err(io::Error::other)?;
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&until))?;
    Ok(ended > 0)
}

/// Whether as many files can be open as it has to be handed.
fn room(root: &Root) -> Result<(), Fault> {
    let Some(most) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let open = Path::new("/proc/self/fd").read_dir();
    let open = open.map_or(0, Iterator::count);
    let handed = words::handed(&root.steps);
    if handed + open + LEFT_OPEN > most {
        return Err(too_much(format!(
            "bubblewrap is handed {handed} open files, most of them for what is read-only or hidden in the workspace, \
             and this process may have {most} open; `ulimit -n {}` lets it",
            (handed + open + LEFT_OPEN).next_power_of_two()
        )));
    }
    Ok(())
}

fn too_much(why: String) -> Fault {
    Fault::CannotHold {
        sandbox: NAME,
        what: "that much",
        why,
    }
}

fn prepared(error: io::Error) -> Fault {
    match Errno::from_io_error(&error) {
        // Others have opened some since it was counted.
        Some(Errno::MFILE | Errno::NFILE) => {
            too_much(format!("{error}; `ulimit -n` says how many"))
        }
        _ => Fault::io("a command could not be prepared")(error),
    }
}

fn not_started(error: io::Error) -> Fault {
    match Errno::from_io_error(&error) {
        Some(Errno::TOOBIG) => super::start::too_long(),
        _ => Fault::io("bubblewrap cannot be started")(error),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_does_not_end_is_not_waited_for() {
        let sleeping = |seconds: &str| std::process::Command::new("sleep").arg(seconds).spawn();
        let soon = Duration::from_millis(50);
        let mut long = sleeping("60").unwrap();
        assert!(!ends_within(&long, soon).unwrap());
        long.kill().unwrap();
        long.wait().unwrap();
        let mut short = sleeping("0").unwrap();
        assert!(ends_within(&short, SETUP_MOST).unwrap());
        short.wait().unwrap();
    }
}
