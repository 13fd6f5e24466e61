use super::*;

fn code(source: &str) -> String {
    compile(source, true).unwrap().code
}

fn fault(source: &str) -> (usize, usize, String) {
    let fault = compile(source, true).unwrap_err().swap_remove(0);
    (fault.line, fault.column, fault.message)
}

#[test]
fn exports_return_execute_in_every_form() {
    for source in [
        "export function execute() {}",
        "export async function execute() {}",
        "export const execute = () => 1;",
        "function execute() {}\nexport { execute };",
        "function other() {}\nexport { other as execute };",
        "export default function execute() {}",
        "export default async () => 1;",
        "export default function () {}",
        "export const more = 1; export type T = string; export interface I {} export function execute() {}",
    ] {
        let code = code(source);
        assert!(!code.contains("export"), "{source}: {code}");
        assert!(code.contains("return { execute: "), "{source}: {code}");
    }
}

#[test]
fn compile_removes_async_and_types() {
    let source = "
        import type { Context } from 'somewhere';
        enum Color { Red }
        const enum Size { Large = 3 }
        export async function execute(args: { a?: string }, context: Context): Promise<string> {
            for await (const one of many()) context.logger.info(one satisfies number);
            return `${Color.Red} ${Size.Large} ${args.a!}`;
        }
        async function* many() { yield 1; yield* many(); }
        class A { #b = 1; async c() { return this.#b; } }
    ";
    let code = code(source);
    for removed in ["async ", "await ", "Context", "satisfies", "import", "?:"] {
        assert!(!code.contains(removed), "{removed}: {code}");
    }
    assert!(code.contains("babelHelpers.asyncToGenerator"), "{code}");
}

#[test]
fn compile_rejects_unsupported_syntax_with_position() {
    let execute = "export function execute() {}";
    for (source, line, column, word) in [
        ("import fs from 'fs';", 1, 1, "import"),
        ("import 'fs';", 1, 1, "import"),
        ("\n  export * from 'fs';", 2, 3, "import"),
        ("export { a } from 'fs';", 1, 1, "import"),
        ("const a = () => import('fs');", 1, 17, "import"),
        ("await 1;", 1, 1, "await"),
        ("@a class B {}", 1, 1, "decorator"),
        ("const ä = 1; const ä = 2;", 1, 7, "declared"),
        ("let a = ;", 1, 9, "token"),
    ] {
        let (fault_line, fault_column, message) = fault(&format!("{source}\n{execute}"));
        assert_eq!(
            (fault_line, fault_column),
            (line, column),
            "{source}: {message}"
        );
        assert!(message.to_lowercase().contains(word), "{source}: {message}");
    }
    assert!(fault("const a = 1;").2.contains("`execute`"));
    assert!(fault(&"/".repeat(MAX_CODE_BYTES + 1)).2.contains("KiB"));
}

#[test]
fn context_reports_misspelt_members() {
    for (parameters, column, expected) in [
        (
            "args, { platfrom }",
            33,
            "`context` has no `platfrom`. Did you mean `platform`?",
        ),
        (
            "args, { platform: { fs, exeuctor } }",
            49,
            "`context.platform` has no `exeuctor`. Did you mean `executor`?",
        ),
        (
            "args, { tool: t }: Context",
            33,
            "`context` has no `tool`. Did you mean `tools`?",
        ),
    ] {
        let (line, fault_column, message) =
            fault(&format!("export function execute({parameters}) {{}}"));
        assert_eq!(
            (line, fault_column, &*message),
            (1, column, expected),
            "{parameters}"
        );
        let arrow = format!("export const execute = ({parameters}) => 1;");
        assert_eq!(fault(&arrow).2, expected);
        let default = format!("export default async function ({parameters}) {{}}");
        assert_eq!(fault(&default).2, expected);
    }
    for parameters in [
        "args, { platform, fetch, logger, config, conversation, progress, tools, storage, llm }",
        "args, { platform: { fs: files, executor, http }, ...rest }",
        "args, { platform: { docker }, permissions, tool = 1, [args.a]: b }",
        "{ platfrom }, context",
    ] {
        let source = format!("export function execute({parameters}) {{}}");
        assert!(compile(&source, true).is_ok(), "{parameters}");
    }
}

#[test]
fn compile_rejects_types_in_javascript() {
    let source = "export function execute(a: string) {}";
    assert!(compile(source, true).is_ok() && compile(source, false).is_err());
}

#[test]
fn compile_map_leads_to_the_source() {
    let source = "interface A {\n  b: string;\n}\n\nexport function execute() {\n  throw new Error('x');\n}\n";
    let compiled = compile(source, true).unwrap();
    let row = compiled
        .code
        .lines()
        .position(|line| line.contains("throw"));
    let row = row.unwrap() as u32 + 1;
    let mapping = compiled.map.iter().find(|[line, ..]| *line == row).unwrap();
    assert_eq!(mapping[2..], [6, 3]);
    assert!(compiled.map.is_sorted());
}

/// Code that consists of levels only: the text that opens a level, the middle, and the text that closes a level.
const LEVELS: [(&str, &str, &str); 36] = [
    ("(", "1", ")"),
    ("[", "1", "]"),
    ("!", "1", ""),
    ("- ", "1", ""),
    ("1+", "1", ""),
    ("", "1", "+1"),
    ("1**", "1", ""),
    ("", "a", ".y"),
    ("", "a", "()"),
    ("", "a", "?.b"),
    ("", "a", "``"),
    ("", "a", "!"),
    ("", "a", " as a"),
    ("a=>", "1", ""),
    ("async a=>", "1", ""),
    ("x?1:", "1", ""),
    ("x?(y):", "1", ""),
    ("x=", "1", ""),
    ("{a:", "1", "}"),
    ("`${", "1", "}`"),
    ("new ", "a", ""),
    ("typeof ", "a", ""),
    ("function(){return ", "1", "}"),
    ("class{a=", "1", "}"),
    ("<a>", "1", ""),
    ("f<", "a", ">"),
    ("f(", "1", ")"),
    ("(a)=>(", "1", ")"),
    ("a<b<", "1", ""),
    ("a,", "1", ""),
    ("({a=", "1", "}=1)"),
    ("[a=", "1", "]=1"),
    ("({a=>", "1", "})"),
    ("(a=", "1", ")=>1"),
    ("async()=>{await ", "1", "}"),
    ("async(a=", "1", ")=>1"),
];

/// Nested statements and types, in the form of [`LEVELS`].
const OTHERS: [(&str, &str, &str); 14] = [
    ("{", "", "}"),
    ("if(x)", ";", ""),
    ("if(x);else ", ";", ""),
    ("for(;;)", ";", ""),
    ("a:", ";", ""),
    ("do ", ";", " while(0)"),
    ("try{", "", "}catch{}"),
    ("namespace a{", "", "}"),
    ("switch(a){default:", ";", "}"),
    ("type A=", "a", ";"),
    ("let a:", "{b:a}", ";"),
    ("function f(){", "", "}"),
    ("let a: a[", "0", "];"),
    ("enum A{b=", "1", "}"),
];

#[test]
fn stack_is_large_enough_for_deep_nesting() {
    let execute = "export function execute() {}\n";
    let mut forms = Vec::new();
    for (open, middle, close) in LEVELS {
        forms.push((format!("{execute}let z = "), open, middle, close));
    }
    for (open, middle, close) in OTHERS {
        forms.push((execute.to_owned(), open, middle, close));
    }
    for open in [
        "(",
        "[",
        "{a:",
        "a extends b?c:",
        "()=>",
        "readonly ",
        "keyof ",
        "a|",
        "a&",
        "A<",
        "`${",
    ] {
        forms.push((format!("{execute}type Z = "), open, "a", ""));
    }
    for (before, open, middle, close) in forms {
        let room = MAX_CODE_BYTES - before.len() - middle.len();
        for close in [close, ""] {
            let mut levels = room / (open.len() + close.len()).max(1);
            if open.contains('<') {
                let many = format!("{before}{}", open.repeat(levels));
                assert!(compile(&many, true).unwrap_err()[0].message.contains("`<`"));
                levels = MAX_ANGLE_BRACKETS / open.matches('<').count();
            }
            // Tests the greatest depth that the length limit allows, and the greatest number of brackets that is
            // accepted, repeated side by side.
            let few = levels.min(MAX_NESTING / 2);
            let one = format!("{}{middle}{}", open.repeat(few), close.repeat(few));
            let many = format!("{one}\n").repeat(room / (one.len() + 1));
            let deep = format!("{}{middle}{}", open.repeat(levels), close.repeat(levels));
            for source in [deep, many].map(|code| format!("{before}{code}")) {
                // Unoptimised and in parallel with other tests; a real call has 30 seconds in total.
                let (tell, told) = std::sync::mpsc::channel();
                std::thread::spawn(move || tell.send(compile(&source, true)));
                let Ok(done) = told.recv_timeout(std::time::Duration::from_secs(20)) else {
                    panic!("{open} takes too long");
                };
                for fault in done.as_ref().err().into_iter().flatten() {
                    let expected = [ToolErrorCode::InvalidInput, ToolErrorCode::LimitExceeded];
                    assert!(expected.contains(&fault.code), "{open}: {}", fault.message);
                }
                if let Ok(done) = done {
                    assert!(done.code.len() < MAX_OUTPUT_BYTES, "{open}");
                }
            }
        }
    }
}

/// Returns an enum in which each member is twice as long as the one before.
fn doubling(members: usize) -> String {
    let mut source =
        "export function execute() { return A.a1; }\nenum A{a0='xxxxxxxxxxxxxxxx'".to_owned();
    for at in 1..members {
        source += &format!(",a{at}=`${{a{}}}${{A.a{}}}`", at - 1, at - 1);
    }
    source + "}"
}

#[test]
fn growth_is_rejected_before_compilation() {
    let execute = "export function execute() {}\n";
    let name = "N".repeat(30_000);
    let blocks = |count: usize| format!("{execute}{}{}", "{".repeat(count), "}".repeat(count));
    let long: String = (0..15_000).map(|at| format!("b{at},")).collect();
    let sums = "a+".repeat(1_000) + "a";
    for (source, word) in [
        (doubling(40), "enums"),
        (
            format!(
                "{execute}enum {name} {{{}}}",
                (0..10_000).map(|at| format!("a{at},")).collect::<String>()
            ),
            "enums",
        ),
        (
            format!(
                "{execute}enum A {{b='{}'}} enum B {{c={}A.b}}",
                "x".repeat(20_000),
                "A.b+".repeat(300)
            ),
            "enums",
        ),
        (
            format!("{execute}namespace {name} {{ export let {long} c; }}"),
            "namespaces",
        ),
        (blocks(30_000), "nested"),
        (
            format!(
                "{execute}let z = {}1{}",
                "({a=".repeat(2_000),
                "}=1)".repeat(2_000)
            ),
            "nested",
        ),
        (
            format!("{execute}let z = {}1", "async a=>".repeat(10_000)),
            "nested",
        ),
        (
            format!("{execute}{}", "a++/{/".repeat(100)),
            "may divide or begin a regular expression",
        ),
    ] {
        let start = std::time::Instant::now();
        let faults = compile(&source, true).unwrap_err();
        let elapsed = start.elapsed();
        let prefix: String = source.chars().take(80).collect();
        assert!(
            faults[0].message.to_lowercase().contains(word),
            "{prefix}: {}",
            faults[0].message
        );
        assert!(
            elapsed < std::time::Duration::from_secs(60),
            "{prefix}: {elapsed:?}"
        );
        assert_eq!(faults[0].code, ToolErrorCode::LimitExceeded, "{prefix}");
    }
    for source in [
        doubling(12),
        blocks(200),
        format!("{execute}let a = '', b = {sums};"),
        format!(
            "{execute}enum A {{{}}}",
            (0..2_000)
                .map(|at| format!("a{at} = 'text {at}',"))
                .collect::<String>()
        ),
    ] {
        if let Err(faults) = compile(&source, true) {
            panic!("{}: {}", &source[..80], faults[0].message);
        }
    }
    assert!(code(&doubling(3)).contains(&"x".repeat(64)));
}
