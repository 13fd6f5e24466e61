//! `wasi:config/store`: the user's settings for a component that was not written for mimir.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use crate::family::CONFIG_STORES;
use crate::store_state::StoreState;

/// The error type of the interface. This implementation never fails, so no value is ever created.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(variant)]
enum ConfigError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

type ConfigValue = (Result<Option<String>, ConfigError>,);
type ConfigValues = (Result<Vec<(String, String)>, ConfigError>,);

/// Links the interface under each of its versions.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    for name in CONFIG_STORES {
        let mut store = linker.instance(name)?;
        store.func_wrap(
            "get",
            |guest: StoreContextMut<'_, StoreState>, (key,): (String,)| {
                let mut entries = guest.data().config.iter();
                let entry = entries.find(|(name, _)| *name == key);
                let value: ConfigValue = (Ok(entry.map(|(_, value)| value.clone())),);
                Ok(value)
            },
        )?;
        store.func_wrap(
            "get-all",
            |guest: StoreContextMut<'_, StoreState>, (): ()| {
                let values: ConfigValues = (Ok(guest.data().config.clone()),);
                Ok(values)
            },
        )?;
    }
    Ok(())
}
