//! Trusted skills as resources of the MCP server.
//!
//! A client compares the content of a resource with its digest, so the content cannot contain marks of untrusted text.
//! Skills whose instructions no person has trusted are therefore not served as resources; `load_skill` marks them.

use mimir_mcp::{ServedSkill, ServedSkillFile, SkillSource};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{SKILL_FILE, SkillLibrary, UsableSkill};

/// The skills of a workspace as a source of resources.
pub struct SkillResourceSource(Mutex<SkillLibrary>);

impl SkillResourceSource {
    /// Creates the source for the skills of a library.
    pub fn new(library: SkillLibrary) -> Self {
        Self(Mutex::new(library))
    }

    /// Replaces the library after the settings or the bundles of teams have changed.
    pub fn replace(&self, library: SkillLibrary) {
        *self.0.lock() = library;
    }
}

impl SkillSource for SkillResourceSource {
    fn skills(&self) -> Vec<ServedSkill> {
        let library = self.0.lock().clone();
        let skills = library.usable_as(|skill| skill.is_trusted.then(|| served(&skill)));
        skills.into_iter().flatten().collect()
    }
}

fn served(skill: &UsableSkill) -> ServedSkill {
    let document = &skill.content.document;
    let files = skill
        .content
        .files
        .iter()
        .map(|(path, bytes)| ServedSkillFile {
            path: path.to_owned(),
            digest: format!("{:x}", Sha256::digest(bytes)),
            size: bytes.len() as u64,
            mime_type: mime_type(path),
        });
    ServedSkill {
        name: skill.name.clone(),
        description: document.shown_description(),
        frontmatter: document.frontmatter.clone(),
        files: files.collect(),
    }
}

/// Returns the media type of a file, by its extension.
pub(super) fn mime_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        _ if name == SKILL_FILE => "text/markdown",
        "md" | "markdown" => "text/markdown",
        "txt" => "text/plain",
        "py" => "text/x-python",
        "js" | "mjs" => "text/javascript",
        "ts" => "text/x-typescript",
        "sh" | "bash" => "text/x-shellscript",
        "html" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "json" => "application/json",
        "yml" | "yaml" => "application/yaml",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
