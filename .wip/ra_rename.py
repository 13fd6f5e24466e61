#!/usr/bin/env python3
"""Queries rust-analyzer for many renames on one snapshot, merges all edits, applies them at once.
usage: ra_rename.py ROOT MAP.tsv... [--apply]"""
import json, os, re, subprocess, sys, threading, time, pathlib, queue, collections, pickle
root = pathlib.Path(sys.argv[1]).resolve()
maps = [a for a in sys.argv[2:] if not a.startswith("--")]
apply = "--apply" in sys.argv
log = open(".wip/ra.log", "w")
env = dict(os.environ, CARGO_TARGET_DIR=os.path.expanduser("target"), CARGO_INCREMENTAL="0")
p = subprocess.Popen(["rust-analyzer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(".wip/ra.err","w"), cwd=root, env=env)
lock = threading.Lock(); answers = {}; events = {}; progress = {}; quiet = threading.Event(); status={}
def send(o):
    b = json.dumps(o).encode()
    with lock:
        p.stdin.write(b"Content-Length: %d\r\n\r\n" % len(b) + b); p.stdin.flush()
def reader():
    while True:
        n = 0
        while True:
            l = p.stdout.readline()
            if not l: return
            if l == b"\r\n": break
            if l.lower().startswith(b"content-length"): n = int(l.split(b":")[1])
        m = json.loads(p.stdout.read(n))
        if "id" in m and "method" in m:
            r = None
            if m["method"] == "workspace/configuration": r = [config for _ in m["params"]["items"]]
            send({"jsonrpc": "2.0", "id": m["id"], "result": r})
        elif "id" in m:
            answers[m["id"]] = m; events[m["id"]].set()
        else:
            if m["method"] == "experimental/serverStatus":
                status.update(m["params"]); print("status", m["params"], file=log, flush=True)
            elif m["method"] == "$/progress":
                v = m["params"]["value"]; print(m["params"]["token"], v.get("kind"), v.get("message",""), file=log, flush=True)
n = 0
def request(method, params, timeout=600):
    global n
    with lock: n += 1; i = n; events[i] = threading.Event()
    send({"jsonrpc": "2.0", "id": i, "method": method, "params": params})
    if not events[i].wait(timeout): return {"error": {"message": "timeout"}}
    return answers.pop(i)
config = {"numThreads": 2, "checkOnSave": False, "cargo": {"buildScripts": {"enable": True}, "allTargets": True, "targetDir": None}, "procMacro": {"enable": True}, "cachePriming": {"enable": False}, "files": {"watcher": "client", "exclude": ["target", ".git"]}, "rename": {"allowExternalItems": True}, "lru": {"capacity": 2048}}
threading.Thread(target=reader, daemon=True).start()
r = request("initialize", {"processId": os.getpid(), "rootUri": root.as_uri(), "workspaceFolders": [{"uri": root.as_uri(), "name": "m"}], "initializationOptions": config,
  "capabilities": {"workspace": {"configuration": True, "workspaceEdit": {"documentChanges": True, "resourceOperations": ["rename", "create", "delete"]}, "didChangeWatchedFiles": {"dynamicRegistration": True}}, "textDocument": {"rename": {"prepareSupport": True}}, "window": {"workDoneProgress": True}, "experimental": {"serverStatusNotification": True}, "general": {"positionEncodings": ["utf-16"]}}})
send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
t0 = time.time()
while True:
    time.sleep(2)
    if status.get("quiescent"): 
        time.sleep(3)
        if status.get("quiescent"): break
    if time.time() - t0 > 1500: print("never quiescent"); sys.exit(1)
print("ready after", round(time.time() - t0), status, flush=True)
jobs = []
for m in maps:
    for line in open(m):
        c = line.rstrip("\n").split("\t")
        if len(c) < 4 or c[0].startswith("#"): continue
        jobs.append(c)
def position(kind, file, old):
    text = (root / file).read_text()
    name = old.split("::")[-1].split(".")[-1]
    owner = re.split(r"::|\.", old)[0] if re.search(r"::|\.", old) else None
    if kind == "type": pats = [rf"(?m)^[ \t]*(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|trait|type|union) ({name})\b"]
    elif kind == "fn":
        pats = [rf"\bfn ({name})\b"]
        if owner:
            for mm in re.finditer(rf"(?m)^[ \t]*(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:impl\b[^\n{{]*\b{owner}\b[^{{]*|trait {owner}\b[^{{]*)\{{", text):
                f = re.compile(rf"\bfn ({name})\b").search(text, mm.end())
                nxt = re.compile(r"(?m)^(?:pub(?:\([^)]*\))? )?(?:impl|trait)\b").search(text, mm.end())
                if f and (not nxt or f.start() < nxt.start()): return text, f.start(1)
    elif kind == "mod": return text, None
    elif kind == "field": pats = [rf"(?s)\bstruct {owner}\b.*?\b(?:pub(?:\([^)]*\))? )?({name}):"]
    elif kind == "variant": pats = [rf"(?s)\benum {owner}\b.*?(?m:^[ \t]*)({name})\b"]
    for q in pats:
        mm = re.search(q, text)
        if mm: return text, mm.start(1)
    return text, -1
def linecol(text, off):
    line = text.count("\n", 0, off); start = text.rfind("\n", 0, off) + 1
    return {"line": line, "character": len(text[start:off].encode("utf-16-le")) // 2}
def moddecl(file, old):
    f = pathlib.Path(file)
    parent = f.parent.parent if f.name == "mod.rs" else f.parent
    cands = [parent / "mod.rs", parent / "lib.rs", parent / "main.rs", parent.with_suffix(".rs"), parent / "build.rs"]
    for c in cands:
        if (root / c).exists():
            t = (root / c).read_text()
            mm = re.search(rf"(?m)^[ \t]*(?:pub(?:\([^)]*\))? )?mod ({old});", t)
            if mm: return str(c), t, mm.start(1)
    return None, None, -1
edits = collections.defaultdict(dict); moves = []; failed = []
def one(c):
    kind, file, old, new = c[:4]
    if not (root / file).exists(): failed.append((c, "no file")); return
    if kind == "mod":
        f2, text, off = moddecl(file, old)
    else:
        f2 = file; text, off = position(kind, file, old)
    if off is None or off < 0: failed.append((c, "no definition")); return
    r = request("textDocument/rename", {"textDocument": {"uri": (root / f2).as_uri()}, "position": linecol(text, off), "newName": new})
    if "error" in r or not r.get("result"): failed.append((c, str(r.get("error", "empty")))); return
    for d in r["result"].get("documentChanges", []):
        if d.get("kind") == "rename": moves.append((d["oldUri"], d["newUri"])); continue
        if "textDocument" not in d: failed.append((c, "odd " + str(d))); continue
        for e in d["edits"]:
            a, b = e["range"]["start"], e["range"]["end"]
            key = (a["line"], a["character"], b["line"], b["character"])
            old_e = edits[d["textDocument"]["uri"]].get(key)
            if old_e not in (None, e["newText"]): failed.append((c, f"conflict {d['textDocument']['uri']} {key} {old_e} {e['newText']}")); continue
            edits[d["textDocument"]["uri"]][key] = e["newText"]
q = queue.Queue(); [q.put(j) for j in jobs]; done = [0]
def worker():
    while True:
        try: c = q.get_nowait()
        except queue.Empty: return
        try: one(c)
        except Exception as x: failed.append((c, repr(x)))
        done[0] += 1
        if done[0] % 25 == 0: print(done[0], "/", len(jobs), round(time.time() - t0), "s", flush=True)
ts = [threading.Thread(target=worker) for _ in range(2)]; [t.start() for t in ts]; [t.join() for t in ts]
pickle.dump((dict(edits), moves, failed, jobs), open(".wip/ra.pickle", "wb"))
print(len(jobs), "jobs", len(failed), "failed", sum(map(len, edits.values())), "edits in", len(edits), "files,", len(moves), "moves")
for f in failed: print("FAILED", f)
p.kill()
