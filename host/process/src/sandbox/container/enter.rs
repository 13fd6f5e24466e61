//! How a command gets into a container that waits, and whether it has begun there.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures::{Stream, StreamExt as _};
use mimir_core::command::Program;
use mimir_core::text::prefix;
use mimir_net::Proxy;
use std::pin::Pin;
use tokio::io::AsyncWrite;

use super::blueprint::Blueprint;
use super::engine::{Engine, fault, status};
use super::handle;
use super::mounted;
use super::outside::Counter;
use super::pool::Container;
use super::way_out::{self, WayOut};
use super::{HOME, NAME, TEMP, text};
use crate::sandbox::environment::{PROXY, add, git, usual};
use crate::sandbox::person::Person;
use crate::sandbox::{Child, Fault, Network, Spec, find};

/// Runs a script by bash where the image has it, and neither shell reads a start-up file.
const SHELL: &str = r#"if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc -c "$0"; fi; exec sh -c "$0""#;

/// Bytes that are read at once from the engine: what one of its frames has.
const CHUNK: usize = 64 * 1024;

/// How often it is asked whether a program has begun. It takes some tens of milliseconds.
const LOOK: Duration = Duration::from_millis(3);

/// How long it is waited for the reason why one has not.
const REASON: Duration = Duration::from_secs(2);

/// Bytes of that reason; it is a sentence.
const REASON_MOST: usize = 4096;

/// Characters of what an engine says that go into a message.
const SAID_MOST: usize = 300;

/// What is to run, in the words of the engine.
pub(super) struct Command {
    program: String,
    words: Vec<String>,
    variables: Vec<String>,
    directory: String,
    /// Whether it has a standard input beside the null device.
    reads: bool,
    proxy: Option<Proxy>,
}

/// A command that can begin.
pub(super) struct Prepared {
    container: Container,
    way_out: Option<WayOut>,
    counter: Counter,
    exec: String,
    program: String,
    directory: String,
}

/// What a command writes, and where it reads from.
pub(super) type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;
pub(super) type Input = Pin<Box<dyn AsyncWrite + Send>>;

impl Command {
    pub(super) fn new(spec: &Spec, person: &Person) -> Result<Self, Fault> {
        let words: Vec<String> = match &spec.program {
            Program::Vector(words) => words.clone(),
            Program::Script(script) => ["sh", "-c", SHELL, script].map(str::to_owned).into(),
        };
        let program = words.first().filter(|name| !name.is_empty());
        let program = program.ok_or(Fault::NoProgram)?.clone();
        find::fit(&spec.program, &words)?;
        Ok(Self {
            program,
            words,
            variables: variables(spec, person)?,
            directory: text(spec.directory.clone())?,
            reads: !spec.stdin.is_null(),
            proxy: proxy(spec)?,
        })
    }

    /// Tells the engine what is to run. That fails if the container is gone, or is not what it was to be.
    pub(super) async fn prepare(
        &self,
        container: Container,
        blueprint: &Blueprint,
    ) -> Result<Prepared, Fault> {
        let process = compare(&container, blueprint).await?;
        let way_out = match &self.proxy {
            Some(proxy) => {
                let first = || self::process(&container);
                Some(way_out::open(process, proxy, first).await?)
            }
            None => None,
        };
        let counter = Counter::of(process, &container.id);
        let yes = Some(true);
        let options = CreateExecOptions {
            attach_stdin: Some(self.reads),
            attach_stdout: yes,
            attach_stderr: yes,
            cmd: Some(self.words.clone()),
            env: Some(self.variables.clone()),
            working_dir: Some(self.directory.clone()),
            ..CreateExecOptions::default()
        };
        let engine = &container.engine;
        match engine.docker.create_exec(&container.id, options).await {
            Ok(made) => Ok(Prepared {
                program: self.program.clone(),
                directory: self.directory.clone(),
                exec: made.id,
                container,
                way_out,
                counter,
            }),
            Err(error) if matches!(status(&error), Some(404 | 409)) => Err(ended(&container).await),
            Err(error) => Err(fault("to enter a container")(error)),
        }
    }
}

/// What lets its requests through, if it is to send any.
fn proxy(spec: &Spec) -> Result<Option<Proxy>, Fault> {
    match (spec.network, &spec.proxy) {
        (Network::None, _) => Ok(None),
        (_, Some(proxy)) => Ok(Some(proxy.clone())),
        (_, None) => Err(Fault::CannotHold {
            sandbox: NAME,
            what: "access to the network",
            why: "nobody is here to judge its requests".to_owned(),
        }),
    }
}

/// Looks at what a container has mounted, from outside. Gives its first process.
async fn compare(container: &Container, blueprint: &Blueprint) -> Result<i32, Fault> {
    let process = process(container).await?;
    let compared = mounted::compare(process, blueprint.workspace(), blueprint.mounted()).await;
    if compared.is_err() {
        // One that has ended is no longer to be seen.
        self::process(container).await?;
    }
    compared.map(|()| process)
}

/// The first process of a container that runs.
async fn process(container: &Container) -> Result<i32, Fault> {
    let docker = &container.engine.docker;
    let found = match docker.inspect_container(&container.id, None).await {
        Ok(found) => found,
        Err(error) if status(&error) == Some(404) => return Err(ended(container).await),
        Err(error) if is_passing(&error) => return Err(ended(container).await),
        Err(error) => return Err(fault("to say whether a container runs")(error)),
    };
    let state = found.state.filter(|state| state.running != Some(false));
    let process = state.and_then(|state| i32::try_from(state.pid?).ok());
    match process.filter(|process| *process > 0) {
        Some(process) => Ok(process),
        None => Err(ended(container).await),
    }
}

/// Whether it is of a state that only Podman has, on the way from running to ended.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::JsonDataError { message, .. } if message.contains("unknown variant"))
}

/// Why a container has ended that nobody has ended: it has nothing to wait with.
async fn ended(container: &Container) -> Fault {
    let docker = &container.engine.docker;
    let found = docker.inspect_container(&container.id, None).await;
    let code = found.ok().and_then(|found| found.state?.exit_code);
    match code {
        Some(126 | 127) => container.bad_image(),
        code => Fault::Engine {
            doing: "to keep a container running",
            why: code.map_or_else(
                || "it is gone".to_owned(),
                |code| format!("it ended with {code}"),
            ),
        },
    }
}

/// Built from nothing; the image's own are below them.
fn variables(spec: &Spec, person: &Person) -> Result<Vec<String>, Fault> {
    let mut all = usual(spec, HOME.as_ref(), TEMP.as_ref());
    git(&mut all, person.pairs());
    add(&mut all, spec, PROXY)?;
    let pairs = all.into_iter().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        text(name.into())
    });
    pairs.collect()
}

impl Prepared {
    /// Begins, and comes back when the program runs. `after` is done when it has ended.
    pub(super) async fn begin(self, after: impl FnOnce() + Send + 'static) -> Result<Child, Fault> {
        let docker = &self.container.engine.docker;
        let options = StartExecOptions {
            output_capacity: Some(CHUNK),
            ..StartExecOptions::default()
        };
        let (mut output, input) = match docker.start_exec(&self.exec, Some(options)).await {
            Ok(StartExecResults::Attached { output, input }) => (output as Output, input as Input),
            Ok(StartExecResults::Detached) => {
                return Err(Fault::Engine {
                    doing: "to start a command",
                    why: "it hands out no input and no output".to_owned(),
                });
            }
            Err(error) if matches!(status(&error), Some(404 | 409)) => {
                return Err(ended(&self.container).await);
            }
            // Some engines find out before they answer that the program cannot be started.
            Err(error) if status(&error).is_some() => {
                let fault = fault("to start a command")(error);
                return Err(self.refused(&fault.to_string()).unwrap_or(fault));
            }
            Err(error) => return Err(fault("to start a command")(error)),
        };
        if let Some(code) = never(&self.container.engine, &self.exec).await? {
            let why = reason(&mut output).await;
            if let Some(fault) = self.refused(&String::from_utf8_lossy(&why)) {
                return Err(fault);
            }
            // Some engines forget the number of a program that has ended: it has run, and said this.
            let said = futures::stream::iter([Ok(LogOutput::StdOut {
                message: why.into(),
            })]);
            output = Box::pin(said.chain(output));
            tracing::trace!(code, "a command was over before it was looked for");
        }
        Ok(handle::follow(
            self.container,
            (self.exec, self.counter),
            output,
            input,
            move || {
                drop(self.way_out);
                after();
            },
        ))
    }

    /// What it means when the runtime of the engine says this in place of a program.
    fn refused(&self, said: &str) -> Option<Fault> {
        let of_runtime = ["OCI runtime", "exec failed", "crun: ", "runc: "];
        if !of_runtime.iter().any(|words| said.contains(words)) {
            return None;
        }
        let not_executable = |why| Fault::NotExecutable {
            program: self.program.clone(),
            why,
        };
        let has = |words: &str| said.contains(words);
        Some(if has("chdir") {
            Fault::NoDirectory(self.directory.clone())
        } else if has("executable file not found") || has("no such file or directory") {
            Fault::not_found(&self.program, [])
        } else if has("permission denied") {
            not_executable("the system refuses to run it")
        } else if has("is a directory") {
            not_executable("it is a folder")
        } else if has("exec format error") {
            not_executable("it is no program of this kind of machine")
        } else {
            Fault::Engine {
                doing: "to start a command",
                why: prefix(said.trim(), SAID_MOST).to_owned(),
            }
        })
    }
}

/// Waits until a program runs. If the engine knows of none that did, the code that it has for that.
async fn never(engine: &Engine, exec: &str) -> Result<Option<i64>, Fault> {
    loop {
        let state = engine.docker.inspect_exec(exec).await;
        let state = match state {
            Err(error) if status(&error).is_some() => return Ok(None),
            state => state.map_err(fault("to say whether a command runs"))?,
        };
        let began = state.pid.is_some_and(|pid| pid > 0);
        match state.exit_code.filter(|_| state.running != Some(true)) {
            Some(code) if !began && matches!(code, 126 | 127) => return Ok(Some(code)),
            Some(_) => return Ok(None),
            None if began && state.running == Some(true) => return Ok(None),
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

/// What the engine says instead of the output of a program.
async fn reason(output: &mut Output) -> Vec<u8> {
    let mut text = Vec::new();
    let read = async {
        while text.len() < REASON_MOST
            && let Some(Ok(part)) = output.next().await
        {
            text.extend_from_slice(&part.into_bytes());
        }
    };
    let _ = tokio::time::timeout(REASON, read).await;
    text
}
