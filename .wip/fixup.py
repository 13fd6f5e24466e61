import pathlib,re,sys
root=pathlib.Path(sys.argv[1])
def sub(f,*prs):
    p=root/f
    if not p.exists(): print("NO FILE",f); return
    t=p.read_text()
    for a,b in prs:
        n=re.sub(a,b,t)
        if n==t: print("no effect",f,a)
        t=n
    p.write_text(t)
G=[(r"\bTable\b","RuleTable"),(r"\bRule\b","SecretRule"),(r"\bShape\b","AnchorPosition"),(r"\bLead\b","AnchorPrefix"),(r"\bTarget\b","AllowTarget"),(r"\bAllow\b","AllowEntry")]
sub("host/redact/src/gitleaks/rules.rs.in",*G)
sub("host/redact/src/gitleaks/convert.py",*G)
sub("host/core/src/config/network.rs",(r'with = "Written"','with = "AddressListSchema"'))
sub("host/core/src/audit.rs",(r"\bway_out\(source\)","remedy(source)"))
for p in (root/"host/core/src/approval").glob("*.rs"):
    t=p.read_text(); n=t.replace('"Scene::is_empty"','"WorkspaceBinding::is_empty"')
    if n!=t: p.write_text(n)

sub("host/wasm/src/fs/resolve.rs",(r"type PathTarget = sys","type Target = sys"))
sub("host/wasm/src/fs/path_arguments.rs",(r"impl Argument for \$kind","impl MethodArgument for $kind"))
sub("host/wasm/src/lift/typed_call.rs",(r"impl One for \$ty","impl TypedArgument for $ty"),(r"fn of\(argument: Argument\)","fn from_argument(argument: LoweredArgument)"),(r"impl Raise for \$ty","impl RaiseJson for $ty"))
sub("host/wasm/src/lift/value/scalars.rs",(r"impl Bounds for \$ty","impl IntegerRange for $ty"))
sub("host/mcp/src/client_observer.rs",(r"map\(\|wish\| \{\n        let answer = given.get\(&upstream_request\.name","map(|request| {\n        let answer = given.get(&request.name"),(r"is_answer\(upstream_request\.kind","is_answer(request.kind"))
for f in ("evaluated","fuzz","hostile"): sub(f"host/process/tests/shell/{f}.rs",(r"(?<![\w:])read_script(\s*)\.(commands|unknown|contains)",r"read\1.\2"))
