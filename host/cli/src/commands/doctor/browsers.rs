//! Checks of the browsers that the browser tools use.

use mimir::browser_check::{BrowserCheck, check_browsers};
use mimir::setup::HostSetup;

use crate::output::doctor::DoctorFinding;

/// Reports the browsers of this machine.
pub async fn browsers(setup: &HostSetup) -> Vec<DoctorFinding> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    let checks = check_browsers(setup).await;
    if checks.is_empty() {
        return vec![DoctorFinding::fair(
            "browser",
            "not installed, so the browser tools are left out",
            "install Chromium (such as `apt install chromium`), Chrome or Edge, or set `browser.program` in your config",
        )];
    }
    checks.iter().map(browser).collect()
}

fn browser(check: &BrowserCheck) -> DoctorFinding {
    let (name, path) = (&check.name, check.program.display());
    let version = match &check.version {
        Ok(version) => version,
        Err(why) => {
            return DoctorFinding::fair(
                "browser",
                format!("{name} ({path}) does not run: {why}"),
                "install it again, or set `browser.program` in your config to another browser",
            );
        }
    };
    match &check.start {
        None => DoctorFinding::good("browser", format!("{version} ({path}): not used")),
        Some(Ok(())) => DoctorFinding::good(
            "browser",
            format!("{version} ({path}): starts in the sandbox, with its own sandbox on"),
        ),
        Some(Err(why)) => DoctorFinding::fair(
            "browser",
            format!("{version} ({path}) does not start in the sandbox: {why}"),
            "allow user namespaces (`sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, \
             `--security-opt seccomp=unconfined` for a container)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::doctor::CheckHealth;

    #[test]
    fn doctor_browser_findings_have_version_and_fix() {
        let check = |version: Result<&str, &str>, start: Option<Result<(), &str>>| {
            browser(&BrowserCheck {
                name: "Chromium".to_owned(),
                program: "/usr/bin/chromium".into(),
                version: version.map(str::to_owned).map_err(str::to_owned),
                start: start.map(|start| start.map_err(str::to_owned)),
            })
        };
        let good = check(Ok("Chromium 150.0"), Some(Ok(())));
        assert_eq!(good.health, CheckHealth::Good);
        assert!(good.text.contains("Chromium 150.0 (/usr/bin/chromium)"));
        let stuck = check(Ok("Chromium 150.0"), Some(Err("No usable sandbox!")));
        assert_eq!(stuck.health, CheckHealth::Fair);
        assert!(stuck.fix.unwrap().contains("namespaces"));
        let broken = check(Err("exit status: 1"), None);
        assert!(broken.fix.unwrap().contains("`browser.program`"));
    }
}
