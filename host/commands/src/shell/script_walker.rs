//! Walks the syntax tree of a shell script and collects its commands, nested ones included.

use std::ops::Range;

use crate::interpreters::runs_input;
use crate::{EnclosingCommand, ParsedCommand, ShellRedirection, ShellWord};
use brush_parser::ast::{
    AndOrList, Assignment, AssignmentName, AssignmentValue, BinaryPredicate, CaseClauseCommand,
    Command, CommandPrefixOrSuffixItem as CommandItem, CompoundCommand, CompoundList,
    ExtendedTestExpr, ForClauseCommand, IoFileRedirectKind as RedirectKind,
    IoFileRedirectTarget as RedirectTarget, IoRedirect, Pipeline, SeparatorOperator, SimpleCommand,
    SubshellCommand, UnaryPredicate, Word as AstWord,
};

use super::braces;
use super::command_list::{self, PrecedingCommand, reads_from_pipe, sets_input, writes_to_pipe};
use super::lexer::{self, ShellDialect};
use super::parsed_script::ParsedScript;
use super::script_reader::ScriptReader;
use super::word::{self, QuoteContext};

/// Walks a parsed script. `span` is set for a script inside another one (`sh -c`, `$(…)`): all its commands then get
/// that range of the outer text.
pub(super) fn walk_program(
    reader: &mut ScriptReader,
    structure: &ParsedScript,
    span: Option<Range<usize>>,
) {
    let mut walk = ScriptWalker {
        reader,
        structure,
        span,
    };
    for list in &structure.program.complete_commands {
        walk.walk_list(list);
    }
}

struct ScriptWalker<'a> {
    reader: &'a mut ScriptReader,
    structure: &'a ParsedScript,
    span: Option<Range<usize>>,
}

impl ScriptWalker<'_> {
    fn walk_list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            let is_background = matches!(item.1, SeparatorOperator::Async);
            self.walk_forked(is_background, |walk| {
                walk.walk_and_or(&item.0, is_background)
            });
        }
    }

    /// Walks a part of the script. `forks` is true if the part runs in a process of its own.
    fn walk_forked(&mut self, forks: bool, walk: impl FnOnce(&mut Self)) {
        let outer = self.reader.is_forked;
        self.reader.is_forked |= forks;
        walk(self);
        self.reader.is_forked = outer;
    }

    fn walk_and_or(&mut self, list: &AndOrList, is_background: bool) {
        let depth = self.reader.enclosing.len();
        let mut preceding = PrecedingCommand::default();
        for part in command_list::parts(list) {
            let first = self.reader.script.commands.len();
            self.walk_pipeline(part.0);
            if !is_background {
                preceding.note_part(part, &mut self.reader.script.commands, (first, depth));
            }
        }
    }

    /// Links each command to the one whose output it reads through a pipe (`piped_from`). An interpreter that reads
    /// code from an unknown source (`… | python`) is marked as hiding a command.
    fn walk_pipeline(&mut self, pipeline: &Pipeline) {
        // The previous stage, if it is a single known command.
        let mut previous_stage = None;
        for (number, command) in pipeline.seq.iter().enumerate() {
            let first = self.reader.script.commands.len();
            self.walk_forked(pipeline.seq.len() > 1, |walk| walk.walk_command(command));
            let depth = self.reader.enclosing.len();
            let is_wrapper =
                |enclosing: &EnclosingCommand| matches!(enclosing, EnclosingCommand::Wrapper(_));
            let emitted = &mut self.reader.script.commands[first..];
            let reads_pipe = number > 0 && reads_from_pipe(command);
            for simple in emitted.iter_mut().filter(|_| number > 0) {
                simple.has_input = true;
                let inside = simple.wrappers.get(depth..).unwrap_or_default();
                if reads_pipe && inside.iter().all(is_wrapper) {
                    simple.piped_from = simple.piped_from.or(previous_stage);
                }
                // The code that the interpreter reads is unknown.
                simple.hides_command |= simple.piped_from.is_none() && runs_input(&simple.words);
            }
            // If a stage runs several commands, each of them may write the input of the next stage.
            let is_single = matches!(emitted, [simple] if simple.wrappers.len() == depth);
            previous_stage = (is_single && writes_to_pipe(command)).then_some(first);
        }
    }

    fn walk_command(&mut self, command: &Command) {
        let first = self.reader.script.commands.len();
        self.walk_one(command);
        let has_input = match command {
            Command::Simple(simple) => {
                let sets = command_list::redirections(simple).any(sets_input);
                self.reader.input_is_replaced |= sets && command_list::is_exec(simple);
                sets
            }
            Command::Compound(_, list) | Command::ExtendedTest(_, list) => {
                list.iter().flat_map(|list| &list.0).any(sets_input)
            }
            // The caller determines the input of a function.
            Command::Function(_) => true,
        };
        if has_input {
            self.note_input(first);
        }
    }

    /// Records that the script sets the standard input of all commands from index `first` on.
    fn note_input(&mut self, first: usize) {
        let commands = self.reader.script.commands.iter_mut().skip(first);
        commands.for_each(|simple| simple.has_input = true);
    }

    fn walk_one(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.walk_simple(simple),
            Command::Compound(compound, redirections) => {
                self.walk_compound(compound);
                self.read_compound_redirections(redirections.iter().flat_map(|list| &list.0));
            }
            Command::Function(function) => {
                let name = function.fname.value.clone();
                self.reader.functions.insert(name.clone());
                self.reader.current_functions.push(name);
                // The context of the definition is not that of the call.
                let outer = std::mem::take(&mut self.reader.is_forked);
                self.walk_compound(&function.body.0);
                self.reader.is_forked = outer;
                self.reader.current_functions.pop();
                self.read_compound_redirections(function.body.1.iter().flat_map(|list| &list.0));
            }
            Command::ExtendedTest(test, redirections) => {
                let mut simple = ParsedCommand {
                    words: vec![ShellWord::Known("[[".to_owned())],
                    ..ParsedCommand::default()
                };
                self.walk_test(&test.expr, &mut simple);
                self.reader.push_command(self.with_span(simple));
                self.read_compound_redirections(redirections.iter().flat_map(|list| &list.0));
            }
        }
    }

    fn walk_compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(_) | CompoundCommand::ArithmeticForClause(_) => {
                self.reader.note_unknown(word::UNKNOWN_ARITHMETIC);
            }
            CompoundCommand::BraceGroup(group) => self.walk_list(&group.list),
            CompoundCommand::Subshell(subshell) => {
                // A subshell is a new process, so a recursive call in it multiplies processes.
                self.walk_forked(true, |walk| walk.walk_list(&subshell.list));
            }
            CompoundCommand::ForClause(clause) => self.walk_for(clause),
            CompoundCommand::CaseClause(clause) => self.walk_case(clause),
            CompoundCommand::IfClause(clause) => {
                self.walk_list(&clause.condition);
                self.walk_list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    other.condition.iter().for_each(|list| self.walk_list(list));
                    self.walk_list(&other.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.walk_list(&clause.0);
                self.walk_list(&clause.1.list);
            }
            CompoundCommand::Coprocess(clause) => {
                self.reader
                    .note_unknown("shells read the name of a coprocess differently");
                self.walk_forked(true, |walk| walk.walk_command(&clause.body));
            }
        }
    }

    fn walk_for(&mut self, clause: &ForClauseCommand) {
        let mut simple = ParsedCommand {
            assignments: vec![(
                clause.variable_name.clone(),
                ShellWord::Unknown("…".to_owned()),
            )],
            ..ParsedCommand::default()
        };
        let mut words = Vec::new();
        for value in clause.values.iter().flatten() {
            words.push(self.read_word(value, QuoteContext::Plain, &mut simple));
        }
        self.reader.push_command(self.with_span(simple));
        let name = &clause.variable_name;
        match self.reader.variables.note_loop(name, &words) {
            // The body is walked once per value, so that its commands are checked with the actual words.
            Some(values) => {
                for value in values {
                    if !self.reader.is_full() {
                        self.reader.variables.bind(name, value);
                        self.walk_list(&clause.body.list);
                        self.reader.variables.unbind();
                    }
                }
            }
            None => self.walk_list(&clause.body.list),
        }
    }

    fn walk_case(&mut self, clause: &CaseClauseCommand) {
        let mut simple = ParsedCommand::default();
        self.read_word(&clause.value, QuoteContext::Value, &mut simple);
        for case in &clause.cases {
            for pattern in &case.patterns {
                self.read_word(pattern, QuoteContext::Value, &mut simple);
            }
        }
        self.push_remainder(simple);
        clause
            .cases
            .iter()
            .filter_map(|case| case.cmd.as_ref())
            .for_each(|list| self.walk_list(list));
    }

    /// Records the files that are opened for a compound command.
    ///
    /// The commands inside have already been read with an unknown standard input, so a shell among them counts as
    /// running hidden text. A here-document of the compound command is read into an entry of its own, so that it is not
    /// taken for the input of an enclosing command.
    fn read_compound_redirections<'r>(
        &mut self,
        redirections: impl Iterator<Item = &'r IoRedirect>,
    ) {
        let mut simple = ParsedCommand::default();
        self.reader.stdin.push(None);
        for redirection in redirections {
            self.read_redirection(redirection, &mut simple);
        }
        self.reader.stdin.pop();
        self.push_remainder(simple);
    }

    /// Records redirections and unknown effects that belong to no simple command.
    fn push_remainder(&mut self, simple: ParsedCommand) {
        if !simple.redirections.is_empty() || !simple.unknown.is_empty() {
            self.reader.push_command(self.with_span(simple));
        }
    }

    /// Sets the range of a command to that of the outer text, if there is one.
    fn with_span(&self, simple: ParsedCommand) -> ParsedCommand {
        match &self.span {
            Some(span) => ParsedCommand {
                span: span.clone(),
                ..simple
            },
            None => simple,
        }
    }

    fn walk_simple(&mut self, command: &SimpleCommand) {
        let mut simple = ParsedCommand::default();
        self.reader.stdin.push(None);
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
        prefix.for_each(|item| self.read_item(item, true, &mut simple));
        if let Some(name) = &command.word_or_name {
            self.read_argument(name, &mut simple);
        }
        let suffix = command.suffix.iter().flat_map(|suffix| &suffix.0);
        suffix.for_each(|item| self.read_item(item, false, &mut simple));
        let stdin = self.reader.stdin.pop().flatten();
        self.reader.resolve_command(self.with_span(simple), stdin);
    }

    fn read_item(&mut self, item: &CommandItem, is_prefix: bool, simple: &mut ParsedCommand) {
        match item {
            CommandItem::IoRedirect(redirection) => self.read_redirection(redirection, simple),
            CommandItem::Word(word) => match self.read_braces(word, simple) {
                Some(words) => simple.words.extend(words.into_iter().map(ShellWord::Known)),
                None => self.read_argument(word, simple),
            },
            CommandItem::AssignmentWord(assignment, word) => {
                // After the program, `NAME=value` is an ordinary argument, and for `export` also an assignment.
                let is_assignment = is_prefix || simple.program().is_some_and(sets_variables);
                if is_assignment {
                    self.read_assignment(assignment, simple);
                }
                if is_prefix {
                    self.extend_span(word, simple);
                } else {
                    self.read_argument(word, simple);
                }
            }
            CommandItem::ProcessSubstitution(_, subshell) => {
                self.walk_process_substitution(subshell);
                simple.words.push(ShellWord::PipeName);
            }
        }
    }

    fn read_assignment(&mut self, assignment: &Assignment, simple: &mut ParsedCommand) {
        if assignment.append && self.reader.shell == ShellDialect::Any {
            let why = "`+=` has another meaning in shells other than bash";
            simple.unknown.push(why.to_owned());
        }
        let name = match &assignment.name {
            AssignmentName::VariableName(name) => name.clone(),
            AssignmentName::ArrayElementName(name, _) => {
                simple
                    .unknown
                    .push("an array subscript may run a command stored in a variable".to_owned());
                name.clone()
            }
        };
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) => self.read_word(word, QuoteContext::Value, simple),
            AssignmentValue::Array(_) => {
                simple.unknown.push("arrays are not analyzed".to_owned());
                ShellWord::Unknown("(…)".to_owned())
            }
        };
        simple.assignments.push((name, value));
    }

    fn read_argument(&mut self, raw: &AstWord, simple: &mut ParsedCommand) {
        let word = self.read_word(raw, QuoteContext::Plain, simple);
        simple.words.push(word);
    }

    /// Expands braces in an argument (bash only). Returns `None` for the command name and for other expansions than
    /// plain lists.
    fn read_braces(&mut self, raw: &AstWord, simple: &mut ParsedCommand) -> Option<Vec<String>> {
        let is_argument = self.reader.shell == ShellDialect::Bash && !simple.words.is_empty();
        let words = is_argument.then(|| braces::expand_words(&raw.value))??;
        self.extend_span(raw, simple);
        Some(words)
    }

    /// Reads a word, and the commands of its substitutions.
    fn read_word(
        &mut self,
        raw: &AstWord,
        context: QuoteContext,
        simple: &mut ParsedCommand,
    ) -> ShellWord {
        self.extend_span(raw, simple);
        self.read_raw(&raw.value, context, simple)
    }

    fn read_raw(
        &mut self,
        raw: &str,
        context: QuoteContext,
        simple: &mut ParsedCommand,
    ) -> ShellWord {
        if context == QuoteContext::Body
            && let Err(fault) = lexer::check_here_doc_body(raw)
        {
            simple.unknown.push(fault.to_owned());
        }
        if context == QuoteContext::Plain
            && let Some(word) = self.reader.variables.file_pattern(raw)
        {
            return word;
        }
        let parts = word::read_word(raw, context, &self.reader.variables);
        simple
            .unknown
            .extend(parts.unknown.iter().map(|&why| why.to_owned()));
        let span = self.span.clone().unwrap_or_else(|| simple.span.clone());
        for text in parts.substitutions {
            self.reader
                .enclosing
                .push(EnclosingCommand::CommandSubstitution);
            let outer = std::mem::replace(&mut self.reader.is_forked, true);
            self.reader.read_text_in_place(text, span.clone());
            self.reader.is_forked = outer;
            self.reader.enclosing.pop();
        }
        parts.word
    }

    /// Extends the range of the command to include this word.
    fn extend_span(&self, raw: &AstWord, simple: &mut ParsedCommand) {
        let span = raw
            .loc
            .as_ref()
            .and_then(|loc| self.structure.word_position(loc.start.index));
        let Some(span) = span.filter(|_| self.span.is_none()) else {
            return;
        };
        simple.span = if simple.span.is_empty() {
            span
        } else {
            simple.span.start.min(span.start)..simple.span.end.max(span.end)
        };
    }

    fn walk_process_substitution(&mut self, subshell: &SubshellCommand) {
        self.reader
            .enclosing
            .push(EnclosingCommand::ProcessSubstitution);
        self.walk_forked(true, |walk| walk.walk_list(&subshell.list));
        self.reader.enclosing.pop();
    }

    fn read_redirection(&mut self, redirection: &IoRedirect, simple: &mut ParsedCommand) {
        match redirection {
            IoRedirect::File(_, kind, target) => self.read_file_redirection(kind, target, simple),
            IoRedirect::OutputAndError(word, appends) => {
                self.push_redirection(word, (true, *appends), simple)
            }
            IoRedirect::HereString(_, word) => {
                let text = self.read_word(word, QuoteContext::Value, simple);
                self.reader.set_stdin(text);
            }
            IoRedirect::HereDocument(_, document) => {
                let body = &document.doc.value;
                let text = if document.requires_expansion {
                    self.read_raw(body, QuoteContext::Body, simple)
                } else {
                    ShellWord::Known(body.clone())
                };
                self.reader.set_stdin(text);
            }
        }
    }

    fn read_file_redirection(
        &mut self,
        kind: &RedirectKind,
        target: &RedirectTarget,
        simple: &mut ParsedCommand,
    ) {
        let writes = !matches!(kind, RedirectKind::Read | RedirectKind::DuplicateInput);
        match target {
            RedirectTarget::Filename(word) => {
                let appends = matches!(kind, RedirectKind::Append);
                self.push_redirection(word, (writes, appends), simple);
            }
            RedirectTarget::Fd(_) => {}
            RedirectTarget::ProcessSubstitution(_, subshell) => {
                self.walk_process_substitution(subshell)
            }
            RedirectTarget::Duplicate(word) => {
                match self.read_word(word, QuoteContext::Plain, simple) {
                    // `2>&1` opens nothing; `>&name` opens a file.
                    ShellWord::Known(text)
                        if text
                            .trim_end_matches('-')
                            .bytes()
                            .all(|byte| byte.is_ascii_digit()) => {}
                    target => simple.redirections.push(ShellRedirection {
                        writes,
                        appends: false,
                        target,
                    }),
                }
            }
        }
        // `<>` opens the file for reading and writing.
        if matches!(kind, RedirectKind::ReadAndWrite)
            && let Some(ShellRedirection { target, .. }) = simple.redirections.last().cloned()
        {
            simple.redirections.push(ShellRedirection {
                writes: false,
                appends: false,
                target,
            });
        }
    }

    fn push_redirection(
        &mut self,
        word: &AstWord,
        (writes, appends): (bool, bool),
        simple: &mut ParsedCommand,
    ) {
        let target = self.read_word(word, QuoteContext::Plain, simple);
        let text = target.text();
        if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") {
            simple.unknown.push(format!(
                "`{text}` is a network connection that the shell itself opens"
            ));
        }
        simple.redirections.push(ShellRedirection {
            writes,
            appends,
            target,
        });
    }

    fn walk_test(&mut self, test: &ExtendedTestExpr, simple: &mut ParsedCommand) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.walk_test(left, simple);
                self.walk_test(right, simple);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.walk_test(inner, simple)
            }
            ExtendedTestExpr::UnaryTest(predicate, word) => {
                if matches!(
                    predicate,
                    UnaryPredicate::ShellVariableIsSetAndAssigned
                        | UnaryPredicate::ShellVariableIsSetAndNameRef
                ) {
                    let why = "`[[ -v NAME ]]` evaluates array subscripts in NAME, which may run a command";
                    simple.unknown.push(why.to_owned());
                }
                let word = self.read_word(word, QuoteContext::Value, simple);
                simple.words.push(word);
            }
            ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                let words =
                    [left, right].map(|word| self.read_word(word, QuoteContext::Value, simple));
                let are_numbers = words.iter().all(|word| {
                    word.known()
                        .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                });
                // These operators evaluate their operands as expressions, which may contain commands.
                let is_arithmetic = matches!(
                    predicate,
                    BinaryPredicate::ArithmeticEqualTo
                        | BinaryPredicate::ArithmeticNotEqualTo
                        | BinaryPredicate::ArithmeticLessThan
                        | BinaryPredicate::ArithmeticLessThanOrEqualTo
                        | BinaryPredicate::ArithmeticGreaterThan
                        | BinaryPredicate::ArithmeticGreaterThanOrEqualTo
                );
                if is_arithmetic && !are_numbers {
                    simple.unknown.push(word::UNKNOWN_ARITHMETIC.to_owned());
                }
                simple.words.extend(words);
            }
        }
    }
}

/// Returns true for builtins that assign variables from `NAME=value` arguments.
pub(super) fn sets_variables(program: &str) -> bool {
    matches!(
        program,
        "export" | "declare" | "typeset" | "local" | "readonly"
    )
}
