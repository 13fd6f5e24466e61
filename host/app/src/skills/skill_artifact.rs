//! Skills in registries: one archive as the layer, or one layer per file that is named by its title.

use std::collections::BTreeMap;

use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::{
    Descriptor, ImageManifest, NewArtifact, NewLayer, OciDigest, OciManifest, OciReference,
    PulledManifest, RegistryClient,
};
use serde_json::Value;

use super::skill_archive::read_skill_archive;
use super::skill_document::SkillDocument;
use super::skill_files::{MAX_FILES, MAX_TOTAL_SIZE, SkillFiles};

/// The type of the artifacts that mimir writes. Other types are read, too.
pub const SKILL_ARTIFACT_TYPE: &str = "application/vnd.agentskills.skill.v1";

/// The annotation with the path of a layer's file.
const TITLE: &str = "org.opencontainers.image.title";

/// The media type of an archive with all files.
const ARCHIVE_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";

/// Maximum number of files with layers of their own. Clients refuse manifests with many layers.
const MAX_FILE_LAYERS: usize = 32;

/// Maximum length of a version in the annotations, in characters.
const MAX_VERSION: usize = 64;

/// Room for the headers of an archive, besides the files.
const ARCHIVE_OVERHEAD: u64 = 4 << 20;

/// A skill that was pulled.
pub struct PulledSkill {
    /// The files.
    pub files: SkillFiles,
    /// The digest of the manifest.
    pub manifest: OciDigest,
}

/// A layer of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SkillLayer {
    /// The file with this path.
    File(String),
    /// An archive with all files.
    Archive,
}

/// Downloads the files of a skill whose manifest was fetched, and verified where signatures are required.
pub async fn pull_skill(
    client: &RegistryClient,
    reference: &OciReference,
    manifest: &PulledManifest,
) -> Result<PulledSkill, ToolError> {
    let OciManifest::Image(image) = &manifest.parsed else {
        return Err(not_a_skill("it names several artifacts"));
    };
    let mut files = SkillFiles::default();
    for (layer, descriptor) in layers(image)? {
        match layer {
            SkillLayer::File(path) => {
                files.check_room(&path, descriptor.size)?;
                let bytes = client
                    .read_blob(reference, descriptor, MAX_TOTAL_SIZE)
                    .await?;
                files.insert(&path, bytes)?;
            }
            SkillLayer::Archive => {
                let max = MAX_TOTAL_SIZE + ARCHIVE_OVERHEAD;
                let bytes = client.read_blob(reference, descriptor, max).await?;
                files = read_skill_archive(&bytes)?;
            }
        }
    }
    Ok(PulledSkill {
        files: files.without_top_folder(),
        manifest: manifest.digest,
    })
}

/// Packs a skill as an artifact with one layer per file. Many files, or scripts that are executable, become one archive,
/// because a manifest cannot have so many layers, and a layer has no mode. The same files give the same bytes.
///
/// # Errors
///
/// Fails if the archive cannot be written.
pub fn skill_artifact(
    files: &SkillFiles,
    document: &SkillDocument,
) -> Result<NewArtifact, ToolError> {
    let has_modes = files.iter().any(|(path, _)| files.is_executable(path));
    let layers = if files.len() <= MAX_FILE_LAYERS && !has_modes {
        let layers = files.iter().map(|(path, bytes)| NewLayer {
            media_type: super::skill_resources::mime_type(path).to_owned(),
            bytes: bytes.to_vec(),
            annotations: BTreeMap::from([(TITLE.to_owned(), path.to_owned())]),
        });
        layers.collect()
    } else {
        let archive = write_archive(files).map_err(|error| {
            ToolError::execution(format!(
                "the archive of the skill cannot be written: {error}"
            ))
        })?;
        let title = format!("{}.tar", document.name);
        vec![NewLayer {
            media_type: ARCHIVE_TYPE.to_owned(),
            bytes: archive,
            annotations: BTreeMap::from([(TITLE.to_owned(), title)]),
        }]
    };
    let mut annotations = BTreeMap::from([
        (TITLE.to_owned(), document.name.clone()),
        (
            "org.opencontainers.image.description".to_owned(),
            document.shown_description(),
        ),
    ]);
    if let Some(version) = skill_version(document) {
        annotations.insert("org.opencontainers.image.version".to_owned(), version);
    }
    if let Some(license) = &document.license {
        annotations.insert(
            "org.opencontainers.image.licenses".to_owned(),
            license.clone(),
        );
    }
    Ok(NewArtifact {
        artifact_type: Some(SKILL_ARTIFACT_TYPE.to_owned()),
        config: NewArtifact::empty_config(),
        layers,
        annotations,
    })
}

/// Returns the version in the `metadata` of a skill.
pub fn skill_version(document: &SkillDocument) -> Option<String> {
    let version = document.frontmatter.get("metadata")?.get("version")?;
    let version = match version {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!version.is_empty()).then(|| visible(prefix(&version, MAX_VERSION)))
}

/// Writes an archive of all files, without times and owners.
fn write_archive(files: &SkillFiles) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files.iter() {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        let is_executable = files.is_executable(path);
        header.set_mode(if is_executable { 0o755 } else { 0o644 });
        header.set_mtime(0);
        archive.append_data(&mut header, path, bytes)?;
    }
    archive.into_inner()
}

/// Returns the layers of a skill: all named files, or the only archive.
fn layers(image: &ImageManifest) -> Result<Vec<(SkillLayer, &Descriptor)>, ToolError> {
    if image.layers.len() > MAX_FILES {
        return Err(ToolError::limit_exceeded(format!(
            "the artifact has more than {MAX_FILES} files"
        )));
    }
    let is_archive = |layer: &Descriptor| {
        let kind = layer.media_type.as_str();
        let title = layer.annotations.get(TITLE).map_or("", String::as_str);
        let is_named_so = [".tar", ".tgz", ".tar.gz"]
            .iter()
            .any(|end| title.ends_with(end));
        kind.ends_with(".tar")
            || kind.ends_with("tar+gzip")
            || kind.ends_with("/gzip")
            || is_named_so
    };
    if let [layer] = image.layers.as_slice()
        && is_archive(layer)
    {
        return Ok(vec![(SkillLayer::Archive, layer)]);
    }
    let named = image.layers.iter().map(|layer| {
        let title = layer.annotations.get(TITLE);
        title.map(|title| (SkillLayer::File(title.clone()), layer))
    });
    let layers: Option<Vec<_>> = named.collect();
    match layers {
        Some(layers) if !layers.is_empty() => Ok(layers),
        _ => Err(not_a_skill(
            "expected one layer with a tar archive, or one layer per file with its path as the title",
        )),
    }
}

fn not_a_skill(why: &str) -> ToolError {
    ToolError::new(
        ToolErrorCode::InvalidInput,
        format!("the artifact is not a skill: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(media_type: &str, title: Option<&str>) -> Descriptor {
        Descriptor {
            media_type: media_type.to_owned(),
            digest: OciDigest::of_bytes(b""),
            size: 0,
            annotations: (title.iter())
                .map(|title| (TITLE.to_owned(), (*title).to_owned()))
                .collect(),
            artifact_type: None,
            platform: None,
        }
    }

    fn image(layers: Vec<Descriptor>) -> ImageManifest {
        ImageManifest {
            schema_version: 2,
            media_type: None,
            artifact_type: None,
            config: layer("application/vnd.oci.empty.v1+json", None),
            layers,
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    fn kinds(image: &ImageManifest) -> Option<Vec<SkillLayer>> {
        let layers = layers(image).ok()?;
        Some(layers.into_iter().map(|(layer, _)| layer).collect())
    }

    #[test]
    fn skill_artifact_layers_are_an_archive_or_named_files() {
        for archive in [
            layer("application/vnd.oci.image.layer.v1.tar+gzip", None),
            layer("application/vnd.agent.skill.content.v1.tar+gzip", None),
            layer("application/vnd.oci.image.layer.v1.tar", Some("a")),
            layer("application/octet-stream", Some("a.tgz")),
        ] {
            assert_eq!(
                kinds(&image(vec![archive])),
                Some(vec![SkillLayer::Archive])
            );
        }
        let files = image(vec![
            layer("text/markdown", Some("SKILL.md")),
            layer("text/x-python", Some("scripts/a.py")),
        ]);
        let file = |path: &str| SkillLayer::File(path.to_owned());
        assert_eq!(
            kinds(&files),
            Some(vec![file("SKILL.md"), file("scripts/a.py")])
        );
        assert_eq!(kinds(&image(vec![])), None);
        assert_eq!(kinds(&image(vec![layer("application/wasm", None)])), None);
        let many = vec![layer("text/plain", Some("a")); MAX_FILES + 1];
        assert_eq!(kinds(&image(many)), None);
    }

    #[test]
    fn skill_artifact_has_one_titled_layer_per_file() {
        let mut files = SkillFiles::default();
        let text = "---\nname: a\ndescription: d\n---\n";
        files.insert("SKILL.md", text.as_bytes().to_vec()).unwrap();
        files.insert("scripts/a.py", b"x".to_vec()).unwrap();
        let artifact = skill_artifact(&files, &files.document().unwrap()).unwrap();
        let titles = artifact
            .layers
            .iter()
            .map(|layer| layer.annotations[TITLE].as_str());
        assert_eq!(titles.collect::<Vec<_>>(), ["SKILL.md", "scripts/a.py"]);
    }
    #[test]
    fn skill_artifact_with_many_files_is_one_archive() {
        let mut files = SkillFiles::default();
        let text = "---\nname: a\ndescription: d\nmetadata: {version: '1.2'}\n---\n";
        files.insert("SKILL.md", text.as_bytes().to_vec()).unwrap();
        // Longer than the name field of an archive.
        let folder = ["x"; 8].map(|part| part.repeat(20)).join("/");
        for number in 0..100 {
            let path = format!("{folder}/{number}.md");
            files.insert(&path, vec![b'x'; number]).unwrap();
        }
        let document = files.document().unwrap();
        let artifact = skill_artifact(&files, &document).unwrap();
        let [layer] = &artifact.layers[..] else {
            panic!("{:?}", artifact.layers.len());
        };
        let descriptor = Descriptor {
            annotations: layer.annotations.clone(),
            ..Descriptor::of_bytes(&layer.media_type, &layer.bytes)
        };
        assert_eq!(
            kinds(&image(vec![descriptor])),
            Some(vec![SkillLayer::Archive])
        );
        let read = read_skill_archive(&layer.bytes).unwrap();
        assert_eq!(read.digest(), files.digest());
        assert_eq!(
            artifact.annotations["org.opencontainers.image.version"],
            "1.2"
        );
        let again = skill_artifact(&files, &document).unwrap();
        assert_eq!(again.layers[0].bytes, layer.bytes);
    }
}
