// The initial code of scripts: run once, when the state is created in which every call starts.
//
// The engine computes until nothing is left to compute and then returns, so native promise reactions are never run.
// Scripts are compiled so that async functions are generators (see `babelHelpers`), and Promise is implemented below,
// with its own job queue. So a script that waits for nothing is detected at once.
//
// Out of scope: access control. This code runs next to the script, which can change it.

import * as log from "mimir:tool/log@1.0.0";
import * as progress from "mimir:tool/progress@1.0.0";

const { stringify, parse } = JSON;
const evaluate = globalThis.eval;
delete globalThis.wit;

// Jobs, in order. Finished jobs are removed a thousand at a time.
let jobs = [];
let next = 0;

function later(job) {
  jobs.push(job);
}

function drain() {
  while (next < jobs.length) {
    const job = jobs[next];
    jobs[next++] = undefined;
    if (next === 1024) {
      jobs = jobs.slice(next);
      next = 0;
    }
    job();
  }
  jobs = [];
  next = 0;
}

const [STATE, VALUE, WAITING] = [Symbol("state"), Symbol("value"), Symbol("waiting")];
const PENDING = 0, FULFILLED = 1, REJECTED = 2;

// Rejections not handled yet. A program that ends with one has failed; a tool has its result.
const lonely = new Set();

// Near the limit of the stack, every call may throw. A promise is settled only after all calls for it have returned,
// so that the caller can still reject it.
function settle(promise, state, value) {
  if (promise[STATE] !== PENDING) return;
  const waiting = promise[WAITING];
  if (state === REJECTED && waiting.length === 0 && program !== undefined) lonely.add(promise);
  for (const reaction of waiting) react(promise, reaction);
  promise[STATE] = state;
  promise[VALUE] = value;
  promise[WAITING] = undefined;
}

function resolve(promise, value) {
  if (value === promise) {
    return settle(promise, REJECTED, new TypeError("a promise cannot wait for itself"));
  }
  if (value === null || (typeof value !== "object" && typeof value !== "function")) {
    return settle(promise, FULFILLED, value);
  }
  let then;
  try {
    then = value.then;
  } catch (error) {
    return settle(promise, REJECTED, error);
  }
  if (typeof then !== "function") return settle(promise, FULFILLED, value);
  later(() => {
    const { resolve, reject } = once(promise);
    try {
      then.call(value, resolve, reject);
    } catch (error) {
      reject(error);
    }
  });
}

function once(promise) {
  let done = false;
  const use = (settles, ...args) => {
    if (done) return;
    done = true;
    try {
      settles(...args);
    } catch (error) {
      done = false;
      throw error;
    }
  };
  return {
    resolve: (value) => use(resolve, promise, value),
    reject: (error) => use(settle, promise, REJECTED, error),
  };
}

function react(promise, { fulfilled, rejected, resolve, reject }) {
  later(() => {
    const good = promise[STATE] === FULFILLED;
    const handler = good ? fulfilled : rejected;
    if (typeof handler !== "function") return (good ? resolve : reject)(promise[VALUE]);
    let result;
    try {
      result = handler(promise[VALUE]);
    } catch (error) {
      return reject(error);
    }
    resolve(result);
  });
}

class Promise {
  constructor(executor) {
    if (typeof executor !== "function") throw new TypeError("a promise needs a function");
    this[STATE] = PENDING;
    this[VALUE] = undefined;
    this[WAITING] = [];
    const { resolve, reject } = once(this);
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  then(fulfilled, rejected) {
    const { promise, resolve, reject } = (this.constructor?.[Symbol.species] ?? Promise).withResolvers();
    const reaction = { fulfilled, rejected, resolve, reject };
    if (this[STATE] === PENDING) this[WAITING].push(reaction);
    else {
      lonely.delete(this);
      react(this, reaction);
    }
    return promise;
  }

  catch(rejected) {
    return this.then(undefined, rejected);
  }

  finally(after) {
    if (typeof after !== "function") return this.then(after, after);
    return this.then(
      (value) => Promise.resolve(after()).then(() => value),
      (error) => Promise.resolve(after()).then(() => { throw error; }),
    );
  }

  static get [Symbol.species]() {
    return this;
  }

  static withResolvers() {
    let resolve, reject;
    const promise = new this((yes, no) => { resolve = yes; reject = no; });
    return { promise, resolve, reject };
  }

  static resolve(value) {
    if (value instanceof Promise && value.constructor === this) return value;
    return new this((resolve) => resolve(value));
  }

  static reject(error) {
    return new this((_, reject) => reject(error));
  }

  static try(work, ...args) {
    return new this((resolve) => resolve(work(...args)));
  }

  static all(all) {
    return gather(this, all, (result, index, resolve, reject, count) => [
      (value) => { result[index] = value; count(); },
      reject,
    ]);
  }

  static allSettled(all) {
    return gather(this, all, (result, index, resolve, reject, count) => [
      (value) => { result[index] = { status: "fulfilled", value }; count(); },
      (reason) => { result[index] = { status: "rejected", reason }; count(); },
    ]);
  }

  static any(all) {
    return gather(this, all, (errors, index, resolve, reject, count) => [
      resolve,
      (error) => { errors[index] = error; count(); },
    ], (errors, _, reject) => reject(new AggregateError(errors, "all promises were rejected")));
  }

  static race(all) {
    return new this((resolve, reject) => {
      for (const one of all) this.resolve(one).then(resolve, reject);
    });
  }
}
Object.defineProperty(Promise.prototype, Symbol.toStringTag, { value: "Promise", configurable: true });

function gather(kind, all, handlers, end = (result, resolve) => resolve(result)) {
  return new kind((resolve, reject) => {
    const result = [];
    let left = 1;
    const count = () => {
      if (--left === 0) end(result, resolve, reject);
    };
    let index = 0;
    for (const one of all) {
      left++;
      kind.resolve(one).then(...handlers(result, index++, resolve, reject, count));
    }
    count();
  });
}

