// HTTP requests: those sent at the same time run concurrently. The host checks each when it is sent.
import * as web from "wasi:http/types@0.2.9";
import * as way from "wasi:http/outgoing-handler@0.2.9";

const METHODS = new Set(["get", "head", "post", "put", "delete", "connect", "options", "trace", "patch"]);
const REDIRECTS = 5;
const HERE = new Set(["authorization", "cookie", "proxy-authorization"]);
const PIECE = 4096;

const unsent = (message) => new HostError({ code: "NETWORK", message });

function reason(error) {
  const of = payload(error) ?? error;
  return of?.tag ?? (typeof of === "string" ? of : String(error?.message ?? error));
}

function attempt(what, work) {
  try {
    return work();
  } catch (error) {
    throw unsent(`${what}: ${reason(error)}`);
  }
}

const one = asyncToGenerator(function* (url, method, headers, bytes) {
  const { request, body } = attempt("the request cannot be created", () => {
    const fields = web.Fields.fromList(headers.map(([name, value]) => [name, new TextEncoder().encode(value)]));
    const request = new web.OutgoingRequest(fields);
    const low = method.toLowerCase();
    request.setMethod(METHODS.has(low) ? { tag: low } : { tag: "other", val: method });
    request.setScheme({ tag: url.protocol === "http:" ? "HTTP" : "HTTPS" });
    request.setAuthority(url.host);
    request.setPathWithQuery(url.pathname + url.search);
    return { request, body: request.body() };
  });
  const future = attempt("the request was not sent", () => way.handle(request, null));
  attempt("the request was not sent", () => {
    if (bytes.length > 0) {
      const stream = body.write();
      try {
        for (let sent = 0; sent < bytes.length; sent += PIECE) {
          stream.blockingWriteAndFlush(bytes.slice(sent, sent + PIECE));
        }
      } finally {
        drop(stream);
      }
    }
    web.OutgoingBody.finish(body, null);
  });
  yield ready(future.subscribe());
  const got = future.get();
  drop(future);
  const answer = got?.tag === "ok" && got.val?.tag === "ok" ? got.val.val : undefined;
  if (answer === undefined) throw unsent(`the request failed: ${reason(got?.val?.val ?? got?.val)}`);
  const status = answer.status();
  const list = answer.headers();
  const told = list.entries().map(([name, value]) => [name, new TextDecoder().decode(value)]);
  drop(list);
  return { answer, status, headers: told };
});

const whole = asyncToGenerator(function* (answer) {
  const body = answer.consume();
  const stream = body.stream();
  const bytes = [];
  let length = 0;
  try {
    for (;;) {
      yield ready(stream.subscribe());
      let part;
      try {
        part = stream.read(1 << 16);
      } catch (error) {
        if (payload(error)?.tag === "closed") break;
        throw unsent("the response ended prematurely");
      }
      length += part.length;
      bytes.push(part);
    }
  } finally {
    drop(stream);
    drop(body);
    drop(answer);
  }
  const all = new Uint8Array(length);
  let to = 0;
  for (const part of bytes) {
    all.set(part, to);
    to += part.length;
  }
  return all;
});

hands.fetch = asyncToGenerator(function* ({ url, method, headers, text, base64: data }) {
  let target = new URL(url);
  let bytes = data !== undefined ? bytesOf(data) : new TextEncoder().encode(text ?? "");
  for (let redirects = 0; ; redirects++) {
    if (target.protocol !== "http:" && target.protocol !== "https:") throw unsent(`${target.protocol} is not supported: use http: or https:`);
    const got = yield one(target, method, headers, bytes);
    const to = got.headers.find(([name]) => name.toLowerCase() === "location")?.[1];
    if (![301, 302, 303, 307, 308].includes(got.status) || to === undefined) {
      const body = yield whole(got.answer);
      return [{ status: got.status, headers: got.headers, url: target.href, redirects }, body];
    }
    drop(got.answer);
    if (redirects === REDIRECTS) throw unsent(`more than ${REDIRECTS} redirects`);
    const next = new URL(to, target.href);
    if (next.origin !== target.origin) headers = headers.filter(([name]) => !HERE.has(name.toLowerCase()));
    if (got.status === 303 || (got.status < 303 && method === "POST")) {
      method = method === "HEAD" ? "HEAD" : "GET";
      bytes = new Uint8Array();
      headers = headers.filter(([name]) => !name.toLowerCase().startsWith("content-"));
    }
    target = next;
  }
});

