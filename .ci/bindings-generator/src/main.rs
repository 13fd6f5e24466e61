//! `bindings-generator ROOT OUT`: writes the bindings of the world in `sdk/wit` for C into OUT/c and for Go into OUT/go.
//!
//! The SDKs carry them, so that building a tool needs no generator. `.ci/bindings` runs this and compares.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use wit_bindgen_core::wit_parser::{PackageId, Resolve};
use wit_bindgen_core::{Files, WorldGenerator};

/// Import path of the runtime that generated Go code expects, and of the SDK's own one with the same functions.
const GO_RUNTIME: (&str, &str) = (
    "go.bytecodealliance.org/pkg/wit/",
    "mimir.local/sdk/internal/wit/",
);
/// Import path of the generated Go packages.
const GO_BINDINGS: &str = "mimir.local/sdk/internal/bindings";

fn main() -> anyhow::Result<()> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [root, out] = folders.as_slice() else {
        bail!("expected two arguments: bindings-generator ROOT OUT");
    };
    // The build adds the world to the module, so no object file has to carry it.
    let c = wit_bindgen_c::Opts {
        no_object_file: true,
        ..Default::default()
    };
    write_bindings(root, c.build(), &out.join("c"))?;
    let go = wit_bindgen_go::Opts {
        format: wit_bindgen_go::Format::False,
        pkg_name: Some(GO_BINDINGS.into()),
        ..Default::default()
    };
    write_bindings(root, go.build(), &out.join("go"))
}

/// Generates the bindings of the world `bindings` into a folder.
fn write_bindings(
    root: &Path,
    mut generator: Box<dyn WorldGenerator>,
    out: &Path,
) -> anyhow::Result<()> {
    let mut resolve = Resolve::default();
    let package = push_packages(&mut resolve, root)?;
    let world = resolve.select_world(&[package], Some("bindings"))?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    for (name, content) in files.iter() {
        let path = out.join(name);
        let text = std::str::from_utf8(content)?.replace(GO_RUNTIME.0, GO_RUNTIME.1);
        std::fs::create_dir_all(path.parent().unwrap_or(out))?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Reads the WIT files, and returns the package with the world.
fn push_packages(resolve: &mut Resolve, root: &Path) -> anyhow::Result<PackageId> {
    // Dependencies first.
    let paths = [
        "wit/tool.wit",
        "sdk/wit/io.wit",
        "sdk/wit/http.wit",
        "sdk/wit/bindings.wit",
    ]
    .map(|path| root.join(path));
    let mut last = None;
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        last = Some(resolve.push_str(&path, &text)?);
    }
    last.context("there are no WIT files")
}
