//! A proposal to put a component into a team's bundle: everything that a reviewer must see.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::{Grant, GrantStatus, SourceSigner};
use mimir_core::needs::Needs;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode, ToolHints};
use mimir_registry::OciDigest;
use mimir_registry::team::MAX_BLOB_SIZE;
use mimir_wasm::family::proofs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::file_error::{file_error, write_atomically};
use crate::registries::SignatureState;

use super::authoring_folder::{build_stem, check_file_name, component_file, refuse_link};
use super::plugin_inspection::InspectedPlugin;
use super::proposal_page::proposal_page;

/// Version of the format.
const FORMAT: u32 = 1;

/// Maximum size of a proposal's JSON in bytes.
const MAX_JSON_SIZE: u64 = 8 << 20;

/// A proposal, as it is written next to the component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolProposal {
    /// Version of the format.
    pub format: u32,
    /// Name of the component's file in the bundle.
    pub file: String,
    /// Digest of the component.
    pub digest: OciDigest,
    /// Size of the component in bytes.
    pub size: u64,
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// The tools, with all texts that models read.
    pub tools: Vec<ProposedTool>,
    /// Tools of the component that the host leaves out, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The imported interfaces.
    pub imports: Vec<String>,
    /// Conclusions from the imports, such as `cannot run commands`.
    pub proofs: Vec<String>,
    /// Rights that the proposer names for a component that cannot declare its needs.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub named: Needs,
    /// The build in the team's bundle that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousBuild>,
    /// Origin in a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ProposalSource>,
    /// Test results, as the proposer reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<ProposedTests>,
}

/// A tool of a proposed component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposedTool {
    /// Name.
    pub name: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, which models read.
    pub description: String,
    /// Decision about a call if no rule matches.
    pub approval: String,
    /// Damage that a wrong call could do.
    pub risk: String,
    /// Hints about its effects.
    pub hints: ToolHints,
    /// Requested rights.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub needs: Needs,
    /// Suspicious properties of its texts, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Schema of the arguments.
    pub input_schema: Value,
    /// Schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// The build that a proposed one replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviousBuild {
    /// SHA-256 of the earlier component in lower-case hex.
    pub digest: String,
    /// Differences in imports, needs and definitions, one line each. Empty if only the code differs.
    pub changes: Vec<String>,
}

/// Origin of a proposed component in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalSource {
    /// Reference, with the digest of the manifest.
    pub reference: String,
    /// Verified signer of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<SourceSigner>,
    /// Builder named by the provenance. It is shown only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// State of the signature on this machine. It is shown only, and not stored: it depends on the trust policy of the person
    /// who looks.
    #[serde(skip)]
    pub signature: Option<SignatureState>,
}

impl ProposalSource {
    /// Returns who has signed, or why that is not known.
    pub fn signature_text(&self) -> String {
        match (&self.signer, &self.signature) {
            (Some(signer), _) => signer.to_string(),
            (None, Some(state)) => state.to_string(),
            (None, None) => "no verified signature".to_owned(),
        }
    }
}

/// Test results that the proposer reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposedTests {
    /// Number of passed cases.
    pub passed: usize,
    /// Number of failed cases.
    pub failed: usize,
    /// Names of the cases, with `true` for a passed one.
    pub cases: Vec<(String, bool)>,
}

impl ToolProposal {
    /// Creates a proposal of an inspected component. `previous` is the grant of the earlier build in the bundle.
    pub fn new(
        plugin: &InspectedPlugin,
        named: &Needs,
        previous: Option<&Grant>,
        source: Option<ProposalSource>,
        tests: Option<ProposedTests>,
    ) -> Self {
        let origin = plugin.tools.first().map(|tool| &*tool.origin);
        let imports = origin.map_or_else(Vec::new, |origin| origin.imports.clone());
        let tools = plugin.tools.iter().map(|tool| {
            let definition = &tool.definition;
            ProposedTool {
                name: tool.name().to_string(),
                title: definition.title.clone(),
                description: definition.description.clone(),
                approval: definition.approval.as_str().to_owned(),
                risk: definition.risk.as_str().to_owned(),
                hints: definition.hints,
                needs: definition.needs.clone(),
                flags: tool.flags.clone(),
                input_schema: definition.input_schema.to_value(),
                output_schema: definition
                    .output_schema
                    .as_ref()
                    .map(|schema| schema.to_value()),
            }
        });
        let previous = previous.map(|grant| PreviousBuild {
            digest: grant.digest.clone(),
            changes: match grant.status(&plugin.tools) {
                GrantStatus::Granted => Vec::new(),
                GrantStatus::Changed(changes) => changes.lines,
            },
        });
        Self {
            format: FORMAT,
            file: plugin.file.clone(),
            digest: plugin.digest,
            size: plugin.bytes.len() as u64,
            plugin: origin.map_or_else(String::new, |origin| origin.plugin.clone()),
            version: origin.map_or_else(String::new, |origin| origin.version.clone()),
            tools: tools.collect(),
            left_out: plugin.left_out.clone(),
            proofs: proofs(&imports).iter().map(ToString::to_string).collect(),
            imports,
            named: named.clone(),
            previous,
            source,
            tests,
        }
    }

    /// Returns the digest that a reviewer confirms. It covers the component and all rights that an approval can grant, also
    /// those that the proposer names, which are not in the component.
    pub fn review_digest(&self) -> OciDigest {
        let needs = self.tools.iter().map(|tool| (&tool.name, &tool.needs));
        let needs: BTreeMap<&String, &Needs> = needs.collect();
        let covered = json!({
            "file": self.file,
            "digest": self.digest,
            "named": self.named,
            "needs": needs,
        });
        OciDigest::of_bytes(covered.to_string().as_bytes())
    }

    /// Returns an error if the component is not the one that this proposal describes. A proposal comes from another
    /// person, who could show one component and hand in another.
    pub fn check_describes(&self, plugin: &InspectedPlugin) -> Result<(), ToolError> {
        let fact = Self::new(plugin, &self.named, None, None, None);
        let differs = [
            ("digest", self.digest != fact.digest),
            ("size", self.size != fact.size),
            (
                "plugin",
                (&self.plugin, &self.version) != (&fact.plugin, &fact.version),
            ),
            ("tools", self.tools != fact.tools),
            ("imports", self.imports != fact.imports),
            ("proofs", self.proofs != fact.proofs),
        ];
        let differs = differs.iter().filter(|(_, differs)| *differs);
        let differs: Vec<&str> = differs.map(|(key, _)| *key).collect();
        if differs.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the proposal does not describe its component: {} differ in {}; nothing was approved",
            differs.join(", "),
            self.file
        );
        let remedy = "have the tool proposed again, with this version of mimir".to_owned();
        Err(ToolError::new(ToolErrorCode::PermissionDenied, message).with_remedies([remedy]))
    }
}

/// Paths of the three files of a proposal: the page for the reviewer, the same as JSON, and the component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProposalFiles {
    /// The page.
    pub page: PathBuf,
    /// The JSON.
    pub json: PathBuf,
    /// The component.
    pub component: PathBuf,
}

impl ProposalFiles {
    /// Returns the paths next to the named page.
    pub fn beside(page: &Path) -> Self {
        Self {
            page: page.to_owned(),
            json: page.with_extension("json"),
            component: page.with_extension("wasm"),
        }
    }

    /// Returns the paths of a proposal in a folder, named after the file and its digest.
    pub fn in_folder(folder: &Path, file: &str, digest: &OciDigest) -> Self {
        Self::beside(&folder.join(format!("{}.md", build_stem(file, digest))))
    }

    /// Finds a proposal by the path of one of its files, or by a name in `folder`: that of a tool's file, with or without
    /// digits of its digest.
    ///
    /// # Errors
    ///
    /// Fails if no proposal matches, or several.
    pub fn find(named: &Path, folder: &Path) -> Result<Self, ToolError> {
        let files = Self::beside(&named.with_extension("md"));
        let is_path = named.extension().is_some() || named.components().count() > 1;
        if is_path && files.json.symlink_metadata().is_ok() {
            return Ok(files);
        }
        let shown = visible(&named.display().to_string());
        let name = named.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        let stem = name.strip_suffix(".wasm").unwrap_or(name);
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(ToolError::not_found(format!("no proposal named {shown}")));
            }
            Err(error) => return Err(file_error("read", folder, &error)),
        };
        let stems = entries.filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_json = path
                .extension()
                .is_some_and(|extension| extension == "json");
            let stem = path.file_stem()?.to_str()?.to_owned();
            is_json.then_some(stem)
        });
        let is_named = |other: &String| {
            // The digits of the digest are after the last hyphen.
            let name = other.rsplit_once('-').map_or(&**other, |(name, _)| name);
            name == stem || (stem.len() > name.len() && other.starts_with(stem))
        };
        let mut found: Vec<String> = stems.filter(is_named).collect();
        found.sort();
        match found.as_slice() {
            [one] => Ok(Self::beside(&folder.join(format!("{one}.md")))),
            [] => Err(ToolError::not_found(format!(
                "no proposal named {shown} in {}",
                visible(&folder.display().to_string())
            ))),
            several => Err(ToolError::invalid_input(format!(
                "{shown} names several proposals; name one: {}",
                visible(&several.join(", "))
            ))),
        }
    }

    /// Writes the proposal: the component first, so that a page never lacks it.
    pub fn write(&self, proposal: &ToolProposal, component: &[u8]) -> Result<(), ToolError> {
        let json = serde_json::to_string_pretty(proposal).map_err(ToolError::internal)?;
        let page = proposal_page(proposal);
        for (path, content) in [
            (&self.component, component),
            (&self.json, format!("{json}\n").as_bytes()),
            (&self.page, page.as_bytes()),
        ] {
            refuse_link(path)?;
            write_atomically(path, content).map_err(|error| file_error("write", path, &error))?;
        }
        Ok(())
    }

    /// Reads the proposal and its component. Nothing in them is checked against each other.
    pub fn read(&self) -> Result<(ToolProposal, Vec<u8>), ToolError> {
        let shown = visible(&self.json.display().to_string());
        let text = files::read_text(&self.json, LinkPolicy::Refuse, MAX_JSON_SIZE)
            .map_err(|error| file_error("read", &self.json, &error))?;
        let fault = |why: String| {
            ToolError::invalid_input(format!("{shown} is not a valid proposal: {why}"))
        };
        let proposal: ToolProposal =
            serde_json::from_str(&text).map_err(|error| fault(visible(&error.to_string())))?;
        if proposal.format != FORMAT {
            return Err(fault(format!(
                "its format is {}: this version of mimir reads format {FORMAT}",
                proposal.format
            )));
        }
        check_file_name(&proposal.file)?;
        let component = files::read(&self.component, LinkPolicy::Refuse, MAX_BLOB_SIZE)
            .map_err(|error| file_error("read", &self.component, &error))?;
        Ok((proposal, component))
    }

    /// Removes the three files. Missing ones are not an error.
    pub fn remove(&self) -> Result<(), ToolError> {
        for path in [&self.json, &self.page, &self.component] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(file_error("remove", path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the file name in a bundle for the file of a tool, such as `.mimir/tools/weather.wasm`.
pub fn bundled_file_name(path: &Path) -> Result<String, ToolError> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let file = component_file(stem.unwrap_or_default());
    check_file_name(&file)?;
    Ok(file)
}
