// Loaded before a server of npm that was given the network: older versions of Node.js have `fetch` and `https` ask no proxy.
// A TLS connection to another machine goes through the proxy of the sandbox; it is the only way out there is.
"use strict";
const net = require("net");
const tls = require("tls");
const { Duplex } = require("stream");

const address = process.env.https_proxy || process.env.HTTPS_PROXY;
const loopback = /^(localhost|127\..*|::1|\[::1\])$/;

// A stream that waits for the proxy before it carries anything.
class Tunnel extends Duplex {
  constructor(proxy, host, port) {
    super();
    this.waiting = null;
    const socket = (this.socket = net.connect(Number(proxy.port || 80), proxy.hostname));
    const name = net.isIPv6(host) ? `[${host}]` : host;
    const login = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
    const authorization = proxy.username ? `Proxy-Authorization: Basic ${Buffer.from(login).toString("base64")}\r\n` : "";
    socket.on("connect", () => socket.write(`CONNECT ${name}:${port} HTTP/1.1\r\nHost: ${name}:${port}\r\n${authorization}\r\n`));
    let head = Buffer.alloc(0);
    const answer = (more) => {
      head = Buffer.concat([head, more]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      const text = head.subarray(0, end).toString("latin1");
      const status = text.split(" ")[1];
      if (status !== "200") {
        const why = head.subarray(end + 4).toString("utf8").trim();
        return this.destroy(new Error(`the proxy of mimir refuses ${host}:${port} (${status}) ${why}`));
      }
      socket.off("data", answer);
      const rest = head.subarray(end + 4);
      if (rest.length) this.push(rest);
      socket.on("data", (data) => this.push(data) || socket.pause());
      socket.on("end", () => this.push(null));
      this.open = true;
      if (this.waiting) this.waiting();
      this.emit("connect");
    };
    socket.on("data", answer);
    socket.on("error", (error) => this.destroy(error));
    socket.on("close", () => this.destroy());
  }
  _read() {
    if (this.open) this.socket.resume();
  }
  _write(chunk, encoding, done) {
    const write = () => this.socket.write(chunk, encoding, done);
    if (this.open) write();
    else this.waiting = write;
  }
  _final(done) {
    this.socket.end(done);
  }
  _destroy(error, done) {
    this.socket.destroy();
    done(error);
  }
  setTimeout() { return this; }
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
  ref() { this.socket.ref(); return this; }
  unref() { this.socket.unref(); return this; }
}

if (address) {
  const proxy = new URL(address);
  const connect = tls.connect;
  tls.connect = function (...given) {
    const first = given[0];
    const options = typeof first === "object" && first !== null ? { ...first } : { port: first };
    if (typeof given[1] === "string") options.host = given[1];
    const more = given.find((one, at) => at > 0 && typeof one === "object" && one !== null);
    Object.assign(options, more);
    const done = given.find((one) => typeof one === "function");
    const host = options.host || options.hostname || options.servername || "localhost";
    if (options.socket || options.path || loopback.test(host)) return connect.apply(tls, given);
    options.socket = new Tunnel(proxy, host, options.port || 443);
    if (!options.servername && !net.isIP(host)) options.servername = host;
    return connect.call(tls, options, done);
  };
  require("module").syncBuiltinESMExports();
}
