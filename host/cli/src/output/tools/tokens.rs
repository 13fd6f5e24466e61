//! Printing of token costs as bars, and of possible savings.

use std::io::{self, Write};

use crate::exit::CommandResult;
use crate::output::tools::CommandSyntax;
use crate::output::{FAINT, ResultPrinter, STRONG, columns, styled};
use crate::tools::{CostAdvice, TokenSpending};

/// Width of the name column, and of the bars, as in the seed implementations.
const NAME_WIDTH: usize = 25;
const BAR_WIDTH: usize = 40;

/// Tokens of a full bar, unless the most expensive tool costs more.
const FULL_BAR_TOKENS: u32 = 1000;

/// Prints the tools that models see, most expensive first.
pub fn spending(printer: ResultPrinter, spending: &TokenSpending<'_>) -> CommandResult<()> {
    printer.print_result(spending, |out| {
        writeln!(out, "Token Cost Breakdown:\n")?;
        let max_tokens = spending.tools.iter().map(|spent| spent.cost.tokens).max();
        let full = max_tokens.unwrap_or_default().max(FULL_BAR_TOKENS);
        let width = bar_width();
        for spent in &spending.tools {
            let tokens = spent.cost.tokens;
            let (name, bar) = (spent.name.as_str(), bar(tokens, full, width));
            out.write_all(format!("{name:<NAME_WIDTH$} {bar} {tokens}\n").as_bytes())?;
        }
        if spending.tools.is_empty() {
            writeln!(out, "  (none)")?;
        }
        let total = spending.total_tokens;
        writeln!(out, "\nTotal: {total} tokens (~${:.4})", spending.dollars)?;
        if spending.sources.len() > 1 {
            let each = spending.sources.iter();
            let each = each.map(|own| format!("{} {}", own.source.badge(), own.tokens));
            let each: Vec<String> = each.collect();
            writeln!(out, "{}", styled(FAINT, each.join(", ")))?;
        }
        Ok(())
    })
}

/// Returns the width of bars: what the name and the number leave of the terminal, within limits.
fn bar_width() -> usize {
    columns().map_or(BAR_WIDTH, |all| {
        all.saturating_sub(NAME_WIDTH + 8).clamp(4, BAR_WIDTH)
    })
}

fn bar(tokens: u32, full: u32, width: usize) -> String {
    let share = f64::from(tokens) / f64::from(full);
    let filled = ((share * width as f64).round() as usize).min(width);
    let mut bar = "█".repeat(filled);
    bar.push_str(&"░".repeat(width - filled));
    bar
}

/// Prints possible savings.
pub fn advice(
    printer: ResultPrinter,
    syntax: CommandSyntax,
    advice: &CostAdvice<'_>,
) -> CommandResult<()> {
    printer.print_result(advice, |out| {
        writeln!(out, "The tools cost ~{} tokens.", advice.total_tokens)?;
        print_costly_descriptions(out, advice)?;
        print_duplicates(out, advice)?;
        print_unused(out, syntax, advice)
    })
}

fn print_costly_descriptions(out: &mut dyn Write, advice: &CostAdvice<'_>) -> io::Result<()> {
    writeln!(out, "\n{}", styled(STRONG, "Costliest descriptions"))?;
    for description in &advice.descriptions {
        let name = description.name.as_str();
        let (own, all) = (description.description_tokens, description.tokens);
        writeln!(out, "  {name:<NAME_WIDTH$} {own} of its {all} tokens")?;
    }
    print_if(out, advice.descriptions.is_empty(), "no long descriptions")
}

fn print_duplicates(out: &mut dyn Write, advice: &CostAdvice<'_>) -> io::Result<()> {
    writeln!(out, "\n{}", styled(STRONG, "Near duplicates"))?;
    for pair in &advice.duplicates {
        let (name, other, tokens) = (pair.name.as_str(), pair.other.as_str(), pair.tokens);
        writeln!(
            out,
            "  {name:<NAME_WIDTH$} has the same description as {other} ({tokens} tokens)"
        )?;
    }
    print_if(out, advice.duplicates.is_empty(), "no near duplicates")
}

fn print_unused(
    out: &mut dyn Write,
    syntax: CommandSyntax,
    advice: &CostAdvice<'_>,
) -> io::Result<()> {
    writeln!(out, "\n{}", styled(STRONG, "Unused"))?;
    if advice.calls == 0 {
        return print_if(out, true, "unknown: no tool has been called yet");
    }
    for unused in &advice.unused {
        let (name, tokens) = (unused.name.as_str(), unused.tokens);
        writeln!(out, "  {name:<NAME_WIDTH$} {tokens} tokens")?;
    }
    if advice.unused.is_empty() {
        return print_if(out, true, "every tool was called");
    }
    let saved: u64 = advice
        .unused
        .iter()
        .map(|unused| u64::from(unused.tokens))
        .sum();
    let (since, command) = (&advice.since, syntax.command());
    let calls = match advice.calls {
        1 => "the one call".to_owned(),
        calls => format!("the {calls} calls"),
    };
    writeln!(
        out,
        "\nThese tools were not used in {calls} since {since}. Disabling them saves ~{saved} tokens:\n  {command} disable <name>"
    )
}

fn print_if(out: &mut dyn Write, condition: bool, text: &str) -> io::Result<()> {
    if condition {
        writeln!(out, "  {}", styled(FAINT, text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bar_length_is_proportional() {
        assert_eq!(bar(0, 1000, 4), "░░░░");
        assert_eq!(bar(500, 1000, 4), "██░░");
        assert_eq!(bar(1000, 1000, 4), "████");
        assert_eq!(bar(1999, 2000, 4), "████");
    }
}
