use super::*;

fn code(source: &str) -> String {
    compile(source, true).unwrap().code
}

fn fault(source: &str) -> (usize, usize, String) {
    let fault = compile(source, true).unwrap_err().swap_remove(0);
    (fault.line, fault.column, fault.message)
}

#[test]
fn execute_is_handed_over_however_it_is_exported() {
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
fn nothing_asynchronous_and_no_type_is_left() {
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
    for gone in ["async ", "await ", "Context", "satisfies", "import", "?:"] {
        assert!(!code.contains(gone), "{gone}: {code}");
    }
    assert!(code.contains("babelHelpers.asyncToGenerator"), "{code}");
}

#[test]
fn what_a_script_cannot_have_is_refused_where_it_stands() {
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
        let (found, at, message) = fault(&format!("{source}\n{execute}"));
        assert_eq!((found, at), (line, column), "{source}: {message}");
        assert!(message.to_lowercase().contains(word), "{source}: {message}");
    }
    assert!(fault("const a = 1;").2.contains("`execute`"));
    assert!(fault(&"/".repeat(LONGEST + 1)).2.contains("KiB"));
}

#[test]
fn types_are_no_javascript() {
    let source = "export function execute(a: string) {}";
    assert!(compile(source, true).is_ok() && compile(source, false).is_err());
}

#[test]
fn the_map_leads_back() {
    let source = "interface A {\n  b: string;\n}\n\nexport function execute() {\n  throw new Error('x');\n}\n";
    let compiled = compile(source, true).unwrap();
    let row = compiled
        .code
        .lines()
        .position(|line| line.contains("throw"));
    let row = row.unwrap() as u32 + 1;
    let found = compiled.map.iter().find(|[line, ..]| *line == row).unwrap();
    assert_eq!(found[2..], [6, 3]);
    assert!(compiled.map.is_sorted());
}

/// Code that is nothing but levels: what opens one, what is in the middle, what closes one.
const LEVELS: [(&str, &str, &str); 30] = [
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
];

/// The same of statements and types.
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
fn code_that_is_nothing_but_levels_does_no_harm() {
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
        let room = LONGEST - before.len() - middle.len();
        for close in [close, ""] {
            let mut levels = room / (open.len() + close.len()).max(1);
            if open.contains('<') {
                let many = format!("{before}{}", open.repeat(levels));
                assert!(compile(&many, true).unwrap_err()[0].message.contains("`<`"));
                levels = ANGLES / open.matches('<').count();
            }
            let source = format!(
                "{before}{}{middle}{}",
                open.repeat(levels),
                close.repeat(levels)
            );
            let start = std::time::Instant::now();
            let done = compile(&source, true);
            let took = start.elapsed();
            for fault in done.err().into_iter().flatten() {
                assert_eq!(fault.code, Code::InvalidInput, "{open}: {}", fault.message);
            }
            assert!(
                took < std::time::Duration::from_secs(60),
                "{open}: {took:?}"
            );
        }
    }
}
