//! The folder of a team's administrator: `team.yml`, the settings, and the files of the next bundle.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::{quote_for_shell, visible};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::team::{MAX_BLOB_SIZE, check_org_id};
use mimir_registry::{OciDigest, OciReference};
use serde::{Deserialize, Serialize};

use crate::file_error::{file_error, write_atomically};
use crate::settings;

use super::content_guides::{GUIDE, guide};
use super::folder_content::{PROMPTS, SKILLS, WORKERS};
use super::manifest_text;

/// Name of the file that describes the team.
pub const MANIFEST: &str = "team.yml";

/// Name of the file with the team's settings.
pub const SETTINGS: &str = "settings.yml";

/// Folder of the components.
pub const TOOLS: &str = "tools";

/// Folder of the proposals.
pub const PROPOSALS: &str = "proposals";

/// Folder of the signed decisions of reviewers.
pub const REVIEWS: &str = "approvals";

/// Folder for the public keys that `team.yml` names.
const KEYS: &str = "keys";

/// Folders of the other files of a bundle.
pub const CONTENT: [&str; 3] = [WORKERS, PROMPTS, SKILLS];

/// Maximum size of `team.yml` and `settings.yml` in bytes.
const MAX_TEXT_SIZE: u64 = 1 << 20;

/// Maximum number of days that a bundle may be valid.
const MAX_EXPIRY_DAYS: u32 = 730;

/// Maximum length of a team's name in characters.
const MAX_NAME_LENGTH: usize = 64;

/// Days that a bundle is valid by default.
const DEFAULT_EXPIRY_DAYS: u32 = 30;

/// Content of `team.yml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthoringManifest {
    /// Id of the team, as in `teams.orgId` of its members.
    pub org_id: String,
    /// Display name of the team.
    pub name: String,
    /// Days after which members refuse a bundle.
    #[serde(default = "default_expiry_days")]
    pub expires_in_days: u32,
    /// Public keys that may sign the next bundle and approve tools: file names relative to the folder, or PEM texts.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Public keys that may approve tools, but not sign bundles.
    #[serde(default)]
    pub review_keys: Vec<String>,
    /// Ids of keys that members no longer accept.
    #[serde(default)]
    pub revoked_keys: Vec<String>,
    /// Patterns of the models that members may use. Without any, all models.
    #[serde(default)]
    pub models: Vec<String>,
    /// The catalog of tools.
    #[serde(default)]
    pub tools: Vec<AuthoredTool>,
}

fn default_expiry_days() -> u32 {
    DEFAULT_EXPIRY_DAYS
}

/// Entry of the catalog: a component in the folder `tools`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthoredTool {
    /// Name of the file.
    pub file: String,
    /// Digest of the file.
    pub digest: OciDigest,
    /// Reference in a registry that the file comes from, with the digest of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// True if members cannot disable the tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enforced: bool,
}

/// Folder with a team's bundle in the making.
#[derive(Debug, Clone)]
pub struct AuthoringFolder {
    root: PathBuf,
    text: String,
    /// The key of the user, as in `--sign`, for commands in messages.
    key_name: Option<String>,
    /// Content of `team.yml`.
    pub manifest: AuthoringManifest,
}

impl AuthoringFolder {
    /// Creates the folder with an empty catalog, and returns the paths of the new files. Existing files are kept.
    ///
    /// # Errors
    ///
    /// Fails if the folder has a `team.yml` already, or if the id or the name is not valid.
    pub fn create(root: &Path, org_id: &str, name: &str) -> Result<Vec<PathBuf>, ToolError> {
        check_org_id(org_id)?;
        check_name(name)?;
        let manifest = root.join(MANIFEST);
        if manifest.symlink_metadata().is_ok() {
            let shown = visible(&manifest.display().to_string());
            let message = format!("{shown} already exists; nothing was written");
            return Err(ToolError::new(ToolErrorCode::AlreadyExists, message));
        }
        let mut written = Vec::new();
        let mut write_new = |path: PathBuf, text: &str| {
            let created = match path.parent() {
                Some(folder) => std::fs::create_dir_all(folder),
                None => Ok(()),
            };
            let created = created.and_then(|()| files::write_new(&path, text));
            match created {
                Ok(true) => written.push(path),
                Ok(false) => {}
                Err(error) => return Err(file_error("write", &path, &error)),
            }
            Ok(())
        };
        for folder in CONTENT.into_iter().chain([KEYS, TOOLS, PROPOSALS, REVIEWS]) {
            let path = root.join(folder);
            match guide(folder) {
                Some(text) => write_new(path.join(GUIDE), text)?,
                // Version control does not store empty folders.
                None => write_new(path.join(".gitkeep"), "")?,
            }
        }
        write_new(root.join(SETTINGS), manifest_text::SETTINGS_TEMPLATE)?;
        // Last, because this file makes the folder one.
        write_new(manifest, &manifest_text::template(org_id, name))?;
        Ok(written)
    }

    /// Reads the folder's `team.yml`.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing or not valid; the error names the line.
    pub fn open(root: &Path) -> Result<Self, ToolError> {
        let path = root.join(MANIFEST);
        let text = files::read_text(&path, LinkPolicy::Refuse, MAX_TEXT_SIZE);
        let text = text.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let shown = visible(&path.display().to_string());
                let message = format!("{shown} does not exist");
                let remedy = "create the folder with `mimir team init DIR --org ID --name NAME`, or name the folder of your team".to_owned();
                ToolError::new(ToolErrorCode::FileNotFound, message).with_remedies([remedy])
            }
            _ => file_error("read", &path, &error),
        })?;
        let manifest = parse_manifest(&visible(&path.display().to_string()), &text)?;
        Ok(Self {
            root: root.to_owned(),
            text,
            key_name: None,
            manifest,
        })
    }

    /// Sets the user's key, as in `--sign`, for commands in messages.
    #[must_use]
    pub fn with_key_name(mut self, name: &str) -> Self {
        self.key_name = Some(name.to_owned());
        self
    }

    /// Returns a command of `mimir team` about this folder for messages, such as `approve weather.wasm`. `options` come
    /// after the folder, and are quoted for a shell already.
    pub fn command(&self, words: &[&str], options: &str) -> String {
        let folder = self.root.display().to_string();
        let words = words.iter().copied();
        // The current folder is the default.
        let words = words.chain((folder != ".").then_some(&*folder));
        let line = words.fold("mimir team".to_owned(), |line, word| {
            line + " " + &quote_for_shell(&visible(word))
        });
        let space = if options.is_empty() { "" } else { " " };
        format!("{line}{space}{options}")
    }

    /// Returns the command that approves a tool.
    pub fn approve_command(&self, tool: &str) -> String {
        self.command(&["approve", tool], &self.sign_option())
    }

    /// Returns the option that signs with the user's key.
    pub fn sign_option(&self) -> String {
        let key = self.key_name.as_deref();
        let key = key.map_or_else(|| "KEY".to_owned(), |key| quote_for_shell(&visible(key)));
        format!("--sign {key}")
    }

    /// Returns the path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a component.
    pub fn tool_path(&self, file: &str) -> PathBuf {
        self.root.join(TOOLS).join(file)
    }

    /// Reads the component of an entry of the catalog.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, or has another digest than the entry.
    pub fn read_component(&self, entry: &AuthoredTool) -> Result<Vec<u8>, ToolError> {
        let path = self.tool_path(&entry.file);
        let shown = path.display().to_string();
        let restore = "restore the file from version control".to_owned();
        let bytes = files::read(&path, LinkPolicy::Refuse, MAX_BLOB_SIZE).map_err(|error| {
            let remove = self.command(&["remove", &entry.file], "");
            let remove = format!("or remove it from the catalog: `{remove}`");
            file_error("read", &path, &error).with_remedies([restore.clone(), remove])
        })?;
        let digest = OciDigest::of_bytes(&bytes);
        if digest == entry.digest {
            return Ok(bytes);
        }
        let message = format!(
            "{} has changed since it was added: {digest} instead of {}",
            visible(&shown),
            entry.digest
        );
        let add = format!(
            "or add the new build, and have it approved: `{}`",
            self.command(&["add", &shown], "")
        );
        let error = ToolError::new(ToolErrorCode::PermissionDenied, message);
        Err(error.with_remedies([restore, add]))
    }

    /// Returns the path of the signed decision about a component.
    pub fn review_path(&self, file: &str, digest: &OciDigest) -> PathBuf {
        self.root
            .join(REVIEWS)
            .join(format!("{}.json", build_stem(file, digest)))
    }

    /// Returns the folder of the proposals.
    pub fn proposals(&self) -> PathBuf {
        self.root.join(PROPOSALS)
    }

    /// Reads the team's settings. A missing file is like an empty one.
    pub fn settings_text(&self) -> Result<String, ToolError> {
        let path = self.root.join(SETTINGS);
        match files::read_text(&path, LinkPolicy::Refuse, MAX_TEXT_SIZE) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(file_error("read", &path, &error)),
        }
    }

    /// Returns the catalog's entry of a tool file; `name` may leave out `.wasm`.
    pub fn tool(&self, name: &str) -> Option<&AuthoredTool> {
        let file = component_file(name);
        self.manifest.tools.iter().find(|tool| tool.file == file)
    }

    /// Writes a component into the folder and its entry into the catalog, which replaces the entry of the same file name.
    pub fn put_tool(&mut self, tool: AuthoredTool, component: &[u8]) -> Result<(), ToolError> {
        check_file_name(&tool.file)?;
        let path = self.tool_path(&tool.file);
        refuse_link(&path)?;
        write_atomically(&path, component).map_err(|error| file_error("write", &path, &error))?;
        let mut tools = self.manifest.tools.clone();
        match tools.iter_mut().find(|known| known.file == tool.file) {
            Some(known) => *known = tool,
            None => tools.push(tool),
        }
        self.write_tools(tools)
    }

    /// Removes a tool from the catalog, and its component. Returns the removed entry; `None` if the catalog has no such
    /// tool.
    pub fn remove_tool(&mut self, name: &str) -> Result<Option<AuthoredTool>, ToolError> {
        let Some(removed) = self.tool(name).cloned() else {
            return Ok(None);
        };
        let mut tools = self.manifest.tools.clone();
        tools.retain(|tool| tool.file != removed.file);
        // First, because an entry without its component stops the next `publish`.
        self.write_tools(tools)?;
        let path = self.tool_path(&removed.file);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(file_error("remove", &path, &error))
            }
            _ => Ok(Some(removed)),
        }
    }

    /// Replaces the catalog in `team.yml`. The rest of the file stays as it is.
    fn write_tools(&mut self, mut tools: Vec<AuthoredTool>) -> Result<(), ToolError> {
        tools.sort_by(|one, other| one.file.cmp(&other.file));
        if tools == self.manifest.tools {
            return Ok(());
        }
        let path = self.root.join(MANIFEST);
        let shown = visible(&path.display().to_string());
        let current = files::read_text(&path, LinkPolicy::Refuse, MAX_TEXT_SIZE)
            .map_err(|error| file_error("read", &path, &error))?;
        if current != self.text {
            let message = format!("{shown} has changed meanwhile; nothing was written, try again");
            return Err(ToolError::invalid_input(message));
        }
        let text = manifest_text::with_tools(&self.text, &tools);
        let expected = AuthoringManifest {
            tools,
            ..self.manifest.clone()
        };
        if parse_manifest(&shown, &text).ok().as_ref() != Some(&expected) {
            let message = format!(
                "the list `tools` in {shown} cannot be changed: write it as a block, with `tools:` at the beginning of a line"
            );
            return Err(ToolError::invalid_input(message));
        }
        write_atomically(&path, text.as_bytes())
            .map_err(|error| file_error("write", &path, &error))?;
        self.text = text;
        self.manifest = expected;
        Ok(())
    }
}

fn parse_manifest(shown: &str, text: &str) -> Result<AuthoringManifest, ToolError> {
    let yaml = settings::check_yaml_text(shown, text)?;
    let manifest: AuthoringManifest =
        serde_yaml::from_str(yaml).map_err(|error| settings::explain(shown, &error))?;
    let fault = |error: ToolError| ToolError::invalid_input(format!("{shown}: {}", error.message));
    check_org_id(&manifest.org_id).map_err(|error| fault(error.into()))?;
    check_name(&manifest.name).map_err(fault)?;
    if !(1..=MAX_EXPIRY_DAYS).contains(&manifest.expires_in_days) {
        return Err(ToolError::invalid_input(format!(
            "{shown}: `expiresInDays` is out of range: expected 1 to {MAX_EXPIRY_DAYS}"
        )));
    }
    for (at, tool) in manifest.tools.iter().enumerate() {
        check_file_name(&tool.file).map_err(fault)?;
        let mut others = manifest.tools.iter().skip(at + 1);
        if others.any(|other| other.file.eq_ignore_ascii_case(&tool.file)) {
            return Err(ToolError::invalid_input(format!(
                "{shown}: `tools` lists {} twice; remove one entry",
                tool.file
            )));
        }
        if let Some(reference) = &tool.reference {
            let parsed = reference.parse::<OciReference>();
            parsed.map_err(|error| fault(ToolError::invalid_input(error)))?;
        }
    }
    Ok(manifest)
}

fn check_name(name: &str) -> Result<(), ToolError> {
    let length = name.chars().count();
    if !name.trim().is_empty() && length <= MAX_NAME_LENGTH && visible(name) == name {
        return Ok(());
    }
    Err(ToolError::invalid_input(format!(
        "the name of the team is not valid: expected 1 to {MAX_NAME_LENGTH} printable characters in one line"
    )))
}

/// Checks the name of a component's file, which becomes a file name on the machines of members.
pub fn check_file_name(file: &str) -> Result<(), ToolError> {
    let stem = file.strip_suffix(".wasm").unwrap_or_default();
    let good = |c: u8| c.is_ascii_alphanumeric() || b"-_".contains(&c);
    if !stem.is_empty() && stem.len() <= 100 && stem.bytes().all(good) {
        return Ok(());
    }
    Err(ToolError::invalid_input(format!(
        "`{}` is not a valid file name of a tool: expected letters, digits, `-` and `_`, and `.wasm` at the end",
        visible(file)
    )))
}

/// Returns the file name of a component, with `.wasm`.
pub fn component_file(name: &str) -> String {
    if name.ends_with(".wasm") {
        name.to_owned()
    } else {
        format!("{name}.wasm")
    }
}

/// Number of digits of a digest in file names.
const SHORT_DIGEST: usize = 12;

/// Returns the name, without an extension, of files about one build of a component.
pub fn build_stem(file: &str, digest: &OciDigest) -> String {
    let stem = file.strip_suffix(".wasm").unwrap_or(file);
    let hex = digest.hex();
    format!("{stem}-{}", &hex[..SHORT_DIGEST])
}

/// Refuses a link at a path that is written: the folder may come from a checkout.
pub fn refuse_link(path: &Path) -> Result<(), ToolError> {
    let mut checked = Some(path);
    // The file and its folder inside the authoring folder.
    for _ in 0..2 {
        let Some(path) = checked else { break };
        if path.is_symlink() {
            let shown = visible(&path.display().to_string());
            let message = format!("{shown} is a link; replace it by a file or folder");
            return Err(ToolError::new(ToolErrorCode::InvalidPath, message));
        }
        checked = path.parent();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_folder() -> (tempfile::TempDir, AuthoringFolder) {
        let dir = tempfile::tempdir().unwrap();
        AuthoringFolder::create(dir.path(), "acme", "Acme: \"engineering\" #1").unwrap();
        let folder = AuthoringFolder::open(dir.path()).unwrap();
        (dir, folder)
    }

    #[test]
    fn authoring_folder_names_whole_commands() {
        let (dir, folder) = new_folder();
        let root = dir.path().display();
        assert_eq!(
            folder.approve_command("a.wasm"),
            format!("mimir team approve a.wasm {root} --sign KEY")
        );
        let mut folder = folder.with_key_name("my key");
        assert_eq!(
            folder.approve_command("a.wasm"),
            format!("mimir team approve a.wasm {root} --sign 'my key'")
        );
        folder.root = PathBuf::from(".");
        assert_eq!(
            folder.command(&["remove", "a.wasm"], ""),
            "mimir team remove a.wasm"
        );
    }

    #[test]
    fn authoring_folder_reads_only_the_component_of_the_catalog() {
        let (dir, mut folder) = new_folder();
        let tool = entry("a.wasm", b"a");
        let error = folder.read_component(&tool).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::FileNotFound);
        assert!(error.remedies[1].contains("mimir team remove a.wasm"));
        folder.put_tool(tool.clone(), b"a").unwrap();
        assert_eq!(folder.read_component(&tool).unwrap(), b"a");
        std::fs::write(dir.path().join("tools/a.wasm"), b"b").unwrap();
        let error = folder.read_component(&tool).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::PermissionDenied);
        let add = format!("mimir team add {0}/tools/a.wasm {0}", dir.path().display());
        assert!(error.remedies[1].contains(&add), "{:?}", error.remedies);
    }

    fn entry(file: &str, component: &[u8]) -> AuthoredTool {
        AuthoredTool {
            file: file.to_owned(),
            digest: OciDigest::of_bytes(component),
            reference: None,
            enforced: false,
        }
    }

    #[test]
    fn authoring_folder_is_created_once() {
        let (dir, folder) = new_folder();
        assert_eq!(folder.manifest.org_id, "acme");
        assert_eq!(folder.manifest.name, "Acme: \"engineering\" #1");
        assert_eq!(folder.manifest.expires_in_days, 30);
        let again = AuthoringFolder::create(dir.path(), "other", "Other").unwrap_err();
        assert_eq!(again.code, ToolErrorCode::AlreadyExists);
        for bad in ["", "Acme", "../x", "-a", "a b", &"a".repeat(65)[..]] {
            let other = tempfile::tempdir().unwrap();
            assert!(
                AuthoringFolder::create(other.path(), bad, "x").is_err(),
                "{bad}"
            );
            assert!(!other.path().join(MANIFEST).exists());
        }
    }

    #[test]
    fn authoring_catalog_changes_keep_comments() {
        let (dir, mut folder) = new_folder();
        let path = dir.path().join(MANIFEST);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("# ours\n{text}\n# the end\n")).unwrap();
        assert!(
            folder.put_tool(entry("b.wasm", b"b"), b"b").is_err(),
            "a change of the file was overwritten"
        );
        let mut folder = AuthoringFolder::open(dir.path()).unwrap();
        folder.put_tool(entry("b.wasm", b"b"), b"b").unwrap();
        let enforced = AuthoredTool {
            enforced: true,
            reference: Some("registry.example.com/acme/a:1".to_owned()),
            ..entry("a.wasm", b"a")
        };
        folder.put_tool(enforced.clone(), b"a").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("# ours\n") && text.ends_with("# the end\n"),
            "{text}"
        );
        let read = AuthoringFolder::open(dir.path()).unwrap();
        assert_eq!(read.manifest.tools, [enforced, entry("b.wasm", b"b")]);
        assert_eq!(
            std::fs::read(dir.path().join("tools/a.wasm")).unwrap(),
            b"a"
        );
        assert!(folder.remove_tool("a").unwrap().is_some());
        assert!(folder.remove_tool("a").unwrap().is_none());
        assert!(!dir.path().join("tools/a.wasm").exists());
        assert!(folder.remove_tool("b.wasm").unwrap().is_some());
        let read = AuthoringFolder::open(dir.path()).unwrap();
        assert!(read.manifest.tools.is_empty());
    }

    #[test]
    fn authoring_manifest_refuses_bad_entries() {
        let (dir, _) = new_folder();
        let path = dir.path().join(MANIFEST);
        let base = "orgId: acme\nname: Acme\n";
        let digest = OciDigest::of_bytes(b"");
        for bad in [
            "unknown: 1\n".to_owned(),
            "expiresInDays: 0\n".to_owned(),
            "expiresInDays: 9999\n".to_owned(),
            format!("tools: [{{file: ../a.wasm, digest: '{digest}'}}]\n"),
            "tools: [{file: a.wasm, digest: 'sha256:00'}]\n".to_owned(),
            format!(
                "tools: [{{file: a.wasm, digest: '{digest}'}}, {{file: A.wasm, digest: '{digest}'}}]\n"
            ),
        ] {
            std::fs::write(&path, format!("{base}{bad}")).unwrap();
            let error = AuthoringFolder::open(dir.path()).unwrap_err();
            assert_eq!(error.code, ToolErrorCode::InvalidInput, "{bad}");
            assert!(error.message.contains(MANIFEST), "{}", error.message);
        }
    }

    #[test]
    #[cfg(unix)]
    fn authoring_folder_writes_through_no_link() {
        let (dir, mut folder) = new_folder();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, dir.path().join("tools/a.wasm")).unwrap();
        let error = folder.put_tool(entry("a.wasm", b"a"), b"a").unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidPath);
        assert_eq!(std::fs::read(&outside).unwrap(), b"mine");
    }
}
