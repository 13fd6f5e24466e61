//! The user's folders for settings and cache, at the standard locations of each platform.

use std::ffi::OsString;
use std::path::PathBuf;

/// The user's own folders and files. A folder is `None` if the environment does not define it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserDirs {
    /// Folder of the user's `config.yml`.
    pub config: Option<PathBuf>,
    /// Folder of caches, such as compiled components, and of installed packages. It may be deleted at any time.
    pub cache: Option<PathBuf>,
    /// Possible paths of the machine-wide team policy.
    pub team: Vec<PathBuf>,
    /// Path in `MIMIR_TEAM_POLICY`. This team policy applies in addition to the machine-wide one.
    pub named_team: Option<PathBuf>,
    /// Names of variables that are ignored because their path is relative.
    pub ignored: Vec<&'static str>,
    /// All variables with the prefix `MIMIR_`. Some of them are settings.
    pub variables: Vec<(String, OsString)>,
}

/// Variables that take precedence over the standard locations.
const CONFIG: &str = "MIMIR_CONFIG_DIR";
const CACHE: &str = "MIMIR_CACHE_DIR";
const TEAM: &str = "MIMIR_TEAM_POLICY";

impl UserDirs {
    /// Finds the folders from the environment.
    pub fn find() -> Self {
        Self {
            variables: crate::settings::environment::variables(std::env::vars_os()),
            ..Self::from(|name| std::env::var_os(name))
        }
    }

    /// Finds the folders with the given variables: `MIMIR_CONFIG_DIR` and `MIMIR_CACHE_DIR`, else the standard
    /// locations. Relative paths are ignored, as the XDG specification requires, because they depend on the current
    /// folder.
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
            |name: &&str| var(name).is_some_and(|value| !value.is_empty()) && dir(name).is_none();
        Self {
            config: dir(CONFIG).or(config),
            cache: dir(CACHE).or(cache),
            team: team_policy_paths(),
            // Not checked here: an unusable path is an error later, so that the policy is not silently skipped.
            named_team: var(TEAM)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from),
            ignored: [CONFIG, CACHE].into_iter().filter(relative).collect(),
            variables: Vec::new(),
        }
    }
}

/// Returns the paths at which an administrator stores a team policy. They are fixed, so that a user who can set variables,
/// such as `ProgramData` on Windows, cannot bypass the policy.
fn team_policy_paths() -> Vec<PathBuf> {
    if cfg!(windows) {
        return vec![PathBuf::from(r"C:\ProgramData\mimir\team.yml")];
    }
    let mut paths = vec![PathBuf::from("/etc/mimir/team.yml")];
    if cfg!(target_os = "macos") {
        paths.push("/Library/Application Support/mimir/team.yml".into());
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs_from(vars: &[(&str, &str)]) -> UserDirs {
        UserDirs::from(|name| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    #[cfg(all(unix, not(target_os = "macos")))]
    fn user_dirs_follow_xdg_variables() {
        let home = dirs_from(&[("HOME", "/h")]);
        assert_eq!(home.config, Some("/h/.config/mimir".into()));
        assert_eq!(home.cache, Some("/h/.cache/mimir".into()));
        let xdg = dirs_from(&[
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/c"),
            ("XDG_CONFIG_HOME", "relative"),
        ]);
        assert_eq!(xdg.cache, Some("/c/mimir".into()));
        assert_eq!(xdg.config, Some("/h/.config/mimir".into()));
        let empty = dirs_from(&[]);
        assert_eq!((empty.config, empty.cache), (None, None));
    }

    #[test]
    #[cfg(unix)]
    fn team_variable_adds_to_the_machine_policy_file() {
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
            let dirs = dirs_from(vars);
            assert!(dirs.team.contains(&machine), "{vars:?}");
            assert_eq!(dirs.named_team, named.map(PathBuf::from), "{vars:?}");
        }
    }

    #[test]
    #[cfg(windows)]
    fn team_policy_of_the_machine_is_not_moved_by_a_variable() {
        let moved = dirs_from(&[("ProgramData", r"D:\own")]);
        assert_eq!(
            moved.team,
            [PathBuf::from(r"C:\ProgramData\mimir\team.yml")]
        );
    }

    #[test]
    #[cfg(unix)]
    fn user_dirs_prefer_mimir_variables() {
        let own = dirs_from(&[
            ("HOME", "/h"),
            ("MIMIR_CACHE_DIR", "/x"),
            ("MIMIR_CONFIG_DIR", "/y"),
        ]);
        assert_eq!(own.cache, Some("/x".into()));
        assert_eq!(own.config, Some("/y".into()));
        assert!(own.ignored.is_empty());
        let relative = dirs_from(&[
            ("HOME", "/h"),
            ("MIMIR_CACHE_DIR", "cache"),
            ("MIMIR_CONFIG_DIR", ""),
        ]);
        assert_eq!(relative.cache, dirs_from(&[("HOME", "/h")]).cache);
        assert_eq!(relative.ignored, ["MIMIR_CACHE_DIR"]);
    }
}
