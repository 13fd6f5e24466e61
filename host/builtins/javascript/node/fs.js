// Synchronous file access. The workspace belongs to the host, `/tmp` is in memory and is discarded with the program.
define("fs", (fs) => {
  const MESSAGES = {
    ENOENT: [-2, "no such file or directory"], EEXIST: [-17, "file already exists"], EPERM: [-1, "operation not permitted"], EACCES: [-13, "permission denied"],
    EROFS: [-30, "read-only file system"], EISDIR: [-21, "illegal operation on a directory"], ENOTDIR: [-20, "not a directory"], ENOTEMPTY: [-39, "directory not empty"],
    ENAMETOOLONG: [-36, "name too long"], ELOOP: [-40, "too many symbolic links encountered"], ENOSPC: [-28, "no space left on device"], EDQUOT: [-122, "disk quota exceeded"],
    EXDEV: [-18, "cross-device link not permitted"], EINVAL: [-22, "invalid argument"], EBADF: [-9, "bad file descriptor"], EFBIG: [-27, "file too large"], EIO: [-5, "i/o error"],
    ENOSYS: [-38, "function not implemented"],
  };
  const failure = (code, syscall, path, dest, why = "") => {
    const [errno, words] = MESSAGES[code] ?? MESSAGES.EIO;
    const names = path === undefined ? "" : ` '${path}'${dest === undefined ? "" : ` -> '${dest}'`}`;
    const error = new Error(`${code}: ${words}, ${syscall}${names}${why && ` (${why})`}`);
    Object.assign(error, { errno, code, syscall });
    if (path !== undefined) error.path = path;
    if (dest !== undefined) error.dest = dest;
    return error;
  };
  const { Buffer } = builtin("buffer");
  const paths = builtin("path");
  const named = (path) => {
    if (path instanceof URL || (path !== null && typeof path === "object" && typeof path.href === "string")) return builtin("url").fileURLToPath(path);
    if (path instanceof Uint8Array) return decodeUtf8(path);
    if (typeof path !== "string") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "path" argument must be of type string or an instance of Buffer or URL. Received ${inspect(path)}`);
    if (path.includes("\0")) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'path' must be a string, Uint8Array, or URL without null bytes.");
    return path;
  };
  const memory = builtin("fs/memory");
  // Returns the file system that a path belongs to, and its name there.
  const place = (path, syscall) => {
    const name = named(path);
    if (name === "") throw failure("ENOENT", syscall, name);
    const whole = paths.resolve(name);
    if (whole === WORKSPACE || whole.startsWith(`${WORKSPACE}/`)) return [ask, whole.slice(WORKSPACE.length + 1) || "."];
    if (whole === "/tmp" || whole.startsWith("/tmp/")) return [memory, whole];
    if (whole === "/" || whole === "/dev") return [memory, whole];
    const why = `a program sees ${WORKSPACE} and /tmp`;
    throw failure("ENOENT", syscall, name, undefined, why);
  };
  const does = (syscall, path, kind, fields = {}, bytes = undefined) => {
    const [where, name] = place(path, syscall);
    try {
      return where(kind, { path: name, ...fields }, bytes);
    } catch (error) {
      if (error instanceof HostRefusal) throw failure(error.code, syscall, named(path), undefined, error.why);
      throw error;
    }
  };
  const encodingOf = (options, otherwise = null) => (typeof options === "string" ? options : options?.encoding ?? otherwise);
  const told = (bytes, options) => {
    const encoding = encodingOf(options);
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return encoding === null || encoding === "buffer" ? buffer : buffer.toString(encoding);
  };
  const bytesOf = (data, options) => {
    if (typeof data === "string") return Buffer.from(data, encodingOf(options, "utf8"));
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${inspect(data, { depth: 0 })}`);
  };
  const PART = 1 << 20;
  const write = (syscall, path, bytes, mode) => {
    does(syscall, path, "write", { mode }, bytes.slice(0, PART));
    for (let at = PART; at < bytes.length; at += PART) does(syscall, path, "write", { mode: "append" }, bytes.slice(at, at + PART));
  };
  const STDIN = new Set([0, "/dev/stdin"]);
  const files = builtin("fs/handles");
  files.use({ failure, does, write, named });

  class Stats {
    constructor(found, isBig) {
      const number = (value) => (isBig ? BigInt(Math.floor(value)) : value);
      const isFolder = found.type === "directory";
      Object.assign(this, {
        dev: number(1), mode: number(isFolder ? 0o40755 : found.type === "link" ? 0o120777 : 0o100644), nlink: number(found.links ?? 1), uid: number(1000), gid: number(1000), rdev: number(0),
        blksize: number(4096), ino: number(0), size: number(isFolder ? 4096 : found.size), blocks: number(Math.ceil(found.size / 512)),
      });
      for (const [name, from] of [["atime", "accessed"], ["mtime", "modified"], ["ctime", "changed"], ["birthtime", "changed"]]) {
        const millis = found[from] ?? found.modified ?? 0;
        this[`${name}Ms`] = number(millis);
        if (isBig) this[`${name}Ns`] = BigInt(Math.floor(millis * 1e6));
        this[name] = new Date(millis);
      }
      Object.defineProperty(this, "type", { value: found.type });
    }
    isFile() { return this.type === "file"; }
    isDirectory() { return this.type === "directory"; }
    isSymbolicLink() { return this.type === "link"; }
    isFIFO() { return false; }
    isSocket() { return false; }
    isBlockDevice() { return false; }
    isCharacterDevice() { return false; }
  }
  class Dirent {
    constructor({ name, type }, parent) {
      Object.assign(this, { name, parentPath: parent, path: parent });
      Object.defineProperty(this, "type", { value: type });
    }
  }
  for (const name of Object.getOwnPropertyNames(Stats.prototype)) {
    if (name.startsWith("is")) Dirent.prototype[name] = Stats.prototype[name];
  }
  const look = (syscall, path, follow, options) => {
    try {
      return new Stats(does(syscall, path, "stat", { follow })[0], options?.bigint === true);
    } catch (error) {
      if (options?.throwIfNoEntry === false && (error.code === "ENOENT" || error.code === "ENOTDIR")) return undefined;
      throw error;
    }
  };
  const list = (path) => {
    const [found] = does("scandir", path, "list");
    return found;
  };
  const sync = {
    readFile(path, options) {
      if (STDIN.has(path)) return told(new TextEncoder().encode(given.stdin), options);
      if (typeof path === "number") return told(files.contents(path), options);
      const [, bytes] = does("open", path, "read");
      return told(bytes, options);
    },
    writeFile(path, data, options) {
      const bytes = bytesOf(data, options);
      if (path === 1 || path === 2) return void put(path === 1 ? "stdout" : "stderr", decodeUtf8(bytes));
      if (typeof path === "number") return void files.write(path, bytes);
      const flag = options?.flag ?? "w";
      const mode = flag.includes("x") ? "create" : flag.startsWith("a") ? "append" : "replace";
      write("open", path, bytes, mode);
    },
    appendFile(path, data, options) {
      sync.writeFile(path, data, { ...(typeof options === "string" ? { encoding: options } : options), flag: "a" });
    },
    exists(path) {
      try {
        does("access", path, "stat", { follow: true });
        return true;
      } catch {
        return false;
      }
    },
    access(path) { does("access", path, "stat", { follow: true }); },
    stat: (path, options) => look("stat", path, true, options),
    lstat: (path, options) => look("lstat", path, false, options),
    readdir(path, options) {
      const name = named(path);
      const all = [];
      const walk = (folder, before) => {
        for (const one of list(folder)) {
          const below = before === "" ? one.name : `${before}/${one.name}`;
          all.push(options?.withFileTypes ? new Dirent(one, folder) : below);
          if (options?.recursive && one.type === "directory") walk(`${folder.replace(/\/+$/, "")}/${one.name}`, below);
        }
      };
      walk(name, "");
      return all;
    },
    mkdir(path, options) {
      if (options?.recursive !== true) {
        does("mkdir", path, "mkdir");
        return undefined;
      }
      const whole = paths.resolve(named(path));
      let first;
      let made = "";
      for (const part of whole.split("/").slice(1)) {
        made += `/${part}`;
        if (made === WORKSPACE || made === "/tmp") continue;
        try {
          does("mkdir", made, "mkdir");
          first ??= made;
        } catch (error) {
          if (error.code !== "EEXIST" || !look("mkdir", made, true).isDirectory()) throw error;
        }
      }
      return first;
    },
    rm(path, options) {
      const found = look("rm", path, false, { throwIfNoEntry: false });
      if (found === undefined) {
        if (options?.force) return;
        throw failure("ENOENT", "rm", named(path));
      }
      if (found.isDirectory() && options?.recursive !== true) {
        throw Object.assign(coded(Error, "ERR_FS_EISDIR", `Path is a directory: rm returned EISDIR (is a directory) ${named(path)}`), { errno: 21, syscall: "rm", path: named(path) });
      }
      does("rm", path, "remove", { recursive: options?.recursive === true });
    },
    rmdir(path, options) {
      if (!look("rmdir", path, false).isDirectory()) throw failure("ENOTDIR", "rmdir", named(path));
      does("rmdir", path, "remove", { recursive: options?.recursive === true });
    },
    unlink(path) {
      if (look("unlink", path, false).isDirectory()) throw failure("EISDIR", "unlink", named(path));
      does("unlink", path, "remove", { recursive: false });
    },
    rename(from, to) {
      const [[one, old], [other, name]] = [place(from, "rename"), place(to, "rename")];
      if (one !== other) throw failure("EXDEV", "rename", named(from), named(to));
      try {
        one("rename", { path: old, to: name });
      } catch (error) {
        if (error instanceof HostRefusal) throw failure(error.code, "rename", named(from), named(to), error.why);
        throw error;
      }
    },
    copyFile(from, to, mode = 0) {
      const [, bytes] = does("copyfile", from, "read");
      write("copyfile", to, bytes, mode & 1 ? "create" : "replace");
    },
    cp(from, to, options) {
      if (!look("cp", from, true).isDirectory()) {
        sync.mkdir(paths.dirname(paths.resolve(named(to))), { recursive: true });
        return sync.copyFile(from, to, options?.force === false ? 1 : 0);
      }
      if (options?.recursive !== true) throw coded(Error, "ERR_FS_EISDIR", `Recursive option not enabled, cannot copy a directory: ${named(from)}`);
      sync.mkdir(to, { recursive: true });
      for (const { name } of list(named(from))) sync.cp(paths.join(named(from), name), paths.join(named(to), name), options);
    },
    truncate(path, length = 0) {
      const bytes = new Uint8Array(length);
      bytes.set(does("open", path, "read")[1].subarray(0, length));
      write("open", path, bytes, "replace");
    },
    mkdtemp(prefix) {
      const path = named(prefix) + Array.from({ length: 6 }, () => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[Math.floor(Math.random() * 62)]).join("");
      does("mkdtemp", path, "mkdir");
      return path;
    },
    realpath(path) {
      does("realpath", path, "stat", { follow: true });
      return paths.resolve(named(path));
    },
    opendir(path) {
      const all = sync.readdir(path, { withFileTypes: true });
      const next = () => all.shift() ?? null;
      return { path, readSync: next, read: () => Promise.try(next), closeSync() {}, close: () => Promise.resolve(), [Symbol.iterator]: () => all.values(), [Symbol.asyncIterator]: () => eventually(all) };
    },
    open: (path, flags, mode) => files.open(path, flags, mode),
    close: (fd) => files.close(fd),
    read: (...all) => files.read(...all),
    write: (...all) => files.writeAt(...all),
    fstat: (fd) => look("fstat", files.path(fd), true),
    fsync() {}, fdatasync() {},
    ftruncate: (fd, length) => sync.truncate(files.path(fd), length),
  };
  for (const name of ["chmod", "chown", "lchown", "link", "symlink", "readlink", "utimes", "lutimes", "futimes", "fchmod", "fchown", "statfs"]) {
    sync[name] = (path) => { throw failure("ENOSYS", name, typeof path === "number" ? undefined : path, undefined, "modes, owners, times and links of files cannot be changed in this engine"); };
  }
  const promises = {};
  for (const [name, work] of Object.entries(sync)) {
    fs[`${name}Sync`] = work;
    promises[name] = (...all) => Promise.try(work, ...all);
    fs[name] = (...all) => {
      const done = all.pop();
      if (typeof done !== "function") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "cb" argument must be of type function. Received ${inspect(done)}`);
      if (name === "exists") return void Promise.try(work, ...all).then(done);
      Promise.try(work, ...all).then(
        (value) => guarded(done, name === "read" || name === "write" ? [null, value, all[1]] : value === undefined ? [null] : [null, value]),
        (error) => guarded(done, [error]),
      );
    };
  }
  delete promises.exists;
  promises.open = (path, flags) => Promise.try(() => files.handle(files.open(path, flags), sync));
  promises.read = promises.write = promises.close = promises.fstat = undefined;
  promises.watch = () => { throw failure("ENOSYS", "watch", undefined, undefined, "files cannot be watched here"); };
  fs.watch = fs.watchFile = promises.watch;
  fs.unwatchFile = () => {};
  const constants = { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2, COPYFILE_FICLONE_FORCE: 4, O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024 };
  Object.assign(promises, { constants });
  Object.assign(fs, { promises, constants, ...constants, Stats, Dirent });
  fs.realpathSync.native = fs.realpathSync;
  fs.createReadStream = (path, options) => builtin("stream").ofFile(path, options, fs);
  fs.createWriteStream = (path, options) => builtin("stream").toFile(path, options, fs);
});
define("fs/promises", () => builtin("fs").promises);
