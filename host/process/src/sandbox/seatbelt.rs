//! The sandbox `process` on macOS: the system's own sandbox, through `sandbox-exec` and a profile generated for each
//! command.
//!
//! It compiles, and its profile is tested as text, but it has never been run. It hides and protects files, blocks the
//! network, and provides a private home and temporary folder. macOS cannot limit memory, processes or processor time of
//! a process tree, so commands with such a limit are refused.

#[cfg(any(test, target_os = "macos"))]
mod profile;

#[cfg(target_os = "macos")]
pub use here::SeatbeltSandbox;

#[cfg(target_os = "macos")]
mod here {
    use std::os::unix::fs::DirBuilderExt;
    use std::path::{Path, PathBuf};

    use mimir_core::backend::BoxFuture;
    use mimir_core::platform::PlatformGuarantee;
    use tokio::process::Command;

    use super::profile::SeatbeltProfile;
    use crate::sandbox::environment::{AmbientEnvironment, PROXY};
    use crate::sandbox::mount_mask::{find_masks, find_outside_masks};
    use crate::sandbox::{
        CommandExit, CommandHandle, CommandNetwork, CommandSpec, FileIdentity, ResourceBounds,
        Sandbox, SandboxChild, SandboxError, none, program_lookup, toolchain_homes,
    };

    const NAME: &str = "process";

    /// The program that applies a profile.
    const PROGRAM: &str = "/usr/bin/sandbox-exec";

    /// The sandbox `process` of macOS.
    #[derive(Debug)]
    pub struct SeatbeltSandbox {
        ambient: AmbientEnvironment,
    }

    impl Default for SeatbeltSandbox {
        fn default() -> Self {
            Self::new()
        }
    }

    impl SeatbeltSandbox {
        /// Reads the environment of this process.
        pub fn new() -> Self {
            Self {
                ambient: AmbientEnvironment::of_this_process(),
            }
        }

        fn begin(&self, spec: &CommandSpec) -> Result<SandboxChild, SandboxError> {
            let program = program_lookup::resolve_program(
                &spec.program,
                &self.ambient.path,
                &spec.directory,
            )?;
            let scratch = ScratchFolder::new().map_err(SandboxError::io_error(
                "cannot create the temporary folder of a command",
            ))?;
            let parts = spec.parts();
            let may_write = parts.iter().any(|(_, writable)| *writable);
            let covers = find_masks(NAME, &spec.workspace, &spec.path_rules, may_write)?;
            let outside = find_outside_masks(NAME, spec)?;
            let covers = covers
                .into_iter()
                .map(|(path, with)| (spec.workspace.join(path), with))
                .chain(outside.into_iter().map(|mask| (mask.at, mask.with)))
                .collect::<Vec<_>>();
            let covered = covers
                .iter()
                .filter_map(|(path, _)| FileIdentity::of_path(path))
                .collect();
            let home = self.ambient.home.as_deref();
            let (homes, settings) = home.map(toolchain_homes::toolchains).unwrap_or_default();
            let profile = SeatbeltProfile {
                home,
                path: &self.ambient.path,
                settings: &settings,
                workspace: &spec.workspace,
                scratch: &scratch.0,
                parts,
                mounts: &spec.mounts,
                covers: &covers,
            };
            let mut variables = self.ambient.command_variables(
                spec,
                &self.ambient.path,
                &scratch.0,
                &scratch.0,
                PROXY,
            )?;
            // The private home is an empty temporary folder, where toolchains would not find themselves.
            for (name, folder) in homes {
                variables.entry(name.into()).or_insert(folder.into());
            }
            let mut command = Command::new(PROGRAM);
            command.arg("-p").arg(profile.text()?).arg("--");
            command.arg(&program.file);
            command.args(program.arguments.get(1..).unwrap_or_default());
            let running =
                none::spawn_command(command, variables, spec, none::ProcessLeader::Session, None);
            let running = running.map_err(SandboxError::io_error("cannot start a command"))?;
            let mut child = running.into_child(covered)?;
            child.handle = Box::new(SeatbeltCommand {
                handle: child.handle,
                scratch: Some(scratch),
            });
            Ok(child)
        }
    }

    /// A temporary folder that is removed with the command.
    struct ScratchFolder(PathBuf);

    impl ScratchFolder {
        fn new() -> std::io::Result<Self> {
            let temporary = std::env::temp_dir().canonicalize()?;
            let folder = temporary.join(format!("mimir-{}", none::unique_mark()));
            std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
            Ok(Self(folder))
        }
    }

    impl Drop for ScratchFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A command and its temporary folder.
    struct SeatbeltCommand {
        handle: Box<dyn CommandHandle>,
        scratch: Option<ScratchFolder>,
    }

    impl CommandHandle for SeatbeltCommand {
        fn wait(&mut self) -> BoxFuture<'_, Result<CommandExit, SandboxError>> {
            Box::pin(async move {
                let exit = self.handle.wait().await?;
                self.scratch = None;
                Ok(exit)
            })
        }

        fn terminate(&mut self) -> BoxFuture<'_, ()> {
            self.handle.terminate()
        }

        fn kill(&mut self) -> BoxFuture<'_, ()> {
            self.handle.kill()
        }
    }

    impl Sandbox for SeatbeltSandbox {
        fn name(&self) -> &'static str {
            NAME
        }

        fn describe_guarantees(&self, _: &ResourceBounds) -> Result<Vec<String>, SandboxError> {
            if !Path::new(PROGRAM).is_file() {
                let why = format!("`{PROGRAM}` does not exist");
                return Err(SandboxError::Unavailable { sandbox: NAME, why });
            }
            Ok(vec![
                "untested: written from the documentation of the system, but never run".to_owned(),
                "programs and toolchains read-only, workspace writable, private home and temporary folder"
                    .to_owned(),
                "network: none".to_owned(),
                "memory, processes, processor time: not limited here".to_owned(),
            ])
        }

        fn guarantees(
            &self,
            bounds: &ResourceBounds,
        ) -> Result<Vec<PlatformGuarantee>, SandboxError> {
            self.describe_guarantees(bounds)?;
            let never_run = "written from the documentation of the system, but never run";
            let no_total = "macOS cannot limit a process tree";
            Ok(vec![
                PlatformGuarantee::weaker("files of commands", never_run),
                PlatformGuarantee::weaker("network of commands", never_run),
                PlatformGuarantee::refused(
                    "granted hosts",
                    "commands have no network, so no way to a proxy",
                ),
                PlatformGuarantee::weaker(
                    "end of commands",
                    "a process that leaves its process group survives its command",
                ),
                PlatformGuarantee::refused("memory", no_total),
                PlatformGuarantee::refused("processes", no_total),
                PlatformGuarantee::refused("processor time", no_total),
            ])
        }

        fn mounts_at_other_paths(&self) -> bool {
            false
        }

        fn check_program(&self, program: &str, directory: &Path) -> Result<(), SandboxError> {
            program_lookup::check_program(program, &self.ambient.path, directory)
        }

        fn check_support(&self, spec: &CommandSpec) -> Result<(), SandboxError> {
            let elsewhere = spec.mounts.iter().any(|mount| mount.from != mount.at);
            let what = if spec.network != CommandNetwork::None {
                "network access"
            } else if let Some(bound) = spec.bounds.first_requested() {
                bound
            } else if elsewhere {
                "mounting a folder at another path"
            } else {
                return Ok(());
            };
            Err(SandboxError::unsupported(
                NAME,
                what,
                "the macOS sandbox cannot do that",
            ))
        }

        fn start<'a>(
            &'a self,
            spec: &'a CommandSpec,
        ) -> BoxFuture<'a, Result<SandboxChild, SandboxError>> {
            Box::pin(async move {
                self.check_support(spec)?;
                self.begin(spec)
            })
        }
    }
}
