//! Tests of the binary `mimir`, one module per feature: `cargo test --test cli NAME::` runs one.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod kit;

// Where addresses are scarce, there is no pool of memories: calls work all the same, and `doctor` says how.
mod address_space;
// `mimir run` and `mimir chat` against a model on a port of this machine that says what is written down for it.
mod agents;
// `mimir audit` and the keys of `audit`, as a shell sees them.
mod audit;
// `mimir chat` on a real terminal, with a model on a port of this machine that says what is written down for it.
mod chat;
// `run_code` by the program, where an interpreter runs the code: in the sandbox of commands, or in a container.
mod code;
// Code of `run_code` that calls other tools: under the rules, the questions and the record of a model's own calls.
mod code_calls;
// Compiling a component is bounded in size, time and memory, and ends with the call that needs it.
mod compile;
// `mimir config`.
mod config;
// Commands in containers by the program, as the settings say.
mod containers;
// Where conversations are kept, and what is kept of what they have read.
mod conversations;
// Three days of an agent behind `mimir serve`, from beginning to end. The work is done, and the person is asked no more often than each of them says. `.ci/others/days.py` has the same days in agents that others wrote.
mod days;
// A disk that is full in the middle of a write. A limit on the size of files stands in for the disk: the system answers what goes beyond it with an error, as it would a full disk.
mod disk;
// `mimir tools add URL`: a component comes over the network, judged like every other request, and is kept only if it is the one that was meant.
mod fetched;
// The gates as a shell sees them: what a project brings along, and what is refused because it could not be kept.
mod gates;
// What a person grants and approves, as a shell and a terminal see it: plugins, their rebuilds, the lock that comes and goes, remembered answers.
mod grants;
// Keys of the settings that only the whole program enforces. `tests/keys` counts on these.
mod keys;
// `mimir mcp login` and `logout`: a person's way to a server, and nobody else's.
mod logins;
// `mimir mcp`, and servers of other people behind the program: really started, really reached.
mod mcp;
// Packages of npm as servers: downloaded from a registry of this machine, pinned, and started in the sandbox.
mod packages;
// `mimir tools` on a terminal, driven in tmux.
mod picker;
// What may have come with a checkout in the place of mimir's own files: pipes that a reader would wait for, and links that lead elsewhere.
mod planted;
// `mimir policy` and the ways out of refusals, as a shell sees them; and the secrets of a person.
mod policy;
// The binary as a shell sees it: exit codes, streams, pipes.
mod process;
// Tools in Python, bash and node by the program, and `run_code` in WebAssembly.
mod programs;
// `mimir redact` as a shell sees it.
mod redact;
// The tool `git` in repositories that want to run something, and in those where it must not be quiet about what it leaves out.
mod repositories;
// How tasks end that do not come to a good one, and what a chat's commands change at once.
mod run_ends;
// Commands by the program: `exec` in the sandbox that the settings name.
mod sandbox;
// Tools in YAML files by the program: the one of the seeds, what scripts can do, and what they can't.
mod scripts;
// Tools in YAML files by the program: where their files may be, their timers, and what they stop.
mod scripts_bounds;
// Requests of tools in YAML files: through the gates, and along redirects.
mod scripts_http;
// Tools in YAML files by the program: how one begins, and what editors know it by.
mod scripts_new;
// `mimir serve`: the binary as an agent starts it.
mod serve;
// `mimir serve --http`: who may come, in both eras of the protocol, and how it ends.
mod serve_http;
// Servers of other people: which of them start, what is shown of them, and what is taken over of what agents write.
mod servers;
// What tools in YAML files keep between calls, and what they ask the model, by the program.
mod storage;
// `mimir tools enable` and `disable`: what they say, and that they change that and nothing else.
mod switch;
// A team's policy file: it stands above the user's and the project's.
mod team;
// `mimir tools`: what it prints, beside the seeds' screens.
mod tools;
// Plugins in TypeScript: built without Node, and called like any other component.
mod typescript;
// Plugins in TypeScript that fail: when they are built, and when they are called.
mod typescript_faults;
// `mimir undo` after real calls: what it says, what it refuses, and what is on record.
mod undo;
// `mimir policy check --watch`.
mod watch;
// Workers: `mimir run --worker` and the tool `worker_call`, against a model that says what is written down for it.
mod workers;
