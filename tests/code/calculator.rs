//! `bc` in bash scripts: exact numbers, the math library, files, and errors on stderr.

use super::CodeFixture;

#[test]
fn bash_bc_computes_with_exact_decimals() {
    for (script, stdout) in [
        ("echo '3*0.5' | bc", "1.5\n"),
        ("echo '2^64' | bc", "18446744073709551616\n"),
        ("echo 'scale=10; 1/3' | bc", ".3333333333\n"),
        ("echo 'e(1)' | bc -l", "2.71828182845904523536\n"),
        (
            "bc <<< $'define f(n) {\\nif (n < 2) return 1\\nreturn n * f(n - 1)\\n}\\nf(30)'",
            "265252859812191058636308480000000\n",
        ),
        (
            "echo '2^300' | bc",
            "20370359763344860862684456884093781610514683936659362506361404493543\\\n\
             81299763336706183397376\n",
        ),
        (
            "echo '2^300' | BC_LINE_LENGTH=0 bc",
            "2037035976334486086268445688409378161051468393665936250636140449354381299763336706183397376\n",
        ),
        (
            "echo 'x=2/3' > f.bc; echo 'x' | bc -l f.bc",
            ".66666666666666666666\n",
        ),
        ("bc -e 'scale=2; 10/4'", "2.50\n"),
    ] {
        let result = CodeFixture::new().run("bash", script);
        assert_eq!(
            (result.stdout.as_str(), result.stderr.as_str(), result.code),
            (stdout, "", 0),
            "{script}"
        );
    }
}

#[test]
fn bash_bc_goes_on_after_errors() {
    for (script, stdout, stderr) in [
        ("printf '1;1/0;2\\n3\\n' | bc", "1\n3\n", "Divide by zero"),
        (
            "printf '1 2\\n3\\n' | bc",
            "3\n",
            "(standard_in) 1: syntax error",
        ),
        ("printf '9^9^9\\n3\\n' | bc", "3\n", "exponent too large"),
        (
            "printf 'read()\\n3\\n' | bc",
            "3\n",
            "read() is not supported",
        ),
        (
            "printf 'define f(x) { return f(x); }\\nf(1)\\n3\\n' | bc",
            "3\n",
            "nested too deeply",
        ),
        (
            "{ printf '%09000d' 0 | tr 0 '('; printf '\\n3\\n'; } | bc",
            "3\n",
            "nested too deeply",
        ),
    ] {
        let result = CodeFixture::new().run("bash", script);
        assert_eq!(
            (result.stdout.as_str(), result.code),
            (stdout, 0),
            "{script}: {result:?}"
        );
        assert!(result.stderr.contains(stderr), "{script}: {result:?}");
    }
    let result = CodeFixture::new().run("bash", "bc nope");
    assert_eq!((result.stdout.as_str(), result.code), ("", 1), "{result:?}");
    assert!(result.stderr.contains("nope is unavailable"), "{result:?}");
}
