/** The real program for the stories: a workspace of its own, agents that speak MCP, and consoles. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

export const MIMIR = process.env.MIMIR;

/** A scratch workspace with a user of its own. Nothing of the person who runs the tests is read or changed. */
export class Workspace {
  constructor(config) {
    this.root = mkdtempSync(join(tmpdir(), 'mimir-story-'));
    this.folder = join(this.root, 'project');
    this.children = new Set();
    const home = join(this.root, 'home');
    for (const folder of [this.folder, join(home, 'run')]) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { PATH, LANG, TMPDIR } = process.env;
    this.env = {
      PATH, LANG, ...(TMPDIR && { TMPDIR }), HOME: home, NO_COLOR: '1', XDG_RUNTIME_DIR: join(home, 'run'),
      XDG_CONFIG_HOME: join(home, '.config'), XDG_STATE_HOME: join(home, '.state'), XDG_DATA_HOME: join(home, '.data'),
      // Compiled tools are the same for all: the cache is not part of a story.
      XDG_CACHE_HOME: process.env.STORY_CACHE ?? join(home, '.cache'),
    };
    this.run('git', ['init', '--quiet', '--initial-branch=main', '.']);
    this.configFile = join(home, '.config', 'mimir', 'config.yml');
    this.configure(config);
  }

  /** Writes the settings of the user. */
  configure(config) {
    mkdirSync(dirname(this.configFile), { recursive: true });
    writeFileSync(this.configFile, config);
  }

  write(path, text) {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  run(program, args, options = {}) {
    return execFileSync(program, args, { cwd: this.folder, env: this.env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], ...options });
  }

  mimir(...args) {
    return this.run(MIMIR, args);
  }

  spawn(args, stdin = 'pipe') {
    const child = spawn(MIMIR, args, { cwd: this.folder, env: this.env, stdio: [stdin, 'pipe', 'pipe'] });
    this.children.add(child);
    child.errors = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (child.errors += text));
    child.ended = new Promise((resolve) => child.on('close', (code) => {
      this.children.delete(child);
      resolve(code);
    }));
    return child;
  }

  /** Starts `mimir serve` on stdio as an agent would. */
  async agent(options) {
    const agent = new Agent(this.spawn(['serve', ...(options?.args ?? [])]), options);
    await agent.initialize();
    return agent;
  }

  /** Starts `mimir console`; resolves with its one-time link. */
  async console(args = []) {
    const child = this.spawn(['console', '--no-open', '--json', ...args], 'ignore');
    let text = '';
    for await (const chunk of child.stdout.setEncoding('utf8')) {
      text += chunk;
      try {
        const { url } = JSON.parse(text);
        return { url, base: url.slice(0, url.indexOf('#')), child, stop: () => stop(child) };
      } catch {
        // Not complete yet.
      }
    }
    throw new Error(`mimir console ended: ${child.errors}`);
  }

  async close() {
    await Promise.all([...this.children].map(stop));
    if (!process.env.STORY_KEEP) rmSync(this.root, { recursive: true, force: true, maxRetries: 10 });
  }
}

async function stop(child) {
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
  await child.ended;
  clearTimeout(timer);
}

/** An agent: a client of MCP that calls tools, and has no way to ask its user unless `elicit` is given. */
export class Agent {
  #next = 1;
  #open = new Map();

  constructor(child, { name = 'story-agent', elicit } = {}) {
    Object.assign(this, { child, name, elicit });
    createInterface({ input: child.stdout }).on('line', (line) => this.#receive(JSON.parse(line)));
    child.stdin.on('error', () => {});
    child.on('close', () => {
      for (const { reject } of this.#open.values()) reject(new Error(`mimir serve ended: ${child.errors}`));
    });
  }

  async #receive({ id, method, params, result, error }) {
    if (method) {
      if (method === 'elicitation/create') this.#send({ id, result: await this.elicit(params) });
      else if (id !== undefined) this.#send({ id, result: {} });
      return;
    }
    const request = this.#open.get(id);
    this.#open.delete(id);
    if (error) request?.reject(Object.assign(new Error(error.message), { error }));
    else request?.resolve(result);
  }

  #send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  request(method, params) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#open.set(id, { resolve, reject });
      this.#send({ id, method, params });
    });
  }

  async initialize() {
    const capabilities = this.elicit ? { elicitation: {} } : {};
    await this.request('initialize', { protocolVersion: '2025-06-18', capabilities, clientInfo: { name: this.name, version: '1.0.0' } });
    this.#send({ method: 'notifications/initialized' });
  }

  /** Calls a tool. A refusal is a result, too: `{ isError, text }`. */
  async call(tool, args) {
    const result = await this.request('tools/call', { name: tool, arguments: args });
    return { ...result, text: (result.content ?? []).map(({ text }) => text ?? '').join('\n') };
  }
}

/** A page of strangers, and a server that takes what is sent to it. */
export async function openWeb(answers = {}) {
  const { createServer } = await import('node:http');
  const requests = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      requests.push({ method: request.method, url: request.url, headers: request.headers, body });
      const [type, text] = answers[request.url] ?? ['text/html; charset=utf-8', `<!doctype html><title>Page</title><p>page ${request.url}</p>`];
      response.writeHead(200, { 'content-type': type }).end(text);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, requests, stop: () => server.close() || server.closeAllConnections() };
}
