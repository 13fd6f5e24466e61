//! The virtual machine that executes compiled bc programs.
//!
//! Function calls take no native stack, so only a fixed limit bounds their depth.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::math;
use super::number::{DecimalNumber, MAX_SCALE, NumberError};
use super::output::LineWriter;
use super::program::{
    BcInstruction, BinaryOperator, CallArgument, FunctionBody, LanguageFunction, LocalName,
    NameTable, NumberLocation,
};

/// Maximum number of nested calls.
const MAX_CALLS: usize = 100_000;

/// Largest index of an array.
const MAX_INDEX: i64 = 16_777_215;

/// Largest value of `ibase`.
const MAX_INPUT_BASE: i64 = 36;

/// Largest value of `obase`.
const MAX_OUTPUT_BASE: i64 = i32::MAX as i64;

type NumberArray = Rc<RefCell<BTreeMap<i64, DecimalNumber>>>;

/// A runtime error, which ends the line that is executed.
#[derive(Debug)]
pub struct RuntimeError(String);

impl From<NumberError> for RuntimeError {
    fn from(error: NumberError) -> Self {
        Self(error.message())
    }
}

/// The outcome of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum LineOutcome {
    Done,
    /// `halt` was executed, or the output is full.
    Halted,
}

/// The previous value of a name that a call has replaced.
enum SavedLocal {
    Variable(usize, DecimalNumber),
    Array(usize, NumberArray),
}

/// A running function call.
struct CallFrame {
    /// Code of the caller, and the position after the call.
    code: Rc<[BcInstruction]>,
    next: usize,
    /// Input base of the caller's literals.
    literal_base: Option<u32>,
    saved: Vec<SavedLocal>,
    stack_height: usize,
}

/// State of a bc process.
pub struct BcMachine {
    stack: Vec<DecimalNumber>,
    frames: Vec<CallFrame>,
    variables: Vec<DecimalNumber>,
    arrays: Vec<NumberArray>,
    functions: Vec<Option<Rc<FunctionBody>>>,
    scale: usize,
    input_base: u32,
    output_base: u32,
    last: DecimalNumber,
    math_library: bool,
    pub output: LineWriter,
    pub errors: String,
}

impl BcMachine {
    /// Creates the initial state. The math library sets `scale` to 20.
    pub fn new(math_library: bool, output: LineWriter) -> Self {
        Self {
            stack: Vec::new(),
            frames: Vec::new(),
            variables: Vec::new(),
            arrays: Vec::new(),
            functions: Vec::new(),
            scale: if math_library { 20 } else { 0 },
            input_base: 10,
            output_base: 10,
            last: DecimalNumber::default(),
            math_library,
            output,
            errors: String::new(),
        }
    }

    /// Appends a line to stderr.
    pub fn report(&mut self, message: &str) {
        self.errors.push_str(message);
        self.errors.push('\n');
    }

    fn warn(&mut self, message: &str) {
        self.report(&format!("Runtime warning: {message}"));
    }

    /// Defines a function. Replaces a function of the same name.
    pub fn define_function(&mut self, function: usize, body: FunctionBody) {
        if self.functions.len() <= function {
            self.functions.resize(function + 1, None);
        }
        self.functions[function] = Some(Rc::new(body));
    }

    /// Executes the statements of a line. A runtime error is reported and ends the line.
    pub fn execute_line(&mut self, code: Rc<[BcInstruction]>, names: &NameTable) -> LineOutcome {
        let outcome = self.execute_code(code, names);
        while let Some(frame) = self.frames.pop() {
            self.restore_locals(frame.saved);
        }
        self.stack.clear();
        match outcome {
            Ok(outcome) => outcome,
            Err(RuntimeError(message)) => {
                self.report(&format!("Runtime error: {message}"));
                LineOutcome::Done
            }
        }
    }

    fn execute_code(
        &mut self,
        mut code: Rc<[BcInstruction]>,
        names: &NameTable,
    ) -> Result<LineOutcome, RuntimeError> {
        let mut next = 0;
        let mut literal_base: Option<u32> = None;
        while let Some(instruction) = code.get(next) {
            next += 1;
            match instruction {
                BcInstruction::Literal(text) => {
                    let base = literal_base.unwrap_or(self.input_base);
                    let number = DecimalNumber::from_literal(text, base)?;
                    self.stack.push(number);
                }
                BcInstruction::Truth(truth) => self.push_truth(*truth),
                BcInstruction::Duplicate => {
                    let top = self.stack.last().cloned().unwrap_or_default();
                    self.stack.push(top);
                }
                BcInstruction::Discard => {
                    self.pop_number();
                }
                BcInstruction::Load(location) => {
                    let index = self.pop_index(*location, names)?;
                    let number = self.load_number(*location, index);
                    self.stack.push(number);
                }
                BcInstruction::Store(location) => {
                    let number = self.pop_number();
                    let index = self.pop_index(*location, names)?;
                    self.store_number(*location, index, number.clone());
                    self.stack.push(number);
                }
                BcInstruction::Step {
                    location,
                    amount,
                    leaves_old,
                } => {
                    let index = self.pop_index(*location, names)?;
                    let old = self.load_number(*location, index);
                    let new = old.add(&DecimalNumber::from(*amount))?;
                    self.store_number(*location, index, new.clone());
                    self.stack.push(if *leaves_old { old } else { new });
                }
                BcInstruction::Binary(operator) => {
                    let right = self.pop_number();
                    let left = self.pop_number();
                    let number = self.compute_binary(*operator, &left, &right)?;
                    self.stack.push(number);
                }
                BcInstruction::Compare(relation) => {
                    let right = self.pop_number();
                    let left = self.pop_number();
                    self.push_truth(relation.includes(left.compare_value(&right)));
                }
                BcInstruction::Negate => {
                    let number = self.pop_number().negate();
                    self.stack.push(number);
                }
                BcInstruction::Not => {
                    let is_zero = self.pop_number().is_zero();
                    self.push_truth(is_zero);
                }
                BcInstruction::Apply(function) => {
                    let number = self.pop_number();
                    let number = self.apply_function(*function, &number)?;
                    self.stack.push(number);
                }
                BcInstruction::Call {
                    function,
                    arguments,
                } => {
                    let body = self.functions.get(*function).cloned().flatten();
                    let Some(body) = body else {
                        self.call_library(names.resolve_number(*function), arguments)?;
                        continue;
                    };
                    let (saved, stack_height) = self.bind_locals(&body, arguments, names)?;
                    let callee = Rc::clone(&body.code);
                    let base = literal_base.unwrap_or(self.input_base);
                    self.frames.push(CallFrame {
                        code: std::mem::replace(&mut code, callee),
                        next: std::mem::replace(&mut next, 0),
                        literal_base: literal_base.replace(base),
                        saved,
                        stack_height,
                    });
                }
                BcInstruction::Return => {
                    let number = self.pop_number();
                    let Some(frame) = self.frames.pop() else {
                        return Ok(LineOutcome::Done);
                    };
                    self.restore_locals(frame.saved);
                    self.stack.truncate(frame.stack_height);
                    self.stack.push(number);
                    code = frame.code;
                    next = frame.next;
                    literal_base = frame.literal_base;
                }
                BcInstruction::Jump(target) => next = *target,
                BcInstruction::JumpIfZero(target) => {
                    if self.pop_number().is_zero() {
                        next = *target;
                    }
                }
                BcInstruction::JumpIfNonzero(target) => {
                    if !self.pop_number().is_zero() {
                        next = *target;
                    }
                }
                BcInstruction::PrintLine | BcInstruction::PrintNumber => {
                    let number = self.pop_number();
                    self.output.write_text(&number.to_text(self.output_base));
                    if matches!(instruction, BcInstruction::PrintLine) {
                        self.output.write_text("\n");
                    }
                    self.last = number;
                }
                BcInstruction::PrintText(text) => self.output.write_text(text),
                BcInstruction::Read => {
                    let message = "read() is not supported: assign the value to a variable";
                    return Err(RuntimeError(message.to_owned()));
                }
                BcInstruction::Halt => return Ok(LineOutcome::Halted),
            }
            if self.output.is_full() {
                self.report("Runtime error: the output is too long: print less");
                return Ok(LineOutcome::Halted);
            }
        }
        Ok(LineOutcome::Done)
    }

    fn pop_number(&mut self) -> DecimalNumber {
        self.stack.pop().unwrap_or_default()
    }

    fn push_truth(&mut self, truth: bool) {
        self.stack.push(DecimalNumber::from(i64::from(truth)));
    }

    /// Pops the index of an array element. Other locations have no index.
    fn pop_index(
        &mut self,
        location: NumberLocation,
        names: &NameTable,
    ) -> Result<i64, RuntimeError> {
        let NumberLocation::Element(array) = location else {
            return Ok(0);
        };
        let index = self.pop_number().to_integer();
        if (0..=MAX_INDEX).contains(&index) {
            return Ok(index);
        }
        let name = names.resolve_number(array);
        Err(RuntimeError(format!(
            "Array {name} subscript out of bounds: expected 0 to {MAX_INDEX}"
        )))
    }

    fn load_number(&mut self, location: NumberLocation, index: i64) -> DecimalNumber {
        let from_size = |size: usize| DecimalNumber::from(size as i64);
        match location {
            NumberLocation::Variable(name) => self.variables.get(name).cloned().unwrap_or_default(),
            NumberLocation::Element(name) => {
                let array = self.share_array(name);
                let number = array.borrow().get(&index).cloned();
                number.unwrap_or_default()
            }
            NumberLocation::Scale => from_size(self.scale),
            NumberLocation::InputBase => DecimalNumber::from(i64::from(self.input_base)),
            NumberLocation::OutputBase => DecimalNumber::from(i64::from(self.output_base)),
            NumberLocation::Last => self.last.clone(),
        }
    }

    fn store_number(&mut self, location: NumberLocation, index: i64, number: DecimalNumber) {
        match location {
            NumberLocation::Variable(name) => {
                self.replace_variable(name, number);
            }
            NumberLocation::Element(name) => {
                self.share_array(name).borrow_mut().insert(index, number);
            }
            NumberLocation::Scale => {
                let given = number.to_integer();
                if given < 0 {
                    self.warn("negative scale, set to 0");
                } else if given > MAX_SCALE as i64 {
                    self.warn(&format!("scale too large, set to {MAX_SCALE}"));
                }
                self.scale = given.clamp(0, MAX_SCALE as i64) as usize;
            }
            NumberLocation::InputBase => {
                self.input_base = self.limit_base("ibase", &number, MAX_INPUT_BASE);
            }
            NumberLocation::OutputBase => {
                self.output_base = self.limit_base("obase", &number, MAX_OUTPUT_BASE);
            }
            NumberLocation::Last => self.last = number,
        }
    }

    fn limit_base(&mut self, name: &str, number: &DecimalNumber, most: i64) -> u32 {
        let given = number.to_integer();
        if given < 2 {
            self.warn(&format!("{name} too small, set to 2"));
        } else if given > most {
            self.warn(&format!("{name} too large, set to {most}"));
        }
        given.clamp(2, most) as u32
    }

    fn replace_variable(&mut self, name: usize, number: DecimalNumber) -> DecimalNumber {
        if self.variables.len() <= name {
            self.variables.resize(name + 1, DecimalNumber::default());
        }
        std::mem::replace(&mut self.variables[name], number)
    }

    fn share_array(&mut self, name: usize) -> NumberArray {
        while self.arrays.len() <= name {
            self.arrays.push(NumberArray::default());
        }
        Rc::clone(&self.arrays[name])
    }

    fn replace_array(&mut self, name: usize, array: NumberArray) -> NumberArray {
        self.share_array(name);
        std::mem::replace(&mut self.arrays[name], array)
    }

    fn compute_binary(
        &mut self,
        operator: BinaryOperator,
        left: &DecimalNumber,
        right: &DecimalNumber,
    ) -> Result<DecimalNumber, RuntimeError> {
        let number = match operator {
            BinaryOperator::Add => left.add(right),
            BinaryOperator::Subtract => left.subtract(right),
            BinaryOperator::Multiply => left.multiply(right, self.scale),
            BinaryOperator::Divide => left.divide(right, self.scale),
            BinaryOperator::Remainder => left.remainder(right, self.scale),
            BinaryOperator::Raise => {
                if right.scale() > 0 {
                    self.warn("non-zero scale in exponent");
                }
                left.raise(right, self.scale)
            }
        };
        Ok(number?)
    }

    fn apply_function(
        &mut self,
        function: LanguageFunction,
        number: &DecimalNumber,
    ) -> Result<DecimalNumber, RuntimeError> {
        Ok(match function {
            LanguageFunction::Length => DecimalNumber::from(number.count_length() as i64),
            LanguageFunction::Scale => DecimalNumber::from(number.scale() as i64),
            LanguageFunction::SquareRoot => number.square_root(self.scale)?,
        })
    }

    /// Calls a function of the math library. Functions that the program defines have precedence.
    fn call_library(&mut self, name: &str, arguments: &[CallArgument]) -> Result<(), RuntimeError> {
        let function = math::LibraryFunction::from_name(name);
        let Some(function) = function.filter(|_| self.math_library) else {
            return Err(RuntimeError(format!("Function {name} not defined.")));
        };
        if arguments.len() != function.count_parameters() {
            return Err(RuntimeError("Parameter number mismatch".to_owned()));
        }
        if arguments.iter().any(|one| *one != CallArgument::Value) {
            return Err(RuntimeError("Parameter type mismatch".to_owned()));
        }
        let at = self.stack.len().saturating_sub(arguments.len());
        let numbers = self.stack.split_off(at);
        self.stack.push(function.compute(&numbers, self.scale)?);
        Ok(())
    }

    /// Binds the parameters and local names of a function. Returns their previous values, and the height of the stack
    /// without the arguments.
    fn bind_locals(
        &mut self,
        body: &FunctionBody,
        arguments: &[CallArgument],
        names: &NameTable,
    ) -> Result<(Vec<SavedLocal>, usize), RuntimeError> {
        if arguments.len() != body.parameters.len() {
            return Err(RuntimeError("Parameter number mismatch".to_owned()));
        }
        if self.frames.len() >= MAX_CALLS {
            return Err(RuntimeError(format!(
                "functions are nested too deeply: expected at most {MAX_CALLS} calls"
            )));
        }
        let values = arguments.iter().filter(|one| **one == CallArgument::Value);
        let height = self.stack.len().saturating_sub(values.count());
        let mut values = self.stack.split_off(height).into_iter();
        let mut bound = Vec::new();
        for (parameter, argument) in body.parameters.iter().zip(arguments) {
            bound.push(match (*parameter, *argument) {
                (LocalName::Variable(name), CallArgument::Value) => {
                    SavedLocal::Variable(name, values.next().unwrap_or_default())
                }
                (LocalName::Array(name), CallArgument::Array(given)) => {
                    let copy = self.share_array(given).borrow().clone();
                    SavedLocal::Array(name, Rc::new(RefCell::new(copy)))
                }
                (LocalName::SharedArray(name), CallArgument::Array(given)) => {
                    SavedLocal::Array(name, self.share_array(given))
                }
                (
                    LocalName::Variable(name)
                    | LocalName::Array(name)
                    | LocalName::SharedArray(name),
                    _,
                ) => {
                    let name = names.resolve_number(name);
                    return Err(RuntimeError(format!(
                        "Parameter type mismatch, parameter {name}."
                    )));
                }
            });
        }
        bound.extend(body.locals.iter().map(|local| match *local {
            LocalName::Variable(name) => SavedLocal::Variable(name, DecimalNumber::default()),
            LocalName::Array(name) | LocalName::SharedArray(name) => {
                SavedLocal::Array(name, NumberArray::default())
            }
        }));
        let saved = bound.into_iter().map(|local| self.swap_local(local));
        Ok((saved.collect(), height))
    }

    /// Sets a local name and returns its previous value.
    fn swap_local(&mut self, local: SavedLocal) -> SavedLocal {
        match local {
            SavedLocal::Variable(name, number) => {
                SavedLocal::Variable(name, self.replace_variable(name, number))
            }
            SavedLocal::Array(name, array) => {
                SavedLocal::Array(name, self.replace_array(name, array))
            }
        }
    }

    fn restore_locals(&mut self, saved: Vec<SavedLocal>) {
        for local in saved.into_iter().rev() {
            self.swap_local(local);
        }
    }
}
