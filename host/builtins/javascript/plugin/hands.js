// Requests of a plugin's tool, performed with the imports of the component: one after the other, while timers and HTTP
// requests run concurrently. In the engine for scripts the host does this.
//
// Each handler performs one kind of request. The needs of the plugin decide which are included: others are not linked.

import * as polling from "wasi:io/poll@0.2.9";
import * as clock from "wasi:clocks/monotonic-clock@0.2.9";
import * as random from "wasi:random/insecure-seed@0.2.9";
import * as secure from "wasi:random/random@0.2.9";

const hands = {};

let count = 0;
const open = new Map();
let wanted = [];
// Pending events, by the number of the waiting request.
const waits = new Map();
// True once the module has run. Before, while the plugin is built, waiting is not possible.
let began = false;
let outcome;
// Read by the promise code: a tool is not a program.
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
  tools: "`tools`, the names of the tools that it calls",
  model: "`model: true`",
};

function missing(kind) {
  if (kind === "keep") {
    const message = "only a plugin with `storage` in its file can store values between calls";
    return new HostError({ code: "PERMISSION_DENIED", message });
  }
  const need = { execute: "commands", fetch: "hosts", call: "tools", complete: "model" }[kind] ?? "files";
  const message = `the tool does not declare this in its needs: add ${NEEDS[need]}`;
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

// Cancels a wait.
function wake(id) {
  const timer = waits.get(id);
  if (timer !== undefined) {
    waits.delete(id);
    drop(timer.pollable);
    return true;
  }
  return open.delete(id);
}

// Not available before the first call: all calls would get the same numbers.
function randomBytes(count) {
  if (!began) throw new Error("random numbers are not available while the module is loaded, since every call would get the same ones; generate them in the tool");
  return secure.getRandomBytes(count);
}

function recompiled() {
  throw new SyntaxError("async functions and import() are not supported in evaluated text in plugins: write them in the file");
}

function drop(resource) {
  resource[Symbol.dispose]();
}

// Stored until it is ready, and then dropped.
function ready(pollable) {
  return new Promise((resolve) => waits.set(++count, { pollable, then: () => resolve() }));
}

// Returns the contract's or WASI's error from an exception of the engine.
const payload = (error) => (error !== null && typeof error === "object" && "payload" in error ? error.payload : undefined);

const CODES = {
  "invalid-input": "INVALID_INPUT", "invalid-path": "INVALID_PATH", "not-found": "NOT_FOUND",
  "file-not-found": "FILE_NOT_FOUND", "already-exists": "ALREADY_EXISTS", "permission-denied": "PERMISSION_DENIED",
  "approval-denied": "APPROVAL_DENIED", "timeout": "TIMEOUT", "cancelled": "CANCELLED",
  "limit-exceeded": "LIMIT_EXCEEDED", "network": "NETWORK", "execution": "EXECUTION_ERROR", "unavailable": "UNAVAILABLE",
};

// Returns the result of an import of the contract, and converts its errors for scripts.
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

// Computes, and performs requests, until there is an outcome.
function work() {
  for (;;) {
    try {
      drain();
    } catch (error) {
      // Mostly out of memory.
      failed(error);
    }
    if (outcome !== undefined) return outcome;
    const next = wanted.shift();
    if (next !== undefined) {
      perform(next);
    } else if (waits.size === 0) {
      failed(new Error("`execute` never ends: it waits for a promise that will never be settled"));
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

