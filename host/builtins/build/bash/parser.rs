//! The parser makes progress or fails.
//!
//! The published parser loops in a `case` item, a subshell or a group at a token that cannot begin a command, until the
//! fuel of the call is used up.
//!
//! A subscript in an array literal may contain spaces (`m=([a b]=1)`); the published parser reads two elements.
//!
//! An array literal or a `${` without an end is a syntax error; in the published version it swallows the rest of the
//! script, which then succeeds.

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
    (
        "src/parser/mod.rs",
        "                None => break,
                // bash: `a=(1 & 2)` is a syntax error at the operator.",
        1,
        "                None => {
                    let err = self.error(\"unexpected EOF while looking for matching `)'\");
                    self.defer_error(err);
                    break;
                }
                Some(tokens::Token::Error(_)) => {
                    if let Err(err) = self.check_error_token() {
                        self.defer_error(err);
                    }
                    self.advance();
                }
                // bash: `a=(1 & 2)` is a syntax error at the operator.",
    ),
    (
        "src/parser/mod.rs",
        "    /// Check if current token is an error token and return the error if so\n",
        1,
        "    /// Keeps an error for the end of the input, unless there is one already.
    fn defer_error(&self, error: Error) {
        let first = self.deferred_error.take();
        self.deferred_error.set(first.or(Some(error)));
    }

    /// Check if current token is an error token and return the error if so\n",
    ),
    (
        "src/parser/mod.rs",
        "                \"unterminated subscript\" => Some(']'),\n",
        1,
        "                \"unterminated subscript\" => Some(']'),
                \"unterminated parameter expansion\" => Some('}'),\n",
    ),
    (
        "src/parser/lexer.rs",
        "                        break;
                    }
                }
                _ => word.push(c),
            }
        }
        Ok(())
",
        1,
        "                        return Ok(());
                    }
                }
                _ => word.push(c),
            }
        }
        Err(\"unterminated parameter expansion\".to_string())
",
    ),
    (
        "src/parser/lexer.rs",
        "                    content.push('}');
                    if depth == 0 {
                        break;
                    }
",
        1,
        "                    content.push('}');
                    if depth == 0 {
                        return Ok(());
                    }
",
    ),
    (
        "src/parser/lexer.rs",
        "                        depth += 1;
                        content.push('{');
                        self.advance();
                    }
                }
                _ => {
                    content.push(c);
                    self.advance();
                }
            }
        }
        Ok(())
",
        1,
        "                        depth += 1;
                        content.push('{');
                        self.advance();
                    }
                }
                _ => {
                    content.push(c);
                    self.advance();
                }
            }
        }
        Err(\"unterminated parameter expansion\".to_string())
",
    ),
];
