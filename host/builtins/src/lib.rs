//! The tools that ship with mimir, as bytes: `plugins/*`, built for `wasm32-wasip2` by this crate's
//! build script.
//!
//! Never here: anything that runs. What the bytes mean is the business of `mimir-wasm`.

/// A plugin that is part of the binary.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// The folder of its source in `plugins/`.
    pub name: &'static str,
    /// The component.
    pub bytes: &'static [u8],
    /// sha256 of the component, computed when it was built.
    pub sha256: [u8; 32],
    /// Whether its tools keep what they replace in `.mimir/state/backups`.
    pub keeps_backups: bool,
    /// Other names of its tools, as pairs of tool and alias.
    pub aliases: &'static [(&'static str, &'static str)],
}

/// All of them, in the order in which their names win.
pub const ALL: &[Builtin] = &[
    Builtin {
        name: "files",
        bytes: built::FILES,
        sha256: built::FILES_SHA256,
        keeps_backups: true,
        aliases: &[
            ("read_file", "read"),
            ("read_file", "file_read"),
            ("write_file", "write"),
            ("write_file", "file_write"),
            ("edit_file", "edit"),
            ("list_directory", "list_files"),
            ("file_info", "file_exists"),
            ("file_info", "exists"),
        ],
    },
    Builtin {
        name: "search",
        bytes: built::SEARCH,
        sha256: built::SEARCH_SHA256,
        keeps_backups: false,
        aliases: &[],
    },
];

mod built {
    include!(concat!(env!("OUT_DIR"), "/built.rs"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above this, start-up and the binary suffer; a plugin that needs more has a dependency too many.
    const SIZE_MAX: usize = 4 << 20;

    #[test]
    fn each_is_a_toolset_of_sane_size() {
        for builtin in ALL {
            assert!(
                builtin.bytes.len() < SIZE_MAX,
                "{}: {} bytes",
                builtin.name,
                builtin.bytes.len()
            );
            let decoded = wit_component::decode(builtin.bytes).unwrap();
            let wit_component::DecodedWasm::Component(resolve, world) = decoded else {
                panic!("{} is no component", builtin.name);
            };
            let exports: Vec<_> = resolve.worlds[world]
                .exports
                .keys()
                .map(|key| resolve.name_world_key(key))
                .collect();
            assert!(
                exports.contains(&"mimir:tool/toolset@1.0.0".to_owned()),
                "{}: {exports:?}",
                builtin.name
            );
        }
    }
}
