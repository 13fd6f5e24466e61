ROOT=__import__("sys").argv[1]
import pickle, pathlib, urllib.parse, re, sys
edits, moves, failed, jobs = pickle.load(open(".wip/ra.pickle", "rb"))
# longer names in comments: per file, which types were renamed there
ren = {j[2].split("::")[-1]: j[3] for j in jobs if j[0] == "type"}
n = 0; overlap = 0; commented = 0
for uri, es in edits.items():
    if not uri.startswith('file:///SNAPSHOT/'): print('skip', uri); continue
    f = pathlib.Path(urllib.parse.unquote(uri[7:]).replace("/SNAPSHOT/",ROOT+"/")); text = f.read_text(); lines = text.split("\n")
    starts = [0]
    for l in lines: starts.append(starts[-1] + len(l) + 1)
    def off(line, ch):
        l = lines[line]; u = 0; i = 0
        while u < ch: u += len(l[i].encode("utf-16-le")) // 2; i += 1
        return starts[line] + i
    spans = sorted(((off(a, b), off(c, d), t) for (a, b, c, d), t in es.items()))
    out = []; at = 0; pairs = {}
    for a, b, t in spans:
        if a < at: overlap += 1; print("overlap", f, a, t); continue
        if re.fullmatch(r"\w+", text[a:b]) and re.fullmatch(r"\w+", t) and text[a].isupper(): pairs.setdefault(text[a:b], set()).add(t)
        out.append(text[at:a]); out.append(t); at = b; n += 1
    out.append(text[at:]); text = "".join(out)
    # names in comments, in backticks, where this file has exactly one new name for it
    def comment(m):
        global commented
        line = m.group(0)
        for o, t in pairs.items():
            if len(t) == 1:
                new = re.sub(rf"(`[^`]*\b){o}\b([^`]*`)", lambda k: k.group(1) + next(iter(t)) + k.group(2), line)
                if new != line: commented += 1; line = new
        return line
    text = re.sub(r"(?m)^\s*//[/!]?.*$", comment, text)
    f.write_text(text)
import subprocess
for a, b in sorted(set(moves), key=lambda m: -m[0].count('/')):
    a, b = (pathlib.Path(urllib.parse.unquote(x[7:]).replace("/SNAPSHOT/",ROOT+"/")) for x in (a, b))
    b.parent.mkdir(parents=True, exist_ok=True)
    if a.exists(): subprocess.run(["mv", str(a), str(b)])
print(n, "edits,", overlap, "overlaps,", commented, "comments")
