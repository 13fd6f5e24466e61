//! Limits for the code of a component to compile. Many small functions, or functions with many variables that live
//! across many branches, take time and memory out of proportion to the size of the code: 310 KB can take minutes and
//! gigabytes. So functions, variables and branches are counted first, in one pass over the code.
//!
//! Out of scope: validation of the code, which the engine does.

use wasmparser::{BlockType, CompositeInnerType, FunctionBody, Operator, Parser, Payload};

/// Limit in bytes for the code of one function. The largest function in CPython has 163 KB, in bash and QuickJS 63 KB.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;

/// Limit for the number of functions of all modules together. Each costs about 7 KB of memory and 0.1 ms. Bash has
/// 40,000, and a C++ compiler that runs as a component has 100,000.
const MAX_FUNCTIONS: u64 = 250_000;

/// Limit in bytes for the code of all functions together.
const MAX_CODE_BYTES: u64 = 128 << 20;

/// Limit for the number of variables times the number of branches of one function. The largest known value of
/// legitimate code is 700,000, in unoptimised code; the interpreters of CPython and QuickJS have up to 150,000. Two
/// million take about a second and 240 MB.
const MAX_FUNCTION_COMPLEXITY: u64 = 2_000_000;

/// Limit for the sum of these products over all functions: bash has 11 million in 10 MB, QuickJS one million in 1.5 MB,
/// and language engines reach 40 MB.
const MAX_TOTAL_COMPLEXITY: u64 = 200_000_000;

/// Returns a description of the first exceeded limit, if any.
pub(super) fn find_excess(bytes: &[u8]) -> Option<String> {
    // The engine reports components that cannot be parsed.
    find_first_excess(bytes).unwrap_or_default()
}

fn find_first_excess(bytes: &[u8]) -> wasmparser::Result<Option<String>> {
    let mut arities = Vec::new();
    let mut total = 0_u64;
    let mut function = 0_u64;
    let mut code = 0_u64;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { .. } => arities.clear(),
            Payload::TypeSection(types) => {
                for group in types {
                    arities.extend(group?.types().map(|ty| arity(&ty.composite_type.inner)));
                }
            }
            // The count is at the beginning of a section: a million functions are refused before they are read.
            Payload::CodeSectionStart { count, .. } => {
                let functions = function.saturating_add(u64::from(count));
                if functions > MAX_FUNCTIONS {
                    return Ok(Some(format!(
                        "it has at least {functions} functions; the limit is {MAX_FUNCTIONS}"
                    )));
                }
            }
            Payload::CodeSectionEntry(body) => {
                function += 1;
                let range = body.range();
                let size = (range.end - range.start) as u64;
                code = code.saturating_add(size);
                if code > MAX_CODE_BYTES {
                    let limit = format_bytes(MAX_CODE_BYTES);
                    return Ok(Some(format!(
                        "its functions have more than {limit} of code, the limit for compiling"
                    )));
                }
                if size > MAX_FUNCTION_BYTES {
                    let (size, limit) = (format_bytes(size), format_bytes(MAX_FUNCTION_BYTES));
                    return Ok(Some(format!(
                        "function number {function} with a body has {size} of code; the limit for compiling is {limit}"
                    )));
                }
                let complexity = branch_complexity(&body, &arities)?;
                total = total.saturating_add(complexity);
                if complexity > MAX_FUNCTION_COMPLEXITY || total > MAX_TOTAL_COMPLEXITY {
                    return Ok(Some(format!(
                        "its functions have too many branches times variables ({complexity} in function number {function} with a body, {total} so far)"
                    )));
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

fn format_bytes(bytes: u64) -> String {
    mimir_core::text::bytes(bytes)
}

/// Returns the number of values that a block of this type takes and returns.
fn arity(ty: &CompositeInnerType) -> u64 {
    match ty {
        CompositeInnerType::Func(ty) => (ty.params().len() + ty.results().len()) as u64,
        _ => 0,
    }
}

/// Returns the sum, over all branches of a function, of the variables and block values that are live there.
fn branch_complexity(body: &FunctionBody<'_>, arities: &[u64]) -> wasmparser::Result<u64> {
    let mut variables = 1_u64;
    for local in body.get_locals_reader()? {
        variables = variables.saturating_add(u64::from(local?.0));
    }
    let mut sum = 0_u64;
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let (branches, values) = match operators.read()? {
            Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } => {
                let values = match blockty {
                    BlockType::FuncType(ty) => arities.get(ty as usize).copied().unwrap_or(0),
                    _ => 0,
                };
                (1, values)
            }
            Operator::Else | Operator::Br { .. } | Operator::BrIf { .. } => (1, 0),
            Operator::BrTable { targets } => (1 + u64::from(targets.len()), 0),
            _ => continue,
        };
        sum = sum.saturating_add((variables + values).saturating_mul(branches));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a component with a function of this many variables and branches.
    fn complex_function(locals: usize, branches: usize) -> Vec<u8> {
        let locals = "i32 ".repeat(locals);
        let branches = "local.get 0 if local.get 1 local.set 0 end ".repeat(branches);
        wat::parse_str(format!(
            "(component (core module (func (local {locals}) {branches})))"
        ))
        .unwrap()
    }

    #[test]
    fn bounds_limit_branches_times_variables() {
        assert_eq!(find_excess(&complex_function(10, 20_000)), None);
        assert_eq!(find_excess(&complex_function(1_000, 100)), None);
        let excess = find_excess(&complex_function(1_000, 20_000)).unwrap();
        assert!(excess.contains("branches"), "{excess}");
    }

    #[test]
    fn bounds_count_branch_tables_and_block_values() {
        let locals = "i32 ".repeat(1_000);
        let targets = "0 ".repeat(3_000);
        let table = format!("(module (func (local {locals}) local.get 0 br_table {targets}))");
        assert!(find_excess(&wat::parse_str(table).unwrap()).is_some());
        let values = "i32 ".repeat(500);
        let zeros = "i32.const 0 ".repeat(500);
        let blocks = format!("block (param {values}) (result {values}) end ").repeat(3_000);
        let drops = "drop ".repeat(500);
        let blocks = format!("(module (func {zeros} {blocks} {drops}))");
        assert!(find_excess(&wat::parse_str(blocks).unwrap()).is_some());
    }

    #[test]
    fn bounds_refuse_a_long_function_and_many_tangled_ones() {
        let long = format!("(module (func {}))", "i32.const 0 drop ".repeat(400_000));
        let excess = find_excess(&wat::parse_str(long).unwrap()).unwrap();
        assert!(excess.contains("limit for compiling is"), "{excess}");
        let function = format!(
            "(func (local {}) {}) ",
            "i32 ".repeat(1_000),
            "local.get 0 br_if 0 ".repeat(1_900)
        );
        assert_eq!(
            find_excess(&wat::parse_str(format!("(module {function})")).unwrap()),
            None
        );
        let many = format!("(module {})", function.repeat(110));
        assert!(find_excess(&wat::parse_str(many).unwrap()).is_some());
    }

    #[test]
    fn bounds_count_functions_over_all_modules() {
        let module = format!("(core module {})", "(func) ".repeat(200_000));
        let one_module = wat::parse_str(format!("(component {module})")).unwrap();
        assert_eq!(find_excess(&one_module), None);
        let two_modules = wat::parse_str(format!("(component {module} {module})")).unwrap();
        let excess = find_excess(&two_modules).unwrap();
        assert!(excess.contains("400000 functions"), "{excess}");
    }

    #[test]
    fn bounds_limit_the_code_of_all_functions() {
        let function = format!("(func {}) ", "i32.const 0 drop ".repeat(300_000));
        let module = format!("(core module {function})");
        let few = wat::parse_str(format!("(component {})", module.repeat(2))).unwrap();
        assert_eq!(find_excess(&few), None);
        // Many copies of one module, assembled from bytes: parsing it as text would take a minute.
        let inner = wat::parse_str(format!("(module {function})")).unwrap();
        let mut component = wat::parse_str("(component)").unwrap();
        for _ in 0..150 {
            component.push(1);
            let mut length = inner.len();
            while length >= 0x80 {
                component.push((length & 0x7f) as u8 | 0x80);
                length >>= 7;
            }
            component.push(length as u8);
            component.extend(&inner);
        }
        let excess = find_excess(&component).unwrap();
        assert!(excess.contains("of code"), "{excess}");
    }

    #[test]
    fn bounds_leave_invalid_files_to_the_engine() {
        assert_eq!(find_excess(b"no component"), None);
    }
}
