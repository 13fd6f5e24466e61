//! Skills as resources, after the MCP extension `io.modelcontextprotocol/skills`.
//!
//! Each file of a skill is the resource `skill://NAME/PATH`. Files are read by calls of `load_skill`, so that the policy
//! and the audit log cover them.

use std::collections::BTreeSet;

use rmcp::model::{
    DIRECTORY_MIME_TYPE, JsonObject, Resource, ResourceContents, Skill, SkillFrontmatter,
    SkillResource, SkillResources,
};

/// The tool that reads skills. Where the policy does not offer it, clients see no skills.
pub(crate) const READER: &str = "load_skill";

/// The name of the file with the instructions.
const SKILL_FILE: &str = "SKILL.md";

/// A skill that clients may read.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedSkill {
    /// The name.
    pub name: String,
    /// The description, on one line.
    pub description: String,
    /// The frontmatter of `SKILL.md` as written.
    pub frontmatter: JsonObject,
    /// All files.
    pub files: Vec<ServedSkillFile>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedSkillFile {
    /// The path below the skill's folder, with `/` between components.
    pub path: String,
    /// sha256 in lower-case hex.
    pub digest: String,
    /// The size in bytes.
    pub size: u64,
    /// The media type.
    pub mime_type: &'static str,
}

/// The skills that an MCP server serves.
pub trait SkillSource: Send + Sync {
    /// Returns the skills that clients may read now, without changed ones.
    fn skills(&self) -> Vec<ServedSkill>;
}

impl ServedSkill {
    /// Returns the URI of a file.
    pub(crate) fn uri(&self, path: &str) -> String {
        let mut uri = format!("skill://{}/", self.name);
        for byte in path.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
                uri.push(char::from(byte));
            } else {
                uri.push_str(&format!("%{byte:02X}"));
            }
        }
        uri
    }

    /// Returns the entry of the skill for `skills/list` and `skills/get`.
    pub(crate) fn entry(&self) -> Skill {
        let mut frontmatter = SkillFrontmatter::new(self.name.clone(), String::new());
        frontmatter.extra = self.frontmatter.clone();
        frontmatter.extra.remove("name");
        if let Some(description) = frontmatter.extra.remove("description") {
            frontmatter.description = description.as_str().unwrap_or_default().to_owned();
        }
        let files = self.files.iter().map(|file| {
            let digest = format!("sha256:{}", file.digest);
            SkillResource::new(self.uri(&file.path), digest, file.size)
        });
        Skill::new(
            self.uri(SKILL_FILE),
            frontmatter,
            SkillResources::Files(files.collect()),
        )
    }

    /// Returns the resources for clients without the extension: the instructions first.
    pub(crate) fn resources(&self) -> Vec<Resource> {
        let (document, others): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|file| file.path == SKILL_FILE);
        let files = document.into_iter().chain(others);
        files.map(|file| self.resource(file)).collect()
    }

    fn resource(&self, file: &ServedSkillFile) -> Resource {
        let resource = if file.path == SKILL_FILE {
            Resource::new(self.uri(&file.path), self.name.clone())
                .with_description(self.description.clone())
        } else {
            Resource::new(self.uri(&file.path), format!("{}/{}", self.name, file.path))
        };
        resource.with_mime_type(file.mime_type).with_size(file.size)
    }

    /// Returns the files and folders in the folder with this URI. `None` if the skill has no such folder.
    pub(crate) fn folder(&self, uri: &str) -> Option<Vec<Resource>> {
        let root = self.uri("");
        let uri = uri.strip_suffix('/').unwrap_or(uri);
        let is_below = |path: &str| self.uri(path).strip_prefix(uri).map(str::to_owned);
        let mut folders = BTreeSet::new();
        let mut children = Vec::new();
        for file in &self.files {
            let Some(below) = is_below(&file.path) else {
                continue;
            };
            match below.strip_prefix('/').map(|below| below.split_once('/')) {
                Some(Some((folder, _))) => {
                    folders.insert(folder.to_owned());
                }
                Some(None) => children.push(self.resource(file)),
                // Another folder whose name only begins with this one's.
                None => {}
            }
        }
        if (folders.is_empty() && children.is_empty()) || !format!("{uri}/").starts_with(&root) {
            return None;
        }
        let folders = folders.into_iter().map(|name| {
            Resource::new(format!("{uri}/{name}"), name).with_mime_type(DIRECTORY_MIME_TYPE)
        });
        Some(folders.chain(children).collect())
    }

    /// Returns the file with this URI.
    pub(crate) fn file(&self, uri: &str) -> Option<&ServedSkillFile> {
        self.files.iter().find(|file| self.uri(&file.path) == uri)
    }
}

impl ServedSkillFile {
    /// Returns true if these are the bytes of the file.
    pub(crate) fn is_content(&self, bytes: &[u8]) -> bool {
        let promised = SkillResource::new("", format!("sha256:{}", self.digest), self.size);
        promised.verify(bytes).is_ok()
    }

    /// Returns the contents of the resource.
    pub(crate) fn contents(&self, uri: &str, bytes: &[u8]) -> ResourceContents {
        use base64::Engine as _;
        let contents = match std::str::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(_) => {
                let blob = base64::engine::general_purpose::STANDARD.encode(bytes);
                ResourceContents::blob(blob, uri)
            }
        };
        contents.with_mime_type(self.mime_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn skill() -> ServedSkill {
        let file = |path: &str, bytes: &[u8]| ServedSkillFile {
            path: path.to_owned(),
            digest: SkillResource::from_bytes("", bytes).digest["sha256:".len()..].to_owned(),
            size: bytes.len() as u64,
            mime_type: "text/markdown",
        };
        let frontmatter = json!({"name": "forms", "description": "a\nb", "license": "MIT"});
        ServedSkill {
            name: "forms".to_owned(),
            description: "a b".to_owned(),
            frontmatter: frontmatter.as_object().unwrap().clone(),
            files: vec![file("A b/ä.md", b"x"), file(SKILL_FILE, b"y")],
        }
    }

    #[test]
    fn skill_entry_is_valid_and_has_the_frontmatter_as_written() {
        let skill = skill();
        let entry = skill.entry();
        entry.validate().unwrap();
        let value = serde_json::to_value(&entry).unwrap();
        assert_eq!(value["uri"], "skill://forms/SKILL.md");
        assert_eq!(
            value["frontmatter"],
            json!({"name": "forms", "description": "a\nb", "license": "MIT"})
        );
        assert_eq!(
            value["resources"][0]["uri"],
            "skill://forms/A%20b/%C3%A4.md"
        );
    }

    #[test]
    fn skill_folder_lists_its_direct_children() {
        let skill = skill();
        let names = |uri: &str| {
            let children = skill.folder(uri)?.into_iter();
            Some(
                children
                    .map(|child| (child.uri, child.mime_type))
                    .collect::<Vec<_>>(),
            )
        };
        let root = names("skill://forms").unwrap();
        assert_eq!(root.len(), 2);
        assert_eq!(root[0].0, "skill://forms/A%20b");
        assert_eq!(root[0].1.as_deref(), Some("inode/directory"));
        assert_eq!(root[1].0, "skill://forms/SKILL.md");
        assert_eq!(names("skill://forms/"), Some(root));
        assert_eq!(names("skill://forms/A%20b").unwrap().len(), 1);
        for uri in [
            "skill://forms/SKILL.md",
            "skill://forms/A",
            "skill://for",
            "skill:/",
            "skill://",
            "skill:",
            "",
        ] {
            assert_eq!(names(uri), None, "{uri}");
        }
    }

    #[test]
    fn skill_file_is_found_by_its_exact_uri_and_verified() {
        let skill = skill();
        let file = skill.file("skill://forms/A%20b/%C3%A4.md").unwrap();
        assert!(file.is_content(b"x") && !file.is_content(b"y") && !file.is_content(b"xx"));
        for uri in [
            "skill://forms/../forms/SKILL.md",
            "skill://other/SKILL.md",
            "skill://forms/SKILL.md?x",
            "file:///SKILL.md",
            "",
        ] {
            assert!(skill.file(uri).is_none(), "{uri}");
        }
        let resources = skill.resources();
        assert_eq!(resources[0].name, "forms");
        assert_eq!(resources[1].name, "forms/A b/ä.md");
    }
}
