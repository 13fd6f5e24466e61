//! The world of a Python plugin: only the interfaces that its tools need. `componentize-py` imports the whole world, used
//! or not, so the imports of a component in the whole world would prove nothing.

use std::path::Path;

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::needs::Needs;

use mimir::file_error::{file_error, write_atomically};

/// Version of `mimir:tool`.
const CONTRACT_VERSION: &str = "1.0.0";

/// Version of the WASI interfaces in `sdk/wit`.
const WASI_VERSION: &str = "0.2.9";

/// Interfaces that a request needs.
const HTTP_INTERFACES: [&str; 4] = [
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:http/types",
    "wasi:http/outgoing-handler",
];

/// Interfaces that a Python plugin uses, besides `types`, `log`, `progress` and `toolset`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PythonWorld {
    /// Commands in the command sandbox.
    pub commands: bool,
    /// Calls of other tools.
    pub tools: bool,
    /// The language model.
    pub model: bool,
    /// Stored values.
    pub storage: bool,
    /// Requests to hosts.
    pub http: bool,
}

impl PythonWorld {
    /// Returns the world for the needs of all tools of a plugin. Storage is not a need: `uses_storage` says whether the
    /// code uses it.
    pub fn for_needs<'a>(
        needs_of_tools: impl IntoIterator<Item = &'a Needs>,
        uses_storage: bool,
    ) -> Self {
        let start = Self {
            storage: uses_storage,
            ..Self::default()
        };
        needs_of_tools.into_iter().fold(start, |world, needs| Self {
            commands: world.commands || !needs.commands.is_empty(),
            tools: world.tools || !needs.tools.is_empty(),
            model: world.model || needs.model,
            storage: world.storage,
            // A secret is sent in a header of a request.
            http: world.http || !needs.hosts.is_empty() || !needs.secrets.is_empty(),
        })
    }

    /// Returns the world in WIT.
    pub fn text(self) -> String {
        let mut text = "package mimir:built;\n\nworld plugin {\n".to_owned();
        for interface in self.own_interfaces() {
            text += &format!("  import mimir:tool/{interface}@{CONTRACT_VERSION};\n");
        }
        for interface in self.wasi_interfaces() {
            text += &format!("  import {interface}@{WASI_VERSION};\n");
        }
        text + &format!("  export mimir:tool/toolset@{CONTRACT_VERSION};\n}}\n")
    }

    /// Returns values of `--import-interface-name`: the names that the SDK imports the interfaces by.
    pub fn interface_names(self) -> Vec<String> {
        let own = ["types"].into_iter().chain(self.own_interfaces());
        let own = own.map(|interface| {
            format!("mimir:tool/{interface}@{CONTRACT_VERSION}=mimir_{interface}")
        });
        let wasi = self.wasi_interfaces().iter().map(|interface| {
            let name = interface.replace([':', '/', '-'], "_");
            format!("{interface}@{WASI_VERSION}={name}")
        });
        own.chain(wasi).collect()
    }

    /// Writes `plugin.wit` and the packages that it uses into a folder. `sdk_root` is the root of the written SDKs.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or written.
    pub fn write(self, sdk_root: &Path, folder: &Path) -> Result<(), ToolError> {
        let mut packages = vec![("wit/tool.wit", "deps/mimir/tool.wit")];
        if self.http {
            packages.push(("sdk/wit/io.wit", "deps/io/io.wit"));
            packages.push(("sdk/wit/http.wit", "deps/http/http.wit"));
        }
        for (source, target) in packages {
            let source = sdk_root.join(source);
            let text = files::read_text(&source, LinkPolicy::Follow, MAX_PACKAGE)
                .map_err(|e| file_error("read", &source, &e))?;
            write_file(&folder.join(target), &text)?;
        }
        write_file(&folder.join("plugin.wit"), &self.text())
    }

    fn own_interfaces(self) -> impl Iterator<Item = &'static str> {
        let interfaces = [
            (true, "log"),
            (true, "progress"),
            (self.commands, "commands"),
            (self.tools, "tools"),
            (self.model, "model"),
            (self.storage, "storage"),
        ];
        let used = interfaces.into_iter().filter(|(is_used, _)| *is_used);
        used.map(|(_, interface)| interface)
    }

    fn wasi_interfaces(self) -> &'static [&'static str] {
        if self.http { &HTTP_INTERFACES } else { &[] }
    }
}

/// Maximum size of a WIT package in bytes.
const MAX_PACKAGE: u64 = 1 << 20;

fn write_file(path: &Path, text: &str) -> Result<(), ToolError> {
    write_atomically(path, text.as_bytes()).map_err(|e| file_error("write", path, &e))
}

#[cfg(test)]
mod tests {
    use mimir_core::needs::{CommandNeed, HostNeed, SecretNeed};

    use super::*;

    fn imports(world: PythonWorld) -> Vec<String> {
        let text = world.text();
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("import "));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn python_world_of_a_plugin_without_needs_has_no_wasi() {
        let world = PythonWorld::for_needs([&Needs::default()], false);
        assert_eq!(
            imports(world),
            ["mimir:tool/log@1.0.0;", "mimir:tool/progress@1.0.0;"]
        );
        assert!(
            world
                .text()
                .contains("  export mimir:tool/toolset@1.0.0;\n}\n")
        );
        assert_eq!(
            world.interface_names(),
            [
                "mimir:tool/types@1.0.0=mimir_types",
                "mimir:tool/log@1.0.0=mimir_log",
                "mimir:tool/progress@1.0.0=mimir_progress",
            ]
        );
    }

    #[test]
    fn python_world_unites_the_needs_of_all_tools() {
        let command = CommandNeed {
            pattern: "git status".to_owned(),
            reason: String::new(),
        };
        let host = HostNeed {
            host: "example.com".to_owned(),
            methods: Vec::new(),
            reason: String::new(),
        };
        let one = Needs {
            commands: vec![command],
            ..Needs::default()
        };
        let other = Needs {
            hosts: vec![host],
            model: true,
            ..Needs::default()
        };
        let world = PythonWorld::for_needs([&one, &other], true);
        let expected = PythonWorld {
            commands: true,
            tools: false,
            model: true,
            storage: true,
            http: true,
        };
        assert_eq!(world, expected);
        assert!(imports(world).contains(&"wasi:http/outgoing-handler@0.2.9;".to_owned()));
        let names = world.interface_names();
        let handler = "wasi:http/outgoing-handler@0.2.9=wasi_http_outgoing_handler";
        assert!(names.iter().any(|name| name == handler), "{names:?}");
        assert!(
            names
                .iter()
                .any(|name| name == "mimir:tool/storage@1.0.0=mimir_storage")
        );
    }

    #[test]
    fn python_world_of_a_secret_has_requests() {
        let secret = SecretNeed {
            name: "TOKEN".to_owned(),
            host: "example.com".to_owned(),
            header: "authorization".to_owned(),
            reason: String::new(),
        };
        let needs = Needs {
            secrets: vec![secret],
            ..Needs::default()
        };
        assert!(PythonWorld::for_needs([&needs], false).http);
    }

    #[test]
    fn python_world_is_written_with_the_packages_that_it_uses() {
        let dir = tempfile::tempdir().unwrap();
        let (sdk, folder) = (dir.path().join("sdk"), dir.path().join("wit"));
        let error = PythonWorld::default().write(&sdk, &folder).unwrap_err();
        assert!(error.message.contains("tool.wit"), "{error}");
        for file in ["wit/tool.wit", "sdk/wit/io.wit", "sdk/wit/http.wit"] {
            write_file(&sdk.join(file), file).unwrap();
        }
        PythonWorld::default().write(&sdk, &folder).unwrap();
        let text = std::fs::read_to_string(folder.join("deps/mimir/tool.wit")).unwrap();
        assert_eq!(text, "wit/tool.wit");
        assert!(folder.join("plugin.wit").is_file() && !folder.join("deps/http").exists());
        let world = PythonWorld {
            http: true,
            ..PythonWorld::default()
        };
        world.write(&sdk, &folder).unwrap();
        let text = std::fs::read_to_string(folder.join("plugin.wit")).unwrap();
        assert_eq!(text, world.text());
        assert!(
            folder.join("deps/io/io.wit").is_file() && folder.join("deps/http/http.wit").is_file()
        );
    }
}
