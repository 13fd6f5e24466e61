//! `write_file`.

use std::fs::{self, Metadata};

use mimir_sdk::prelude::*;

use crate::place::Place;
use crate::read::Encoding;
use crate::walk::Kind;
use crate::{atomic, undo_record, words, yes};

/// Creates a file or replaces its whole content. To change a part of a file, use edit_file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteFile {
    /// The file, relative to the workspace root.
    pub path: String,
    /// The new content.
    pub content: String,
    /// `utf-8` (default) if `content` is text, `base64` if it stands for bytes.
    #[serde(default)]
    pub encoding: Encoding,
    /// Create missing parent directories.
    #[serde(default)]
    pub create_dirs: bool,
    /// Keep the old content, so that `mimir undo` brings it back.
    #[serde(default = "yes")]
    pub backup: bool,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The file.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// True if the file did not exist before.
    pub created: bool,
    /// Record from which `mimir undo` restores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

impl Tool for WriteFile {
    type Output = Worded<Written>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Write file");
    const RISK: Risk = Risk::Medium;
    const HINTS: Hints = Hints::NONE.destructive().idempotent();

    fn needs() -> Needs {
        Needs::none().write(".", "to write the files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let (place, there) = target(cx, &self.path)?;
        let content = self.encoding.decode(&self.content)?;
        let missing = missing_parents(&place, self.create_dirs)?;
        let size = content.len() as u64;
        let same = there.as_ref().is_some_and(|old| old.len() == size)
            && fs::read(place.path()).is_ok_and(|old| old == content);
        within_new(&missing, || atomic::write(&place, &content, there.as_ref()))?;
        let (path, bytes) = (place.shown(), words::bytes(size));
        let text = match &there {
            None => format!("Created {path} ({bytes})"),
            Some(old) => format!(
                "Replaced {path} ({bytes}, before {})",
                words::bytes(old.len())
            ),
        };
        let written = Written {
            path: place.exact().to_owned(),
            size,
            created: there.is_none(),
            backup: undo_record(cx, self.backup && !same),
        };
        Ok(Json(written).worded(text))
    }
}

impl Assess for WriteFile {
    fn assess(&self, cx: &Context) -> Assessment {
        let bytes = words::bytes(self.content.len() as u64);
        match target(cx, &self.path) {
            Err(error) => Assessment::allow(error.to_string()),
            Ok((place, None)) => Assessment::allow(format!("creates {} ({bytes})", place.shown())),
            Ok((place, Some(old))) => {
                let old = words::bytes(old.len());
                let assessment = Assessment::ask(format!("overwrites {} ({old})", place.shown()));
                kept(assessment, self.backup, "the old content is lost")
            }
        }
    }
}

/// Adds a warning about the loss if no backup is made.
pub fn kept(assessment: Assessment, backup: bool, lost: &str) -> Assessment {
    if backup {
        assessment
    } else {
        assessment
            .risk(Risk::High)
            .because(format!("no backup is kept: {lost}"))
    }
}

/// Resolves the file to write and its current metadata, if the path can be a file.
pub fn target(cx: &Context, path: &str) -> Result<(Place, Option<Metadata>)> {
    let written = Place::new(cx, path)?;
    if path.ends_with('/') {
        return Err(Error::invalid_path(format_args!(
            "`{written}/` names a directory, not a file"
        )));
    }
    let place = written.follow()?;
    let there = place.look()?;
    match there.as_ref().map(Kind::from) {
        None | Some(Kind::File) => Ok((place, there)),
        Some(Kind::Directory) => Err(Error::invalid_input(format_args!(
            "`{place}` is a directory"
        ))),
        Some(_) => Err(Error::invalid_input(format_args!(
            "`{place}` is not a regular file"
        ))),
    }
}

/// Missing parent folders of `place`, outermost first. Fails if they may not be created.
pub fn missing_parents(place: &Place, may_create: bool) -> Result<Vec<Place>> {
    let mut missing = Vec::new();
    let mut folder = place.parent();
    while !folder.is_root() {
        match folder.follow()?.look()? {
            Some(metadata) if metadata.is_dir() => break,
            Some(_) => {
                return Err(Error::invalid_path(format_args!(
                    "`{folder}` is not a directory"
                )));
            }
            None => missing.push(folder.clone()),
        }
        folder = folder.parent();
    }
    missing.reverse();
    if let Some(first) = missing.first()
        && !may_create
    {
        return Err(Error::file_not_found(format_args!(
            "the directory `{first}` does not exist; `createDirs: true` creates it"
        )));
    }
    Ok(missing)
}

/// Creates the folders and runs `act`; removes the folders if either fails.
pub fn within_new(missing: &[Place], act: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut made = 0;
    let done = missing
        .iter()
        .try_for_each(|folder| {
            fs::create_dir(folder.path()).map_err(|error| folder.failed(&error))?;
            made += 1;
            Ok(())
        })
        .and_then(|()| act());
    if done.is_err() {
        // A folder into which someone has put a file in the meantime is not empty and stays.
        for folder in missing[..made].iter().rev() {
            let _ = fs::remove_dir(folder.path());
        }
    }
    done
}

#[cfg(test)]
mod tests;
