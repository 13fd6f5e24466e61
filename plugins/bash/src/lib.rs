//! The bash engine: the shell of `bashkit`, on the files that the host grants.
//!
//! The script is `/main.sh`, its arguments, environment and streams are those of the process, and `/workspace` and
//! `/tmp` are directories of the host behind the guarded filesystem. Everything else that a script sees (`/etc`,
//! `/dev/null`, `/home`) is in memory and is lost at the end. For anything outside (`python3`, tools of mimir, commands
//! of the machine) the engine sends a request to the host, which applies the policy.
//!
//! Out of scope: permissions. The host refuses writes and commands that the policy does not allow.

#[cfg(any(target_os = "wasi", test))]
mod bc;
#[cfg(target_os = "wasi")]
mod disk;
#[cfg(target_os = "wasi")]
mod outside;
#[cfg(target_os = "wasi")]
mod run;
