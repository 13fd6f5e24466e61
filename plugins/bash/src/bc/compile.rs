//! The compiler of bc: one line, or one function, at a time.

mod expressions;
mod statements;

use std::rc::Rc;

use super::lexer::{BcLexer, BcToken};
use super::program::{BcInstruction, FunctionBody, LocalName, NameTable, ProgramItem};

/// Maximum nesting of expressions and statements, for which the stack is large enough.
const MAX_NESTING: usize = 200;

/// The reason why the compilation of an item ended early.
#[derive(Debug, PartialEq, Eq)]
enum CompileStop {
    Syntax,
    TooDeep,
    Quit,
}

type Compiled<T> = Result<T, CompileStop>;

/// A loop that is being compiled.
struct OpenLoop {
    continue_at: usize,
    breaks: Vec<usize>,
}

/// An item, or the messages of one with errors.
pub enum CompiledItem {
    Item(ProgramItem),
    Errors(Vec<String>),
    /// `quit` was read.
    Quit,
    End,
}

/// Compiles a text.
pub struct BcCompiler<'a> {
    source: &'a str,
    lexer: BcLexer<'a>,
    token: BcToken,
    code: Vec<BcInstruction>,
    loops: Vec<OpenLoop>,
    in_function: bool,
    nesting: usize,
    /// Number of blocks that are open.
    blocks: usize,
    errors: Vec<String>,
}

impl<'a> BcCompiler<'a> {
    /// Starts at the beginning of a text. The name of the source is part of messages.
    pub fn new(source: &'a str, text: &'a str) -> Self {
        let mut lexer = BcLexer::new(text);
        let token = lexer.read_token();
        Self {
            source,
            lexer,
            token,
            code: Vec::new(),
            loops: Vec::new(),
            in_function: false,
            nesting: 0,
            blocks: 0,
            errors: Vec::new(),
        }
    }

    /// Compiles the next line or function. After a syntax error the rest of its line is skipped.
    pub fn compile_item(&mut self, names: &mut NameTable) -> CompiledItem {
        self.code.clear();
        self.loops.clear();
        self.in_function = false;
        self.nesting = 0;
        self.blocks = 0;
        if self.token == BcToken::End {
            self.collect_messages();
            if self.errors.is_empty() {
                return CompiledItem::End;
            }
            return CompiledItem::Errors(std::mem::take(&mut self.errors));
        }
        let item = if self.token == BcToken::Keyword("define") {
            self.compile_definition(names)
        } else {
            self.compile_line(names)
        };
        let item = match item {
            Ok(item) => Some(item),
            Err(CompileStop::Quit) => return CompiledItem::Quit,
            Err(stop) => {
                self.collect_messages();
                self.report(match stop {
                    CompileStop::TooDeep => "expressions are nested too deeply",
                    _ => "syntax error",
                });
                self.skip_item();
                None
            }
        };
        self.collect_messages();
        match item {
            Some(item) if self.errors.is_empty() => CompiledItem::Item(item),
            _ => CompiledItem::Errors(std::mem::take(&mut self.errors)),
        }
    }

    /// Appends an error with its position.
    fn report(&mut self, message: &str) {
        // The newline that ends the line was read already.
        let line = self.lexer.line();
        self.errors
            .push(format!("({}) {line}: {message}", self.source));
    }

    fn collect_messages(&mut self) {
        for message in std::mem::take(&mut self.lexer.messages) {
            self.report(&message);
        }
    }

    /// Skips the rest of the line after a syntax error, up to the end of the blocks that are open.
    fn skip_item(&mut self) {
        loop {
            match self.advance() {
                BcToken::Symbol("{") => self.blocks += 1,
                BcToken::Symbol("}") => self.blocks = self.blocks.saturating_sub(1),
                BcToken::Newline if self.blocks == 0 => return,
                BcToken::End => return,
                _ => {}
            }
        }
    }

    fn advance(&mut self) -> BcToken {
        let next = self.lexer.read_token();
        std::mem::replace(&mut self.token, next)
    }

    fn accept_symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.token, BcToken::Symbol(found) if found == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: &str) -> Compiled<()> {
        if self.accept_symbol(symbol) {
            Ok(())
        } else {
            Err(CompileStop::Syntax)
        }
    }

    fn accept_newline(&mut self) -> bool {
        let found = self.token == BcToken::Newline;
        if found {
            self.advance();
        }
        found
    }

    fn skip_newlines(&mut self) {
        while self.accept_newline() {}
    }

    fn expect_name(&mut self) -> Compiled<String> {
        if !matches!(self.token, BcToken::Name(_)) {
            return Err(CompileStop::Syntax);
        }
        match self.advance() {
            BcToken::Name(name) => Ok(name),
            _ => Err(CompileStop::Syntax),
        }
    }

    fn emit(&mut self, instruction: BcInstruction) -> usize {
        self.code.push(instruction);
        self.code.len() - 1
    }

    /// Sets the target of an emitted jump to the current end of the code.
    fn land_jump(&mut self, at: usize) {
        let end = self.code.len();
        if let Some(
            BcInstruction::Jump(target)
            | BcInstruction::JumpIfZero(target)
            | BcInstruction::JumpIfNonzero(target),
        ) = self.code.get_mut(at)
        {
            *target = end;
        }
    }

    /// Counts a nested expression or statement. Fails beyond [`MAX_NESTING`].
    fn enter_nested(&mut self) -> Compiled<()> {
        self.nesting += 1;
        if self.nesting <= MAX_NESTING {
            Ok(())
        } else {
            Err(CompileStop::TooDeep)
        }
    }

    fn compile_line(&mut self, names: &mut NameTable) -> Compiled<ProgramItem> {
        loop {
            while self.accept_symbol(";") {}
            if matches!(self.token, BcToken::Newline | BcToken::End) {
                break;
            }
            self.compile_statement(names)?;
            let ends = [BcToken::Symbol(";"), BcToken::Newline, BcToken::End];
            if !ends.contains(&self.token) {
                return Err(CompileStop::Syntax);
            }
        }
        self.accept_newline();
        Ok(ProgramItem::Statements(self.take_code()))
    }

    fn take_code(&mut self) -> Rc<[BcInstruction]> {
        std::mem::take(&mut self.code).into()
    }

    /// Compiles `define [void] name(parameters) { [auto names] statements }`.
    fn compile_definition(&mut self, names: &mut NameTable) -> Compiled<ProgramItem> {
        self.advance();
        self.in_function = true;
        let is_void = self.token == BcToken::Keyword("void");
        if is_void {
            self.advance();
        }
        let name = self.expect_name()?;
        let function = names.intern_name(&name);
        if is_void {
            names.void_functions.insert(function);
        } else {
            names.void_functions.remove(&function);
        }
        self.expect_symbol("(")?;
        let mut parameters = Vec::new();
        if !self.accept_symbol(")") {
            parameters = self.compile_locals(names)?;
            self.expect_symbol(")")?;
        }
        self.skip_newlines();
        self.expect_symbol("{")?;
        self.skip_newlines();
        let mut locals = Vec::new();
        while self.token == BcToken::Keyword("auto") {
            self.advance();
            locals.extend(self.compile_locals(names)?);
            while self.accept_symbol(";") || self.accept_newline() {}
        }
        self.compile_block(names)?;
        self.emit(BcInstruction::Truth(false));
        self.emit(BcInstruction::Return);
        let body = FunctionBody {
            parameters,
            locals,
            code: self.take_code(),
        };
        Ok(ProgramItem::Definition(function, body))
    }

    fn compile_locals(&mut self, names: &mut NameTable) -> Compiled<Vec<LocalName>> {
        let mut locals = Vec::new();
        loop {
            let is_shared = self.accept_symbol("*") || self.accept_symbol("&");
            let name = self.expect_name()?;
            let number = names.intern_name(&name);
            let is_array = self.accept_symbol("[");
            if is_array {
                self.expect_symbol("]")?;
            }
            locals.push(match (is_array, is_shared) {
                (true, true) => LocalName::SharedArray(number),
                (true, false) => LocalName::Array(number),
                (false, false) => LocalName::Variable(number),
                (false, true) => return Err(CompileStop::Syntax),
            });
            if !self.accept_symbol(",") {
                return Ok(locals);
            }
        }
    }

    /// Compiles the statements of a block, up to and including its `}`.
    fn compile_block(&mut self, names: &mut NameTable) -> Compiled<()> {
        self.blocks += 1;
        loop {
            while self.accept_symbol(";") || self.accept_newline() {}
            if self.accept_symbol("}") {
                self.blocks -= 1;
                return Ok(());
            }
            self.compile_statement(names)?;
            let ends = [BcToken::Symbol(";"), BcToken::Symbol("}"), BcToken::Newline];
            if !ends.contains(&self.token) {
                return Err(CompileStop::Syntax);
            }
        }
    }
}
