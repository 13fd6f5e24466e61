#!/usr/bin/env python3
"""Converts gitleaks' rule set to the tables that are compiled into mimir.

    convert.py path/to/gitleaks/config/gitleaks.toml

writes rules.rs.in and stopwords.txt next to this file. README.md lists the changes and their reasons.
"""

import re
import sys
import tomllib
from pathlib import Path

try:
    from re import _parser as parser
except ImportError:  # Python before 3.11
    import sre_parse as parser

HERE = Path(__file__).parent
IDENTIFIER = r"[\w.-]{0,50}?"

# Rules that depend on the file name, which is unknown for the output of a tool.
LEFT_OUT = {"pkcs12-file", "hashicorp-tf-password"}

# Rules whose keyword is not at the beginning of a match, but which begin with another literal.
ANCHORS = {
    "lob-api-key": ["lob"],
    "lob-pub-api-key": ["lob"],
    "new-relic-browser-api-token": ["new-relic", "newrelic", "new_relic"],
    "new-relic-insert-key": ["new-relic", "newrelic", "new_relic"],
    "new-relic-user-api-key": ["new-relic", "newrelic", "new_relic"],
    "openai-api-key": ["sk-"],
    "typeform-api-token": ["typeform"],
}

# Rules that are searched around their keyword: bytes before its start and after its end.
# A few more than the rule needs, since an escape is longer than its character.
# 1024 is for rules whose keyword is not part of the match: gitleaks accepts it anywhere in the file.
AROUND = {
    "airtable-personnal-access-token": (1024, 1024),
    "azure-ad-client-secret": (12, 48),
    "curl-auth-header": (0, 4096),
    "curl-auth-user": (0, 4096),
    "facebook-access-token": (1024, 1024),
    "freemius-secret-key": (4, 120),
    "hashicorp-tf-api-token": (20, 80),
    "kubernetes-secret-yaml": (0, 4096),
    "maxmind-license-key": (40, 8),
    "microsoft-teams-webhook": (100, 220),
    "sidekiq-sensitive-url": (36, 8),
    "slack-webhook-url": (16, 100),
    "sourcegraph-access-token": (1024, 1024),
}
AROUND_ANCHORS = {
    "kubernetes-secret-yaml": ["kind:", "data:"],
    "slack-webhook-url": ["hooks.slack.com"],
    "microsoft-teams-webhook": ["webhook.office.com"],
}
# The keyword that has to be anywhere in the text for the anchors to count.
REQUIRED_WORDS = {"kubernetes-secret-yaml": "secret"}

# An unbounded match may be as long as REACH; for a rule that matches any byte except line ends, a hostile text
# would make that too expensive.
UNBOUNDED = {"nuget-config-password": "1024"}

# As in gitleaks, except for the captured part; an already masked value also matches, so that the next one is not taken.
KUBERNETES_ENTRY = (
    r"""[\w.-]+:(?:[ \t]*(?:\||>[-+]?)\s+)?[ \t]*"""
    r"""(?:["']?([a-z0-9+/]{10,}={0,3})["']?|\{\{[ \t\w"|$:=,.-]+}}|""|''|["']?\[REDACTED:[^\]]*\])"""
)
MASKED = {"regexes": [r"""\[REDACTED:"""]}


def special(rule_id, regex):
    """Changes to single rules: only the captured text is masked, so it has to be the complete secret."""
    if rule_id == "jwt-base64":
        return re.sub(r"\(\?P<\w+>", "(?:", regex)
    if rule_id == "private-key":
        # Requires a line of base64 and the matching end: text between two headers that are only mentioned is
        # not a key.
        body, dashes = r"[\s\S-]{64,}?KEY(?: BLOCK)?-----", r"(?:[^-]|-[^-])"
        assert regex.endswith(body)
        ending = dashes + r"{20,}?-----END[ A-Z0-9_-]{0,100}KEY(?: BLOCK)?-----"
        return regex.removesuffix(body) + dashes + r"{0,400}?[a-z0-9+/]{40}" + ending
    if rule_id == "microsoft-teams-webhook":
        return regex.replace("([a-z0-9]{4}-)", "(?:[a-z0-9]{4}-)")
    if rule_id == "sonar-api-token":
        return regex.replace("(login|token)", "(?:login|token)")
    if rule_id == "curl-auth-user":
        # The user nearest to `curl`, not the last one within reach.
        return regex.replace(r"(?:.*|.*(?:[\r\n]{1,2}.*){1,5})", r"(?:.*?|.*?(?:[\r\n]{1,2}.*?){1,5})")
    if rule_id == "sidekiq-sensitive-url":
        # A URL may also end at the end of a line.
        return regex.replace(r"(?:[\/|\#|\?|:]|$)", r"""(?:[\/|\#|\?|:\s"'<>)]|$)""")
    if rule_id == "slack-legacy-workspace-token":
        # Includes the fields after the first one.
        return regex + "(?:-[0-9a-zA-Z]+)*"
    if rule_id == "kubernetes-secret-yaml":
        entry = r"""([\w.-]+:(?:[ \t]*(?:\||>[-+]?)\s+)?[ \t]*(?:["']?[a-z0-9+/]{10,}={0,3}["']?|\{\{[ \t\w"|$:=,.-]+}}|""|''))"""
        assert regex.count(entry) == 2
        return regex.replace(entry, KUBERNETES_ENTRY)
    return regex


def following(rule_id, regex):
    """The expression for further secrets directly after a match."""
    if rule_id == "kubernetes-secret-yaml":
        return r"(?i)\s+" + KUBERNETES_ENTRY
    if rule_id.startswith("curl-auth-"):
        return regex.removeprefix(r"\bcurl\b")
    return None


def rust(regex):
    """Converts Go's RE2 syntax to that of the regex crate: escapes literal braces, and brackets in classes."""
    out, at, in_class = [], 0, False
    while at < len(regex):
        c = regex[at]
        if c == "\\":
            out.append(regex[at : at + 2])
            at += 2
            continue
        if in_class:
            if c == "[" and regex.startswith("[:", at):
                end = regex.index(":]", at) + 2
                out.append(regex[at:end])
                at = end
                continue
            if c == "]":
                in_class = False
            out.append("\\" + c if c in "[&~" else c)
        elif c == "[":
            in_class = True
            out.append(c)
            at += 1
            if regex[at] == "^":
                out.append("^")
                at += 1
            if regex[at] == "]":
                out.append(r"\]")
                at += 1
            continue
        elif c == "{" and not re.match(r"\{\d+(,\d*)?\}", regex[at:]):
            out.append(r"\{")
        elif c == "}" and not re.search(r"\{\d+(,\d*)?$", "".join(out)):
            out.append(r"\}")
        else:
            out.append(c)
        at += 1
    return "".join(out)


def alternatives(regex):
    """The alternatives at the top level."""
    parts, depth, in_class, start, at = [], 0, False, 0, 0
    while at < len(regex):
        c = regex[at]
        if c == "\\":
            at += 2
            continue
        if in_class:
            in_class = c != "]"
        elif c == "[":
            in_class = True
            at += 1 + (regex[at + 1] == "^")
            at += regex[at] == "]"
            continue
        elif c in "()":
            depth += 1 if c == "(" else -1
        elif c == "|" and depth == 0:
            parts.append(regex[start:at])
            start = at + 1
        at += 1
    return parts + [regex[start:]]


def split_lead(regex):
    """The name of the lead before the keyword, and the rest of the expression."""
    flag = "(?i)" if regex.startswith("(?i)") else ""
    rest = regex.removeprefix("(?i)")
    for twice in (IDENTIFIER + "(?i:" + IDENTIFIER, IDENTIFIER + "(?i:", IDENTIFIER):
        if rest.startswith(twice):
            return "Identifier", flag + ("(?i:" if "(?i:" in twice else "") + rest.removeprefix(twice)
    if rest.startswith(r"\b"):
        return "Word", flag + rest.removeprefix(r"\b")
    return "Free", regex


def width(regex):
    """The maximum length of a match in bytes; None if it is unbounded."""
    plain = regex.replace("(?i)", "").replace("(?i:", "(?:").replace("(?-i:", "(?:")
    plain = plain.replace("[:alnum:]", "a-zA-Z0-9").replace(r"\z", r"\Z")
    most = parser.parse(plain, re.ASCII).getwidth()[1]
    return most if most < 1 << 16 else None


def literal(text):
    """A Rust raw string."""
    hashes = "#"
    while '"' + hashes in text:
        hashes += "#"
    return f'r{hashes}"{text}"{hashes}'


def strings(values):
    return "&[" + ", ".join(literal(v) for v in values) + "]"


def allow_list(allow):
    """One allow list; None if it depends on a path only."""
    if allow.get("condition") == "AND" and allow.get("paths"):
        return None
    regexes, words = allow.get("regexes", []), "stopwords" in allow
    if not regexes and not words:
        return None
    target = {"match": "Match", "line": "Line"}.get(allow.get("regexTarget"), "Secret")
    fields = [f"target: AllowTarget::{target}"]
    if regexes:
        # All are joined to one expression: the flags of one must not affect the next.
        joined = "|".join(f"(?:{rust(regex)})" for regex in regexes)
        fields.append(f"regex: {literal(joined)}")
    if words:
        fields.append("stopwords: true")
    if len(fields) < 3:
        fields.append("..ALLOW")
    return "AllowEntry { " + ", ".join(fields) + " }"


def entries(rule):
    """One table entry, or one for each alternative with a different beginning."""
    rule_id = rule["id"]
    regex = special(rule_id, rule["regex"])
    keywords = sorted({keyword.lower() for keyword in rule["keywords"]})
    lists = rule.get("allowlists", []) + ([MASKED] if rule_id == "kubernetes-secret-yaml" else [])
    allows = [a for a in map(allow_list, lists) if a]
    if rule_id in AROUND:
        before, after = AROUND[rule_id]
        yield entry(
            rule_id,
            AROUND_ANCHORS.get(rule_id, keywords),
            regex,
            rule.get("entropy"),
            allows,
            [f"position: AnchorPosition::Around {{ before: {before}, after: {after} }}"],
            REQUIRED_WORDS.get(rule_id),
            following(rule_id, regex),
        )
        return
    parts = alternatives(regex)
    for part in parts:
        lead, rest = split_lead(part)
        anchors = ANCHORS.get(rule_id, keywords)
        if len(parts) > 1:
            anchors = [k for k in anchors if k in part.lower()]
        most = width(rest)
        bound = UNBOUNDED.get(rule_id, "REACH") if most is None else str(most)
        position = [f"position: AnchorPosition::Here(AnchorPrefix::{lead})", f"width: {bound}"]
        yield entry(rule_id, anchors, rest, rule.get("entropy"), allows, position, None, None)


def entry(rule_id, anchors, regex, entropy, allows, position, required_word, following_regex):
    lines = [f'id: "{rule_id}"', f"anchors: {strings(anchors)}", *position, f"regex: {literal(rust(regex))}"]
    if required_word:
        lines.append(f"required_word: {literal(required_word)}")
    if following_regex:
        lines.append(f"following: {literal(rust(following_regex))}")
    if entropy:
        lines.append(f"entropy: {float(entropy)}")
    if allows:
        lines.append("allow: &[" + ", ".join(allows) + "]")
    return "    SecretRule {\n" + "".join(f"        {line},\n" for line in lines) + "        ..RULE\n    },\n"


def main():
    config = tomllib.loads(Path(sys.argv[1]).read_text())
    rules = [rule for rule in config["rules"] if rule["id"] not in LEFT_OUT]
    # The order of rules for one service does not matter; the generic rule comes last, so that a finding is
    # named after a specific rule.
    rules.sort(key=lambda rule: (rule["id"] == "generic-api-key", rule["id"]))
    words = {w for rule in rules for a in rule.get("allowlists", []) for w in a.get("stopwords", [])}
    general = config["allowlist"]
    with open(HERE / "rules.rs.in", "w") as out:
        out.write("// Made by convert.py from gitleaks' rules (MIT, see LICENSE); see README.md. Not to be edited.\n")
        out.write("RuleTable {\n")
        out.write("rules: &[\n" + "".join(e for rule in rules for e in entries(rule)) + "],\n")
        out.write(f"allow: {allow_list({'regexes': general['regexes']})},\n")
        out.write(f"stopwords: {strings(general['stopwords'])},\n}}\n")
    (HERE / "stopwords.txt").write_text("".join(sorted(f"{word.lower()}\n" for word in words)))


main()
