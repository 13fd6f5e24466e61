// Streams, sufficient for files, lines and pipes. Reading is as fast as the consumer; a stream is never full.
define("stream", () => {
  const EventEmitter = builtin("events");
  const { Buffer } = builtin("buffer");
  const chunked = (chunk, encoding) => (typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk);

  class Stream extends EventEmitter {
    destroyed = false;
    constructor(options = {}) {
      super();
      if (typeof options.destroy === "function") this._destroy = options.destroy;
    }
    destroy(error) {
      if (this.destroyed) return this;
      this.destroyed = true;
      const end = (failure) => later(() => guarded(() => {
        if (failure) this.emit("error", failure);
        this.emit("close");
      }, []));
      if (typeof this._destroy === "function") this._destroy(error ?? null, end);
      else end(error);
      return this;
    }
    pipe(target) {
      this.on("data", (chunk) => target.write(chunk));
      if (target !== process.stdout && target !== process.stderr) this.on("end", () => target.end());
      target.emit?.("pipe", this);
      return target;
    }
  }

  class Readable extends Stream {
    readable = true;
    readableEnded = false;
    #ready = [];
    #ended = false;
    #flows = false;
    #asked = false;
    #decoder;
    #waits;
    constructor(options = {}) {
      super(options);
      this.readableObjectMode = options.objectMode === true || options.readableObjectMode === true;
      if (options.encoding) this.setEncoding(options.encoding);
      if (typeof options.read === "function") this._read = options.read;
    }
    static from(all) {
      if (typeof all === "string" || all instanceof Uint8Array) all = [all];
      const stream = new Readable({ objectMode: true });
      const iterator = all[Symbol.asyncIterator] ? all[Symbol.asyncIterator]() : all[Symbol.iterator]();
      stream._read = () => {
        Promise.try(() => iterator.next()).then(({ value, done }) => (done ? stream.push(null) : Promise.resolve(value).then((one) => stream.push(one)))).catch((error) => stream.destroy(error));
      };
      return stream;
    }
    setEncoding(encoding) {
      const { StringDecoder } = builtin("string_decoder");
      this.#decoder = new StringDecoder(encoding);
      return this;
    }
    push(chunk, encoding) {
      this.#asked = false;
      if (chunk === null) {
        const rest = this.#decoder?.end();
        if (rest) this.#ready.push(rest);
        this.#ended = true;
      } else if (this.readableObjectMode) {
        this.#ready.push(this.#decoder && chunk instanceof Uint8Array ? this.#decoder.write(chunk) : chunk);
      } else {
        const bytes = chunked(chunk, encoding);
        this.#ready.push(this.#decoder ? this.#decoder.write(bytes) : bytes);
      }
      this.#go();
      return true;
    }
    unshift(chunk) { this.#ready.unshift(chunk); }
    #go() {
      if (this.#waits) return;
      this.#waits = true;
      later(() => guarded(() => {
        this.#waits = false;
        if (this.destroyed) return;
        if (this.#flows) while (this.#ready.length > 0 && this.#flows) this.emit("data", this.#ready.shift());
        else if (this.#ready.length > 0 || this.#ended) this.emit("readable");
        if (this.#ready.length === 0 && this.#ended && !this.readableEnded && (this.#flows || this.listenerCount("readable") > 0)) {
          this.readableEnded = true;
          this.readable = false;
          this.emit("end");
          this.destroy();
        } else if (!this.#ended && (this.#flows || this.listenerCount("readable") > 0)) this.#ask();
      }, []));
    }
    #ask() {
      if (this.#asked || this.#ended || typeof this._read !== "function") return;
      this.#asked = true;
      this._read(65_536);
      // The data that it pushed synchronously has already requested more.
    }
    on(name, listener) {
      super.on(name, listener);
      if (name === "data") this.resume();
      if (name === "readable") {
        this.#ask();
        this.#go();
      }
      return this;
    }
    addListener(name, listener) { return this.on(name, listener); }
    read() {
      this.#ask();
      if (this.#ready.length === 0) {
        if (this.#ended) this.#go();
        return null;
      }
      const all = this.#ready.splice(0, this.readableObjectMode ? 1 : this.#ready.length);
      if (this.#ended) this.#go();
      return all.length === 1 ? all[0] : typeof all[0] === "string" ? all.join("") : Buffer.concat(all);
    }
    resume() {
      this.#flows = true;
      this.#ask();
      this.#go();
      return this;
    }
    pause() {
      this.#flows = false;
      return this;
    }
    isPaused() { return !this.#flows; }
    [Symbol.asyncIterator]() {
      let failure;
      let wake = () => {};
      this.once("error", (error) => { failure = { error }; wake(); });
      this.on("readable", () => wake());
      this.once("end", () => wake());
      const next = () => {
        if (failure !== undefined) return Promise.reject(failure.error);
        const value = this.read();
        if (value !== null) return Promise.resolve({ value, done: false });
        if (this.readableEnded || this.destroyed) return Promise.resolve({ value: undefined, done: true });
        return new Promise((resolve) => { wake = resolve; }).then(next);
      };
      return { next, return: () => (this.destroy(), Promise.resolve({ value: undefined, done: true })), [Symbol.asyncIterator]() { return this; } };
    }
    toArray() {
      const [iterator, all] = [this[Symbol.asyncIterator](), []];
      const step = () => iterator.next().then(({ value, done }) => (done ? all : (all.push(value), step())));
      return step();
    }
  }

  // Methods of writable streams, also used by duplex streams.
  const writes = (Above) => class extends Above {
    writable = true;
    writableEnded = false;
    writableFinished = false;
    #queue = [];
    #busy = false;
    constructor(options = {}) {
      super(options);
      this.writableObjectMode = options.objectMode === true || options.writableObjectMode === true;
      for (const name of ["write", "final"]) if (typeof options[name] === "function") this[`_${name}`] = options[name];
    }
    write(chunk, encoding, done) {
      if (typeof encoding === "function") [encoding, done] = [undefined, encoding];
      if (this.writableEnded) {
        this.destroy(coded(Error, "ERR_STREAM_WRITE_AFTER_END", "write after end"));
        return false;
      }
      this.#queue.push({ chunk: this.writableObjectMode ? chunk : chunked(chunk, encoding), encoding: encoding ?? "buffer", done });
      this.#go();
      return true;
    }
    end(chunk, encoding, done) {
      for (const one of [chunk, encoding, done]) if (typeof one === "function") this.once("finish", one);
      if (chunk != null && typeof chunk !== "function") this.write(chunk, typeof encoding === "string" ? encoding : undefined);
      this.writableEnded = true;
      this.writable = false;
      this.#go();
      return this;
    }
    cork() {}
    uncork() {}
    setDefaultEncoding() { return this; }
    #go() {
      if (this.#busy || this.destroyed) return;
      this.#busy = true;
      const ready = (error, done) => later(() => guarded(() => {
        this.#busy = false;
        done?.(error);
        if (error) return this.destroy(error);
        this.#go();
      }, []));
      const next = this.#queue.shift();
      if (next !== undefined) {
        try {
          this._write(next.chunk, next.encoding, (error) => ready(error, next.done));
        } catch (error) {
          ready(error, next.done);
        }
      } else if (this.writableEnded && !this.writableFinished) {
        const finish = (error) => later(() => guarded(() => {
          if (error) return this.destroy(error);
          this.writableFinished = true;
          this.emit("finish");
          if (!(this instanceof Readable)) this.destroy();
        }, []));
        if (typeof this._final === "function") this._final(finish);
        else finish();
      } else this.#busy = false;
    }
  };
  const Writable = writes(Stream);
  const Duplex = writes(Readable);
  class Transform extends Duplex {
    constructor(options = {}) {
      super(options);
      for (const name of ["transform", "flush"]) if (typeof options[name] === "function") this[`_${name}`] = options[name];
    }
    _write(chunk, encoding, done) {
      this._transform(chunk, encoding, (error, value) => {
        if (!error && value != null) this.push(value);
        done(error);
      });
    }
    _final(done) {
      const end = (error, value) => {
        if (!error && value != null) this.push(value);
        if (!error) this.push(null);
        done(error);
      };
      if (typeof this._flush === "function") this._flush(end);
      else end();
    }
  }
  class PassThrough extends Transform {
    _transform(chunk, encoding, done) { done(null, chunk); }
  }
  const finished = (stream, options, done = options) => {
    stream.once("error", (error) => done(error));
    stream.once(stream instanceof Readable && !stream.writableEnded && !("_write" in stream) ? "end" : "finish", () => done());
  };
  const pipeline = (...all) => {
    const done = typeof all.at(-1) === "function" && !(all.at(-1).prototype instanceof Stream) ? all.pop() : () => {};
    const streams = Array.isArray(all[0]) ? all[0] : all;
    let isOver = false;
    const end = (error) => {
      if (isOver) return;
      isOver = true;
      if (error) for (const one of streams) one.destroy?.();
      done(error);
    };
    const [first, ...rest] = streams;
    const source = typeof first.pipe === "function" ? first : Readable.from(first);
    source.on("error", end);
    const last = rest.reduce((before, stream) => {
      stream.on("error", end);
      return before.pipe(stream);
    }, source);
    if (last === process.stdout || last === process.stderr) (streams.at(-2) ?? source).on("end", () => end());
    else last.on("finish", () => end());
    return last;
  };
  const promises = {
    pipeline: (...all) => new Promise((resolve, reject) => pipeline(...all, (error) => (error ? reject(error) : resolve()))),
    finished: (stream) => new Promise((resolve, reject) => finished(stream, (error) => (error ? reject(error) : resolve()))),
  };
  // A stream that returns the result of `make` for everything that was written.
  const whole = (make) => {
    const all = [];
    return new Transform({
      transform(chunk, _, done) { all.push(chunk); done(); },
      flush(done) {
        try {
          done(null, make(Buffer.concat(all)));
        } catch (error) {
          done(error);
        }
      },
    });
  };
  const ofFile = (path, options, fs) => {
    const how = typeof options === "string" ? { encoding: options } : options ?? {};
    const stream = new Readable({ encoding: how.encoding });
    let rest;
    stream.path = path;
    stream._read = () => {
      try {
        rest ??= fs.readFileSync(path).subarray(how.start ?? 0, how.end === undefined ? undefined : how.end + 1);
      } catch (error) {
        return stream.destroy(error);
      }
      const size = how.highWaterMark ?? 65_536;
      stream.push(rest.length === 0 ? null : rest.subarray(0, size));
      rest = rest.subarray(size);
    };
    later(() => guarded(() => stream.emit("open", 3), []));
    return stream;
  };
  const toFile = (path, options, fs) => {
    const flag = options?.flags ?? "w";
    const stream = new Writable({
      write(chunk, _, done) {
        try {
          fs.appendFileSync(path, chunk);
          stream.bytesWritten += chunk.length;
          done();
        } catch (error) {
          done(error);
        }
      },
    });
    Object.assign(stream, { path, bytesWritten: 0 });
    try {
      fs.writeFileSync(path, "", { flag });
      later(() => guarded(() => stream.emit("open", 3), []));
    } catch (error) {
      stream.destroy(error);
    }
    return stream;
  };
  return Object.assign(Stream, { Stream, Readable, Writable, Duplex, Transform, PassThrough, pipeline, finished, promises, whole, ofFile, toFile });
});
define("stream/promises", () => builtin("stream").promises);

define("process/stdin", () => {
  const { Readable } = builtin("stream");
  let isRead = false;
  const stdin = new Readable({
    read() {
      if (!isRead && given.stdin !== "") this.push(given.stdin);
      isRead = true;
      this.push(null);
    },
  });
  return Object.assign(stdin, { fd: 0, isTTY: false, setRawMode: () => stdin, ref: () => stdin, unref: () => stdin });
});

define("readline", () => {
  const EventEmitter = builtin("events");
  class Interface extends EventEmitter {
    #lines = [];
    #asked = [];
    #isOver = false;
    #rest = "";
    constructor({ input, output }) {
      super();
      this.output = output;
      if (input === undefined) return;
      const { StringDecoder } = builtin("string_decoder");
      const decoder = new StringDecoder();
      const take = (text) => {
        const lines = (this.#rest + text).split(/\r\n|\n|\r/);
        this.#rest = lines.pop();
        this.#lines.push(...lines);
        this.#go();
      };
      input.on("data", (chunk) => take(typeof chunk === "string" ? chunk : decoder.write(chunk)));
      input.on("error", (error) => this.emit("error", error));
      input.on("end", () => {
        if (this.#rest !== "") this.#lines.push(this.#rest);
        this.#rest = "";
        this.#isOver = true;
        this.#go();
      });
    }
    #go() {
      while (this.#lines.length > 0) {
        const asked = this.#asked.shift();
        if (asked !== undefined) asked({ value: this.#lines.shift(), done: false });
        else if (this.listenerCount("line") > 0) this.emit("line", this.#lines.shift());
        else return;
      }
      if (this.#isOver) this.close();
    }
    on(name, listener) {
      super.on(name, listener);
      if (name === "line") later(() => guarded(() => this.#go(), []));
      return this;
    }
    question(text, options, done = options) {
      this.output?.write(text);
      this.#asked.push(({ value, isOver }) => { if (!isOver) done(value); });
      later(() => guarded(() => this.#go(), []));
    }
    prompt() { this.output?.write(this.text ?? "> "); }
    setPrompt(text) { this.text = text; }
    write() {}
    pause() { return this; }
    resume() { return this; }
    close() {
      if (this.closed) return;
      this.closed = true;
      for (const asked of this.#asked.splice(0)) asked({ value: undefined, done: true, isOver: true });
      this.emit("close");
    }
    [Symbol.asyncIterator]() {
      return {
        next: () => {
          if (this.#lines.length > 0) return Promise.resolve({ value: this.#lines.shift(), done: false });
          if (this.#isOver || this.closed) return Promise.resolve({ value: undefined, done: true });
          return new Promise((resolve) => this.#asked.push(resolve));
        },
        return: () => (this.close(), Promise.resolve({ value: undefined, done: true })),
        [Symbol.asyncIterator]() { return this; },
      };
    }
  }
  const createInterface = (input, output) => new Interface(typeof input?.on === "function" ? { input, output } : input ?? {});
  class Promised extends Interface {
    question(text) { return new Promise((resolve) => super.question(text, resolve)); }
  }
  const promises = { createInterface: (input, output) => new Promised(typeof input?.on === "function" ? { input, output } : input ?? {}), Interface: Promised };
  return { createInterface, Interface, promises, clearLine: () => true, cursorTo: () => true, moveCursor: () => true, emitKeypressEvents() {} };
});
define("readline/promises", () => builtin("readline").promises);
