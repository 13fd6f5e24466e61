//! Tests of the binary `mimir`, one module per feature: `cargo test --test cli NAME::` runs one.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod kit;

// With little address space there is no memory pool: calls still work, and `doctor` reports it.
mod address_space;
// `mimir run` and `mimir chat` with a scripted model on a local port.
mod agent_context;
mod agents;
// One of several agents that a person stops, over stdio and HTTP.
mod agent_stops;
// `mimir audit` and the keys of `audit`, in a shell.
mod audit;
// `mimir audit` with the log of a cluster.
mod audit_cluster;
// `mimir tools build`: what is installed, and what a failed installation leaves in place.
mod browser;
mod build_install;
// `mimir tools build`: hostile builds, and messages that hold for all languages.
mod builds;
// `mimir chat` in a real terminal, with a scripted model on a local port.
mod chat;
// `run_code` with an interpreter: in the sandbox of commands, or in a container.
mod code;
// Code of `run_code` that calls other tools: under the same rules, approval and audit log as a model's own calls.
mod code_calls;
// `mimir serve --pool` and `mimir worker`, with a NATS server.
#[cfg(unix)]
mod cluster_status;
mod cluster_workers;
mod code_search;
// Compiling a component is limited in size, time and memory, and ends with the call that needs it.
mod compile;
// `mimir config`.
mod config;
// `mimir console`, and tools that try to reach it.
mod console;
// Login of people at the console of a server.
mod console_login;
mod console_questions;
mod console_rules;
mod console_servers;
// Commands in containers, as configured.
mod containers;
// Location of stored conversations, and the taint stored with them.
mod conversations;
// Three working days of an agent with `mimir serve`, end to end. The work gets done, and the person gets no more
// prompts than each test allows. `.ci/others/days.py` runs the same days in third-party agents.
mod days;
// A disk that becomes full in the middle of a write. A file size limit simulates it: the system fails writes beyond
// the limit with an error, as it would for a full disk.
mod disk;
// `mimir tools export`, and the components that it writes.
mod exports;
// `mimir tools add URL`: downloads a component, checks the request like any other, and installs it only if its digest
// matches.
mod fetched;
// Policy checks in a shell: settings that a project brings along, and refusals because something could not be stored.
mod gates;
// Grants and approvals of a person, in a shell and a terminal: plugins, rebuilt plugins, a lock file that is removed
// and restored, stored approvals.
mod grants;
// `install_package`, with a local registry and with public ones.
#[cfg(target_os = "linux")]
mod install_package;
// Settings keys that only the whole program enforces. `tests/keys` relies on these tests.
mod keys;
// `mimir tools import openapi`: tools for an HTTP API, with a server on a local port.
mod openapi;
// `mimir tools build` for plugins in Python, Go, C, C++ and Zig.
#[cfg(target_os = "linux")]
mod languages;
// `mimir mcp login` and `logout`: access to a server for one person and nobody else.
mod logins;
// `mimir mcp`, and third-party servers as processes.
mod mcp;
// `mimir mcp` on every platform: settings, import from agents, servers over HTTP, mimir as a server of mimir.
mod mcp_settings;
// `mimir tools add npm:PACKAGE`: components and toolsets in packages of npm.
mod npm_sources;
// npm packages as servers: downloaded from a local registry, pinned, and started in the sandbox.
mod packages;
// `mimir tools` in a terminal, driven by tmux.
mod picker;
// Questions of a running server that a person answers in a shell.
mod pending_questions;
// Running calls in consoles: their socket, and `mimir top` in a terminal.
mod live_calls;
// Files in a checkout that replace mimir's own: pipes on which a reader would block, and links to other places.
mod planted;
// `mimir tools test`, `tools build --watch` and `tools dev`.
mod plugin_tests;
// `mimir policy`, the advice in refusals, and a person's secrets, in a shell.
mod policy;
// The binary in a shell: exit codes, streams, pipes.
mod process;
// Tools in Python, bash and node, and `run_code` in WebAssembly.
mod programs;
// `run_tests` and `format_code` on small projects of each ecosystem.
mod project;
// `mimir tools add`, `push`, `update`, `search`, `verify` and `vendor` with a registry on a local port.
mod registries;
// `mimir redact` in a shell.
// Yes/no questions on a terminal.
mod questions;
mod redact;
// The tool `git` in repositories that try to run programs, and in those whose result must mention what it leaves out.
mod repositories;
// Unsuccessful ends of tasks, and commands of a chat that take effect at once.
mod run_ends;
// Commands: `exec` in the configured sandbox.
mod sandbox;
// Tools in YAML files: the example of the specification, and the abilities and limits of scripts.
mod scripts;
// Tools in YAML files: locations of their files, their timers, and invalid files.
mod scripts_bounds;
// Requests of tools in YAML files: policy checks and redirects.
mod scripts_http;
// Tools in YAML files: the template for a new one, and the schema for editors.
mod scripts_new;
// Arguments, names and settings that models and configs know from other tools.
mod second_forms;
// `mimir serve`: the binary as an agent starts it.
mod serve;
mod serve_drain;
// `mimir serve --http`: access control, both protocol generations, and shutdown.
mod serve_http;
mod serve_roles;
// Third-party MCP servers: selective starts, review of their tools, and import of agents' settings.
mod servers;
// `mimir skills`, and the tool `load_skill`: skills of folders, checkouts and changed files, and their permissions.
mod skills;
// Stored values of tools in YAML files, and their requests to the model.
mod storage;
// `mimir stop` and `mimir start`, in a shell and with a running server.
mod stops;
// `mimir setup`: the config files of agents, and the first minute.
mod setup;
// `mimir keys`, and trust settings that cannot be used.
mod signing_keys;
// `mimir tools enable` and `disable`: their output, and that they change nothing else.
mod switch;
// A team's policy file, which takes precedence over the user's and the project's.
mod team;
// Attacks of a member on the team that binds them.
mod team_attacks;
mod team_authoring;
mod team_bundles;
mod team_members;
mod team_servers;
mod team_skills;
// OTLP requests to a collector, metrics for Prometheus, JSON logs, and alarms of planted secrets.
mod telemetry;
// `mimir tools`: its output, compared with the screens of the specification.
mod tools;
// Plugins in TypeScript: built without Node, and called like any other component.
mod typescript;
// Plugins in TypeScript that fail to build or to run.
mod typescript_faults;
// `mimir undo` after real calls: its output, refusals, and audit log.
mod undo;
// `mimir policy check --watch`.
mod watch;
// Paths of Windows: refused or resolved such that the rules hold.
mod windows;
// Tools that only a worker has: modules and npm packages.
mod worker_modules;
// Workers: `mimir run --worker` and the tool `worker_call`, with a scripted model.
mod workers;
