#!/usr/bin/env python3
"""Applies prose edits to Rust files. usage: prose.py ROOT EDITS.txt
Format of EDITS:
@ host/net/src/body.rs
28: New text of the comment on line 28.
40-42: New text of the comment lines 40 to 42, re-wrapped at 120 columns. `\\n` ends a line, `\\n\\n` ends a paragraph.
50: -                      (a lone - deletes the comment line)
s: old text => new text    (exact text, must occur exactly once in the file; for messages; `\\n` for a line end)
S: old text => new text    (exact text, every occurrence)
t: path/to/test.rs :: old => new   (the same in another file, every occurrence; for asserts on a changed message)
Line numbers are those of the file before the edits. Only comment lines (//, ///, //!) can be replaced by number."""
import re,sys,pathlib,textwrap,fcntl
root=pathlib.Path(sys.argv[1]); cur=None; files={}; order=[]
def bad(l): print("AMBIGUOUS, contains several => :",l)
for raw in open(sys.argv[2]):
    line=raw.rstrip("\n")
    if not line.strip() or line.startswith("#"): continue
    if line.startswith("@ "): cur=line[2:].strip(); files.setdefault(cur,[]); continue
    m=re.match(r"(\d+)(?:-(\d+))?: ?(.*)$",line)
    if m: files[cur].append(("l",int(m[1]),int(m[2] or m[1]),m[3])); continue
    if re.match(r"[sSt]: ",line) and line.count(" => ")!=1: bad(line); continue
    m=re.match(r"([sS]): (.*?) => (.*)$",line)
    if m: files[cur].append((m[1],m[2].replace("\\n","\n"),m[3].replace("\\n","\n"))); continue
    m=re.match(r"t: (\S+) :: (.*?) => (.*)$",line)
    if m: files.setdefault(m[1],[]).append(("S",m[2].replace("\\n","\n"),m[3].replace("\\n","\n"))); continue
    print("NOT UNDERSTOOD:",line)
lockf=open(".wip/prose.lock","w"); fcntl.flock(lockf,fcntl.LOCK_EX)
done=0
for f,edits in files.items():
    p=root/f
    if not p.exists(): print("NO FILE",f); continue
    lines=p.read_text().split("\n")
    for e in sorted([e for e in edits if e[0]=="l"],key=lambda e:-e[1]):
        _,a,b,new=e
        old=lines[a-1:b]
        if len(old)!=b-a+1: print(f"{f}:{a}: out of range"); continue
        m=re.match(r"^(\s*)(//[/!]?)( ?)",old[0])
        if not m or not all(re.match(r"^\s*//",o) for o in old):
            # trailing comment on a code line
            t=re.match(r"^(.*\S\s+)// .*$",old[0])
            if a==b and t: lines[a-1]=(t[1]+"// "+new) if new!="-" else t[1].rstrip(); done+=1; continue
            print(f"{f}:{a}: not a comment: {old[0][:80]}"); continue
        if new.strip()=="-": lines[a-1:b]=[]; done+=1; continue
        pre=m[1]+m[2]
        out=[]
        for para in new.split("\\n"):
            if not para.strip(): out.append(pre); continue
            ind=re.match(r"^( *(?:[-*] |\d+\. )?)",para)[1]
            w=textwrap.wrap(para.rstrip(),width=max(40,119-len(pre)-1),subsequent_indent=" "*len(ind),break_long_words=False,break_on_hyphens=False) if not para.lstrip().startswith(("|","```")) else [para]
            out+= [pre+" "+x for x in w]
        lines[a-1:b]=out; done+=1
    text="\n".join(lines)
    for e in edits:
        if e[0] in "sS":
            n=text.count(e[1])
            if n==0 or (e[0]=="s" and n!=1): print(f"{f}: {n} times: {e[1][:100]}"); continue
            text=text.replace(e[1],e[2]); done+=1
    p.write_text(text)
print(done,"edits applied")
