//! The question that a person is asked before packages are installed.

use std::time::SystemTime;

use mimir_core::pipeline::CommandQuestion;
use mimir_core::text;

use super::manager::{InstallOptions, PackageManager};
use super::popular_names;
use super::registry_facts::PackageRelease;

/// Versions younger than this are pointed out: malicious versions are usually removed within days.
const NEW_VERSION_DAYS: u64 = 14;

/// Maximum length of a warning of an author, in characters.
const WARNING_MAX: usize = 200;

/// Builds the question about exactly these packages. `hosts` are the hosts that the command can reach, or `None` if no
/// sandbox confines it.
pub(super) fn install_question(
    manager: PackageManager,
    packages: &[PackageRelease],
    options: InstallOptions,
    hosts: Option<&[String]>,
    now: SystemTime,
) -> CommandQuestion {
    let labels: Vec<String> = packages.iter().map(PackageRelease::label).collect();
    // The most important lines come first: a card shows a limited number of lines.
    let mut risks = Vec::new();
    for package in packages {
        let near = popular_names::near_misses(manager.ecosystem(), &package.name);
        risks.extend(near.into_iter().take(2).map(|popular| {
            format!(
                "`{}` RESEMBLES the popular package `{popular}`: is it the one that you want?",
                text::visible(&package.name)
            )
        }));
    }
    risks.push(manager.script_note(options.scripts, packages).to_owned());
    risks.push(match hosts {
        Some(hosts) => format!(
            "the command can reach {} and no other host",
            hosts.join(", ")
        ),
        None => "no sandbox: the command has all your rights and can reach any host".to_owned(),
    });
    let mut facts = Vec::new();
    for package in packages {
        let mut line = package.describe(now);
        if package
            .age_days(now)
            .is_some_and(|days| days < NEW_VERSION_DAYS)
        {
            line.push_str(", which is VERY NEW: malicious versions are usually found within days");
        }
        if let Some(warning) = &package.warning {
            let warning = text::visible(text::prefix(warning, WARNING_MAX));
            line.push_str(&format!("; {warning}"));
        }
        facts.push(line);
    }
    risks.extend(facts.iter().cloned());
    risks.push("packages that these need are installed, too".to_owned());
    // The facts decide, so that they come before the arguments, as far as they are short.
    let mut summary = format!("install {} with {}", labels.join(", "), manager.as_str());
    if let [fact] = facts.as_slice() {
        summary.push_str(&format!(" — {fact}"));
    }
    CommandQuestion {
        summary,
        risks,
        reason: "each installation of packages is asked about".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_question_shows_versions_age_and_near_misses() {
        let now = SystemTime::now();
        let package = PackageRelease {
            name: "lodahs".to_owned(),
            version: "4.17.21".to_owned(),
            published: jiff::Timestamp::try_from(now).ok(),
            has_scripts: true,
            warning: Some("4.17.21 is deprecated: \u{1b}[2J".to_owned()),
        };
        let ask = |scripts, hosts: Option<&[String]>| {
            let options = InstallOptions {
                dev: false,
                scripts,
            };
            let packages = std::slice::from_ref(&package);
            install_question(PackageManager::Npm, packages, options, hosts, now)
        };
        let hosts = ["registry.npmjs.org".to_owned()];
        let question = ask(false, Some(&hosts));
        let summary = &question.summary;
        assert!(
            summary.starts_with("install lodahs 4.17.21 with npm — lodahs 4.17.21: published ")
        );
        assert!(summary.contains("VERY NEW"), "{summary}");
        let risks = question.risks.join("\n");
        for part in [
            "lodahs 4.17.21: published ",
            "RESEMBLES the popular package `lodash`",
            "VERY NEW",
            "is deprecated",
            "install scripts do not run, although these packages have some",
            "can reach registry.npmjs.org and no other host",
        ] {
            assert!(risks.contains(part), "{part}: {risks}");
        }
        assert!(!risks.contains('\u{1b}'), "{risks}");
        let risks = ask(true, None).risks.join("\n");
        assert!(risks.contains("INSTALL SCRIPTS RUN") && risks.contains("all your rights"));
    }
}
