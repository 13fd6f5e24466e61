//! The bash engine: the shell of `bashkit`, on the files that the host grants.
//!
//! The script is `/main.sh`, which gets the arguments, environment and streams of the process. `/workspace` and `/tmp`
//! are directories of the host behind the guarded file system. Everything else that a script sees (`/etc`, `/dev/null`,
//! `/home`) is in memory and is lost at the end. For `python3`, tools of mimir and host programs, the engine sends a
//! request to the host, which applies the policy.
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
