//! Commands in a sequence: the output that one passes to the next, and the command that ends right before another.

use crate::{EnclosingCommand, ParsedCommand};
use brush_parser::ast::{
    AndOr, AndOrList, Command, CommandPrefixOrSuffixItem as Item, IoFileRedirectKind as Kind,
    IoFileRedirectTarget as Target, IoRedirect, Pipeline, SimpleCommand,
};

/// Returns true if the output that the command passes to the next one is exactly what its program prints.
pub(super) fn writes_to_pipe(command: &Command) -> bool {
    let Command::Simple(simple) = command else {
        return false;
    };
    items(simple).all(|item| match item {
        Item::IoRedirect(IoRedirect::File(_, _, Target::Filename(_))) => true,
        Item::IoRedirect(_) | Item::ProcessSubstitution(..) => false,
        Item::Word(_) | Item::AssignmentWord(..) => true,
    })
}

/// Returns true if the command reads the output of the one before it, and no other input that is not recorded.
pub(super) fn reads_from_pipe(command: &Command) -> bool {
    let Command::Simple(simple) = command else {
        return false;
    };
    items(simple).all(|item| match item {
        Item::IoRedirect(IoRedirect::File(_, _, Target::Filename(_))) => true,
        Item::IoRedirect(IoRedirect::File(number, kind, _)) => {
            let reads = matches!(kind, Kind::Read | Kind::ReadAndWrite | Kind::DuplicateInput);
            number.unwrap_or(if reads { 0 } else { 1 }) != 0
        }
        Item::IoRedirect(
            IoRedirect::HereString(number, _) | IoRedirect::HereDocument(number, _),
        ) => number.is_some_and(|number| number != 0),
        Item::IoRedirect(IoRedirect::OutputAndError(..)) => true,
        Item::Word(_) | Item::AssignmentWord(..) | Item::ProcessSubstitution(..) => true,
    })
}

fn items(command: &SimpleCommand) -> impl Iterator<Item = &Item> {
    let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
    prefix.chain(command.suffix.iter().flat_map(|suffix| &suffix.0))
}

/// The known end of the previous part of a list.
#[derive(Default)]
pub(super) struct PrecedingCommand {
    /// The index of the command, if the part is a single one.
    alone: Option<usize>,
}

impl PrecedingCommand {
    /// Handles the next part of a list, whose commands begin at index `first` of the script. `depth` is the nesting
    /// depth of the list, which equals the length of `enclosing` in its own commands.
    pub(super) fn note_part(
        &mut self,
        (pipeline, is_and): (&Pipeline, bool),
        commands: &mut [ParsedCommand],
        (first, depth): (usize, usize),
    ) {
        let emitted = commands.get_mut(first..).unwrap_or_default();
        let is_simple = |command: &Command| matches!(command, Command::Simple(_));
        let own = |simple: &ParsedCommand| simple.wrappers.len() == depth;
        // Commands of a substitution run between the two.
        let nested = |simple: &ParsedCommand| {
            let inside = simple.wrappers.get(depth);
            inside.is_some_and(EnclosingCommand::is_substitution)
        };
        let follows = pipeline.seq.iter().all(is_simple) && !emitted.iter().any(nested);
        if let Some(before) = self.alone.filter(|_| is_and && follows) {
            let all = emitted.iter_mut().filter(|simple| own(simple));
            all.for_each(|simple| simple.follows = Some(before));
        }
        let plain = !pipeline.bang && pipeline.timed.is_none();
        let alone = matches!(pipeline.seq.as_slice(), [one] if is_simple(one))
            && matches!(emitted, [one] if own(one));
        self.alone = (plain && alone).then_some(first);
    }
}

/// Returns the parts of a list, each with true if it runs only after the part before it has succeeded. After `||`, the
/// part that ran last may be another one, so that is false.
pub(super) fn parts(list: &AndOrList) -> impl Iterator<Item = (&Pipeline, bool)> {
    let mut was_or = false;
    let more = list.additional.iter().map(move |more| match more {
        AndOr::And(pipeline) => (pipeline, !std::mem::take(&mut was_or)),
        AndOr::Or(pipeline) => {
            was_or = true;
            (pipeline, false)
        }
    });
    std::iter::once((&list.first, false)).chain(more)
}
