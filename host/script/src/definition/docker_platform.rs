//! `platform.docker`: the container in which the code of a tool runs.

use mimir_core::command::ContainerImageId;
use mimir_core::needs::{CommandNeed, DirectoryAccess, FileNeed, Needs};
use mimir_core::text;
use schemars::JsonSchema;
use serde::Deserialize;

use super::yaml_file::ScriptRuntime;

/// `platform`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptPlatform {
    /// The container in which the code runs, with `runtime: node` or `python`. It has no network.
    pub(super) docker: DockerPlatform,
}

/// `platform.docker`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DockerPlatform {
    /// Name of the image, for people. The image must exist on this machine.
    #[schemars(length(min = 1, max = 255))]
    image: String,
    /// ID of the image: `sha256:` and 64 digits, as printed by `docker image inspect --format '{{.Id}}' NAME`.
    #[schemars(regex(pattern = "^sha256:[0-9a-fA-F]{64}$"))]
    id: String,
    /// Access of the container to the workspace.
    #[serde(default)]
    workspace: DockerWorkspace,
}

/// The access of a container to the workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DockerWorkspace {
    /// No access.
    #[default]
    None,
    /// Read access.
    Read,
    /// Read and write access.
    Write,
}

/// A program that runs code in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerInterpreter {
    /// Node.js.
    Node,
    /// Python.
    Python,
}

impl ContainerInterpreter {
    /// Returns the name of the program.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python3",
        }
    }
}

/// The validated container of a tool.
#[derive(Debug, Clone)]
pub(crate) struct ToolContainer {
    /// The program.
    pub(crate) interpreter: ContainerInterpreter,
    /// Name of the image.
    pub(crate) image: String,
    /// The image.
    pub(crate) id: ContainerImageId,
    workspace: DockerWorkspace,
}

/// Maximum length of an image name.
const MAX_IMAGE_LENGTH: usize = 255;

impl ToolContainer {
    /// Validates the block. The error is the key and the reason.
    pub(super) fn new(
        platform: &ScriptPlatform,
        runtime: ScriptRuntime,
    ) -> Result<Self, (&'static str, String)> {
        let docker = &platform.docker;
        let interpreter = match runtime {
            ScriptRuntime::Node => ContainerInterpreter::Node,
            ScriptRuntime::Python => ContainerInterpreter::Python,
            ScriptRuntime::Typescript | ScriptRuntime::Javascript | ScriptRuntime::Bash => {
                let message = "`platform.docker` is not supported with this `runtime`: expected `node` or `python`, which the image must have";
                return Err(("platform", message.to_owned()));
            }
        };
        let is_image_char = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
        if docker.image.is_empty()
            || docker.image.len() > MAX_IMAGE_LENGTH
            || !docker.image.chars().all(is_image_char)
        {
            let message = "`platform.docker.image` is not valid: expected the name of an image";
            return Err(("platform.docker.image", message.to_owned()));
        }
        let id = docker.id.parse().map_err(|error| {
            let message = format!(
                "`platform.docker.id`: {error}; `docker image inspect --format '{{{{.Id}}}}' {}` prints it",
                docker.image
            );
            ("platform.docker.id", message)
        })?;
        Ok(Self {
            interpreter,
            image: docker.image.clone(),
            id,
            workspace: docker.workspace,
        })
    }

    /// Returns the needs of the tool. The reason names the image, which a person thereby grants with the file.
    pub(super) fn needs(&self) -> Needs {
        let access = match self.workspace {
            DockerWorkspace::None => None,
            DockerWorkspace::Read => Some(DirectoryAccess::Read),
            DockerWorkspace::Write => Some(DirectoryAccess::ReadWrite),
        };
        let reason = format!("in a container of {self}");
        Needs {
            files: access
                .into_iter()
                .map(|access| FileNeed {
                    path: ".".to_owned(),
                    access,
                    reason: reason.clone(),
                })
                .collect(),
            commands: vec![CommandNeed {
                pattern: format!("{} *", self.interpreter.program()),
                reason,
            }],
            ..Needs::default()
        }
    }
}

impl std::fmt::Display for ToolContainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", text::visible(&self.image), self.id)
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::DirectoryAccess;

    use crate::definition::check;

    fn file(runtime: &str, docker: &str) -> String {
        format!(
            "name: a\ndescription: b\nschema: {{type: object}}\nruntime: {runtime}\nplatform: {{docker: {{{docker}}}}}\ncode: |\n  x = 1\n"
        )
    }

    #[test]
    fn docker_platform_needs_show_the_image_and_its_id() {
        let id = format!("sha256:{}", "ab".repeat(32));
        let docker = format!("image: 'python:3', id: '{id}'");
        let needs = check("a.yml", &file("python", &docker)).unwrap();
        let needs = needs.definition.needs;
        assert!(needs.files.is_empty() && needs.hosts.is_empty());
        assert_eq!(needs.commands[0].pattern, "python3 *");
        let expected = format!("in a container of python:3 ({id})");
        assert_eq!(needs.commands[0].reason, expected);
        let reads = file("node", &format!("{docker}, workspace: read"));
        let needs = check("a.yml", &reads).unwrap().definition.needs;
        assert_eq!(needs.files[0].access, DirectoryAccess::Read);
        assert_eq!(needs.commands[0].pattern, "node *");
    }

    #[test]
    fn docker_platform_faults_name_the_key() {
        let id = format!("id: 'sha256:{}'", "ab".repeat(32));
        for (runtime, docker, expected) in [
            (
                "bash",
                format!("image: a, {id}"),
                "a.yml:5: `platform.docker` is not supported",
            ),
            (
                "typescript",
                format!("image: a, {id}"),
                "expected `node` or `python`",
            ),
            (
                "node",
                format!("image: 'a b', {id}"),
                "`platform.docker.image` is not valid",
            ),
            (
                "node",
                "image: a, id: latest".to_owned(),
                "docker image inspect --format '{{.Id}}' a",
            ),
            ("node", "image: a".to_owned(), "missing field `id`"),
            (
                "node",
                format!("image: a, {id}, workspace: all"),
                "expected one of",
            ),
            (
                "node",
                format!("image: a, {id}, network: true"),
                "unknown key",
            ),
        ] {
            let error = check("a.yml", &file(runtime, &docker)).unwrap_err();
            assert!(
                error.message.contains(expected),
                "{docker}: {}",
                error.message
            );
        }
    }
}
