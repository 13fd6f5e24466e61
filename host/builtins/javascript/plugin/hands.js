// What a tool of a plugin wants of the outside, done by the imports of the component: one thing after the other, and
// beside it the timers and the requests that are under way. In the engine of scripts the host does this.
//
// Each hand does one kind of wish. Which of them are here follows from what the plugin needs: the others are not linked.

import * as polling from "wasi:io/poll@0.2.9";
import * as clock from "wasi:clocks/monotonic-clock@0.2.9";
import * as random from "wasi:random/insecure-seed@0.2.9";
import * as secure from "wasi:random/random@0.2.9";

const hands = {};

let count = 0;
const open = new Map();
let wanted = [];
// What is waited for, by the number of who waits.
const waits = new Map();
// Whether the module has run: before, when the plugin is made, nothing is waited for.
let began = false;
let outcome;
// Promises look at it: a tool is no program.
let program;

class HostError extends Error {
  constructor(answer) {
    super(answer.message);
    this.code = answer.code;
    if (answer.details !== undefined) this.details = answer.details;
  }

  get name() {
    return "Error";
  }
}

const NEEDS = {
  files: "`files`, such as {path: \".\", access: \"read-write\"}",
  hosts: "`hosts`, such as {host: \"api.example.com\", methods: [\"GET\"]}",
  commands: "`commands`, such as {pattern: \"git status *\"}",
  tools: "`tools`, the names of those that it calls",
  model: "`model: true`",
};

function missing(kind) {
  if (kind === "keep") {
    const message = "only a plugin whose own file says `storage` keeps something between calls";
    return new HostError({ code: "PERMISSION_DENIED", message });
  }
  const need = { execute: "commands", fetch: "hosts", call: "tools", complete: "model" }[kind] ?? "files";
  const message = `the tool does not ask for this in its needs: it wants ${NEEDS[need]}`;
  return new HostError({ code: "PERMISSION_DENIED", message });
}

function wish(kind, fields, take = (answer) => answer, signal = undefined) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const id = ++count;
    open.set(id, { resolve, reject, take });
    wanted.push({ id, kind, fields });
    signal?.addEventListener("abort", () => {
      if (wake(id)) reject(signal.reason);
    }, { once: true });
  });
}

function sleep(millis, then) {
  const id = ++count;
  if (!began) return id;
  // A day is longer than any call may last.
  const nanos = Math.round(Math.min(millis, 86_400_000) * 1e6);
  waits.set(id, { pollable: clock.subscribeDuration(nanos), then });
  return id;
}

// Nobody waits for it any more.
function wake(id) {
  const timer = waits.get(id);
  if (timer !== undefined) {
    waits.delete(id);
    drop(timer.pollable);
    return true;
  }
  return open.delete(id);
}

// None before the first call: they would be the same for all calls.
function randomBytes(count) {
  if (!began) throw new Error("random numbers are not there while the module is loaded: every call would have the same; draw them in the tool");
  return secure.getRandomBytes(count);
}

function recompiled() {
  throw new SyntaxError("async functions and import() in text that is evaluated are not supported in plugins: write them in the file");
}

function drop(resource) {
  resource[Symbol.dispose]();
}

// Kept until it is ready, and then dropped.
function ready(pollable) {
  return new Promise((resolve) => waits.set(++count, { pollable, then: () => resolve() }));
}

// An error of the contract, or of WASI, as the engine throws it.
const payload = (error) => (error !== null && typeof error === "object" && "payload" in error ? error.payload : undefined);

const CODES = {
  "invalid-input": "INVALID_INPUT", "invalid-path": "INVALID_PATH", "not-found": "NOT_FOUND",
  "file-not-found": "FILE_NOT_FOUND", "already-exists": "ALREADY_EXISTS", "permission-denied": "PERMISSION_DENIED",
  "approval-denied": "APPROVAL_DENIED", "timeout": "TIMEOUT", "cancelled": "CANCELLED",
  "limit-exceeded": "LIMIT_EXCEEDED", "network": "NETWORK", "execution": "EXECUTION_ERROR", "unavailable": "UNAVAILABLE",
};

// What an import of the contract gives, with its errors as scripts know them.
function told(work) {
  try {
    return work();
  } catch (error) {
    const own = payload(error);
    if (own?.code?.tag === undefined) throw error;
    const { code, message, details } = own;
    throw new HostError({
      code: code.tag === "other" ? code.val : CODES[code.tag],
      message,
      details: details == null ? undefined : parse(details),
    });
  }
}

function perform({ id, kind, fields }) {
  const waiting = open.get(id);
  if (waiting === undefined) return;
  const settle = (how) => (value) => {
    if (!open.delete(id)) return;
    try {
      waiting[how](how === "resolve" ? waiting.take(...value) : value);
    } catch (error) {
      waiting.reject(error);
    }
  };
  const hand = hands[kind];
  const done = hand === undefined ? Promise.reject(missing(kind)) : Promise.try(hand, fields);
  done.then(settle("resolve"), settle("reject"));
}

function failed(error) {
  outcome ??= { error };
}

// Computes, and does what is wanted, until there is an outcome.
function work() {
  for (;;) {
    try {
      drain();
    } catch (error) {
      // There is no memory left, mostly.
      failed(error);
    }
    if (outcome !== undefined) return outcome;
    const next = wanted.shift();
    if (next !== undefined) {
      perform(next);
    } else if (waits.size === 0) {
      failed(new Error("`execute` never ends: it waits for a promise that nothing will settle"));
    } else {
      const all = [...waits];
      for (const at of polling.poll(all.map(([, { pollable }]) => pollable))) {
        const [id, { pollable, then }] = all[at];
        waits.delete(id);
        drop(pollable);
        then();
      }
    }
  }
}

