// Requests of a script to the host. The host answers each once.
let wishes = [];
let count = 0;
const open = new Map();
const SLOW = new Set(["execute", "fetch", "call", "complete", "keep"]);

class HostError extends Error {
  constructor(answer, wish) {
    super(answer.message);
    this.code = answer.code;
    if (answer.details !== undefined) this.details = answer.details;
    Object.defineProperty(this, "wish", { value: wish });
  }

  get name() {
    return "Error";
  }
}

function wish(kind, fields, take = (answer) => answer, signal = undefined) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const id = ++count;
    open.set(id, { resolve, reject, take });
    wishes.push({ id, of: SLOW.has(kind) ? "other" : "files", kind, ...fields });
    signal?.addEventListener("abort", () => {
      if (wake(id)) reject(signal.reason);
    }, { once: true });
  });
}

// A timer is a request that cannot fail.
function sleep(millis, then) {
  const id = ++count;
  open.set(id, { resolve: then, take: () => undefined });
  wishes.push({ id, of: "sleep", millis });
  return id;
}

// Cancels a request: the host stops working on it.
function wake(id) {
  const waited = open.delete(id);
  if (waited) wishes.push({ id, of: "wake" });
  return waited;
}

function well(_, value) {
  return typeof value === "string" ? value.toWellFormed() : value;
}

// Returns JSON that is also valid Unicode: halves of surrogate pairs become U+FFFD.
function text(value) {
  const plain = stringify(value);
  return plain !== undefined && plain.includes("\\ud") ? stringify(value, well) : plain;
}

let outcome;

// The context of a script that is a whole program. It ends when it waits for nothing any more, and returns nothing.
let program;

// The promise of that program's own code: pending while it awaits.
let body;

function leave() {
  outcome = { text: String(program.exitCode) };
}

function ended() {
  for (const promise of lonely) {
    lonely.delete(promise);
    if (!heard("unhandledRejection", promise[VALUE], promise)) return failed(promise[VALUE]);
  }
  if (![...open.keys()].every(isQuiet)) return;
  // Nothing is left that could settle what the program awaits. Node ends with this code, too.
  const isUnsettled = jobs.length === 0 && body[STATE] === PENDING;
  if (isUnsettled) program.exitCode ||= 13;
  if (jobs.length > 0 || heard("exit", program.exitCode)) drain();
  if (outcome !== undefined) return;
  if (isUnsettled) put("stderr", "Warning: Detected unsettled top-level await\n");
  leave();
}

// Errors here mostly mean that memory is used up, so this allocates as little as possible.
function turn() {
  try {
    drain();
    if (program !== undefined && outcome === undefined) ended();
    if (outcome !== undefined) return text({ done: outcome });
    const wanted = wishes;
    wishes = [];
    return text({ wishes: wanted });
  } catch (error) {
    outcome = undefined;
    wishes = [];
    jobs = [];
    return text({ done: { error: { name: error?.name, message: `${error?.message}` } } });
  }
}

function failed(error) {
  // After an exit, an error does not count.
  if (program !== undefined && (outcome !== undefined || heard("uncaughtException", error, "uncaughtException"))) return;
  const told = { message: "" };
  try {
    const real = error instanceof Error;
    told.message = program !== undefined ? thrown(error, real) : String(real ? error.message : error);
    if (real) {
      if (program === undefined) told.name = String(error.name);
      told.stack = String(stackOf?.call(error) ?? error.stack ?? "");
      if (error instanceof HostError) told.wish = error.wish;
    } else if (program === undefined) {
      told.thrown = error === null ? "null" : typeof error;
    }
  } catch {
    told.message = "it threw a value that cannot be displayed";
  }
  outcome = { error: told };
}

// Formats an error like Node, for a program.
function thrown(error, real) {
  if (!real) return inspect(error);
  const known = Object.keys(error).filter((key) => !["stack", "message", "name", "wish"].includes(key));
  const more = known.map((key) => `${key}: ${inspect(error[key], { depth: 1 })}`).join(", ");
  const cause = Object.hasOwn(error, "cause") ? ` [cause: ${error.cause instanceof Error ? Error.prototype.toString.call(error.cause) : inspect(error.cause)}]` : "";
  return `${Error.prototype.toString.call(error)}${more && ` { ${more} }`}${cause}`;
}

let most = Infinity;

function returned(value) {
  let result = value;
  if (value === undefined) result = "";
  else if (typeof value !== "string") result = stringify(value);
  if (result === undefined) throw new TypeError(`execute returned a ${typeof value}, which is neither text nor JSON`);
  // A character takes at least a byte, and serializing a long result takes several times its memory.
  outcome = result.length > most ? { tooLarge: {} } : { text: result };
}

export function start(code, input) {
  try {
    const given = parse(input);
    const { args, context } = given;
    reseed(given.seed);
    most = given.most;
    const outer = around(context);
    if (given.program) {
      program = Object.assign(outer, { exitCode: 0 });
      const work = evaluate("\n".repeat(given.base) + code);
      body = Promise.try(begin, work, args, outer);
      body.catch(failed);
      return turn();
    }
    const exported = evaluate(code)();
    if (typeof exported?.execute !== "function") {
      throw new TypeError("the code exports no function `execute`");
    }
    Promise.resolve(exported.execute(args, outer)).then(returned).catch(failed);
  } catch (error) {
    failed(error);
  }
  return turn();
}

export function resume(id, isFailed, answer, bytes) {
  const waiting = open.get(id);
  open.delete(id);
  try {
    const told = answer === "" ? undefined : parse(answer);
    if (isFailed) waiting.reject(new HostError(told, id));
    else waiting.resolve(waiting.take(told, bytes));
  } catch (error) {
    waiting?.reject(error);
  }
  return turn();
}

