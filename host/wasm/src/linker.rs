//! Linker with everything that a component may import. Imports that a call was not granted are linked as well and
//! refuse at run time, so a plugin never fails to load for lack of a grant.

use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::p2::bindings::{cli, clocks, random, sockets};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};

use crate::bindings::{commands, log, model, progress, storage, tools, types};
use crate::engine::EngineMode;
use crate::http;
use crate::imports::{config, keyvalue, logging, near_agent};
use crate::store_state::StoreState;

/// Creates the linker shared by all components of a mode. Components that run concurrently may also import WASI 0.3.
pub(crate) fn linker(engine: &Engine, mode: EngineMode) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = base(engine)?;
    if mode == EngineMode::Concurrent {
        // Their contexts are those of WASI 0.2: no address can be reached, and every request goes through the effect
        // gate of the call.
        wasmtime_wasi::p3::cli::add_to_linker(&mut linker)?;
        wasmtime_wasi::p3::clocks::add_to_linker(&mut linker)?;
        wasmtime_wasi::p3::random::add_to_linker(&mut linker)?;
        wasmtime_wasi::p3::sockets::add_to_linker(&mut linker)?;
        crate::fs::add_preview3_to_linker(&mut linker)?;
        wasmtime_wasi_http::p3::add_to_linker(&mut linker)?;
    }
    Ok(linker)
}

fn base(engine: &Engine) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;

    wasmtime_wasi_io::add_to_linker_async(l)?;
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(l, StoreState::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(l, StoreState::clocks)?;
    random::random::add_to_linker::<_, WasiRandom>(l, StoreState::random)?;
    random::insecure::add_to_linker::<_, WasiRandom>(l, StoreState::random)?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(l, StoreState::random)?;

    cli::exit::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::environment::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(l, StoreState::cli)?;

    crate::fs::add_to_linker(l)?;

    // No sockets and no name lookup: the context refuses every address.
    let network = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<_, WasiSockets>(l, &network, StoreState::sockets)?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(l, StoreState::sockets)?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(l, StoreState::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(l, StoreState::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(l, StoreState::sockets)?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(l, StoreState::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(l, StoreState::sockets)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(l)?;
    // wasmtime's own implementation does not recognize the errors that end a response body.
    l.allow_shadowing(true);
    l.instance(http::TYPES)?
        .func_wrap("http-error-code", http::error_code)?;
    l.allow_shadowing(false);

    config::add_to_linker(l)?;
    keyvalue::add_to_linker(l)?;
    logging::add_to_linker(l)?;
    near_agent::add_to_linker(l)?;
    types::add_to_linker::<_, HasSelf<_>>(l, |guest| guest)?;
    log::add_to_linker::<_, HasSelf<_>>(l, |guest| guest)?;
    progress::add_to_linker::<_, HasSelf<_>>(l, |guest| guest)?;
    commands::add_to_linker::<_, HasSelf<_>>(l, |guest| guest)?;
    tools::add_to_linker::<_, HasSelf<_>>(l, |guest| guest)?;
    model::add_to_linker::<_, HasSelf<_>>(l, |guest| guest)?;
    storage::add_to_linker::<_, HasSelf<_>>(l, |guest| guest)?;
    Ok(linker)
}
