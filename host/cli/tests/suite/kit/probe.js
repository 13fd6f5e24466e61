#!/usr/bin/env node
const fs = require("fs"), http = require("http");
const send = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");
const tool = (name, more) => ({ name, description: `Does ${name}. WORDS`, inputSchema: { type: "object",
  properties: { path: { type: "string", description: "SEEN-PARAMETER", default: "SEEN-DEFAULT" } } }, ...more });
const can = (work) => { try { return work(); } catch (error) { return error.code || error.message; } };
const get = (url) => new Promise((done) => {
  const proxy = process.env.http_proxy ? new URL(process.env.http_proxy) : null;
  if (!proxy) return done("no proxy");
  const headers = { "proxy-authorization": "Basic " + Buffer.from(`${proxy.username}:${proxy.password}`).toString("base64") };
  const asked = http.request({ host: proxy.hostname, port: proxy.port, path: url, headers }, (answer) => {
    let text = ""; answer.on("data", (more) => text += more).on("end", () => done(`${answer.statusCode} ${text}`));
  });
  asked.on("error", (error) => done(error.code)).end();
});
async function call(name, { path }) {
  if (name === "look") return JSON.stringify({ args: process.argv.slice(2), home: process.env.HOME, cwd: can(() => fs.readdirSync(".")) });
  if (name === "read") return can(() => fs.readFileSync(path, "utf8"));
  if (name === "write") return can(() => (fs.writeFileSync(path, "written"), "written"));
  return get(path);
}
let buffer = "";
process.stdin.on("data", async (more) => {
  buffer += more;
  const lines = buffer.split("\n");
  buffer = lines.pop();
  for (const line of lines.filter(Boolean)) {
    const { id, method, params } = JSON.parse(line);
    if (method === "initialize") send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "probe", version: "1" } });
    if (method === "tools/list") send(id, { tools: [tool("look", { annotations: { readOnlyHint: true } }), tool("read", { annotations: { readOnlyHint: true } }), tool("write"), tool("get")] });
    if (method === "tools/call") send(id, { content: [{ type: "text", text: String(await call(params.name, params.arguments || {})) }] });
  }
});
