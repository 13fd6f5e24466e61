//! The parser moves on or fails.
//!
//! As published, what no command begins with is asked for again and again in a `case` item, a subshell and a group, until
//! the fuel of the call is used up.
//!
//! A subscript in a list of elements may hold spaces (`m=([a b]=1)`): as published, it is two elements.

use super::SourceEdit;

pub const EDITS: &[SourceEdit] = &[
    (
        "src/parser/mod.rs",
        "                if let Some(cmd) = self.parse_command_list()? {
                    commands.push(*cmd);
                }
                self.skip_newlines()?;",
        1,
        "                match self.parse_command_list()? {
                    Some(cmd) => commands.push(*cmd),
                    None => self.must_have_ended()?,
                }
                self.skip_newlines()?;",
    ),
    (
        "src/parser/mod.rs",
        "            if let Some(cmd) = self.parse_command_list()? {
                commands.push(*cmd);
            }
        }
",
        2,
        "            match self.parse_command_list()? {
                Some(cmd) => commands.push(*cmd),
                None => self.must_have_ended()?,
            }
        }
",
    ),
    (
        "src/parser/mod.rs",
        "                    let elem_clone = elem.clone();
                    let word = if matches!(&self.current_token, Some(tokens::Token::LiteralWord(_)))",
        1,
        "                    let elem_clone = elem.clone();
                    if matches!(&self.current_token, Some(tokens::Token::Word(_)))
                        && elem_clone.starts_with('[')
                        && !elem_clone.contains(']')
                    {
                        self.collect_spaced_subscript(elem_clone, &mut elements);
                        continue;
                    }
                    let word = if matches!(&self.current_token, Some(tokens::Token::LiteralWord(_)))",
    ),
    (
        "src/parser/mod.rs",
        "    /// Parse a simple command with redirections
    /// Collect array elements",
        1,
        "    /// Collects the words of `[a b]=value`, up to the first `]`, as one element with the blanks between them.
    fn collect_spaced_subscript(&mut self, first: String, elements: &mut Vec<Word>) {
        let start = self.current_span.start.offset;
        let mut end = self.current_span.end.offset;
        let mut text = first;
        self.advance();
        while let Some(
            tokens::Token::Word(next)
            | tokens::Token::QuotedWord(next)
            | tokens::Token::LiteralWord(next),
        ) = &self.current_token
        {
            text.push_str(self.input.get(end..self.current_span.start.offset).unwrap_or(\" \"));
            text.push_str(next);
            let is_closed = next.contains(']');
            end = self.current_span.end.offset;
            self.advance();
            if is_closed {
                break;
            }
        }
        let raw = self.source_slice(start, end);
        let mut word = self.parse_word(text);
        word.raw = raw;
        elements.push(word);
    }

    /// Parse a simple command with redirections
    /// Collect array elements",
    ),
    (
        "src/parser/mod.rs",
        "    /// Parse a command list (commands connected by && or ||)\n",
        1,
        "    /// Fails unless the input ended: what is there begins no command.
    fn must_have_ended(&mut self) -> Result<()> {
        self.check_error_token()?;
        match self.current_token {
            Some(_) => Err(self.error(\"unexpected token\")),
            None => Ok(()),
        }
    }

    /// Parse a command list (commands connected by && or ||)\n",
    ),
];
