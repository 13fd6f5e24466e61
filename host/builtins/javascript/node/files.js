// Synchronous requests to the host, files in memory, and open files.
import * as host from "mimir:script/host@1.0.0";

const NO_BYTES = new Uint8Array();

class HostRefusal extends Error {
  constructor({ code, why }) {
    super(why || code);
    Object.assign(this, { code, why });
  }
}

function ask(kind, fields, bytes = NO_BYTES) {
  let done;
  try {
    done = host.perform(stringify({ kind, ...fields }), bytes);
  } catch (error) {
    const told = error !== null && typeof error === "object" && "payload" in error ? error.payload : undefined;
    if (typeof told !== "string") throw error;
    throw new HostRefusal(parse(told));
  }
  return [parse(done[0]), done[1]];
}

function randomBytes(count) {
  const all = new Uint8Array(count);
  for (let at = 0; at < count; at += 65_536) all.set(ask("random", { count: Math.min(65_536, count - at) })[1], at);
  return all;
}

// Folders are null, files are bytes.
define("fs/memory", () => {
  const MOST = 64 << 20;
  const nodes = new Map([["/", null], ["/tmp", null], ["/dev", null]]);
  const times = new Map();
  const refuse = (code, why = "") => { throw new HostRefusal({ code, why }); };
  const parent = (path) => path.slice(0, path.lastIndexOf("/")) || "/";
  const inside = (path) => {
    if (!nodes.has(parent(path))) refuse("ENOENT");
    if (nodes.get(parent(path)) !== null) refuse("ENOTDIR");
    if (!path.startsWith("/tmp/")) refuse("EACCES", "a program writes to /workspace and /tmp");
  };
  const file = (path) => {
    if (!nodes.has(path)) refuse("ENOENT");
    return nodes.get(path) ?? refuse("EISDIR");
  };
  const below = (path) => [...nodes.keys()].filter((one) => one.startsWith(path === "/" ? "/" : `${path}/`) && one !== "/");
  const work = {
    read: ({ path }) => [null, file(path).slice()],
    write({ path, mode }, bytes) {
      inside(path);
      if (nodes.get(path) === null) refuse("EISDIR");
      if (mode === "create" && nodes.has(path)) refuse("EEXIST");
      const before = mode === "append" && nodes.has(path) ? nodes.get(path) : NO_BYTES;
      const held = [...nodes.values()].reduce((sum, one) => sum + (one?.length ?? 0), bytes.length);
      if (held > MOST) refuse("ENOSPC", "/tmp is limited to 64 MiB");
      const whole = new Uint8Array(before.length + bytes.length);
      whole.set(before);
      whole.set(bytes, before.length);
      nodes.set(path, whole);
      times.set(path, Date.now());
      return [null];
    },
    list({ path }) {
      if (!nodes.has(path)) refuse("ENOENT");
      if (nodes.get(path) !== null) refuse("ENOTDIR");
      const names = below(path).map((one) => one.slice(path === "/" ? 1 : path.length + 1)).filter((one) => !one.includes("/"));
      return [names.sort().map((name) => ({ name, type: nodes.get(`${path === "/" ? "" : path}/${name}`) === null ? "directory" : "file" }))];
    },
    stat({ path }) {
      if (!nodes.has(path)) refuse("ENOENT");
      const node = nodes.get(path);
      return [{ type: node === null ? "directory" : "file", size: node?.length ?? 0, links: 1, modified: times.get(path) ?? Date.now() }];
    },
    remove({ path, recursive }) {
      if (!nodes.has(path)) refuse("ENOENT");
      inside(path);
      const all = below(path);
      if (all.length > 0 && !recursive) refuse("ENOTEMPTY");
      for (const one of [path, ...all]) nodes.delete(one);
      return [null];
    },
    mkdir({ path }) {
      if (nodes.has(path)) refuse("EEXIST");
      inside(path);
      nodes.set(path, null);
      times.set(path, Date.now());
      return [null];
    },
    rename({ path, to }) {
      if (!nodes.has(path)) refuse("ENOENT");
      inside(path);
      inside(to);
      for (const one of [path, ...below(path)]) {
        nodes.set(to + one.slice(path.length), nodes.get(one));
        nodes.delete(one);
      }
      return [null];
    },
  };
  return (kind, fields, bytes = NO_BYTES) => work[kind](fields, bytes);
});

define("fs/handles", (exports) => {
  const open = new Map();
  let next = 3;
  let outer;
  const at = (fd) => open.get(fd) ?? (() => { throw outer.failure("EBADF", "read"); })();
  const has = (path) => {
    try {
      outer.does("open", path, "stat", { follow: true });
      return true;
    } catch {
      return false;
    }
  };
  const store = (file) => outer.write("write", file.path, file.bytes, "replace");
  Object.assign(exports, {
    use(all) { outer = all; },
    open(path, flags = "r") {
      if (typeof flags === "number") flags = flags & 1024 ? "a" : flags & 512 ? "w" : flags & 3 ? "r+" : "r";
      if (flags.includes("x")) outer.write("open", path, NO_BYTES, "create");
      else if (flags.startsWith("w")) outer.write("open", path, NO_BYTES, "replace");
      else if (flags.startsWith("a") && !has(path)) outer.write("open", path, NO_BYTES, "append");
      const bytes = outer.does("open", path, "read")[1];
      open.set(next, { path: builtin("path").resolve(outer.named(path)), bytes, position: 0, appends: flags.startsWith("a"), writes: flags !== "r" });
      return next++;
    },
    close(fd) {
      at(fd);
      open.delete(fd);
    },
    path: (fd) => at(fd).path,
    contents: (fd) => at(fd).bytes,
    read(fd, buffer, offset = 0, length = undefined, position = null) {
      if (offset !== null && typeof offset === "object") ({ offset = 0, length, position = null } = offset);
      if (fd === 0) {
        open.set(0, open.get(0) ?? { bytes: new TextEncoder().encode(given.stdin), position: 0 });
      }
      const file = at(fd);
      const start = position === null ? file.position : Number(position);
      const part = file.bytes.subarray(start, start + (length ?? buffer.byteLength - offset));
      buffer.set(part, offset);
      if (position === null) file.position += part.length;
      return part.length;
    },
    writeAt(fd, data, offset, length, position) {
      const isText = typeof data === "string";
      const bytes = isText ? new TextEncoder().encode(data) : data.subarray(offset ?? 0, length == null ? undefined : (offset ?? 0) + length);
      const start = isText ? offset : position;
      if (fd === 1 || fd === 2) {
        put(fd === 1 ? "stdout" : "stderr", decodeUtf8(bytes));
        return bytes.length;
      }
      return exports.write(fd, bytes, start);
    },
    write(fd, bytes, position = null) {
      const file = at(fd);
      if (!file.writes) throw outer.failure("EBADF", "write");
      const start = file.appends ? file.bytes.length : position ?? file.position;
      if (start + bytes.length > file.bytes.length) {
        const whole = new Uint8Array(start + bytes.length);
        whole.set(file.bytes);
        file.bytes = whole;
      }
      file.bytes.set(bytes, start);
      if (position === null) file.position = start + bytes.length;
      if (start + bytes.length === file.bytes.length && start === file.stored) outer.write("write", file.path, bytes, "append");
      else store(file);
      file.stored = file.bytes.length;
      return bytes.length;
    },
    // File handles, as opened by `fs/promises`.
    handle(fd, sync) {
      const path = exports.path(fd);
      const done = (work) => (...all) => Promise.try(work, ...all);
      return {
        fd, readFile: done((options) => sync.readFile(path, options)), writeFile: done((data, options) => sync.writeFile(path, data, options)),
        appendFile: done((data, options) => sync.appendFile(path, data, options)), stat: done(() => sync.stat(path)), truncate: done((length) => sync.truncate(path, length)),
        read: done((buffer, offset, length, position) => ({ bytesRead: exports.read(fd, buffer, offset, length, position), buffer })),
        write: done((data, ...more) => ({ bytesWritten: exports.writeAt(fd, data, ...more), buffer: data })),
        readLines: () => eventually(decodeUtf8(exports.contents(fd)).replace(/\n$/, "").split(/\r?\n/)),
        close: done(() => exports.close(fd)), sync: done(() => {}),
      };
    },
  });
});
