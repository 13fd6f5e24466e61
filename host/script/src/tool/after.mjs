const bare = (path) => String(path ?? ".").replace(/^\/+/, "") || ".";
const kinds = (entry) => (entry.isDirectory() ? "directory" : entry.isFile() ? "file" : "other");
const fs = {
  readFile: async (path, encoding = "utf-8") => {
    const bytes = await files.readFile(bare(path));
    return encoding === null ? bytes : bytes.toString(encoding);
  },
  writeFile: async (path, content) => {
    await files.mkdir(dirname(bare(path)), { recursive: true });
    await files.writeFile(bare(path), content);
  },
  exists: (path) => files.access(bare(path)).then(() => true, () => false),
  list: async (path) => (await files.readdir(bare(path))).sort(),
  stat: async (path) => {
    const found = await files.stat(bare(path));
    return { type: kinds(found), size: found.size, modified: found.mtime, isFile: () => found.isFile(), isDirectory: () => found.isDirectory() };
  },
  remove: (path, options) => files.rm(bare(path), { recursive: options?.recursive === true }),
  mkdir: (path) => files.mkdir(bare(path), { recursive: true }),
  glob: async (pattern) => {
    const found = [];
    for await (const path of files.glob(pattern)) found.push(path);
    return found.sort();
  },
};
// Child processes share the sandbox of this one.
const execute = (command, args) => new Promise((resolve) => {
  const wanted = typeof command === "string" ? { command, args } : command;
  const start = Date.now();
  const options = { cwd: wanted.cwd, timeout: wanted.timeout, env: { ...process.env, ...wanted.env }, maxBuffer: 16 << 20 };
  const child = execFile(wanted.command, wanted.args ?? [], options, (error, stdout, stderr) => {
    const exitCode = error === null ? 0 : typeof error.code === "number" ? error.code : 127;
    resolve({ exitCode, success: exitCode === 0, stdout, stderr: stderr || (exitCode === 127 ? String(error) : ""), truncated: false, duration: Date.now() - start });
  });
  if (wanted.stdin != null) child.stdin.write(String(wanted.stdin));
  child.stdin.end();
});
const absent = (what) => new Proxy({}, { get: (_, name) => name === "then" ? undefined : () => Promise.reject(new Error(`context.${what} is not available with \`runtime: node\``)) });
const say = (level) => (...values) => console.error(`${level}:`, ...values);
const logger = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error"), log: say("info") };
const context = {
  ...given.context, platform: { fs, executor: { execute }, http: { fetch } }, fetch, logger,
  progress: { report: (done, total, message) => console.error(`progress: ${done}/${total ?? "?"} ${message ?? ""}`) },
  tools: absent("tools"), storage: absent("storage"), llm: absent("llm"),
};
const told = {};
try {
  const module = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);
  const main = module.execute ?? module.default;
  if (typeof main !== "function") throw new TypeError("the code does not export `execute`");
  const value = await main(given.args, context);
  told.text = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
} catch (error) {
  told.error = error instanceof Error ? `${error.name === "Error" ? "" : `${error.name}: `}${error.message}` : String(error);
}
process.stdout.write(`\n\u0001mimir-result:${JSON.stringify(told)}\n`, () => process.exit(0));
