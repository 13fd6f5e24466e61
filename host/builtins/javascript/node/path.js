// POSIX paths.
define("path", (path) => {
  const text = (value, name = "path") => {
    if (typeof value === "string") return value;
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "${name}" argument must be of type string. Received ${value === null ? "null" : typeof value}`);
  };
  const parts = (whole, isAbsolute) => {
    const out = [];
    for (const part of whole.split("/")) {
      if (part === "" || part === ".") continue;
      if (part === ".." && out.length > 0 && out.at(-1) !== "..") out.pop();
      else if (part !== ".." || !isAbsolute) out.push(part);
    }
    return out.join("/");
  };
  Object.assign(path, {
    sep: "/",
    delimiter: ":",
    isAbsolute: (value) => text(value).startsWith("/"),
    normalize(value) {
      if (text(value) === "") return ".";
      const isAbsolute = value.startsWith("/");
      let plain = parts(value, isAbsolute);
      if (plain === "" && !isAbsolute) plain = ".";
      if (plain !== "" && value.endsWith("/")) plain += "/";
      return isAbsolute ? `/${plain}` : plain;
    },
    join(...all) {
      const whole = all.filter((one) => text(one) !== "").join("/");
      return whole === "" ? "." : path.normalize(whole);
    },
    resolve(...all) {
      let whole = "";
      for (const one of [...all].reverse()) {
        if (text(one) === "") continue;
        whole = whole === "" ? one : `${one}/${whole}`;
        if (one.startsWith("/")) return `/${parts(whole, true)}`;
      }
      return `/${parts(`${folder()}/${whole}`, true)}`;
    },
    relative(from, to) {
      const [one, other] = [path.resolve(text(from, "from")), path.resolve(text(to, "to"))].map((whole) => whole.split("/").filter(Boolean));
      let same = 0;
      while (same < one.length && same < other.length && one[same] === other[same]) same++;
      return [...one.slice(same).map(() => ".."), ...other.slice(same)].join("/");
    },
    dirname(value) {
      const plain = text(value).replace(/\/+$/, "");
      if (plain === "") return value.startsWith("/") ? "/" : ".";
      const at = plain.lastIndexOf("/");
      return at < 0 ? "." : plain.slice(0, at).replace(/\/+$/, "") || "/";
    },
    basename(value, end = "") {
      const name = text(value).replace(/\/+$/, "").split("/").pop();
      return end !== "" && name !== end && name.endsWith(end) ? name.slice(0, -end.length) : name;
    },
    extname(value) {
      const name = path.basename(value);
      const at = name.lastIndexOf(".");
      return at <= 0 || /^\.+$/.test(name.slice(0, at + 1)) && at + 1 === name.length ? "" : name.slice(at);
    },
    parse(value) {
      const root = text(value).startsWith("/") ? "/" : "";
      const base = path.basename(value);
      const ext = path.extname(value);
      const dir = value.replace(/\/+$/, "").includes("/") ? path.dirname(value) : root;
      return { root, dir, base, ext, name: ext === "" ? base : base.slice(0, -ext.length) };
    },
    format({ root = "", dir, base, name = "", ext = "" }) {
      const file = base ?? name + (ext !== "" && !ext.startsWith(".") ? `.${ext}` : ext);
      if (!dir) return root + file;
      return dir === root ? dir + file : `${dir}/${file}`;
    },
    toNamespacedPath: (value) => value,
    matchesGlob: (value, pattern) => matcher(String(pattern)).test(text(value)),
  });
  path.posix = path;
  path.win32 = new Proxy({}, { get(_, name) { throw new Error(`path.win32.${String(name)} is not available: paths are POSIX paths`); } });
});
define("path/posix", () => builtin("path"));
