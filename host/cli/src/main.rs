//! `mimir`: the command line. Connects the front-end with the backends and does all the printing.

use std::io;
use std::process::ExitCode;

mod agent;
mod args;
mod arguments;
mod commands;
mod exit;
mod output;
mod picker;
mod sdk;
mod serve;
mod terminal;
mod tools;

use args::{Command, Invocation, Unread};
use exit::{Exit, Failure};
use output::Printer;
use output::aside::Aside;

/// Memory allocated on one thread is often freed on another, which makes both wait in the system's allocator.
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
            // A closed pipe needs no error message.
            let _ = error.print();
            return ExitCode::from(u8::try_from(code).unwrap_or(Exit::Usage.number()));
        }
        Err(Unread::Usage { json, failure }) => {
            return ended(Printer::new(json), Err(*failure)).into();
        }
    };
    log();
    mimir::interface::install(output::TerminalInterface);
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
        // A single thread, because a single call gains nothing from more, and starting them takes time.
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(commands::run(invocation));
    // Stop MCP servers, with all their child processes, before this process exits.
    runtime.block_on(mimir_mcp::client::leave());
    // Do not wait for a compiler or an unanswered question once the result is printed.
    runtime.shutdown_background();
    result
}

/// Prints the error and returns the exit code.
fn ended(printer: Printer, result: Result<Exit, Failure>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(Failure::Told { error, exit }) => match printer.failure(&error) {
            Ok(()) => exit,
            Err(failure) => ended(Printer::new(false), Err(failure)),
        },
        // The reader closed the pipe on purpose.
        Err(Failure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(Failure::Print(error)) => {
            output::note(format_args!("error: {error}"));
            Exit::Failed
        }
    }
}

/// Sets up logging. Warnings go to stderr; `MIMIR_LOG` (such as `debug`, or `mimir_wasm=trace`) shows more.
fn log() {
    use std::io::IsTerminal;
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // The protocol library logs messages as received, including secrets. mimir itself reports everything that matters,
    // masked.
    const UNMASKED: &str = "rmcp";
    let builder = tracing_subscriber::fmt()
        .with_writer(Aside::default)
        .with_ansi(ansi);
    match std::env::var("MIMIR_LOG") {
        // The filter costs time at startup, so it exists only on request.
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
