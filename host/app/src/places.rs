//! The folders outside the workspace: the user's settings and the user's cache, in the place where each
//! platform keeps such things.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where the user's own files are. Either is missing where the platform names no home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Holds the user's `config.yml`.
    pub config: Option<PathBuf>,
    /// Holds compiled components; it may be deleted at any time.
    pub cache: Option<PathBuf>,
    /// Where a team's policy for the whole machine may be.
    pub team: Vec<PathBuf>,
    /// A team's policy that `MIMIR_TEAM_POLICY` names: it counts beside those.
    pub named_team: Option<PathBuf>,
    /// Our own variables that name no place, because their path is relative.
    pub ignored: Vec<&'static str>,
    /// All variables of ours: some are settings.
    pub variables: Vec<(String, OsString)>,
}

/// Our own variables, which go before the platform's.
const CONFIG: &str = "MIMIR_CONFIG_DIR";
const CACHE: &str = "MIMIR_CACHE_DIR";
const TEAM: &str = "MIMIR_TEAM_POLICY";

impl Places {
    /// Asks the environment.
    pub fn find() -> Self {
        Self {
            variables: crate::settings::environment::variables(std::env::vars_os()),
            ..Self::from(|name| std::env::var_os(name))
        }
    }

    /// `MIMIR_CONFIG_DIR` and `MIMIR_CACHE_DIR` come first, then the platform's own rules. A relative
    /// path is ignored, as the XDG rules want it: it would mean another folder in every folder. Of our
    /// own variables that is worth a word.
    fn from(var: impl Fn(&str) -> Option<OsString>) -> Self {
        let dir = |name: &str| {
            var(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let below = |base: Option<PathBuf>, rest: &str| base.map(|base| base.join(rest));
        let (config, cache) = if cfg!(windows) {
            (
                below(dir("APPDATA"), "mimir"),
                below(dir("LOCALAPPDATA"), "mimir/cache"),
            )
        } else if cfg!(target_os = "macos") {
            (
                below(dir("HOME"), "Library/Application Support/mimir"),
                below(dir("HOME"), "Library/Caches/mimir"),
            )
        } else {
            (
                below(
                    dir("XDG_CONFIG_HOME").or_else(|| below(dir("HOME"), ".config")),
                    "mimir",
                ),
                below(
                    dir("XDG_CACHE_HOME").or_else(|| below(dir("HOME"), ".cache")),
                    "mimir",
                ),
            )
        };
        let relative =
            |name: &&str| var(name).is_some_and(|it| !it.is_empty()) && dir(name).is_none();
        Self {
            config: dir(CONFIG).or(config),
            cache: dir(CACHE).or(cache),
            team: team(dir("ProgramData")),
            // Also one that makes no sense: who names a policy does not want to go without.
            named_team: var(TEAM).filter(|it| !it.is_empty()).map(PathBuf::from),
            ignored: [CONFIG, CACHE].into_iter().filter(relative).collect(),
            variables: Vec::new(),
        }
    }
}

/// Where an administrator puts a team's policy. No variable moves it where the platform has a fixed place for it:
/// who may set variables must not get round it.
fn team(program_data: Option<PathBuf>) -> Vec<PathBuf> {
    if cfg!(windows) {
        let base = program_data.unwrap_or_else(|| r"C:\ProgramData".into());
        return vec![base.join(r"mimir\team.yml")];
    }
    let mut all = vec![PathBuf::from("/etc/mimir/team.yml")];
    if cfg!(target_os = "macos") {
        all.push("/Library/Application Support/mimir/team.yml".into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(vars: &[(&str, &str)]) -> Places {
        Places::from(|name| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    #[cfg(all(unix, not(target_os = "macos")))]
    fn xdg_is_followed() {
        let home = places(&[("HOME", "/h")]);
        assert_eq!(home.config, Some("/h/.config/mimir".into()));
        assert_eq!(home.cache, Some("/h/.cache/mimir".into()));
        let xdg = places(&[
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/c"),
            ("XDG_CONFIG_HOME", "relative"),
        ]);
        assert_eq!(xdg.cache, Some("/c/mimir".into()));
        assert_eq!(xdg.config, Some("/h/.config/mimir".into()));
        let nowhere = places(&[]);
        assert_eq!((nowhere.config, nowhere.cache), (None, None));
    }

    #[test]
    #[cfg(unix)]
    fn a_team_is_heard_beside_the_machine_and_never_in_its_place() {
        let machine = PathBuf::from("/etc/mimir/team.yml");
        for (vars, named) in [
            (&[][..], None),
            (&[("MIMIR_TEAM_POLICY", "")][..], None),
            (&[("MIMIR_TEAM_POLICY", "/t.yml")][..], Some("/t.yml")),
            (&[("MIMIR_TEAM_POLICY", "t.yml")][..], Some("t.yml")),
            (
                &[("MIMIR_CONFIG_DIR", "/x"), ("ProgramData", "/x")][..],
                None,
            ),
        ] {
            let places = places(vars);
            assert!(places.team.contains(&machine), "{vars:?}");
            assert_eq!(places.named_team, named.map(PathBuf::from), "{vars:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn our_own_variables_come_first() {
        let own = places(&[
            ("HOME", "/h"),
            ("MIMIR_CACHE_DIR", "/x"),
            ("MIMIR_CONFIG_DIR", "/y"),
        ]);
        assert_eq!(own.cache, Some("/x".into()));
        assert_eq!(own.config, Some("/y".into()));
        assert!(own.ignored.is_empty());
        let relative = places(&[
            ("HOME", "/h"),
            ("MIMIR_CACHE_DIR", "cache"),
            ("MIMIR_CONFIG_DIR", ""),
        ]);
        assert_eq!(relative.cache, places(&[("HOME", "/h")]).cache);
        assert_eq!(relative.ignored, ["MIMIR_CACHE_DIR"]);
    }
}
