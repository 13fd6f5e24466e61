//! Skills in registries: one archive as the layer, or one layer per file that is named by its title.

use std::collections::BTreeMap;

use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::{
    Descriptor, ImageManifest, NewArtifact, NewLayer, OciDigest, OciManifest, OciReference,
    PulledManifest, RegistryClient,
};

use super::skill_archive::read_skill_archive;
use super::skill_document::SkillDocument;
use super::skill_files::{MAX_FILES, MAX_TOTAL_SIZE, SkillFiles};

/// The type of the artifacts that mimir writes. Other types are read, too.
pub const SKILL_ARTIFACT_TYPE: &str = "application/vnd.agentskills.skill.v1";

/// The annotation with the path of a layer's file.
const TITLE: &str = "org.opencontainers.image.title";

/// The media type of a config without content.
const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";

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

/// Packs a skill as an artifact with one layer per file.
pub fn skill_artifact(files: &SkillFiles, document: &SkillDocument) -> NewArtifact {
    let layers = files.iter().map(|(path, bytes)| NewLayer {
        media_type: super::skill_resources::mime_type(path).to_owned(),
        bytes: bytes.to_vec(),
        annotations: BTreeMap::from([(TITLE.to_owned(), path.to_owned())]),
    });
    let mut annotations = BTreeMap::from([
        (TITLE.to_owned(), document.name.clone()),
        (
            "org.opencontainers.image.description".to_owned(),
            document.shown_description(),
        ),
    ]);
    if let Some(license) = &document.license {
        annotations.insert(
            "org.opencontainers.image.licenses".to_owned(),
            license.clone(),
        );
    }
    NewArtifact {
        artifact_type: Some(SKILL_ARTIFACT_TYPE.to_owned()),
        config: (EMPTY_CONFIG.to_owned(), b"{}".to_vec()),
        layers: layers.collect(),
        annotations,
    }
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
            config: layer(EMPTY_CONFIG, None),
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
        let artifact = skill_artifact(&files, &files.document().unwrap());
        let titles = artifact
            .layers
            .iter()
            .map(|layer| layer.annotations[TITLE].as_str());
        assert_eq!(titles.collect::<Vec<_>>(), ["SKILL.md", "scripts/a.py"]);
    }
}
