// The exports of a plugin. Its definitions were determined when it was built, after its module had run.
let manifest;
const tools = new Map();
// The exports of `import … from "mimir"`.
const mimir = Object.freeze({ defineTool: (tool) => tool });
let workspace = "/";

const bytesOf = (data) => Uint8Array.from(fromBase64(data), (unit) => unit.charCodeAt(0));

function well(_, value) {
  return typeof value === "string" ? value.toWellFormed() : value;
}

function text(value) {
  const plain = stringify(value);
  return plain !== undefined && plain.includes("\\ud") ? stringify(value, well) : plain;
}

// Map of positions in the code to positions in the files, five numbers each, in the order of the former: line and
// column, number of the file from 1 on, line and column in it.
let places;
let files;

function original(row, column) {
  let [low, high] = [0, places.length / 5];
  while (low < high) {
    const middle = (low + high) >> 1;
    const [line, at] = [places[middle * 5], places[middle * 5 + 1]];
    if (line < row || (line === row && at <= column)) low = middle + 1;
    else high = middle;
  }
  const [line, , file, source, at] = places.slice((low - 1) * 5, low * 5);
  return low > 0 && line === row && file > 0 ? `${files[file - 1]}:${source}:${at}` : undefined;
}

// Returns the innermost frames of a stack that are in the files.
function frames(stack) {
  const found = [];
  for (const line of stack.split("\n")) {
    const match = /^\s*at (?:(.*?) \()?<(?:input|eval)>:(\d+):(\d+)\)?$/.exec(line);
    const place = match === null ? undefined : original(Number(match[2]), Number(match[3]));
    if (place === undefined) continue;
    const frame = match[1] === undefined || match[1].startsWith("<") ? place : `${match[1]} (${place})`;
    if (found.at(-1) !== frame) found.push(frame);
    if (found.length === 20) break;
  }
  return found;
}

function begin(make, given) {
  manifest = given.manifest;
  places = given.places;
  files = given.files;
  const { module } = make(mimir);
  for (const { name, path, structured } of given.tools) {
    const found = path.reduce((from, key) => from[key], module);
    const whole = typeof found === "function" ? { execute: found, inputSchema: module[`${path[0]}Schema`] } : found;
    tools.set(name, { ...whole, self: whole, structured });
  }
  drain();
  wanted = [];
  open.clear();
  began = true;
}

// Returns the arguments as parsed by the tool's schema: with its defaults, and its checks beyond JSON Schema.
const taken = asyncToGenerator(function* (tool, args) {
  const schema = tool.inputSchema ?? tool.parameters ?? tool.schema;
  const check = schema?.["~standard"]?.validate ?? undefined;
  if (check === undefined) return args;
  const checked = yield check(args);
  if (checked.issues === undefined) return checked.value;
  const issues = checked.issues.map(({ path, message }) => {
    const where = (path ?? []).map((part) => (part !== null && typeof part === "object" ? part.key : part)).join(".");
    return where === "" ? message : `${where}: ${message}`;
  });
  throw new HostError({ code: "INVALID_INPUT", message: issues.join("; ") });
});

const NAMES = Object.fromEntries(Object.entries(CODES).map(([tag, code]) => [code, tag]));

function refused(error) {
  const real = error instanceof Error;
  let message = "it threw a value that cannot be displayed";
  let details;
  let code = { tag: "execution" };
  try {
    const name = real ? String(error.name) : "Error";
    const words = String(real ? error.message : error);
    message = !real ? `the tool threw ${words}` : name === "Error" ? words : words === "" ? name : `${name}: ${words}`;
    if (message === "") message = "the tool threw an error without a message";
    if (real && typeof error.code === "string" && NAMES[error.code]) code = { tag: NAMES[error.code] };
    const at = real ? frames(String(error.stack ?? "")) : [];
    // An error in a package is attributed to the code that called it.
    const own = at.find((frame) => !frame.includes("node_modules/")) ?? at[0];
    if (own !== undefined) message += ` (at ${own})`;
    const said = real ? error.details : undefined;
    const plain = said !== null && typeof said === "object" && !Array.isArray(said);
    if (at.length > 0 && (plain || said === undefined)) details = text({ ...said, stack: at });
    else if (said !== undefined) details = text(said);
  } catch { /* keep what is known so far */ }
  return { code, message: message.toWellFormed(), details: details ?? null };
}

function ran(name, given, where, use) {
  const [high, low] = random.insecureSeed();
  // Numbers of 64 bits have lost their last bits.
  reseed([high, low].map((part) => Math.floor(part / 2048) >>> 0));
  workspace = where.workspace;
  const tool = tools.get(name);
  const context = around({
    config: { workingDirectory: "." },
    conversation: { id: where.conversationId ?? where.sessionId, workingDirectory: "." },
  });
  context.env = hands.environment?.() ?? {};
  taken(tool, parse(given)).then((args) => use(tool, args, context)).then((value) => {
    outcome = { value };
  }).catch(failed);
  const done = work();
  if (!("value" in done)) throw done.error;
  return { tool, value: done.value };
}

export const toolset = {
  describe: () => manifest,
  call(name, given, where) {
    try {
      const { tool, value } = ran(name, given, where, (tool, args, context) => tool.execute.call(tool.self, args, context));
      const shown = value === undefined ? "" : typeof value === "string" ? value.toWellFormed() : text(value);
      if (shown === undefined) throw new TypeError(`the tool returned a ${typeof value}, which is neither text nor JSON`);
      return {
        content: [{ tag: "text", val: shown }],
        structured: tool.structured ? text(value) ?? "null" : null,
        exitCode: null,
      };
    } catch (error) {
      throw refused(error);
    }
  },
};

const WORDS = { preApproved: "allow", allow: "allow", ask: "ask", blocked: "deny", deny: "deny", always_deny: "deny" };

export const assessor = {
  assess(name, given, where) {
    const judged = { approval: "ask", risk: tools.get(name).self.risk ?? "medium", summary: "", risks: [] };
    try {
      const { value } = ran(name, given, where, ({ self, needsApproval }, args, context) => {
        if (typeof needsApproval !== "function") return needsApproval ?? true;
        return needsApproval.call(self, args, context);
      });
      return { ...judged, approval: value === false ? "allow" : WORDS[value] ?? "ask" };
    } catch (error) {
      return { ...judged, summary: `its own assessment failed: ${refused(error).message}` };
    }
  },
};

