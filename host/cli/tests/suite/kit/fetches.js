const https = require("https"), http = require("http"), net = require("net"), fs = require("fs"), { execFile } = require("child_process");
const [preload, folder] = process.argv.slice(2), asked = [];
const site = https.createServer({ key: fs.readFileSync(folder + "/k.pem"), cert: fs.readFileSync(folder + "/c.pem") },
  (_, answer) => answer.end("hello " + "x".repeat(200000)));
const proxy = http.createServer();
proxy.on("connect", ({ url, headers }, inside) => {
  if (headers["proxy-authorization"] !== "Basic " + Buffer.from("x:word").toString("base64"))
    return inside.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
  asked.push(url);
  if (url !== "declared.example:443") return inside.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno");
  const outside = net.connect(site.address().port, "127.0.0.1", () => {
    inside.write("HTTP/1.1 200 OK\r\n\r\n"); outside.pipe(inside); inside.pipe(outside);
  });
  outside.on("error", () => inside.destroy()); inside.on("error", () => outside.destroy());
});
const code = `(async () => {
  const fetched = await (await fetch("https://declared.example/")).text();
  const got = await new Promise((done, fail) => require("https").get("https://declared.example/", (answer) => {
    let text = ""; answer.on("data", (more) => text += more).on("end", () => done(text)) }).on("error", fail));
  let refused; try { await fetch("https://other.example/") } catch (error) { refused = String(error.cause || error) }
  console.log(JSON.stringify([fetched.length, got.length, refused]))
})()`;
site.listen(0, "127.0.0.1", () => proxy.listen(0, "127.0.0.1", () => {
  const env = { ...process.env, NODE_USE_ENV_PROXY: "", NODE_EXTRA_CA_CERTS: folder + "/c.pem",
    https_proxy: "http://x:word@127.0.0.1:" + proxy.address().port, NODE_OPTIONS: `--require="${preload}"` };
  execFile("node", ["-e", code], { env }, (error, out, err) => { console.log(out || err, asked.length); process.exit(error ? 1 : 0); });
}));
