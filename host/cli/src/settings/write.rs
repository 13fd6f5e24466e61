//! A config file changed by the person at the terminal.

use mimir_core::{Code, ToolError};

use super::edit::{Edit, edited};
use super::{Place, Settings, Whose};
use crate::exit::{Failure, file_error};
use crate::output::note;
use crate::private::{self, Readers};
use crate::setup::Setup;

/// Changes the workspace's config file, or the user's: `changes` says what of its text. One process at a time. Gives how
/// messages call the file. What would be no config any more is not written.
pub fn change(
    setup: &Setup,
    user: bool,
    changes: impl FnOnce(&str) -> Result<Vec<Edit>, ToolError>,
) -> Result<String, Failure> {
    let whose = if user { Whose::User } else { Whose::Project };
    let mut places = Place::all(&setup.places, &setup.workspace).into_iter();
    let Some(place) = places.find(|place| place.whose == whose) else {
        let message = "there is no folder for your own settings; set MIMIR_CONFIG_DIR";
        return Err(ToolError::new(Code::Unavailable, message).into());
    };
    if whose == Whose::Project {
        setup.workspace.own(&place.path)?;
    }
    let folder = place.path.parent().unwrap_or(&place.path);
    std::fs::create_dir_all(folder).map_err(|error| file_error("make", folder, &error))?;
    let turn = match whose {
        Whose::Project => setup.workspace.state().join("config"),
        _ => place.path.clone(),
    };
    let turn = private::turn(&turn).map_err(|error| file_error("lock", &turn, &error))?;
    let before = place.text()?.unwrap_or_default();
    let after = edited(&before, &changes(&before)?)?;
    if after == before {
        return Ok(place.shown);
    }
    Settings::check(&place, &after)?;
    // What another process has changed since this one has read its settings counts, too.
    let counted = Settings::read(&setup.places, &setup.workspace)?
        .withheld()
        .is_empty();
    private::replace(&place.path, after.as_bytes(), Readers::Everybody)
        .map_err(|error| file_error("write", &place.path, &error))?;
    if whose == Whose::Project {
        accept(setup, counted)?;
    }
    drop(turn);
    Ok(place.shown)
}

/// A person has changed the file here and now: if it counted in full before, it does so after.
fn accept(setup: &Setup, counted: bool) -> Result<(), Failure> {
    if !counted {
        note("the project's settings count in full once you accept them: `mimir policy accept`");
        return Ok(());
    }
    let now = Settings::read(&setup.places, &setup.workspace)?;
    let Some(file) = now.project() else {
        return Ok(());
    };
    let digest = file.digest();
    setup.own_ledger()?.change(|book| {
        book.settings.clear();
        book.settings.insert(digest)
    })?;
    Ok(())
}
