//! Settings of the command sandbox: the name of a mode, or a block.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{OutOfRangeError, limits};
use crate::code_language::CodeLanguage;

/// `sandbox`: the name of a mode, or a block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxSettings {
    /// The mode. Default: [`SandboxMode::Auto`].
    pub mode: Option<SandboxMode>,
    /// The container image.
    pub image: Option<String>,
    /// The container images for `run_code`, per language, in place of [`Self::image`].
    pub images: BTreeMap<CodeLanguage, String>,
    /// The socket of the container engine, if not at a usual path.
    pub socket: Option<String>,
    /// Additional mounts.
    pub bind_mounts: Vec<BindMount>,
    /// Gives commands network access. If the sandbox does not support that, no command starts.
    pub network_access: Option<bool>,
    /// Maximum memory of a command, in MiB.
    pub max_memory_mb: Option<u64>,
    /// Maximum processor time of a command, in percent of one processor.
    pub max_cpu_percent: Option<u32>,
    /// Maximum processes and threads of a command.
    pub max_processes: Option<u64>,
}

/// Default of `maxMemoryMb`: enough to link a large program in debug mode, and less than development machines have.
pub const DEFAULT_MEMORY_MB: u64 = 8 << 10;

/// Default of `maxProcesses`: enough for a build on many processors whose compilers each use a thread pool.
pub const DEFAULT_PROCESSES: u64 = 4096;

/// The kind of sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// The strongest available sandbox, never `none`.
    #[default]
    Auto,
    /// The kernel's sandbox mechanisms.
    #[serde(alias = "nsjail")]
    Process,
    /// A Docker or Podman container.
    #[serde(alias = "docker")]
    Container,
    /// No sandbox.
    #[serde(alias = "off")]
    None,
}

/// An additional mount: `/data`, `/data:rw`, `/data:/mnt/data` or `/data:/mnt/data:rw`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindMount {
    /// The absolute path on the host.
    pub from: String,
    /// The absolute path inside the sandbox.
    pub at: String,
    /// True if the mount is writable.
    pub writable: bool,
}

/// The block as written in the file.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SandboxBlock {
    /// The mode.
    #[serde(alias = "type")]
    mode: Option<SandboxMode>,
    /// The container image.
    image: Option<String>,
    /// The container images for `run_code`, per language: `python`, `bash`, `javascript`.
    #[schemars(with = "BTreeMap<String, String>")]
    images: BTreeMap<CodeLanguage, String>,
    /// The socket of the container engine, if not at a usual path.
    socket: Option<String>,
    /// Additional mounts: `/data`, `/data:/mnt/data` or `/data:/mnt/data:rw`.
    #[schemars(with = "Vec<String>")]
    bind_mounts: Vec<BindMount>,
    /// Gives commands network access.
    network_access: Option<bool>,
    /// Maximum memory of a command, in MiB.
    max_memory_mb: Option<u64>,
    /// Maximum processor time of a command, in percent of one processor.
    max_cpu_percent: Option<u32>,
    /// Maximum processes and threads of a command.
    max_processes: Option<u64>,
}

impl From<SandboxBlock> for SandboxSettings {
    fn from(block: SandboxBlock) -> Self {
        Self {
            mode: block.mode,
            image: block.image,
            images: block.images,
            socket: block.socket,
            bind_mounts: block.bind_mounts,
            network_access: block.network_access,
            max_memory_mb: block.max_memory_mb,
            max_cpu_percent: block.max_cpu_percent,
            max_processes: block.max_processes,
        }
    }
}

/// Programs do not start below the minimum. Above the maximum, the limit has no effect on any machine.
const MEMORY_MB: (u64, u64) = (16, 1 << 24);
const CPU_PERCENT: (u64, u64) = (1, 100 * 4096);
const PROCESSES: (u64, u64) = (4, 1 << 22);

impl SandboxSettings {
    /// Checks that every limit is in range. `block_key` is the key of the block.
    pub fn check(&self, block_key: &str) -> Result<(), OutOfRangeError> {
        for (key, value, range) in [
            ("maxMemoryMb", self.max_memory_mb, MEMORY_MB),
            (
                "maxCpuPercent",
                self.max_cpu_percent.map(u64::from),
                CPU_PERCENT,
            ),
            ("maxProcesses", self.max_processes, PROCESSES),
        ] {
            limits::check(|| format!("{block_key}.{key}"), value, range)?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for SandboxSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct SandboxVisitor;
        impl<'de> Visitor<'de> for SandboxVisitor {
            type Value = SandboxSettings;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, `process`, `container`, `none` or a block")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<SandboxSettings, E> {
                let mode = SandboxMode::deserialize(de::value::StrDeserializer::new(name))?;
                Ok(SandboxSettings {
                    mode: Some(mode),
                    ..SandboxSettings::default()
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SandboxSettings, A::Error> {
                SandboxBlock::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
            }
        }
        from.deserialize_any(SandboxVisitor)
    }
}

impl JsonSchema for SandboxSettings {
    fn schema_name() -> Cow<'static, str> {
        "SandboxSettings".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (mode, block) = (
            SandboxMode::json_schema(generator),
            SandboxBlock::json_schema(generator),
        );
        schemars::json_schema!({
            "description": "The sandbox that commands run in: the name of a mode, or a block.",
            "anyOf": [mode, block],
        })
    }
}

/// Error of a mount that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{written}` is not a valid mount: {why}")]
pub struct BindMountError {
    written: String,
    why: &'static str,
}

impl FromStr for BindMount {
    type Err = BindMountError;

    fn from_str(written: &str) -> Result<Self, BindMountError> {
        let error = |why| BindMountError {
            written: written.to_owned(),
            why,
        };
        let mut parts = written.split(':').peekable();
        let from = parts.next().unwrap_or_default();
        let at = parts
            .next_if(|part| !["ro", "rw"].contains(part))
            .unwrap_or(from);
        let writable = match parts.next() {
            None | Some("ro") => false,
            Some("rw") => true,
            Some(_) => return Err(error("the last part must be `ro` or `rw`")),
        };
        if parts.next().is_some() {
            return Err(error("a mount has at most three parts"));
        }
        for path in [from, at] {
            if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
                return Err(error("paths must be absolute, without `..`"));
            }
        }
        if at.trim_matches('/').is_empty() {
            return Err(error("the target must not be `/`"));
        }
        Ok(Self {
            from: from.to_owned(),
            at: at.to_owned(),
            writable,
        })
    }
}

impl<'de> Deserialize<'de> for BindMount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = String::deserialize(from)?;
        written.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<SandboxSettings, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn sandbox_settings_accept_a_mode_name_or_a_block() {
        for (name, mode) in [
            ("auto", SandboxMode::Auto),
            ("process", SandboxMode::Process),
            ("nsjail", SandboxMode::Process),
            ("container", SandboxMode::Container),
            ("docker", SandboxMode::Container),
            ("none", SandboxMode::None),
            ("off", SandboxMode::None),
        ] {
            assert_eq!(read(json!(name)).unwrap().mode, Some(mode));
            assert_eq!(read(json!({"type": name})).unwrap().mode, Some(mode));
        }
        let block = read(json!({
            "mode": "docker", "image": "node:22", "bindMounts": ["/data", "/a:/b:rw"],
            "networkAccess": false, "maxMemoryMb": 512, "maxCpuPercent": 50,
        }))
        .unwrap();
        assert_eq!(block.bind_mounts[0].at, "/data");
        assert_eq!(
            block.bind_mounts[1],
            BindMount {
                from: "/a".into(),
                at: "/b".into(),
                writable: true
            }
        );
        assert_eq!("/a:rw".parse(), "/a:/a:rw".parse::<BindMount>());
        assert!("/a:rw:/b".parse::<BindMount>().is_err());
        assert_eq!(block.check("sandbox"), Ok(()));
        assert_eq!(read(json!({})).unwrap(), SandboxSettings::default());
    }

    #[test]
    fn sandbox_invalid_settings_are_rejected_with_a_reason() {
        for (bad, words) in [
            (json!("vm"), "unknown variant `vm`"),
            (json!(true), "`auto`, `process`"),
            (json!({"mode": "jail"}), "unknown variant `jail`"),
            (json!({"memory": 1}), "unknown field `memory`"),
            (json!({"bindMounts": ["data"]}), "absolute"),
            (json!({"bindMounts": ["/a/../etc"]}), "without `..`"),
            (json!({"bindMounts": ["/a:/"]}), "must not be `/`"),
            (json!({"bindMounts": ["/a:/b:rwx"]}), "`ro` or `rw`"),
            (json!({"bindMounts": ["/a:/b:rw:c"]}), "three parts"),
        ] {
            let error = read(bad.clone()).unwrap_err();
            assert!(error.contains(words), "{bad}: {error}");
        }
    }

    #[test]
    fn sandbox_limit_out_of_range_names_its_key() {
        for (key, value) in [
            ("maxMemoryMb", 1),
            ("maxCpuPercent", 0),
            ("maxProcesses", 1),
        ] {
            let settings = read(json!({ key: value })).unwrap();
            assert_eq!(
                settings.check("sandbox").unwrap_err().key,
                format!("sandbox.{key}")
            );
        }
    }

    #[test]
    fn sandbox_schema_has_a_name_and_a_block_form() {
        let schema = schemars::schema_for!(SandboxSettings).to_value();
        assert_eq!(schema["anyOf"].as_array().unwrap().len(), 2, "{schema}");
        assert!(schema.to_string().contains("maxMemoryMb"));
    }
}
