//! Relations between the commands of a list: pipes, and the command that ends directly before another one starts.

use crate::{EnclosingCommand, ParsedCommand};
use brush_parser::ast::{
    AndOr, AndOrList, Command, CommandPrefixOrSuffixItem as CommandItem,
    IoFileRedirectKind as RedirectKind, IoFileRedirectTarget as RedirectTarget, IoRedirect,
    Pipeline, SimpleCommand,
};

/// Returns true if the pipe receives exactly the output of the program.
pub(super) fn writes_to_pipe(command: &Command) -> bool {
    let Command::Simple(simple) = command else {
        return false;
    };
    items(simple).all(|item| match item {
        CommandItem::IoRedirect(IoRedirect::File(_, _, RedirectTarget::Filename(_))) => true,
        CommandItem::IoRedirect(_) | CommandItem::ProcessSubstitution(..) => false,
        CommandItem::Word(_) | CommandItem::AssignmentWord(..) => true,
    })
}

/// Returns true if the pipe is the standard input of the command, without another redirection.
pub(super) fn reads_from_pipe(command: &Command) -> bool {
    let Command::Simple(simple) = command else {
        return false;
    };
    items(simple).all(|item| match item {
        CommandItem::IoRedirect(IoRedirect::File(_, _, RedirectTarget::Filename(_))) => true,
        CommandItem::IoRedirect(IoRedirect::File(number, kind, _)) => {
            let reads = matches!(
                kind,
                RedirectKind::Read | RedirectKind::ReadAndWrite | RedirectKind::DuplicateInput
            );
            number.unwrap_or(if reads { 0 } else { 1 }) != 0
        }
        CommandItem::IoRedirect(
            IoRedirect::HereString(number, _) | IoRedirect::HereDocument(number, _),
        ) => number.is_some_and(|number| number != 0),
        CommandItem::IoRedirect(IoRedirect::OutputAndError(..)) => true,
        CommandItem::Word(_)
        | CommandItem::AssignmentWord(..)
        | CommandItem::ProcessSubstitution(..) => true,
    })
}

fn items(command: &SimpleCommand) -> impl Iterator<Item = &CommandItem> {
    let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
    prefix.chain(command.suffix.iter().flat_map(|suffix| &suffix.0))
}

/// Returns the redirections of a simple command.
pub(super) fn redirections(command: &SimpleCommand) -> impl Iterator<Item = &IoRedirect> {
    items(command).filter_map(|item| match item {
        CommandItem::IoRedirect(redirection) => Some(redirection),
        _ => None,
    })
}

/// Returns true if a redirection opens something that the command may read as its input. `/dev/null` is empty.
pub(super) fn sets_input(redirection: &IoRedirect) -> bool {
    match redirection {
        IoRedirect::File(_, RedirectKind::Read, RedirectTarget::Filename(word)) => {
            word.value != "/dev/null"
        }
        IoRedirect::File(_, kind, _) => matches!(
            kind,
            RedirectKind::Read | RedirectKind::ReadAndWrite | RedirectKind::DuplicateInput
        ),
        IoRedirect::HereString(..) | IoRedirect::HereDocument(..) => true,
        IoRedirect::OutputAndError(..) => false,
    }
}

/// Returns true for `exec`, which may redirect the files of the shell itself.
pub(super) fn is_exec(command: &SimpleCommand) -> bool {
    let mut words =
        command
            .word_or_name
            .iter()
            .chain(items(command).filter_map(|item| match item {
                CommandItem::Word(word) => Some(word),
                _ => None,
            }));
    words.any(|word| word.value.contains("exec"))
}

/// Previous part of a list, if it is a single command.
#[derive(Default)]
pub(super) struct PrecedingCommand {
    /// The index of this command in the script.
    index: Option<usize>,
}

impl PrecedingCommand {
    /// Handles the next part of a list. Its commands begin at index `first` of the script. `depth` is the nesting depth
    /// of the list, which equals the number of wrappers of its own commands.
    pub(super) fn note_part(
        &mut self,
        (pipeline, is_and): (&Pipeline, bool),
        commands: &mut [ParsedCommand],
        (first, depth): (usize, usize),
    ) {
        let emitted = commands.get_mut(first..).unwrap_or_default();
        let is_simple = |command: &Command| matches!(command, Command::Simple(_));
        let is_own = |simple: &ParsedCommand| simple.wrappers.len() == depth;
        // Commands of a substitution run between the two parts.
        let is_nested = |simple: &ParsedCommand| {
            let inside = simple.wrappers.get(depth);
            inside.is_some_and(EnclosingCommand::is_substitution)
        };
        let follows = pipeline.seq.iter().all(is_simple) && !emitted.iter().any(is_nested);
        if let Some(preceding) = self.index.filter(|_| is_and && follows) {
            let own_commands = emitted.iter_mut().filter(|simple| is_own(simple));
            own_commands.for_each(|simple| simple.follows = Some(preceding));
        }
        let is_plain = !pipeline.bang && pipeline.timed.is_none();
        let is_single = matches!(pipeline.seq.as_slice(), [one] if is_simple(one))
            && matches!(emitted, [one] if is_own(one));
        self.index = (is_plain && is_single).then_some(first);
    }
}

/// Returns the parts of a list, each with true if it runs only after the previous part has succeeded. The value is
/// false after `||`, since another part may have run last.
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
