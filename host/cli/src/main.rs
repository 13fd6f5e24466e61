//! The command line program `mimir`: parses the arguments, runs a command and prints its result.

use std::io;
use std::process::ExitCode;

mod agent;
mod args;
mod arguments;
mod commands;
mod exit;
mod output;
mod sdk;
mod serve;
mod terminal;
mod tool_browser;
mod tools;
mod version;

use args::{CliArgs, CliCommand, CliParseError};
use exit::{CommandFailure, CommandResult, ExitReason};
use output::ResultPrinter;
use output::stderr_queue::StderrQueue;

/// mimalloc, because memory is often allocated on one thread and freed on another. The system's allocator would make
/// both threads wait.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(exit) = mimir_wasm::run_if_child() {
        return exit;
    }
    let args = match CliArgs::parse_line(std::env::args_os()) {
        Ok(args) => args,
        Err(CliParseError::Clap(error)) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(ExitReason::Usage.number());
            return match error.print() {
                // The requested text, such as the help, could not be printed in full.
                Err(failure) if code == ExitReason::Done.number() => {
                    let failure = CommandFailure::Print(failure);
                    finish(ResultPrinter::new(false), Err(failure)).into()
                }
                _ => ExitCode::from(code),
            };
        }
        Err(CliParseError::Usage { json, failure }) => {
            return finish(ResultPrinter::new(json), Err(*failure)).into();
        }
    };
    set_up_logging();
    mimir::interface::install(output::TerminalInterface);
    if let Some(named) = &args.globals.workspace {
        output::workspace_option::set_named_workspace(named);
    }
    let printer = args.globals.printer();
    let exit = finish(printer, run(args));
    output::stderr_queue::flush();
    exit.into()
}

fn run(args: CliArgs) -> CommandResult {
    let mut builder = match args.command {
        Some(CliCommand::Serve(_) | CliCommand::Run(_) | CliCommand::Chat(_)) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        // A single call gains nothing from more threads, and starting them takes time.
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(commands::run(args));
    // Stop MCP servers and all their child processes before this process exits.
    runtime.block_on(mimir_mcp::client::stop_server_programs());
    // Do not wait for a running compilation or an unanswered question.
    runtime.shutdown_background();
    // Background commands are killed now, and their workspaces are searched once more for files that must not stay.
    mimir_process::wait_for_last_searches();
    result
}

/// Prints the error of a failed command. Returns the reason for the exit code.
fn finish(printer: ResultPrinter, result: CommandResult) -> ExitReason {
    match result {
        Ok(exit) => exit,
        Err(CommandFailure::Reported { error, exit }) => match printer.print_failure(&error) {
            Ok(()) => exit,
            Err(failure) => finish(ResultPrinter::new(false), Err(failure)),
        },
        // The reader has closed the pipe on purpose, as `head` does.
        Err(CommandFailure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitReason::Done
        }
        Err(CommandFailure::Print(error)) => {
            output::note(format_args!("error: {error}"));
            ExitReason::Failed
        }
    }
}

/// Sets up logging. Warnings go to stderr; `MIMIR_LOG` (such as `debug`, or `mimir_wasm=trace`) shows more.
fn set_up_logging() {
    use std::io::IsTerminal;
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // The MCP library logs messages as received, including secrets. mimir itself reports what matters, with secrets
    // masked.
    const UNMASKED: &str = "rmcp";
    let builder = tracing_subscriber::fmt()
        .with_writer(StderrQueue::default)
        .with_ansi(ansi);
    match std::env::var("MIMIR_LOG") {
        // Parsing a filter takes time, so it is only done on request.
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
