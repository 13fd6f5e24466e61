//! Facts about a version of a package, from the registry.

use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::text;
use serde::Deserialize;
use serde_json::{Value, json};

use super::package_spec::{PackageEcosystem, PackageSpec, is_version};
use super::popular_names;
use super::registry_client::PackageRegistryClient;
use super::registry_config::PackageSource;

/// An exact version of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PackageRelease {
    pub(super) name: String,
    pub(super) version: String,
    /// Time of its publication, if the registry tells it.
    pub(super) published: Option<jiff::Timestamp>,
    /// True if it has install scripts.
    pub(super) has_scripts: bool,
    /// Warning of the author or the registry: deprecated or withdrawn.
    pub(super) warning: Option<String>,
}

const SECONDS_PER_DAY: u64 = 86_400;

impl PackageRelease {
    /// Returns the name with the version.
    pub(super) fn label(&self) -> String {
        text::visible(&format!("{} {}", self.name, self.version))
    }

    /// Returns the age in days. A time in the future counts as new.
    pub(super) fn age_days(&self, now: SystemTime) -> Option<u64> {
        let published = SystemTime::from(self.published?);
        let age = now.duration_since(published).unwrap_or_default();
        Some(age.as_secs() / SECONDS_PER_DAY)
    }

    /// Describes the version and its age in one line.
    pub(super) fn describe(&self, now: SystemTime) -> String {
        let label = self.label();
        let (Some(published), Some(days)) = (self.published, self.age_days(now)) else {
            return format!("{label}: the registry does not tell when it was published");
        };
        let age = match days {
            0 => "less than a day ago".to_owned(),
            1 => "a day ago".to_owned(),
            2..=59 => format!("{days} days ago"),
            60..=729 => format!("{} months ago", days / 30),
            _ => format!("{} years ago", days / 365),
        };
        let date = published.strftime("%Y-%m-%d");
        format!("{label}: published {date}, {age}")
    }

    pub(super) fn to_json(&self) -> Value {
        let mut package = json!({"name": self.name, "version": self.version});
        if let Some(published) = self.published {
            package["published"] = json!(published.to_string());
        }
        package
    }
}

/// Looks up a package, and its newest version if no version is requested.
pub(super) async fn look_up(
    client: &PackageRegistryClient,
    source: &PackageSource,
    spec: &PackageSpec,
    ecosystem: PackageEcosystem,
) -> Result<PackageRelease, ToolError> {
    let base = source.url_for(&spec.name);
    let name = &spec.name;
    let missing = || missing_package(spec, ecosystem);
    let release = match ecosystem {
        PackageEcosystem::Npm => {
            let url = format!("{base}/{}", name.replace('/', "%2f"));
            npm(&client.get_json(&url).await?.ok_or_else(missing)?, spec)
        }
        PackageEcosystem::Python => {
            let document = client.get_json(&format!("{base}/pypi/{name}/json")).await?;
            match document {
                Some(document) => python(&document, spec),
                // Other indexes than PyPI often only list files.
                None if !source.has_facts => Some(unknown_release(spec)?),
                None => return Err(missing()),
            }
        }
        PackageEcosystem::Cargo => {
            let url = format!("{base}/{}", index_path(name));
            let lines = client.get_text(&url).await?.ok_or_else(missing)?;
            cargo(&String::from_utf8_lossy(&lines), spec)
        }
        PackageEcosystem::Go => {
            let module = escape_module(name);
            let path = match &spec.version {
                Some(version) => format!("@v/{}.info", escape_module(version)),
                None => "@latest".to_owned(),
            };
            let url = format!("{base}/{module}/{path}");
            go(&client.get_json(&url).await?.ok_or_else(missing)?, spec)
        }
    };
    let release = release.ok_or_else(|| missing_version(spec, ecosystem))?;
    // The version becomes a part of a command line.
    if !is_version(ecosystem, &release.version) {
        return Err(ToolError::execution(format!(
            "the package registry names a version of `{}` that is not valid",
            text::visible(name)
        )));
    }
    Ok(release)
}

fn missing_package(spec: &PackageSpec, ecosystem: PackageEcosystem) -> ToolError {
    let name = text::visible(&spec.name);
    let hint = name_hint(spec, ecosystem);
    let version = match (&spec.version, ecosystem) {
        (Some(version), PackageEcosystem::Go) => format!(" {}", text::visible(version)),
        _ => String::new(),
    };
    ToolError::not_found(format!(
        "the package registry has no package `{name}`{version}{hint}"
    ))
}

/// Returns the suggestion of a popular name, to be added to a message.
fn name_hint(spec: &PackageSpec, ecosystem: PackageEcosystem) -> String {
    let near = popular_names::near_misses(ecosystem, &spec.name);
    match near.first() {
        Some(near) => format!(". Did you mean `{near}`?"),
        None => String::new(),
    }
}

fn missing_version(spec: &PackageSpec, ecosystem: PackageEcosystem) -> ToolError {
    let name = text::visible(&spec.name);
    let hint = name_hint(spec, ecosystem);
    ToolError::not_found(match &spec.version {
        Some(version) => format!(
            "`{name}` has no version {}: name an existing version, or leave it out for the newest{hint}",
            text::visible(version)
        ),
        None => format!("`{name}` has no version that can be installed{hint}"),
    })
}

/// Returns the requested version of an index that only lists files.
fn unknown_release(spec: &PackageSpec) -> Result<PackageRelease, ToolError> {
    let Some(version) = &spec.version else {
        return Err(ToolError::invalid_input(format!(
            "the configured package index does not tell the newest version of `{0}`: name the exact version, such as \
             `{0}==1.2.3`",
            text::visible(&spec.name)
        )));
    };
    Ok(PackageRelease {
        name: spec.name.clone(),
        version: version.clone(),
        ..PackageRelease::default()
    })
}

fn time(value: &Value) -> Option<jiff::Timestamp> {
    value.as_str()?.parse().ok()
}

fn npm(document: &Value, spec: &PackageSpec) -> Option<PackageRelease> {
    let requested = spec.version.as_deref().unwrap_or("latest");
    let versions = document["versions"].as_object()?;
    let version = match document["dist-tags"][requested].as_str() {
        Some(tagged) => tagged,
        None => requested,
    };
    let entry = versions.get(version)?;
    let scripts = ["preinstall", "install", "postinstall"];
    let has_scripts = entry["hasInstallScript"].as_bool() == Some(true)
        || scripts
            .iter()
            .any(|name| entry["scripts"][*name].is_string());
    let deprecated = entry["deprecated"].as_str().filter(|why| !why.is_empty());
    Some(PackageRelease {
        name: spec.name.clone(),
        version: version.to_owned(),
        published: time(&document["time"][version]),
        has_scripts,
        warning: deprecated.map(|why| format!("{version} is deprecated: {why}")),
    })
}

fn python(document: &Value, spec: &PackageSpec) -> Option<PackageRelease> {
    let newest = document["info"]["version"].as_str();
    let version = spec.version.as_deref().or(newest)?;
    let files = match document["releases"].get(version) {
        Some(files) => files,
        // A mirror may list the files of the newest version only.
        None if newest == Some(version) => &document["urls"],
        None => return None,
    };
    let files = files.as_array().filter(|files| !files.is_empty())?;
    let times = files
        .iter()
        .filter_map(|file| time(&file["upload_time_iso_8601"]));
    let is_yanked = files
        .iter()
        .all(|file| file["yanked"].as_bool() == Some(true));
    Some(PackageRelease {
        name: spec.name.clone(),
        version: version.to_owned(),
        published: times.min(),
        has_scripts: false,
        warning: is_yanked.then(|| withdrawn(version)),
    })
}

fn withdrawn(version: &str) -> String {
    format!("{version} was withdrawn by its author")
}

/// A line of cargo's index.
#[derive(Deserialize)]
struct IndexLine {
    vers: String,
    #[serde(default)]
    yanked: bool,
    pubtime: Option<String>,
}

fn cargo(index: &str, spec: &PackageSpec) -> Option<PackageRelease> {
    let lines = index
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let lines: Vec<IndexLine> = lines.collect();
    let line = match &spec.version {
        Some(version) => lines.iter().find(|line| line.vers == *version),
        None => {
            let usable = lines.iter().filter(|line| !line.yanked);
            // Numbers before the line: the order of the lines is that of their publication.
            usable.max_by_key(|line| release_numbers(&line.vers))
        }
    }?;
    let published = line.pubtime.as_deref().and_then(|time| time.parse().ok());
    Some(PackageRelease {
        name: spec.name.clone(),
        version: line.vers.clone(),
        published,
        has_scripts: false,
        warning: line.yanked.then(|| withdrawn(&line.vers)),
    })
}

/// Returns the numbers of a semantic version. A prerelease is older than any release.
fn release_numbers(version: &str) -> (bool, [u64; 3]) {
    let (version, _) = version.split_once('+').unwrap_or((version, ""));
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    let numbers = [(); 3].map(|()| numbers.next().unwrap_or(0));
    (!version.contains('-'), numbers)
}

/// Returns the path of a crate in cargo's index.
fn index_path(name: &str) -> String {
    let name = name.to_lowercase();
    match name.len() {
        length @ (1 | 2) => format!("{length}/{name}"),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2], &name[2..4]),
    }
}

fn go(document: &Value, spec: &PackageSpec) -> Option<PackageRelease> {
    Some(PackageRelease {
        name: spec.name.clone(),
        version: document["Version"].as_str()?.to_owned(),
        published: time(&document["Time"]),
        ..PackageRelease::default()
    })
}

/// Escapes a module path or version for a module proxy: an upper-case letter becomes `!` and the lower-case letter.
fn escape_module(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if c.is_ascii_uppercase() {
            escaped.push('!');
        }
        escaped.push(c.to_ascii_lowercase());
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, version: Option<&str>) -> PackageSpec {
        PackageSpec {
            name: name.to_owned(),
            version: version.map(str::to_owned),
        }
    }

    #[test]
    fn package_facts_of_npm_have_version_age_and_scripts() {
        let document = json!({
            "dist-tags": {"latest": "1.3.0", "next": "2.0.0-rc.1"},
            "versions": {
                "1.3.0": {"scripts": {"postinstall": "node x"}, "deprecated": "use String.padStart"},
                "2.0.0-rc.1": {},
            },
            "time": {"1.3.0": "2018-04-09T01:22:43.000Z"},
        });
        let facts = npm(&document, &spec("left-pad", None)).unwrap();
        assert_eq!(facts.version, "1.3.0");
        assert!(facts.has_scripts && facts.warning.as_deref().unwrap().contains("padStart"));
        let later = SystemTime::from("2018-04-19T00:00:00Z".parse::<jiff::Timestamp>().unwrap());
        assert_eq!(
            facts.describe(later),
            "left-pad 1.3.0: published 2018-04-09, 9 days ago"
        );
        let facts = npm(&document, &spec("left-pad", Some("next"))).unwrap();
        assert_eq!(
            (facts.version.as_str(), facts.published),
            ("2.0.0-rc.1", None)
        );
        assert!(facts.describe(later).contains("does not tell"));
        assert_eq!(npm(&document, &spec("left-pad", Some("9.9.9"))), None);
    }

    #[test]
    fn package_facts_of_python_have_version_and_age() {
        let document = json!({"info": {"version": "2.0"}, "releases": {
            "1.0": [{"upload_time_iso_8601": "2020-01-01T00:00:00.123456Z", "yanked": true}],
            "2.0": [{"upload_time_iso_8601": "2021-01-01T00:00:00.123456Z", "yanked": false}],
            "3.0": [],
        }});
        let newest = python(&document, &spec("x", None)).unwrap();
        assert_eq!((newest.version.as_str(), newest.warning), ("2.0", None));
        assert!(newest.published.is_some());
        let old = python(&document, &spec("x", Some("1.0"))).unwrap();
        assert!(old.warning.unwrap().contains("withdrawn"));
        assert_eq!(python(&document, &spec("x", Some("3.0"))), None);
        assert!(unknown_release(&spec("x", None)).is_err());
        let named = unknown_release(&spec("x", Some("1.0"))).unwrap();
        assert_eq!((named.version.as_str(), named.published), ("1.0", None));
    }

    #[test]
    fn package_facts_of_cargo_and_go_have_version_and_age() {
        let index = concat!(
            r#"{"name":"x","vers":"1.10.0","yanked":false,"pubtime":"2024-01-01T00:00:00Z"}"#,
            "\n",
            r#"{"name":"x","vers":"1.9.1","yanked":false}"#,
            "\n",
            r#"{"name":"x","vers":"1.11.0","yanked":true}"#,
            "\n",
            r#"{"name":"x","vers":"2.0.0-rc.1","yanked":false}"#,
            "\n",
        );
        let newest = cargo(index, &spec("x", None)).unwrap();
        assert_eq!(newest.version, "1.10.0");
        assert!(newest.published.is_some());
        let yanked = cargo(index, &spec("x", Some("1.11.0"))).unwrap();
        assert!(yanked.warning.unwrap().contains("withdrawn"));
        assert_eq!(cargo(index, &spec("x", Some("1.0.1"))), None);
        for (name, path) in [
            ("a", "1/a"),
            ("Ab", "2/ab"),
            ("abc", "3/a/abc"),
            ("serde_json", "se/rd/serde_json"),
        ] {
            assert_eq!(index_path(name), path);
        }

        let document = json!({"Version": "v0.20.0", "Time": "2024-11-08T16:00:00Z"});
        let facts = go(&document, &spec("golang.org/x/text", None)).unwrap();
        assert_eq!(facts.label(), "golang.org/x/text v0.20.0");
        assert_eq!(
            escape_module("github.com/BurntSushi/toml"),
            "github.com/!burnt!sushi/toml"
        );
    }
}
