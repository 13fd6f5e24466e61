//! `mimir tools push`: publishes a component or a catalog in a registry, with a signature if requested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::wasm_artifact::{self, ComponentFacts};
use mimir_registry::{NewArtifact, NewLayer};

use crate::args::{GlobalOptions, ToolsPushArgs};
use crate::arguments::quote_for_shell;
use crate::exit::{CommandFailure, CommandResult};
use mimir::file_error::file_error;
use mimir::registries::{CATALOG_MEDIA_TYPE, MAX_CATALOG_SIZE, ToolCatalog};
use mimir::setup::HostSetup;
use mimir::skills::SKILL_FILE;

use super::tools_add::{is_component_of, read_component};
use super::tools_build::{PluginFolder, check_build_file, check_build_of, load_alone};
use component_metadata::ComponentMetadata;

mod component_metadata;
mod publication;

pub(super) use publication::{PushedContent, check_reference, publish};

/// Pushes a component or a catalog, and signs it.
pub async fn run(globals: &GlobalOptions, args: &ToolsPushArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    check_reference(&args.target.reference)?;
    let content = read_content(&setup, args).await?;
    publish(globals.printer(), &setup, content, &args.target).await
}

/// Reads what is pushed: a catalog, a component, or the component of a plugin that was built.
async fn read_content(setup: &HostSetup, args: &ToolsPushArgs) -> CommandResult<PushedContent> {
    let source = args.source.as_path();
    let has_extension = |names: &[&str]| {
        let extension = source.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| {
            let mut names = names.iter();
            names.any(|name| extension.eq_ignore_ascii_case(name))
        })
    };
    if source.is_file() && has_extension(&["json"]) {
        return read_catalog(source);
    }
    if source.is_file() && has_extension(&["yml", "yaml"]) {
        return Err(yaml_tool(source).into());
    }
    let (path, component) = if source.is_dir() || PluginFolder::is_source(source) {
        let plugin = PluginFolder::find(source, None);
        if plugin.is_err() && source.join(SKILL_FILE).is_file() {
            return Err(skill(source).into());
        }
        let plugin = plugin?;
        let path = built_component(setup, &plugin, source)?;
        let component = read_component(&path)?;
        if !args.allow_stale {
            check_build_of(setup, &plugin, source, &path, &component)?;
        }
        (path, component)
    } else {
        let path = match installed_component(setup, source).await? {
            Some(path) => path,
            None => source.to_owned(),
        };
        let component = read_component(&path)?;
        if !args.allow_stale {
            check_build_file(setup, &path, &component)?;
        }
        (path, component)
    };
    let facts = component_facts(setup, &path, &component).await?;
    Ok(PushedContent {
        name: facts.title.clone().unwrap_or_default(),
        version: facts.version.clone(),
        artifact: wasm_artifact::pack(&component, &facts),
        facts: Some(facts),
        files: Vec::new(),
        left_out: Vec::new(),
    })
}

/// Returns the component of a plugin in `.mimir/tools`.
fn built_component(
    setup: &HostSetup,
    plugin: &PluginFolder,
    source: &Path,
) -> Result<PathBuf, ToolError> {
    let built = setup.workspace.tools().join(plugin.component_name());
    if built.is_file() {
        return Ok(built);
    }
    let shown = setup.workspace.display_path(&built);
    let folder = quote_for_shell(&source.display().to_string());
    let message = format!("the plugin is not built: {shown} does not exist");
    let remedy = format!("build it first: `mimir tools build {folder}`");
    Err(ToolError::new(ToolErrorCode::FileNotFound, message).with_remedies([remedy]))
}

/// Returns the component of an installed tool with this name; `None` if something has this path, or it is not a name.
async fn installed_component(setup: &HostSetup, source: &Path) -> CommandResult<Option<PathBuf>> {
    let name = source.to_str().filter(|_| !source.exists());
    let Some(name) = name.filter(|name| !name.contains(['/', '\\', '.'])) else {
        return Ok(None);
    };
    let path = setup.workspace.tools().join(format!("{name}.wasm"));
    if path.is_file() {
        return Ok(Some(path));
    }
    let snapshot = setup.load_snapshot().await?;
    let tool = snapshot.registry.get(name);
    let location = tool.map(|tool| tool.origin.location.as_str());
    match location {
        Some(location) if is_component_of(location) => {
            Ok(Some(setup.workspace.root().join(location)))
        }
        Some(location) => Err(CommandFailure::usage(format!(
            "`{}` is not a component in .mimir/tools, but a tool from {}: only components can be pushed",
            visible(name),
            visible(location)
        ))),
        None => Err(CommandFailure::usage(format!(
            "`{}` is neither a path nor an installed tool: name the folder of a plugin, a component file, a catalog in \
             JSON, or a tool of `mimir tools list`",
            visible(name)
        ))),
    }
}

/// Returns the error for a tool in YAML, which has no component.
fn yaml_tool(source: &Path) -> ToolError {
    let shown = visible(&source.display().to_string());
    let remedies = [
        "share the file itself: commit it in .mimir/tools, where it is reviewed like other code".to_owned(),
        "to publish it in a registry, write it as a plugin, which runs in its own sandbox: `mimir tools new NAME` (mimir help plugins)".to_owned(),
    ];
    let message =
        format!("{shown} cannot be pushed: expected a component, and a tool in YAML has none");
    ToolError::invalid_input(message).with_remedies(remedies)
}

fn skill(source: &Path) -> ToolError {
    let folder = source.display().to_string();
    let shown = visible(&folder);
    let remedy = format!(
        "push it as a skill: `mimir skills push {} REF`",
        quote_for_shell(&folder)
    );
    let message = format!("{shown} is a skill, not the folder of a plugin");
    ToolError::invalid_input(message).with_remedies([remedy])
}

fn read_catalog(path: &Path) -> CommandResult<PushedContent> {
    let text = mimir_core::files::read(
        path,
        mimir_core::files::LinkPolicy::Follow,
        MAX_CATALOG_SIZE,
    )
    .map_err(|error| file_error("read", path, &error))?;
    let catalog = ToolCatalog::parse(&text).map_err(|why| {
        let shown = visible(&path.display().to_string());
        CommandFailure::usage(format!("{shown} is not a valid catalog: {why}"))
    })?;
    let artifact = NewArtifact {
        artifact_type: Some(CATALOG_MEDIA_TYPE.to_owned()),
        config: NewArtifact::empty_config(),
        layers: vec![NewLayer {
            media_type: CATALOG_MEDIA_TYPE.to_owned(),
            bytes: text,
            annotations: BTreeMap::new(),
        }],
        annotations: BTreeMap::new(),
    };
    Ok(PushedContent {
        name: catalog.name.unwrap_or_else(|| "catalog".to_owned()),
        version: None,
        artifact,
        facts: None,
        files: Vec::new(),
        left_out: Vec::new(),
    })
}

/// Collects the facts about a component. Fails if it has no tool that can be called.
pub(super) async fn component_facts(
    setup: &HostSetup,
    path: &Path,
    component: &[u8],
) -> CommandResult<ComponentFacts> {
    let shown = visible(&path.display().to_string());
    let refused = |why: &dyn std::fmt::Display| {
        ToolError::invalid_input(format!("{shown} was not pushed: {why}"))
    };
    let detected = mimir_wasm::family::detect(component).map_err(|error| refused(&error))?;
    let file_name = path.file_name().map(Path::new).unwrap_or(path);
    let loaded = load_alone(setup, file_name, component).await?;
    let Some(tool) = loaded.tools.first() else {
        let reason = loaded.quarantined.first();
        let reason = reason.map_or("it has no tools", |left_out| left_out.reason.as_str());
        return Err(refused(&reason).into());
    };
    let metadata = ComponentMetadata::read(component);
    let description = match loaded.tools.as_slice() {
        [only] => only
            .definition
            .description
            .lines()
            .next()
            .map(str::to_owned),
        _ => None,
    };
    let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(ComponentFacts {
        created: modified_at(path),
        exports: detected.exports,
        imports: detected.imports,
        title: named(&tool.origin.plugin),
        version: metadata.version.or_else(|| named(&tool.origin.version)),
        description: metadata.description.or(description),
        source: metadata.source,
        url: metadata.homepage,
        licenses: metadata.licenses,
        authors: metadata.authors,
        revision: metadata.revision,
        ..ComponentFacts::default()
    })
}

/// Returns the time at which a file was written, so that a second push of it gives the same digest.
fn modified_at(path: &Path) -> Timestamp {
    let modified = std::fs::metadata(path)
        .and_then(|meta| meta.modified())
        .ok();
    let modified = modified.and_then(|time| Timestamp::try_from(time).ok());
    let whole_seconds = modified.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    whole_seconds.unwrap_or_else(Timestamp::now)
}
