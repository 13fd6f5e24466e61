//! `file_info`.

use std::fs;

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::formatting;
use crate::walk::Kind;
use crate::workspace_path::WorkspacePath;

/// Reports whether a path exists, and its type, size and time of the last change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileInfo {
    /// The file or directory, relative to the workspace root.
    pub path: String,
}

/// State of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    /// The path.
    pub path: String,
    /// True if the path exists.
    pub exists: bool,
    /// Type of the entry.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Size in bytes; 0 unless it is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Time of the last change, ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Tool for FileInfo {
    type Output = Worded<Info>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("File info");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    fn needs() -> Needs {
        Needs::none().read(".", "to look at the files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let location = WorkspacePath::new(cx, &self.path)?;
        let (path, shown) = (location.exact().to_owned(), location.escaped());
        let Some(metadata) = location.metadata()? else {
            let text = format!("{shown} does not exist");
            let missing = Info {
                path,
                exists: false,
                kind: None,
                size: None,
                modified: None,
                target: None,
            };
            return Ok(Json(missing).worded(text));
        };
        let kind = Kind::from(&metadata);
        let size = if kind == Kind::File {
            metadata.len()
        } else {
            0
        };
        let modified = formatting::modified(&metadata);
        let target = (kind == Kind::Symlink)
            .then(|| fs::read_link(location.absolute()).ok())
            .flatten()
            .map(|target| target.to_string_lossy().into_owned());
        let description = match (kind, &target) {
            (Kind::File, _) => format!("a file of {}", formatting::bytes(size)),
            (Kind::Directory, _) => "a directory".to_owned(),
            (Kind::Symlink, Some(target)) => format!("a symbolic link to {}", text::name(target)),
            (Kind::Symlink, None) => "a symbolic link".to_owned(),
            (Kind::Other | Kind::Unreadable, _) => "neither file nor directory".to_owned(),
        };
        let text = format!("{shown} is {description}, last changed {modified}");
        let info = Info {
            path,
            exists: true,
            kind: Some(kind),
            size: Some(size),
            modified: Some(modified),
            target,
        };
        Ok(Json(info).worded(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Workspace;

    #[test]
    fn file_info_describes_files_folders_and_missing_paths() {
        let workspace = Workspace::with(&[("a/b.txt", "123")]);
        let info = |path: &str| FileInfo { path: path.into() }.run(&workspace.cx()).unwrap();
        let file = info("a/b.txt");
        assert_eq!(
            (file.value.kind, file.value.size),
            (Some(Kind::File), Some(3))
        );
        assert!(
            file.text
                .starts_with("a/b.txt is a file of 3 bytes, last changed 2"),
            "{}",
            file.text
        );
        assert_eq!(info("a").value.kind, Some(Kind::Directory));
        for nowhere in ["x", "a/b.txt/c"] {
            assert!(!info(nowhere).value.exists, "{nowhere}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn file_info_quotes_forged_names_and_link_targets() {
        let workspace = Workspace::new();
        let forged = "a\nb.txt is a file";
        std::os::unix::fs::symlink("/usr/bin/python3\nx", workspace.root().join(forged)).unwrap();
        let path = forged.to_owned();
        let info = FileInfo { path }.run(&workspace.cx()).unwrap();
        assert_eq!(
            (info.value.path.as_str(), info.value.target.as_deref()),
            (forged, Some("/usr/bin/python3\nx"))
        );
        assert_eq!(info.text.lines().count(), 1, "{}", info.text);
    }
}
