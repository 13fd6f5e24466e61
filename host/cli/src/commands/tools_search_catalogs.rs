//! `mimir tools search` with catalogs: installed tools, and tools that the catalogs of the settings name.
//!
//! A catalog cannot decide from which registry a name comes: the same name in two catalogs is shown twice, each with its
//! full reference.

use std::io::{self, Write};

use mimir_core::ToolError;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::text::visible;
use serde::Serialize;

use super::tools_add::record_refusal;
use crate::exit::{CommandResult, ExitReason};
use crate::output::tools::print_match_lines;
use crate::output::{FAINT, ResultPrinter, STRONG, first_line, styled, warn};
use crate::tools::{TokenCosts, search_tools, words_of};
use mimir::registries::{CatalogTool, Registries, ToolCatalog, fetch_catalog};
use mimir::setup::HostSetup;

/// A tool that a catalog names.
#[derive(Debug, Serialize)]
struct CatalogMatch {
    name: String,
    /// The catalog, as in the settings.
    catalog: String,
    description: String,
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip)]
    score: usize,
}

/// Maximum number of matches that are shown of one catalog, so that a large one does not hide the others.
const MAX_MATCHES: usize = 20;

/// Matches of a catalog that are not shown.
#[derive(Debug, Serialize)]
struct CatalogRest {
    catalog: String,
    more: usize,
}

/// A catalog that could not be searched.
#[derive(Debug, Serialize)]
struct CatalogFault {
    catalog: String,
    error: ToolError,
}

/// Searches the installed tools and all catalogs. A catalog that cannot be read causes a warning.
pub async fn run(
    setup: &HostSetup,
    snapshot: &PipelineSnapshot,
    printer: ResultPrinter,
    words: &str,
) -> CommandResult {
    let mut costs = TokenCosts::open(&setup.user_dirs);
    let tools = search_tools(snapshot, &mut costs, words);
    let wanted = words_of(words);
    let mut matches = Vec::new();
    let mut faults = Vec::new();
    let mut rest = Vec::new();
    let registries = Registries::from_setup(setup)?;
    for entry in &setup.settings.config.registries.catalogs {
        match fetch_catalog(setup, &registries, entry).await {
            Ok(catalog) => rest.extend(add_matches(&mut matches, entry, &catalog, &wanted)),
            Err(error) => {
                record_refusal(setup, entry, &error);
                faults.push(CatalogFault {
                    catalog: entry.clone(),
                    error,
                });
            }
        }
    }
    // A stable sort: equal scores stay in the order of the catalogs.
    matches.sort_by_key(|found: &CatalogMatch| std::cmp::Reverse(found.score));
    let mut result = serde_json::json!({ "tools": tools, "catalogs": matches, "faults": faults });
    if !rest.is_empty() {
        result["more"] = serde_json::json!(rest);
    }
    printer.print_result(&result, |out| {
        print_match_lines(out, words, &tools)?;
        print_catalog_matches(out, &matches, &rest)
    })?;
    if !printer.is_json() {
        for fault in &faults {
            warn(format_args!(
                "the catalog {} is not searched: {}",
                visible(&fault.catalog),
                fault.error.message
            ));
        }
    }
    costs.save();
    Ok(ExitReason::Done)
}

/// Adds the best matches of a catalog. Returns how many others it has, if any.
fn add_matches(
    matches: &mut Vec<CatalogMatch>,
    entry: &str,
    catalog: &ToolCatalog,
    words: &[String],
) -> Option<CatalogRest> {
    let mut found = Vec::new();
    for tool in &catalog.tools {
        let score = score(tool, words);
        // References were checked when the catalog was parsed.
        if let (true, Ok(reference)) = (score > 0, tool.reference()) {
            found.push(CatalogMatch {
                name: tool.name.clone(),
                catalog: entry.to_owned(),
                description: tool.description.clone(),
                reference: reference.to_string(),
                digest: tool.digest.map(|digest| digest.to_string()),
                tags: tool.tags.clone(),
                score,
            });
        }
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.score));
    let more = found.len().saturating_sub(MAX_MATCHES);
    found.truncate(MAX_MATCHES);
    matches.append(&mut found);
    (more > 0).then(|| CatalogRest {
        catalog: entry.to_owned(),
        more,
    })
}

/// Scores a match like the search of installed tools; 0 means no match. Tags count like titles.
fn score(tool: &CatalogTool, words: &[String]) -> usize {
    let name = tool.name.to_lowercase();
    let about = tool.description.to_lowercase();
    let tags: Vec<String> = tool.tags.iter().map(|tag| tag.to_lowercase()).collect();
    let scores = words.iter().map(|word| {
        let is_name_part = words_of(&name).contains(word);
        8 * usize::from(is_name_part)
            + 4 * usize::from(name.contains(word.as_str()))
            + 2 * usize::from(tags.contains(word))
            + usize::from(about.contains(word.as_str()))
    });
    let scores: Vec<usize> = scores.collect();
    let hits = scores.iter().filter(|score| **score > 0).count();
    scores.iter().sum::<usize>() * hits
}

fn print_catalog_matches(
    out: &mut dyn Write,
    matches: &[CatalogMatch],
    rest: &[CatalogRest],
) -> io::Result<()> {
    if matches.is_empty() {
        return writeln!(out, "\nNo tool in your catalogs matches.");
    }
    writeln!(out, "\nIn your catalogs:")?;
    for found in matches {
        let name = styled(STRONG, visible(&found.name));
        let about = visible(&first_line(&found.description, None));
        writeln!(out, "  {name}  {about}")?;
        writeln!(out, "      mimir tools add {}", visible(&found.reference))?;
        let catalog = format!("from the catalog {}", visible(&found.catalog));
        writeln!(out, "      {}", styled(FAINT, catalog))?;
    }
    for CatalogRest { catalog, more } in rest {
        let catalog = visible(catalog);
        writeln!(
            out,
            "  {more} more in the catalog {catalog}: use more words"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn catalog_matches_show_the_same_name_of_two_catalogs() {
        let catalog = |host: &str| {
            let tools = json!([
                {"name": "weather", "description": "Forecasts.", "tags": ["rain"],
                 "reference": format!("{host}/acme/weather:1")},
                {"name": "clock", "description": "Time and weather.",
                 "reference": format!("{host}/acme/clock:1")},
            ]);
            let text = json!({"version": 1, "tools": tools}).to_string();
            ToolCatalog::parse(text.as_bytes()).unwrap()
        };
        let mut matches = Vec::new();
        for host in ["one.example.com", "two.example.com"] {
            let rest = add_matches(&mut matches, host, &catalog(host), &words_of("Weather"));
            assert!(rest.is_none());
        }
        matches.sort_by_key(|found| std::cmp::Reverse(found.score));
        let found: Vec<_> = matches
            .iter()
            .map(|found| (found.name.as_str(), found.reference.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("weather", "one.example.com/acme/weather:1"),
                ("weather", "two.example.com/acme/weather:1"),
                ("clock", "one.example.com/acme/clock:1"),
                ("clock", "two.example.com/acme/clock:1"),
            ]
        );
        let tools: Vec<_> = (0..MAX_MATCHES + 3)
            .map(|index| {
                json!({"name": format!("rain_{index}"), "description": "Rain.",
                       "reference": "one.example.com/acme/rain:1"})
            })
            .collect();
        let text = json!({"version": 1, "tools": tools}).to_string();
        let large = ToolCatalog::parse(text.as_bytes()).unwrap();
        let mut matches = Vec::new();
        let rest = add_matches(&mut matches, "large", &large, &words_of("rain"));
        assert_eq!((matches.len(), rest.unwrap().more), (MAX_MATCHES, 3));
        let tool = &catalog("one.example.com").tools[0];
        assert!(score(tool, &words_of("rain")) > 0);
        assert_eq!(score(tool, &words_of("snow")), 0);
    }
}
