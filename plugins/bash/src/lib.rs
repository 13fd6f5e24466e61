//! bash as an engine: the shell of `bashkit`, on the files that the host shows.
//!
//! The script is `/main.sh`, its arguments, environment and streams are those of the process, and `/workspace` and
//! `/tmp` are directories of the host behind the guarded filesystem. Everything else that a script sees (`/etc`,
//! `/dev/null`, `/home`) is in memory and gone at the end. What reaches out (`python3`, tools of mimir, commands of the
//! machine) is asked of the host, which judges it.
//!
//! Never here: rights. What may not be written or run, the host refuses.

#[cfg(any(target_os = "wasi", test))]
mod bc;
#[cfg(target_os = "wasi")]
mod disk;
#[cfg(target_os = "wasi")]
mod outside;
#[cfg(target_os = "wasi")]
mod run;
