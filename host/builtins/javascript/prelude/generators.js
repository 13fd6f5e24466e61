// Functions called by compiled async functions and async generators.
function step(generator, resolve, reject, method, value) {
  let result;
  try {
    result = generator[method](value);
  } catch (error) {
    return reject(error);
  }
  if (result.done) return resolve(result.value);
  Promise.resolve(result.value).then(
    (value) => step(generator, resolve, reject, "next", value),
    (error) => step(generator, resolve, reject, "throw", error),
  );
}

function asyncToGenerator(work) {
  return function (...args) {
    return new Promise((resolve, reject) => step(work.apply(this, args), resolve, reject, "next"));
  };
}

class Awaited {
  constructor(value, delegated) {
    this.value = value;
    this.delegated = delegated;
  }
}

class AsyncGenerator {
  constructor(generator) {
    this.generator = generator;
    this.wishes = [];
    this.busy = false;
  }

  wish(method, value) {
    return new Promise((resolve, reject) => {
      this.wishes.push({ method, value, resolve, reject });
      if (!this.busy) this.go();
    });
  }

  go() {
    const wish = this.wishes[0];
    if (wish === undefined) {
      this.busy = false;
      return;
    }
    this.busy = true;
    this.advance(wish.method, wish.value);
  }

  advance(method, value) {
    let result;
    try {
      result = this.generator[method](value);
    } catch (error) {
      return this.answer("reject", error);
    }
    const { value: given, done } = result;
    const awaited = given instanceof Awaited;
    Promise.resolve(awaited ? given.value : given).then(
      (value) => {
        if (awaited && !done) {
          if (given.delegated && !value?.done) return this.answer("resolve", value);
          return this.advance("next", given.delegated ? value.value : value);
        }
        this.answer("resolve", { value, done });
      },
      (error) => (done ? this.answer("reject", error) : this.advance("throw", error)),
    );
  }

  answer(how, value) {
    this.wishes.shift()[how](value);
    this.go();
  }

  next(value) {
    return this.wish("next", value);
  }

  throw(error) {
    return this.wish("throw", error);
  }

  return(value) {
    return this.wish("return", value);
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

function asyncIterator(iterable) {
  const own = iterable[Symbol.asyncIterator];
  if (own != null) return own.call(iterable);
  const iterator = iterable[Symbol.iterator]();
  const wrapped = (method) => (value) =>
    new Promise((resolve, reject) => {
      const result = iterator[method](value);
      Promise.resolve(result.value).then((value) => resolve({ value, done: result.done }), reject);
    });
  const all = { next: wrapped("next"), [Symbol.asyncIterator]() { return this; } };
  if (iterator.return) all.return = wrapped("return");
  if (iterator.throw) all.throw = wrapped("throw");
  return all;
}

globalThis.babelHelpers = Object.freeze({
  asyncToGenerator,
  asyncIterator,
  wrapAsyncGenerator: (work) => function (...args) { return new AsyncGenerator(work.apply(this, args)); },
  awaitAsyncGenerator: (value) => new Awaited(value, false),
  *asyncGeneratorDelegate(iterator) {
    let [method, sent] = ["next", undefined];
    for (;;) {
      let value;
      try {
        value = yield new Awaited(iterator[method](sent), true);
        return value;
      } catch (error) {
        if (!iterator.throw) throw error;
        [method, sent] = ["throw", error];
      }
    }
  },
});

