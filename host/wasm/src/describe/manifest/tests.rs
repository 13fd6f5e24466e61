//! Plugins with a manifest section: true, false and damaged ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;
use crate::host::HostOptions;
use crate::lift::testkit::{build_world, echoes};
use crate::toolbox::{LoadedTools, Toolbox};

const TOOL_WIT: &str = include_str!("../../../../../wit/tool.wit");

/// Addresses in the memory of [`plugin`].
const TEXTS: u32 = 1024;
const DEFINITION: u32 = 2048;
const MANIFEST: u32 = 4096;

/// Returns these words in memory order, as a string in WebAssembly text.
fn data(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.map(|byte| format!("\\{byte:02x}")).collect()
}

/// A plugin with one tool `count`, which imports files but needs none.
fn plugin() -> Vec<u8> {
    // Address and length of each text.
    let texts = "count1.0.0Counts.{\\22type\\22:\\22object\\22}";
    let [name, version, description, schema] = [
        [TEXTS, 5],
        [TEXTS + 5, 5],
        [TEXTS + 10, 7],
        [TEXTS + 17, 17],
    ];
    // The fields of `definition` and `manifest` in the canonical ABI; options take three words.
    let mut definition = vec![];
    definition.extend(name);
    definition.extend([0, 0, 0]);
    definition.extend(description);
    definition.push(5);
    definition.extend(schema);
    definition.extend([0, 0, 0]);
    definition.push(u32::from_le_bytes([1, 0, 1, 0]));
    definition.extend([0; 13]);
    let mut manifest = vec![];
    manifest.extend(name);
    manifest.extend(version);
    manifest.extend(description);
    manifest.extend([0; 6]);
    manifest.extend([DEFINITION, 1]);
    let params = "i32 ".repeat(16);
    let core = format!(
        "{}
        (data (i32.const {TEXTS}) \"{texts}\")
        (data (i32.const {DEFINITION}) \"{}\")
        (data (i32.const {MANIFEST}) \"{}\")
        (func (export \"mimir:tool/toolset@1.0.0#describe\") (result i32) (i32.const {MANIFEST}))
        (func (export \"mimir:tool/toolset@1.0.0#call\") (param {params}) (result i32) unreachable)",
        echoes([]),
        data(&definition),
        data(&manifest),
    );
    build_world(TOOL_WIT, Some("tool"), &core)
}

/// A tools folder, and a host that counts compilations.
struct ToolsFixture {
    home: TempDir,
    host: Arc<WasmHost>,
    compiled: Arc<AtomicUsize>,
}

impl ToolsFixture {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let compiled = Arc::<AtomicUsize>::default();
        let mut options = HostOptions::new(home.path().join("work"));
        options.cache_dir = Some(home.path().join("cache"));
        let counter = Arc::clone(&compiled);
        options.on_compile = Some(Arc::new(move |event| {
            if matches!(event, crate::CompileEvent::Started { .. }) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }));
        std::fs::create_dir_all(home.path().join("work/tools")).unwrap();
        Self {
            host: WasmHost::new(options),
            home,
            compiled,
        }
    }

    fn toolbox(&self, component: &[u8]) -> Toolbox {
        let folder = self.home.path().join("work/tools");
        std::fs::write(folder.join("count.wasm"), component).unwrap();
        Toolbox::new(Arc::clone(&self.host), vec![], Some(folder))
    }

    async fn load(&self, component: &[u8]) -> LoadedTools {
        self.toolbox(component).load().await
    }

    fn compiled(&self) -> usize {
        self.compiled.load(Ordering::Relaxed)
    }
}

fn with_section(content: &str) -> Vec<u8> {
    let mut component = plugin();
    manifest_section::append(&mut component, content.as_bytes()).unwrap();
    component
}

/// The description in the section of a finished plugin.
async fn section() -> String {
    let finished = finish_plugin(&ToolsFixture::new().host, &plugin()).await;
    let finished = finished.unwrap();
    let section = manifest_section::read(&finished).unwrap().unwrap();
    String::from_utf8(section.to_vec()).unwrap()
}

#[tokio::test]
async fn manifest_of_a_finished_plugin_lists_its_tools_without_compiling() {
    let builder = ToolsFixture::new();
    let finished = finish_plugin(&builder.host, &plugin()).await.unwrap();
    assert_eq!(builder.compiled(), 1);

    let other = ToolsFixture::new();
    let listed = other.load(&finished).await;
    assert_eq!((listed.tools.len(), other.compiled()), (1, 0));
    let queried = ToolsFixture::new();
    let asked = queried.load(&plugin()).await;
    assert_eq!(queried.compiled(), 1);
    let definition =
        |loaded: &LoadedTools| serde_json::to_value(&loaded.tools[0].definition).unwrap();
    assert_eq!(definition(&listed), definition(&asked));
    assert_eq!(listed.tools[0].origin.plugin, "count");

    // Its code was cached for the file with the section.
    let toolbox = builder.toolbox(&finished);
    let location = toolbox.load().await.tools[0].origin.location.clone();
    toolbox.verify_description(&location).await.unwrap();
    assert_eq!(
        finish_plugin(&builder.host, &finished).await.unwrap(),
        finished
    );
}

#[tokio::test]
async fn manifest_that_differs_from_the_component_is_found_before_it_is_trusted() {
    let section = section().await;
    let lie = section.replace("Counts.", "Deletes.");
    assert_ne!(section, lie);
    let tools = ToolsFixture::new();
    let toolbox = tools.toolbox(&with_section(&lie));
    let loaded = toolbox.load().await;
    assert_eq!(loaded.tools[0].definition.description, "Deletes.");
    let location = &loaded.tools[0].origin.location;
    let error = toolbox.verify_description(location).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("`count`") && error.contains("differs"),
        "{error}"
    );
}

#[tokio::test]
async fn manifest_gives_no_rights_of_its_own() {
    let lie = section().await.replace(
        r#""needs":{}"#,
        r#""needs":{"environment":{"PATH":"/evil"},"config":{"key":"value"}}"#,
    );
    assert!(lie.contains("/evil"));
    let loaded = ToolsFixture::new().load(&with_section(&lie)).await;
    assert!(loaded.tools[0].definition.needs.is_empty());
}

#[tokio::test]
async fn manifest_that_is_damaged_is_ignored() {
    let section = section().await;
    for bad in [
        &section[..section.len() / 2],
        "",
        "[]",
        r#"{"name": "x", "version": "1.0.0", "tools": []}"#,
        &"[".repeat(100_000),
    ] {
        let tools = ToolsFixture::new();
        let loaded = tools.load(&with_section(bad)).await;
        assert_eq!((loaded.tools.len(), tools.compiled()), (1, 1), "{bad:.40}");
        assert_eq!(loaded.tools[0].definition.description, "Counts.");
    }
    let mut twice = with_section(&section);
    manifest_section::append(&mut twice, section.as_bytes()).unwrap();
    let tools = ToolsFixture::new();
    assert_eq!(tools.load(&twice).await.tools.len(), 1);
    assert_eq!(tools.compiled(), 1);
}

#[tokio::test]
async fn manifest_is_only_written_for_plugins() {
    let tools = ToolsFixture::new();
    let plain = crate::componentize::adapt(b"(module (func (export \"f\")))").unwrap();
    let finished = finish_plugin(&tools.host, &plain).await.unwrap();
    assert_eq!(finished, plain.as_ref(), "it describes no tools itself");
    assert!(finish_plugin(&tools.host, b"hello").await.is_err());
}
