//! `mimir`: the command line. It joins the front-end and the backends and does all the printing.

use std::io;
use std::process::ExitCode;

mod agent;
mod args;
mod arguments;
mod commands;
mod exit;
mod ledger;
mod live;
mod memory;
mod output;
mod packages;
mod picker;
mod places;
mod private;
mod sdk;
mod secrets;
mod serve;
mod servers;
mod settings;
mod setup;
mod terminal;
mod tools;
mod undo;
mod workers;
mod workspace;

use args::{Command, Invocation, Unread};
use exit::{Exit, Failure};
use output::Printer;
use output::aside::Aside;

/// A call allocates on one thread what another may free; the system's allocator makes both wait for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(exit) = mimir_wasm::run_if_child() {
        return exit;
    }
    let invocation = match Invocation::read(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(Unread::Clap(error)) => {
            let code = error.exit_code();
            // A reader that went away needs no help.
            let _ = error.print();
            return ExitCode::from(u8::try_from(code).unwrap_or(Exit::Usage.number()));
        }
        Err(Unread::Usage { json, failure }) => {
            return ended(Printer::new(json), Err(*failure)).into();
        }
    };
    log();
    let printer = Printer::new(invocation.globals.json);
    let exit = ended(printer, run(invocation));
    output::aside::flush();
    exit.into()
}

fn run(invocation: Invocation) -> Result<Exit, Failure> {
    let mut builder = match invocation.command {
        Command::Serve(_) | Command::Run(_) | Command::Chat(_) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        // One thread: a single call gains nothing from more, and starting them takes time.
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(commands::run(invocation));
    // Other people's servers end before we do, with all that they started.
    runtime.block_on(mimir_mcp::client::leave());
    // Nobody waits for a compiler or an unanswered question after the result is there.
    runtime.shutdown_background();
    result
}

/// Says why there is no result, and how the program ends.
fn ended(printer: Printer, result: Result<Exit, Failure>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(Failure::Told { error, exit }) => match printer.failure(&error) {
            Ok(()) => exit,
            Err(failure) => ended(Printer::new(false), Err(failure)),
        },
        // Whoever read our output has seen enough.
        Err(Failure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(Failure::Print(error)) => {
            output::note(format_args!("error: {error}"));
            Exit::Failed
        }
    }
}

/// Warnings go to stderr; `MIMIR_LOG` (such as `debug`, or `mimir_wasm=trace`) shows more.
fn log() {
    use std::io::IsTerminal;
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // The library of the protocol writes what others sent as they sent it, secrets among it; all that a person has to know
    // of that is said by mimir, masked.
    const UNMASKED: &str = "rmcp";
    let builder = tracing_subscriber::fmt()
        .with_writer(Aside::default)
        .with_ansi(ansi);
    match std::env::var("MIMIR_LOG") {
        // Only who asks for a filter pays for one.
        Ok(filter) if !filter.is_empty() => {
            builder
                .with_env_filter(tracing_subscriber::EnvFilter::new(format!(
                    "{UNMASKED}=off,{filter}"
                )))
                .init();
        }
        _ => builder
            .with_max_level(LevelFilter::WARN)
            .without_time()
            .with_target(false)
            .finish()
            .with(
                Targets::new()
                    .with_default(LevelFilter::WARN)
                    .with_target(UNMASKED, LevelFilter::OFF),
            )
            .init(),
    }
}
