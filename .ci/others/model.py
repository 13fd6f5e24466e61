"""A scripted model on a loopback port. It calls tools one after the other and then answers with the result of the last one,
in the protocol of the request (Anthropic messages, OpenAI responses or OpenAI chat), always as a stream. It records all
requests."""
import json, re, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The name of the tool that searches for tools; calls are counted from 1.
SEARCH = "call_0"
# Retries of a step.
TRIES = 20
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


def texts(value):
    """Returns all texts in a content block of any kind."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(texts(one) for one in value)
    return texts(value.get("text") or value.get("content") or "") if isinstance(value, dict) else ""


def results(body, id):
    """Returns the results in a request for the call with this id."""
    found = []
    for message in [*body.get("messages", []), *(body["input"] if isinstance(body.get("input"), list) else [])]:
        if id in (message.get("tool_call_id"), message.get("call_id")) and message.get("type") != "function_call":
            found.append(texts(message.get("output") or message.get("content")))
        blocks = message.get("content")
        for block in blocks if isinstance(blocks, list) else []:
            if block.get("type") == "tool_result" and block.get("tool_use_id") == id:
                found.append(texts(block.get("content")))
    return found


def offered(body):
    """Returns the tools that a request offers: (namespace, name). Codex has one namespace per server."""
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            for inner in tool.get("tools", []):
                yield tool["name"], inner["name"]
        else:
            yield None, tool.get("name") or tool.get("function", {}).get("name") or ""


class Model:
    """A script of steps. `(tool, arguments)` calls the tool with this name, with any prefix; `(tool, arguments, words)` repeats
    the call until the result has these words. If an agent defers tool definitions behind a search tool, the model searches
    for the tools of its steps first."""

    def __init__(self, *steps):
        self.steps, self.asked = steps, []
        self.restart()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.reply(200, "application/json", b'{"data": [], "models": []}')

            do_HEAD = do_GET

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    body = json.loads(body)
                except ValueError:
                    body = {}
                model.asked.append((self.path, body))
                said = model.answer(self.path.split("?")[0], body)
                if said is None:
                    return self.reply(404, "application/json", b"{}")
                self.reply(200, "text/event-stream", said.encode())

            def reply(self, status, kind, body):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def restart(self):
        """Starts the script again."""
        self.at, self.made, self.tried, self.came = 0, 1, 0, []
        self.asked.clear()

    def results(self):
        """Returns the results of its calls."""
        return self.came

    def names(self):
        """Returns the names of all tools that were offered or, with deferred definitions, listed."""
        named = {name for _, body in self.asked for _, name in offered(body)}
        return sorted(named.union(*(re.findall(r"mcp__mimir__\w+", json.dumps(body)) for _, body in self.asked)))

    def answer(self, path, body):
        tools = list(offered(body))
        if tools and (came := results(body, f"call_{self.made}")):
            self.note(came[-1])
        call = self.call(body, tools) if self.at < len(self.steps) else None
        words = f"It says: {self.came[-1]}" if self.came else "There is nothing to do."
        for end, protocol in (("/messages", anthropic), ("/responses", responses), ("/chat/completions", chat)):
            if path.endswith(end):
                return protocol(call, words)
        return None

    def note(self, came):
        """Advances to the next step unless this one is retried."""
        self.came.append(came)
        self.made += 1
        self.tried += 1
        _, _, *until = self.steps[self.at] if self.at < len(self.steps) else (None, None)
        if self.tried == TRIES or all(words in came for words in until):
            self.at, self.tried = self.at + 1, 0

    def call(self, body, tools):
        """Returns the call of this step: (id, namespace, name, arguments), or None without such a tool."""
        tool, arguments, *_ = self.steps[self.at]
        id = f"call_{self.made}"
        fits = [one for one in tools if one[1] == tool or one[1].endswith(f"_{tool}")]
        # Agents have their own tools of these names.
        for space, name in sorted(fits, key=lambda one: "mimir" not in f"{one[0]} {one[1]}"):
            return id, space, name, json.dumps(arguments)
        finder = next((name for _, name in tools if name in ("ToolSearch", "tool_search")), None)
        text = json.dumps(body.get("messages") or [])
        hidden = {name: re.search(rf"mcp__\w*{name}\b", text) for name, *_ in self.steps}
        if not finder or not hidden[tool]:
            return None
        if not results(body, SEARCH):
            found = sorted({match[0] for match in hidden.values() if match})
            query = {"query": f"select:{','.join(found)}", "max_results": len(found)}
            return SEARCH, None, finder, json.dumps(query)
        if (None, "tool_call") in tools:
            return id, None, "tool_call", json.dumps({"name": hidden[tool][0], "arguments": arguments})
        return None


def events(*all, named=True):
    lines = []
    for event in all:
        name = f"event: {event['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join(lines)


def anthropic(call, words):
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    if call:
        id, _, name, arguments = call
        block = {"type": "tool_use", "id": id, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": arguments}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": words}
    return events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "usage": {"output_tokens": 1},
         "delta": {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}},
        {"type": "message_stop"})


def responses(call, words):
    if call:
        id, space, name, arguments = call
        item = {"type": "function_call", "id": "fc_1", "call_id": id, "name": name, "arguments": arguments}
        if space:
            item["namespace"] = space
    else:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": words, "annotations": []}]}
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "scripted", "output": [item],
                "usage": dict(USAGE, input_tokens_details={"cached_tokens": 0},
                              output_tokens_details={"reasoning_tokens": 0})}
    return events(
        {"type": "response.created", "response": dict(response, status="in_progress", output=[])},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response})


def chat(call, words):
    delta = {"role": "assistant", "content": words}
    if call:
        id, _, name, arguments = call
        function = {"name": name, "arguments": arguments}
        delta = {"role": "assistant", "content": None,
                 "tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}
    piece = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    ends = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return events(
        dict(piece, choices=[{"index": 0, "delta": delta, "finish_reason": None}]),
        dict(piece, choices=[ends]), dict(piece, choices=[], usage=usage), named=False) + "data: [DONE]\n\n"
