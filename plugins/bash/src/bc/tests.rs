use super::{BcOptions, BcOutput, BcSource, STANDARD_INPUT, run_sources};

fn run(program: &str, math_library: bool) -> BcOutput {
    let source = BcSource {
        name: STANDARD_INPUT.to_owned(),
        text: program.to_owned(),
    };
    run_sources(&[source], math_library, None)
}

/// Runs a program that must not fail, and compares its lines, which `|` separates.
#[track_caller]
fn assert_prints(program: &str, lines: &str) {
    let output = run(&format!("{program}\n"), false);
    assert_eq!(output.stderr, "", "{program}");
    assert_eq!(
        output.stdout.trim_end().replace('\n', "|"),
        lines,
        "{program}"
    );
}

#[track_caller]
fn assert_library(program: &str, lines: &str) {
    let output = run(&format!("{program}\n"), true);
    assert_eq!(output.stderr, "", "{program}");
    assert_eq!(
        output.stdout.trim_end().replace('\n', "|"),
        lines,
        "{program}"
    );
}

/// Runs a program and compares what it writes to stdout and to stderr.
#[track_caller]
fn assert_fails(program: &str, stdout: &str, stderr: &str) {
    let output = run(program, false);
    assert_eq!(output.stdout, stdout, "{program}");
    assert!(
        output.stderr.contains(stderr),
        "{program}: {}",
        output.stderr
    );
}

#[test]
fn bc_arithmetic_is_exact() {
    assert_prints("3*0.5", "1.5");
    assert_prints("2^64", "18446744073709551616");
    assert_prints("0.1+0.2", ".3");
    assert_prints("scale=10; 1/3", ".3333333333");
    assert_prints("-.5;0.00;-7/2;7%3;-7%3", "-.5|0|-3|1|-1");
    assert_prints("scale=3;7.5%2;-7%3;2/3", "0|-.001|.666");
    assert_prints("1.25*1.25;scale=3;1.25*1.25", "1.56|1.562");
    assert_prints("-2^2;2^3^2;2^-1;scale=5;2^-3;0^0", "4|512|0|.12500|1");
    assert_prints("1.1^10;scale=4;1.1^10", "2.5|2.5937");
    assert_prints(
        "sqrt(16);sqrt(2);scale=5;sqrt(2);sqrt(.25)",
        "4|1|1.41421|.50000",
    );
    assert_prints(
        "length(.001);length(0.00);length(0);length(12.30);scale(1.20)",
        "3|2|1|4|2",
    );
}

#[test]
fn bc_operators_bind_as_in_gnu_bc() {
    assert_prints("1+a=4;a;a=1<2;a;!1<2;!0&&0;1||0", "5|4|1|1|0|0|1");
    assert_prints("(a=3);a+=2*3;a;a^=2;a;a%=7;a", "3|9|81|4");
    assert_prints("i++;++i;i--;--i;b[2]=3;b[2]++;b[2]", "0|2|2|0|3|4");
    assert_prints("5;last+1;.*2", "5|6|12");
    assert_prints("a[1]=3;a=4;a[1];a;a[0]", "3|4|0");
}

#[test]
fn bc_statements_control_the_flow() {
    assert_prints("for(i=0;i<5;i++){if(i==1)continue;if(i==3)break;i}", "0|2");
    assert_prints("i=3;while(i-->0) i", "2|1|0");
    assert_prints("if (0) {1\n} else 2", "2");
    assert_prints("if(1)\n2\n/* a\ncomment */ 3 # rest\n4", "2|3|4");
    assert_prints(
        "print \"a\\tb\\q\\n\", 1+1, \"\\n\"\n\"raw\\n\"",
        "a\tb\"|2|raw\\n",
    );
    assert_prints("1\nhalt\n2", "1");
    assert_prints("1\nif(0) quit\n2", "1");
    assert_prints("12\\\n34 + \\\n1", "1235");
}

#[test]
fn bc_functions_recurse() {
    let factorial = "define f(n) {\n  if (n < 2) return 1;\n  return n * f(n - 1)\n}\n";
    assert_prints(
        &format!("{factorial}f(30)"),
        "265252859812191058636308480000000",
    );
    assert_prints(
        "define f(n){if(n==0)return(0);return(1+f(n-1))}\nf(50000)",
        "50000",
    );
    assert_prints(
        "x=1\ndefine f(y)\n{\nauto x\nx=y\nreturn(x*2)\n}\nf(4);x",
        "8|1",
    );
    assert_prints(
        "define f(a[]){a[1]=5;return a[1]}\nb[1]=2;f(b[]);b[1]",
        "5|2",
    );
    assert_prints("define f(*a[]){a[1]=5}\nf(b[]);b[1]", "0|5");
    assert_prints("define void f(x){x}\nf(3)", "3");
}

#[test]
fn bc_bases_apply_to_input_and_output() {
    assert_prints("obase=2;10;obase=16;255.5;-255", "1010|FF.8|-FF");
    assert_prints("obase=20;399.5;-.05;0", " 19 19.10|-.01 00|0");
    assert_prints("ibase=16;FF;A.8;ibase=A;ibase", "255|10.5|10");
    assert_prints("AA;F;A.B;ibase=2;101.11", "99|15|9.9|5.75");
}

#[test]
fn bc_math_library_computes_to_the_scale() {
    assert_library(
        "e(1);s(1);c(1);l(2)",
        "2.71828182845904523536|.84147098480789650665|.54030230586813971740|.69314718055994530941",
    );
    assert_library(
        "4*a(1);a(-1);j(0,1);e(0);s(0)",
        "3.14159265358979323844|-.78539816339744830961|.76519768655796655144|1.00000000000000000000|0",
    );
    assert_library(
        "scale=3;e(-1);l(0);l(10);a(1000);s(-100);c(100)",
        ".367|-999.000|2.302|1.569|.506|.862",
    );
    assert_fails("e(1)\n", "", "Function e not defined.");
    assert_library("define e(x) { return x }\ne(7)", "7");
}

#[test]
fn bc_lines_wrap_at_69_characters() {
    let expected = "\
36972963764972677265718790562880544059566876428174110243025997242355\\
25704552775234214106500101282327279409788895483265401194299967694943\\
59451621570193644014418071060667659301384999779999159200499899
";
    assert_eq!(run("99^99\n", false).stdout, expected);
    let source = BcSource {
        name: STANDARD_INPUT.to_owned(),
        text: "99^99\n".to_owned(),
    };
    let unbroken = run_sources(&[source], false, Some("0")).stdout;
    assert_eq!(unbroken, expected.replace("\\\n", ""));
}

#[test]
fn bc_errors_end_their_line_only() {
    assert_fails("1;1/0;2\n3\n", "1\n3\n", "Runtime error: Divide by zero\n");
    assert_fails("5%0\n3\n", "3\n", "Runtime error: Modulo by zero\n");
    assert_fails("sqrt(-1)\n3\n", "3\n", "Square root of a negative number");
    assert_fails("1;2 2\n3\n", "3\n", "(standard_in) 1: syntax error\n");
    assert_fails("1+\n2\n", "2\n", "(standard_in) 2: syntax error\n");
    assert_fails("1 @ 2\n3\n", "3\n", "illegal character: @");
    assert_fails("break\n3\n", "3\n", "Break outside a for/while");
    assert_fails("f(1)\n3\n", "3\n", "Function f not defined.");
    assert_fails(
        "define f(x){return x}\nf()\n3\n",
        "3\n",
        "Parameter number mismatch",
    );
    assert_fails(
        "define f(x[]){return 1}\nf(2)\n3\n",
        "3\n",
        "Parameter type mismatch",
    );
    assert_fails("read()\n3\n", "3\n", "read() is not supported");
    assert_fails("a[-1]=2\n3\n", "3\n", "Array a subscript out of bounds");
    assert_fails(
        "scale=-1;ibase=99;ibase=A;obase=1;obase\n",
        "10\n",
        "negative scale, set to 0",
    );
    assert_fails(
        "define f(x) {\n  x = = 2\n  return x\n}\n3\n",
        "3\n",
        "2: syntax error",
    );
}

#[test]
fn bc_bounds_are_errors() {
    assert_fails("9^9^9\n3\n", "3\n", "exponent too large");
    assert_fails(
        "2^99999999999999999999\n1^99999999999\n",
        "1\n",
        "exponent too large",
    );
    assert_fails("x=10^60000;x=x*x\n3\n", "3\n", "number too large");
    assert_fails(
        "scale=999999999999999;scale\n",
        "100000\n",
        "scale too large",
    );
    assert_fails(
        "define f(x){return f(x)}\nf(1)\n3\n",
        "3\n",
        "nested too deeply",
    );
    for open in ["(", "- ", "{", "!", "if(1) ", "a[", "f(", "x=", "2^"] {
        let program = format!("{}\n3\n", open.repeat(100_000));
        assert!(
            run(&program, false).stderr.contains("nested too deeply"),
            "{open}"
        );
    }
}

#[test]
fn bc_garbage_is_read_to_its_end() {
    let parts = [
        "1", ".", "a", "[", "]", "(", ")", "{", "}", "\n", ";", "+", "-", "^", "=", "==", "++",
        "if", "else", "for", "while", "define ", "auto ", "return ", "\"", "\\", "/*", "é",
        "scale", "print ", ",", "!", "&&", "&", "l", "sqrt", "Z", "%", "break", "obase", "void",
    ];
    let mut state = 7_u64;
    for _ in 0..3_000 {
        let mut program = String::new();
        for _ in 0..30 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            program.push_str(parts[(state >> 33) as usize % parts.len()]);
        }
        // Loops could go on forever.
        run(&program.replace("for", "f").replace("while", "w"), true);
    }
}

#[test]
fn bc_options_may_be_joined() {
    let parse = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        BcOptions::parse_args(&args)
    };
    let options = parse(&["-ql", "--standard", "f.bc"]).unwrap_or_default();
    assert!(options.math_library);
    assert_eq!(options.files, ["f.bc"]);
    let options = parse(&["-e", "1+1", "--expression=2"]).unwrap_or_default();
    assert_eq!(options.sources.len(), 2);
    assert!(options.ignores_stdin);
    assert!(parse(&["-z"]).is_err_and(|message| message.contains("unknown option -z")));
    assert!(parse(&["-e"]).is_err());
}
